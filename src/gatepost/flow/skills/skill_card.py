"""A skill as a person decides by it: what it says, which scripts, hosts, keys and programs are in it; and the lines of
an update. Pure; it takes time by the size of the skill, so it is made in a thread."""

import re
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from gatepost.flow.skills.front_matter import FrontMatter, read_front_matter
from gatepost.flow.skills.skill_files import MAIN, SkillFile, SkillTree, make_name
from gatepost.messages.visible_text import LONGEST_SHOWN, MOST_COMPARED, hides_something, render_changes, show_hidden
from gatepost.store.sessions.skills import SkillContent, SkillFacts, SkillSource

MOST_NAMED = 50  # hosts, keys and scripts
MOST_LINES = 2000  # of a whole change
LARGEST_TEXT = 512 * 1024  # bytes of one file that are looked through
SCRIPTS = (".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".ps1", ".php", ".lua", ".go", ".command")
_HOST = re.compile(rb"(?:https?|wss?|ftp)://(?:[^\s/@\"'<>]{1,200}@)?([A-Za-z0-9][A-Za-z0-9.-]{0,250})")
_KEY = re.compile(rb"\b[A-Z][A-Z0-9_]{1,80}_(?:API_KEY|KEY|TOKEN|SECRET|PASSWORD|PAT)\b")


class ReadSkill(Struct, frozen=True):
    """A skill that was read, before anybody agreed to it."""

    name: str
    tree: SkillTree
    content: SkillContent


def describe_skill(
    tree: SkillTree, folder: str, source: SkillSource, now: int, *, origin: str = "", revision: str = "", name: str = ""
) -> ReadSkill:
    """`folder`: its name if its front matter has none. `name`: in the place of both."""
    front = read_front_matter(tree.main_text)
    called = make_name(name or front.name, folder)
    content = SkillContent(
        digest=tree.digest,
        description=show_hidden(front.description),
        facts=msgspec.json.encode(find_facts(tree, front, called)).decode(),
        size=tree.size,
        files=len(tree.files),
        source=source,
        origin=show_hidden(origin)[:500],
        revision=revision[:100],
        added_at=now,
    )
    return ReadSkill(called, tree, content)


def find_facts(tree: SkillTree, front: FrontMatter, name: str) -> SkillFacts:
    texts = [each for each in tree.files if _is_text(each)]
    keys = (found.decode() for each in texts for found in _KEY.findall(each.data[:LARGEST_TEXT]))
    hosts = (found.decode().lower().strip(".") for each in texts for found in _HOST.findall(each.data[:LARGEST_TEXT]))
    return SkillFacts(
        name=name,
        license=show_hidden(front.license),
        compatibility=show_hidden(front.compatibility),
        allowed_tools=tuple(map(show_hidden, front.allowed_tools)),
        env=_first((*front.env, *keys)),
        programs=front.programs,
        hosts=_first(sorted(set(hosts))),
        scripts=_first(each.path for each in tree.files if is_script(each)),
        notes=tuple(_find_oddities(tree, texts, front)),
    )


def _first(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))[:MOST_NAMED]


def is_script(file: SkillFile) -> bool:
    return file.executable or file.path.lower().endswith(SCRIPTS) or file.data.startswith(b"#!")


def _is_text(file: SkillFile) -> bool:
    return b"\0" not in file.data[:8192]


def _find_oddities(tree: SkillTree, texts: Sequence[SkillFile], front: FrontMatter) -> Iterable[str]:
    if front.trouble:
        yield front.trouble
    if front.hooks:
        yield "its front matter asks for hooks, which run by themselves where an agent has them"
    unread = [each for each in tree.files if not _is_text(each)]
    if unread:
        yield f"no text, and not shown: {_name_some(unread)}"
    hiding = [each for each in texts if _hides(each)]
    if hiding:
        yield f"characters that cannot be seen are in {_name_some(hiding)}"


def _name_some(files: Sequence[SkillFile]) -> str:
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return ", ".join(show_hidden(each.path) for each in files[:3]) + more


def _hides(file: SkillFile) -> bool:
    text = file.data[:LARGEST_TEXT].decode(errors="ignore")
    return not text.isascii() and any(hides_something(line) for line in text.splitlines() if not line.isascii())


class TreeChanges(Struct, frozen=True):
    """The lines of a change. `whole`: they show all of it."""

    lines: list[str]
    whole: bool


def render_tree_changes(before: SkillTree | None, after: SkillTree) -> TreeChanges:
    """Return the lines of a change: each file that is added, removed or another, the text of those that are text.
    SKILL.md stands first, then scripts. A long line is broken and not cut: whatever somebody agrees to is there."""
    old = {each.path: each for each in before.files} if before is not None else {}
    new = {each.path: each for each in after.files}
    scripts = {each.path for each in after.files if is_script(each)}
    changed = sorted(
        (path for path in old.keys() | new.keys() if old.get(path) != new.get(path)),
        key=lambda path: (path != MAIN, path not in scripts, path),
    )
    lines: list[str] = []
    whole = True
    for number, path in enumerate(changed):
        if len(lines) >= MOST_LINES:
            return TreeChanges([*lines, f"· … {len(changed) - number} more files"], False)
        found = _render_file(path, old.get(path), new.get(path), MOST_LINES - len(lines))
        lines += found.lines
        whole &= found.whole
    return TreeChanges(lines, whole)


def _render_file(path: str, old: SkillFile | None, new: SkillFile | None, most: int) -> TreeChanges:
    shown = show_hidden(path)
    if new is None:
        return TreeChanges([f"- {shown} is removed"], True)
    what = "is added" if old is None else "is changed"
    runs = ", it can be run" if new.executable and (old is None or not old.executable) else ""
    head = f"{'+' if old is None else '·'} {shown} {what}{runs}, {len(new.data):,} bytes"
    if old is not None and old.data == new.data:
        return TreeChanges([head], True)
    if not _is_text(new):  # the card says so
        return TreeChanges([head], True)
    texts = [_break_lines(each.data if each is not None and _is_text(each) else b"") for each in (old, new)]
    found = render_changes(texts[0], texts[1], most)
    read = all(len(each.data) <= LARGEST_TEXT for each in (old, new) if each is not None)
    fits = max(len(each.splitlines()) for each in texts) <= MOST_COMPARED
    return TreeChanges([head, *found], read and fits and len(found) <= most)


def _break_lines(data: bytes) -> str:
    """Return a text whose lines are as long as a change shows them."""
    step = LONGEST_SHOWN - 1
    lines = data[:LARGEST_TEXT].decode(errors="replace").splitlines()
    return "\n".join(line[at : at + step] for line in lines for at in range(0, max(len(line), 1), step))
