"""The things that a skill needs and that are not here: programs that no sandbox would find, keys that are not set."""

import shutil
from collections.abc import Callable, Iterable

from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.sessions.sandbox.sandbox_requirements import PROGRAMS, find_program
from gatepost.store.port import Db
from gatepost.store.rights import secrets
from gatepost.store.sessions.skills import SkillFacts

HOST = "HOST"  # stands for one that the skill does not name


def list_key_names(db: Db) -> set[str]:
    return {each.name for each in secrets.list_all(db)}


def has_program(home: Home, config: Config, name: str) -> bool:
    """Return True if sandboxes have a program, as far as this machine tells: an image may have others."""
    try:
        return shutil.which(name) is not None or find_program(config, home, name) is not None
    except GatepostError:  # it is named in the settings and gone, which the doctor says
        return False


def list_steps(facts: SkillFacts, folder: str, keys: Iterable[str], has: Callable[[str], bool]) -> list[str]:
    """Return what somebody has to do before a skill can work. `folder`: of whoever has it, '' for every agent."""
    known = {*keys}
    scope = f" --folder {folder}" if folder else ""
    host = facts.hosts[0] if len(facts.hosts) == 1 else HOST
    steps = [
        f"the key {name} is not set: `gatepost secret set {name}{scope}`, then"
        f" `gatepost secret bind {name} {host}{scope}`"
        for name in facts.env
        if name not in known
    ]
    return steps + [
        f"the program {name} is not here: install it below /usr, or name it in {PROGRAMS.name}"
        for name in facts.programs
        if not has(name)
    ]
