"""Asks the real Ansible many times and starts it once.

Reads from stdin {"cases": [{"cwd": DIR, "calls": [{"call": [program, argument, ...], "ours": text}, ...]}, ...]}, where the program
is `ansible-inventory` or `ansible` and the calls of a case name the same inventory, and writes
[[{"out": text, "err": text, "failed": bool, "same": bool}, ...], ...] to stdout. YAML is the same when PyYAML reads the same of it.
"""

import contextlib
import io
import json
import os
import sys
import tempfile


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


def meaning(text):
    """What PyYAML reads: values with their types, tags kept, entries in order of their keys."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    def plain(value):
        if isinstance(value, dict):
            return sorted(((repr(key), plain(each)) for key, each in value.items()), key=lambda entry: entry[0])
        if isinstance(value, list):
            return [plain(each) for each in value]
        return type(value).__name__, repr(value)

    Loader.add_multi_constructor("!", lambda loader, tag, node: {tag: loader.construct_scalar(node)})
    return plain(yaml.load(text, Loader))


def call(arguments, ours):
    """One call, as the program would run it; what it prints is the answer."""
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
    theirs = out.getvalue()
    compare = meaning if "--yaml" in arguments else str.rstrip
    same = not failed and compare(theirs) == compare(ours)
    return {"out": theirs, "err": err.getvalue(), "failed": failed, "same": same}


def start(case, path):
    """Runs the calls of a case in a child process: Ansible keeps state that another inventory would see.

    The inventory is read once, by the first call.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            from ansible import context
            from ansible.cli import CLI
            from ansible.utils.context_objects import CLIArgs

            os.chdir(case["cwd"])

            def set_options(options):
                context.CLIARGS = CLIArgs.from_options(options)

            # As it is, the options of the first call stay for good.
            context._init_global_context = set_options
            read, seen = CLI._play_prereqs, []

            def read_once(cli):
                if not seen:
                    seen.append(read(cli))
                return seen[0]

            CLI._play_prereqs = read_once
            answers = [call(each["call"], each["ours"]) for each in case["calls"]]
            with open(path, "w", encoding="utf-8") as file:
                json.dump(answers, file)
            status = 0
        finally:
            os._exit(status)
    return child


def main():
    task = json.load(sys.stdin)
    import ansible.cli.adhoc  # noqa: F401  (imported once, here, for all children)
    import ansible.cli.inventory  # noqa: F401
    import ansible.inventory.group

    ansible.inventory.group.set = OrderedSet
    folder = tempfile.mkdtemp(dir=os.environ["HOME"])
    running, failed = set(), 0
    for index, case in enumerate(task["cases"]):
        while len(running) >= (os.cpu_count() or 1):
            child, status = os.wait()
            running.discard(child)
            failed += status != 0
        running.add(start(case, f"{folder}/{index}"))
    while running:
        child, status = os.wait()
        running.discard(child)
        failed += status != 0
    if failed:
        sys.exit(f"{failed} cases gave no answer")
    answers = []
    for index in range(len(task["cases"])):
        with open(f"{folder}/{index}", encoding="utf-8") as file:
            answers.append(json.load(file))
    json.dump(answers, sys.stdout)


main()
