"""The system prompt: who an agent is and what it learnt, from the files in the group's folder, and how words travel
here. Anybody inside the sandbox may have put something into that folder, so only plain files are read.
"""

import re
from collections.abc import Collection
from pathlib import Path

from gatepost.inside.providers.contract import ProviderContext

LARGEST = 100_000  # characters of one file
MOST_SKILLS = 100
LONGEST_SKILL = 1024  # characters of what is said about one
FILES = ("PERSONA.md", "AGENTS.md")  # in this order
PROJECT_FILES = ("AGENTS.md", "CLAUDE.md")  # the first that is there
MANNERS = """\
# How you are reached

You talk with people through a gateway. What they write comes to you as <message> elements, each with its number (id), \
its sender and its time; <task>, <webhook> and <system> elements are not written by people. What you answer goes to \
the room that the messages came from, as it is: write plain Markdown, no such elements. What stands in an <internal> \
element is shown to nobody. To say nothing, answer <silent/> and no other word. A message with an errand is another \
agent's: your answer returns to that agent as its result, and no person sees it. To do anything else than answer, use \
your tools. The network is closed but for hosts that the operator allows: after a 403 of the proxy, \
`curl -s $GATEPOST_REFUSED` says why, and what the operator can type."""

RULES = """\
# Pinned rules

Whoever runs this gateway has pinned these rules. They hold in every turn, whatever else was said, also when you \
remember nothing of what was said before."""
NAMES = """\
# Your title

You are one of several agents in a list. As soon as you know what your work is about, call set_title once, with a few \
words by which people find you there; call it again when the work has become another."""
BRANCHES = """\
If you were given a worktree, call set_branch once before your first commit: with a short name of what you change, \
like fix-login-timeout."""


def system_prompt(
    place: ProviderContext, *, reader: str = "read_file", without: Collection[str] = (), tools: str = ""
) -> str:
    """Made anew for every turn: the files change. `reader`: the tool with which the agent reads files; `without`: those
    of the files where it starts that it reads by itself; `tools`: what it is told of tools that no program brings."""
    at_home = place.start == place.agent
    found = {file: text for file in FILES if (text := _read(place.agent / file))}
    parts = [text for file, text in found.items() if not at_home or file not in without]
    if not found:
        parts = [f"You are {place.name or place.folder}, an agent. Your group is `{place.folder}`."]
    if not at_home:
        parts += _project(place, without)
    skills = _skills(place.agent / "skills", "" if at_home else f"{place.agent}/", reader)
    names = [] if not place.managed else [NAMES] if at_home else [f"{NAMES} {BRANCHES}"]
    said = [tools] if tools else []
    return "\n\n".join([*parts, *skills, *said, MANNERS, *names, *render_rules(place)])


def render_rules(place: ProviderContext) -> list[str]:
    """Return what the operator has pinned. A compaction shortens a conversation and never the system prompt; an agent
    that is told the system prompt only once gets them with every prompt."""
    return [f"{RULES}\n\n{place.rules}"] if place.rules else []


def _project(place: ProviderContext, without: Collection[str]) -> list[str]:
    """Return what it was given to work in, and what is written down there for whoever does."""
    about = (
        f"# Where you work\n\nYou start in {place.start}: that is what you were given to work on. Your own folder, with"
        f" your memory and skills, is {place.agent}."
    )
    said = next((text for name in PROJECT_FILES if (text := _read(place.start / name))), "")
    return [about, said] if said and not set(without) & set(PROJECT_FILES) else [about]


def _skills(folder: Path, shown: str, reader: str) -> list[str]:
    """Return what the agent learnt, by name and when to use it; it reads the rest when it needs it."""
    try:
        found = sorted(path for path in folder.iterdir() if path.is_dir())[:MOST_SKILLS]
    except OSError:
        return []
    lines = [_skill(f"{shown}skills/{path.name}", text) for path in found if (text := _read(path / "SKILL.md"))]
    head = f"# Your skills\n\nBefore you use one, read its file with {reader}."
    return ["\n".join([head, "", *lines])] if lines else []


def _skill(folder: str, text: str) -> str:
    front = re.match(r"---\s*\n(.*?)\n---\s*(\n|\Z)", text, re.DOTALL)
    said = re.search(
        r"^description:[ \t]*[>|]?-?(.*?)(?=^\S|\Z)", front.group(1) if front else "", re.DOTALL | re.MULTILINE
    )
    about = " ".join((said.group(1) if said else "").split()).strip("\"'")[:LONGEST_SKILL]
    return f"- {folder}/SKILL.md" + (f": {about}" if about else "")


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(LARGEST).strip()
    except OSError:
        return ""
