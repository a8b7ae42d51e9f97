"""The system prompt of agents that have no program around them: who they are, from the files in the group's folder, and
how words travel here. What lies in that folder may have been put there by anybody inside, so only plain files are read.
"""

from pathlib import Path

LARGEST = 100_000  # characters of one file
FILES = ("PERSONA.md", "AGENTS.md")  # in this order
MANNERS = """\
# How you are reached

You talk with people through a gateway. What they write comes to you as <message> elements, each with its number (id), \
its sender and its time; <task>, <webhook> and <system> elements are not written by people. What you answer goes to \
the room that the messages came from, as it is: write plain Markdown, no such elements. What stands in an <internal> \
element is shown to nobody. To do anything else than answer, use your tools."""


def system_prompt(agent: Path, name: str, folder: str) -> str:
    """Made anew for every turn: the files change."""
    parts = [text for file in FILES if (text := _read(agent / file))]
    if not parts:
        parts = [f"You are {name or folder}, an agent. Your group is `{folder}`."]
    return "\n\n".join([*parts, MANNERS])


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(LARGEST).strip()
    except OSError:
        return ""
