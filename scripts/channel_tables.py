"""The tables of `docs/channels.md`: what each channel declares, and how the suite graded it.

`make grades` runs the suite over every emulator and writes `docs/channel-grades.json`; `make docs` prints the tables
from it. A slow test compares the file with a fresh run.
"""

import asyncio
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gatepost import declarations
from gatepost.channels.contract import CHANNELS, AddCheck, ChannelKind
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature
from gatepost_testing.channel_suite import (
    Grade,
    GradeState,
    list_checks,
    list_failures,
    render_notes,
    render_table,
    run_suite,
)
from gatepost_testing.emulation import SERVERS, TOY, list_emulators, make_platform
from gatepost_testing.grading import parse_grade, render_grade
from gatepost_testing.waiting import PATIENCE_S

DOCS = Path(__file__).resolve().parent.parent / "docs"
GRADES = DOCS / "channel-grades.json"
SERVERS_AT_ONCE = 3
PART = r"(<!-- {name}: .*? -->\n).*?(<!-- end of {name} -->\n)"
MEANINGS = {
    Feature.EDIT: "edit",
    Feature.DELETE: "delete, of the agent's own messages",
    Feature.REACT: "like, dislike",
    Feature.PIN: "pin_message, unpin_message",
    Feature.UNPIN_ALL: "unpin_all",
    Feature.POST: "post",
    Feature.FORWARD: "forward",
    Feature.QUOTE: "quote",
    Feature.REPOST: "repost",
    Feature.PANE: "pane_set_prompts, pane_set_title",
    Feature.VOICE: "send_voice; without it the sound is a file",
    Feature.FILES: "send_file; without it a line that names the file",
    Feature.REPLY: "reply; without it a short quote",
    Feature.MARKDOWN: "marked text; without it plain text",
    Feature.THREADS: "conversations within a room",
    Feature.CARDS: "send_card, and cards with buttons; without it their text, with numbers",
    Feature.TYPING: "shows that somebody is at work",
    Feature.DIRECT: "opens a private room with somebody; without it people write first",
    Feature.HISTORY: "fetch_history, of what was said before the bot came",
    Feature.SUBSCRIBE: "follows a thread that it was not told of",
    Feature.LOOKUP: "can tell whether a message arrived",
    Feature.KEYED: "delivers a message that is sent twice only once",
}


def list_kinds() -> list[ChannelKind]:
    """Those of the gateway itself first."""
    return sorted((kind for _, kind in CHANNELS.items()), key=lambda kind: (not kind.always, kind.name))


def render_features() -> str:
    kinds = list_kinds()
    lines = [
        f"| feature | what it is for | {' | '.join(kind.name for kind in kinds)} |",
        f"|---|---{'|---' * len(kinds)}|",
    ]
    for feature, meaning in MEANINGS.items():
        marks = ["✔" if feature in kind.features else "" for kind in kinds]
        lines.append(f"| `{feature.upper()}` | {meaning} | {' | '.join(marks)} |")
    return "\n".join(lines)


def render_verbs() -> str:
    kinds = [kind for kind in list_kinds() if not kind.always]
    lines = [f"| received | {' | '.join(kind.name for kind in kinds)} |", f"|---{'|---' * len(kinds)}|"]
    for verb in Verb:
        marks = ["✔" if verb in kind.verbs else "" for kind in kinds]
        lines.append(f"| `{verb}` | {' | '.join(marks)} |")
    return "\n".join(lines)


def render_add_checks() -> str:
    """Return what each kind finds out before it is written down, or why it cannot."""
    lines = [f"| channel | {' | '.join(AddCheck)} |", f"|---{'|---' * len(AddCheck)}|"]
    for kind in list_kinds():
        if not kind.always:
            cells = [kind.unchecked.get(each, "checked") for each in AddCheck]
            lines.append(f"| {kind.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def render_grades() -> str:
    found = read_grades()
    count = {kind: sum(each.state is GradeState.PASS for each in grades) for kind, grades in found.items()}
    total = " | ".join(str(count[kind]) for kind in sorted(found))
    table = f"{render_table(found)}\n| **passed, of {len(list_checks())}** | {total} |"
    return "\n".join([table, "", *(f"- {each}" for each in render_notes(found))])


def read_grades() -> dict[str, list[Grade]]:
    """The last results that were written down, by kind."""
    areas = {name: area for area, name, _ in list_checks()}
    stored: Mapping[str, Mapping[str, str]] = json.loads(GRADES.read_text(encoding="utf-8"))
    return {
        kind: [parse_grade(check, areas[check], grades[check]) for check in areas if check in grades]
        for kind, grades in stored.items()
    }


def fill_page(text: str) -> str:
    """`docs/channels.md` with its tables as they are now."""
    parts = {
        "features": render_features,
        "received": render_verbs,
        "grades": render_grades,
        "add checks": render_add_checks,
    }
    for name, render in parts.items():
        text = fill_part(text, name, render())
    return text


def fill_part(text: str, name: str, body: str) -> str:
    """Return a page with that part of it as it is now."""
    return re.sub(PART.format(name=name), lambda found: f"{found[1]}\n{body}\n\n{found[2]}", text, flags=re.DOTALL)


def list_graded() -> list[str]:
    """The kinds that are played or run here. The toy's channel is an example, which is graded by its own test."""
    return [kind for kind in (*list_emulators(), *SERVERS) if kind != TOY and kind in CHANNELS]


async def grade(kind: str) -> list[Grade]:
    if kind in SERVERS:
        return await run_suite(lambda: make_platform(kind), patience=PATIENCE_S, at_once=SERVERS_AT_ONCE)
    return await run_suite(lambda: make_platform(kind))


async def grade_all(kinds: Sequence[str]) -> dict[str, list[Grade]]:
    """What is found of each is written down at once: servers take minutes."""
    found = {}
    for kind in kinds:
        found[kind] = await grade(kind)
        stored = json.loads(GRADES.read_text(encoding="utf-8"))
        stored[kind] = {each.check: render_grade(each) for each in found[kind]}
        GRADES.write_text(json.dumps(stored, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
        print("\n".join([f"{kind} is graded", *list_failures(found[kind])]), flush=True)
    return found


def main() -> int:
    """Grade the kinds that are named, or all; those that are not named keep their grades."""
    declarations.load_package()
    found = asyncio.run(grade_all(sys.argv[1:] or list_graded()))
    print(render_table(found))
    return 1 if any(list_failures(grades) for grades in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
