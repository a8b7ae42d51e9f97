"""The text of MEMORY.md: its lines, what somebody changed in it, and how it is written anew. Pure.

A line with a number stands for an entry, which is never changed itself, so each line is compared with the entry of its
number. Changes are a difference between three: what was written last, what the file says, and what is remembered.
Nothing is remembered because it stands in the file, which an agent can write. A change is a wish, and the next text has
it below `OPEN` until somebody has agreed to it, or has taken it out.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.messages.text import clean
from gatepost.messages.visible_text import show_hidden
from gatepost.store.memory.memories import LONGEST_ABOUT, LONGEST_TEXT, UNTRUSTED, Memory, MemoryScope, MemoryTrust
from gatepost.store.memory.memory_views import WrittenLines

VIEW = "MEMORY.md"
TITLE, BELOW, OPEN = "# Memory", "## Agents below know this, too", "## Not agreed to"
INTRO = (
    "What everybody who talks with this agent may know. What is for one person or one room is not here.",
    "A line with a number is remembered. A line that was added, changed or taken out is a wish until a person has",
    "agreed: `gatepost memory sync GROUP` shows it. Agents that want to be answered now use the tool `remember`.",
)
OWN = frozenset((TITLE, BELOW, OPEN, *INTRO))
MOST_SHOWN, LARGEST_SHOWN = 1000, 128 * 1024  # entries, the newest, and bytes of their lines
MOST_LINES, MOST_CHANGES = 2000, 500
LONGEST_LINE = LONGEST_TEXT + LONGEST_ABOUT + 10
DIGEST = 16  # hex digits
NOTED = (*UNTRUSTED, MemoryTrust.CONCLUDED)  # whoever reads the file should know of these where they come from

_BULLETS = ("- ", "* ", "+ ")
_LONGEST_MARK = 80
# What ends a line: `<!-- 12 -->`, `<!-- instead of 12 -->`, `<!-- forget 12 -->` or `<!-- also below -->`.
_MARK = re.compile(r"<!-- (?:(instead of |forget )?([0-9]{1,18})|also below)(?:, [a-z ]{1,40})? -->\Z")
_ABOUT = re.compile(rf"\*\*([^*]{{1,{LONGEST_ABOUT}}})\*\*: (.+)\Z")


class LineKind(StrEnum):
    ENTRY = ""
    INSTEAD = "instead of "  # of the entry that it names
    FORGET = "forget "


class ViewLine(Struct, frozen=True):
    """A line as somebody left it. `number`: of an entry; 0: none. `below`: agents below are to know it, too, which it
    says itself: nobody widens by the place of a line."""

    text: str
    number: int = 0
    kind: LineKind = LineKind.ENTRY
    below: bool = False


class ViewChanges(Struct, frozen=True, kw_only=True):
    """The difference between a file and what is remembered. `changed`: an entry, and what is to take its place.
    `conflicts`: words for an entry that is another one by now, or is over."""

    added: Sequence[ViewLine] = ()
    changed: Sequence[tuple[Memory, ViewLine]] = ()
    forgotten: Sequence[Memory] = ()
    conflicts: Sequence[ViewLine] = ()

    @property
    def count(self) -> int:
        return len(self.added) + len(self.changed) + len(self.forgotten)


class WrittenView(Struct, frozen=True):
    text: str
    lines: WrittenLines


def parse_view(text: str) -> list[ViewLine]:
    """Return the lines of a file, whoever wrote it. A paragraph is one line, and so is a heading that is not ours."""
    found: list[ViewLine] = []
    parts: list[str] = []

    def flush() -> None:
        if parts:
            found.append(_make_line(" ".join(parts)))
            parts.clear()
        if len(found) > MOST_LINES:
            raise Invalid(VIEW, f"has more than {MOST_LINES} lines")

    for raw in clean(text).splitlines():
        line = " ".join(raw.split())
        if not line or line in OWN:
            flush()
        elif f"{line} "[:2] in _BULLETS or line.startswith("#") or (parts and _find_mark(parts[-1])):
            flush()
            parts += [line[2:] if f"{line} "[:2] in _BULLETS else line]
        else:
            parts.append(line)
    flush()
    return [each for each in found if each.text]


def parse_notes(text: str) -> list[tuple[str, str]]:
    """Return (about, text) of each item and paragraph of notes in Markdown that another program kept. An item without
    a name of its own is about the heading above it."""
    spaced: list[str] = []
    for raw in clean(text).splitlines():
        apart = raw.lstrip().startswith("#") or not any(map(str.isalnum, raw))  # rules, and signs between entries
        spaced += ["", raw if any(map(str.isalnum, raw)) else "", ""] if apart else [raw]
    heading, found = "", []
    for line in parse_view("\n".join(spaced)):
        if line.text.startswith("#"):
            heading = line.text.strip("# ")[:LONGEST_ABOUT]
        else:
            about, said = split_line(line.text)
            found.append((about or heading, said))
    return found


def _find_mark(text: str) -> re.Match[str] | None:
    at = text.rfind("<!--", max(len(text) - _LONGEST_MARK, 0))
    return _MARK.match(text, at) if at >= 0 else None


def _make_line(text: str) -> ViewLine:
    mark = _find_mark(text)
    said = text[: mark.start()].rstrip() if mark is not None else text
    if len(said) > LONGEST_LINE:
        raise Invalid(VIEW, f"has a line of {len(said)} characters; a fact has at most {LONGEST_TEXT}")
    if mark is None:
        return ViewLine(said)
    return ViewLine(said, int(mark[2] or 0), LineKind(mark[1] or ""), below=mark[2] is None)


def split_line(text: str) -> tuple[str, str]:
    """Return (about, text) of the entry that a line is to become."""
    found = _ABOUT.match(text)
    about, said = (found[1].strip(), found[2]) if found is not None else ("", text)
    if len(said) > LONGEST_TEXT:
        raise Invalid(VIEW, f"has a line of {len(said)} characters; a fact has at most {LONGEST_TEXT}")
    return about, said


def render_entry(entry: Memory) -> str:
    """Return an entry as a line has it, without its number."""
    return " ".join((f"**{entry.about}**: {entry.text}" if entry.about else entry.text).split())


def make_digest(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()[:DIGEST]


def find_changes(
    lines: Sequence[ViewLine], written: WrittenLines, rows: Mapping[int, Memory], known: Iterable[str], now: int
) -> ViewChanges:
    """Return what a file wants. `rows`: the entries that its lines and `written` name, as far as everybody may know
    them; `known`: lines that are remembered already."""
    there = set(known)
    seen: set[int] = set()
    added: dict[str, ViewLine] = {}
    changed: dict[int, ViewLine] = {}
    forgotten: dict[int, Memory] = {}
    conflicts: dict[str, ViewLine] = {}
    for line in lines:
        row = rows.get(line.number)
        seen.add(line.number)
        if line.kind is LineKind.FORGET:
            if row is not None and _is_live(row, now):
                forgotten[row.id] = row
        elif line.text in there or _is_same(line, row) or _is_gone(line, row, written):
            continue
        elif row is None or changed.get(row.id, line).text != line.text:
            added.setdefault(line.text, ViewLine(line.text, below=line.below))
        elif _is_live(row, now):
            changed[row.id] = line
        else:
            conflicts.setdefault(line.text, ViewLine(line.text, row.id, LineKind.INSTEAD))
    forgotten |= {number: rows[number] for number in written if number not in seen and _is_live(rows.get(number), now)}
    found = ViewChanges(
        added=[*added.values()],
        changed=[(rows[number], line) for number, line in changed.items()],
        forgotten=[each for number, each in sorted(forgotten.items()) if number not in changed],
        conflicts=[*conflicts.values()],
    )
    if found.count > MOST_CHANGES:
        raise Invalid(VIEW, f"has {found.count} changes; at most {MOST_CHANGES} are looked at together")
    return found


def _is_live(row: Memory | None, now: int) -> bool:
    return row is not None and row.ended_at is None and (row.expires_at is None or row.expires_at > now)


def _is_same(line: ViewLine, row: Memory | None) -> bool:
    return line.kind is LineKind.ENTRY and row is not None and render_entry(row) == line.text


def _is_gone(line: ViewLine, row: Memory | None, written: WrittenLines) -> bool:
    """Return True if an entry was removed for good, as with a person who was forgotten: nobody wished for its line."""
    return line.kind is LineKind.ENTRY and row is None and written.get(line.number) == make_digest(line.text)


def render_view(entries: Iterable[Memory], wished: ViewChanges = ViewChanges()) -> WrittenView:  # noqa: B008
    """Return the text of the file. `entries`: the newest first; those that are too many are left out. `wished`: what
    nobody has agreed to yet."""
    own: list[str] = []
    below: list[str] = []
    lines: dict[int, str] = {}
    left = LARGEST_SHOWN
    for entry in entries:
        text = render_entry(entry)
        line = f"- {text} <!-- {entry.id}{f', {entry.trust}' if entry.trust in NOTED else ''} -->"
        left -= len(line.encode()) + 1
        if left < 0 or len(lines) >= MOST_SHOWN:
            break
        lines[entry.id] = make_digest(text)
        (below if entry.scope is MemoryScope.FAMILY else own).append(line)
    parts = [TITLE, "\n".join(INTRO), *_join(own), *([BELOW, *_join(below)] if below else [])]
    if wishes := _render_wishes(wished):
        parts += [OPEN, *_join(reversed(wishes))]
    return WrittenView("\n\n".join(parts) + "\n", lines)


def _join(lines: Iterable[str]) -> list[str]:
    """The oldest first."""
    text = "\n".join(reversed([*lines]))
    return [text] if text else []


def _render_wishes(wished: ViewChanges) -> list[str]:
    return [
        *(f"- {each.text}{' <!-- also below -->' if each.below else ''}" for each in wished.added),
        *(f"- {line.text} <!-- instead of {entry.id} -->" for entry, line in wished.changed),
        *(f"- {render_entry(each)} <!-- forget {each.id} -->" for each in wished.forgotten),
        *(f"- {each.text} <!-- instead of {each.number}, which has changed meanwhile -->" for each in wished.conflicts),
    ]


def render_changes(found: ViewChanges) -> list[str]:
    """Return each change on a line of its own, whole and with everything that hides, as a person decides by it."""
    return [
        *(f"+ {show_hidden(each.text)}{' (agents below, too)' if each.below else ''}" for each in found.added),
        *(
            f"{sign} {show_hidden(text)}"
            for entry, line in found.changed
            for sign, text in (("-", f"{entry.id}: {render_entry(entry)}"), ("+", line.text))
        ),
        *(f"- {each.id}: {show_hidden(render_entry(each))}" for each in found.forgotten),
    ]


def render_conflicts(found: ViewChanges) -> list[str]:
    return [f"{each.number} has changed or is over: {show_hidden(each.text)}" for each in found.conflicts]


def split_changes(found: ViewChanges, most: int) -> list[ViewChanges]:
    """Return the same changes in parts of so many, without what nobody can take over."""
    return [
        *(ViewChanges(added=found.added[at : at + most]) for at in range(0, len(found.added), most)),
        *(ViewChanges(changed=found.changed[at : at + most]) for at in range(0, len(found.changed), most)),
        *(ViewChanges(forgotten=found.forgotten[at : at + most]) for at in range(0, len(found.forgotten), most)),
    ]
