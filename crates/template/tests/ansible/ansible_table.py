"""Evaluates expressions with the real Ansible and prints what they come to.

Standard input: a JSON list of expressions. Standard output: a JSON list of {"value": …} or {"error": true}.
Run with the Python of a virtual environment that has ansible-core; `tests/ansible.rs` does so.
"""

import json
import sys

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template


def plain(value):
    """A value as JSON, through JSON itself: tags and lazy containers go away."""
    return json.loads(json.dumps(value, default=lambda other: list(other)))


def main():
    table = json.load(sys.stdin)
    templar = Templar(loader=DataLoader(), variables=table["variables"])
    answers = []
    for expression in table["expressions"]:
        try:
            value = templar.template(
                # Backslashes as in a template file, where the line is written so.
                trust_as_template("{{ %s }}" % expression),
                escape_backslashes=not (r"\\" in expression or r"\n" in expression),
            )
            answers.append({"value": plain(value)})
        except Exception:  # noqa: BLE001, any failure is the answer
            answers.append({"error": True})
    json.dump(answers, sys.stdout)


main()
