"""An escape attempt: its name, what holds it, and its program.

A program is the body of a function that `inside.py` runs in a sandbox; whatever it returns is what it got out.
Besides, none of the places that the host listens at may ever see an attempt's `mark`, and neither the host's secret nor
the models' key may be in any answer.
"""

from dataclasses import dataclass

NETWORK = "network namespace"
PROXY = "allow-list of egress.sock"
MODELS = "model endpoints by list, bodies parsed"
NAMESPACES = "namespaces"
FILTER = "system call filter"
MOUNTS = "mounts: read-only, nosuid, nodev, nothing of the host"
RIGHTS = "no capabilities, no new privileges"
PEER = "sockets per session, the peer's pid namespace"
HANDLES = "host touches files by handle, without links"
NEVER = "host runs nothing from these folders"


@dataclass(frozen=True, slots=True)
class Attempt:
    name: str
    held_by: str
    program: str
    recorded: bool = False  # the denial must be in the log of the way out, with the sentence that the agent got
    containers: bool = True  # False: means something else in a container


def at(name: str, held_by: str, program: str, *, recorded: bool = False, containers: bool = True) -> Attempt:
    return Attempt(name, held_by, program.strip("\n"), recorded, containers)


def proxy(name: str, program: str) -> Attempt:
    return at(name, PROXY, program, recorded=True)


def model(name: str, program: str) -> Attempt:
    return at(name, MODELS, program, recorded=True)
