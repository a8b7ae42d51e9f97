"""How far one warm message travels, as `make trace-message` counts it: a longer way is a slower one, and a harder one
to read."""

import re
import subprocess
import sys

from measure import HERE, Figure, at_most

SCRIPT = HERE.parent / "scripts" / "trace_message.py"
MOST_FILES, MOST_FUNCTIONS = (60, 80), (250, 350)  # by the fake channel, by Telegram
MOST_ACCEPT_CALLS = 120  # of the transaction that accepts the message
_ALL = re.compile(r"all threads +(\d+) files +(\d+) functions")
_ACCEPT = re.compile(r"unit \S*accept .* (\d+) calls")


def figures() -> list[Figure]:
    out = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True).stdout
    found = []
    for at, (name, (files, functions)) in enumerate(zip(("fake", "telegram"), _ALL.findall(out), strict=True)):
        most = MOST_FILES[at], MOST_FUNCTIONS[at]
        found.append(at_most(f"trace_{name}_files", int(files), "", most[0], most[0]))
        found.append(at_most(f"trace_{name}_functions", int(functions), "", most[1], most[1]))
    accepts = [int(calls) for calls in _ACCEPT.findall(out)]
    return [*found, at_most("trace_accept_calls", max(accepts), "", MOST_ACCEPT_CALLS, MOST_ACCEPT_CALLS)]
