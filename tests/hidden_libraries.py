"""What makes an interpreter behave as one in which some libraries are not installed."""

import re
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements.lock"
OURS = {"gatepost", "gatepost-testing"}
HIDE = """
import sys

class Hiding:
    def __init__(self, finder):
        self._finder = finder

    def __getattr__(self, name):
        return getattr(self._finder, name)

    def find_spec(self, name, *more):
        return None if name.partition(".")[0] in HIDDEN else self._finder.find_spec(name, *more)

sys.meta_path[:] = [Hiding(each) for each in sys.meta_path]
"""


def render_hiding(names: Iterable[str]) -> str:
    """The program that hides the libraries which are imported by these names."""
    return f"HIDDEN = {sorted(names)!r}\n{HIDE}"


def find_extra_libraries() -> set[str]:
    """The names by which libraries that are not in `requirements.lock` would be imported."""
    locked = {name.lower() for name in re.findall(r"^([\w.-]+)==", LOCK.read_text(encoding="utf-8"), re.MULTILINE)}
    return {
        name
        for name, sources in packages_distributions().items()
        if not {each.lower().replace("_", "-") for each in sources} & (locked | OURS)
    }
