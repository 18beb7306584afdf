"""Asks the real Ansible, many times in one process.

Reads from stdin {"cwd": DIR, "calls": [[program, argument, ...], ...]}, where the program is `ansible-inventory` or
`ansible`, and writes [{"out": text, "err": text, "failed": bool}, ...] to stdout.
"""

import contextlib
import io
import json
import os
import sys


class OrderedSet:
    """A set that is walked in the order of insertion.

    Ansible walks groups below the first level in the order of a set of objects, which follows their addresses in memory
    and differs from run to run. Nothing else of its algorithm is touched.
    """

    def __init__(self, items=()):
        self.items = dict.fromkeys(items)

    def add(self, item):
        self.items[item] = None

    def update(self, items):
        self.items.update(dict.fromkeys(items))

    def difference_update(self, items):
        for item in list(items):
            self.items.pop(item, None)

    def copy(self):
        return OrderedSet(self.items)

    def remove(self, item):
        del self.items[item]

    def __iter__(self):
        return iter(self.items)

    def __contains__(self, item):
        return item in self.items

    def __len__(self):
        return len(self.items)


def call(arguments):
    from ansible.cli.adhoc import AdHocCLI
    from ansible.cli.inventory import InventoryCLI

    kind = {"ansible": AdHocCLI, "ansible-inventory": InventoryCLI}[arguments[0]]
    out, err = io.StringIO(), io.StringIO()
    failed = False
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli = kind(arguments)
            cli.parse()
            failed = bool(cli.run())
        except SystemExit as end:
            failed = bool(end.code)
        except Exception as error:  # what Ansible reports as a failure
            failed = True
            err.write(str(error))
    return {"out": out.getvalue(), "err": err.getvalue(), "failed": failed}


def main():
    # Inside a call stdout is redirected; outside of it nothing may reach the answer.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    task = json.load(sys.stdin)
    os.chdir(task["cwd"])
    import ansible.inventory.group

    ansible.inventory.group.set = OrderedSet
    json.dump([call(arguments) for arguments in task["calls"]], answer)
    answer.close()


main()
