"""A skill as a person decides by it: what it says, which scripts, hosts, keys and programs are in it; and the lines of
an update. Pure; it takes time by the size of the skill, so it is made in a thread."""

import re
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from gatepost.flow.skills.front_matter import FrontMatter, read_front_matter
from gatepost.flow.skills.skill_files import MAIN, SkillFile, SkillTree, make_name
from gatepost.messages.visible_text import hides_something, render_changes, show_hidden
from gatepost.store.sessions.skills import SkillContent, SkillFacts, SkillSource

MOST_NAMED = 50  # hosts, keys and scripts
MOST_FILES_CHANGED = 40  # that a change shows line by line
MOST_LINES = 400  # of a whole change
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
    content = SkillContent(
        digest=tree.digest,
        description=show_hidden(front.description),
        facts=msgspec.json.encode(find_facts(tree, front)).decode(),
        size=tree.size,
        files=len(tree.files),
        source=source,
        origin=show_hidden(origin)[:500],
        revision=revision[:100],
        added_at=now,
    )
    return ReadSkill(make_name(name or front.name, folder), tree, content)


def find_facts(tree: SkillTree, front: FrontMatter) -> SkillFacts:
    texts = [each for each in tree.files if _is_text(each)]
    keys = (found.decode() for each in texts for found in _KEY.findall(each.data[:LARGEST_TEXT]))
    hosts = (found.decode().lower().strip(".") for each in texts for found in _HOST.findall(each.data[:LARGEST_TEXT]))
    return SkillFacts(
        license=show_hidden(front.license),
        compatibility=show_hidden(front.compatibility),
        allowed_tools=tuple(map(show_hidden, front.allowed_tools)),
        env=_first((*front.env, *keys)),
        programs=front.programs,
        hosts=_first(sorted(set(hosts))),
        scripts=_first(each.path for each in tree.files if is_script(each)),
        notes=tuple(_find_oddities(texts, front)),
    )


def _first(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))[:MOST_NAMED]


def is_script(file: SkillFile) -> bool:
    return file.executable or file.path.lower().endswith(SCRIPTS) or file.data.startswith(b"#!")


def _is_text(file: SkillFile) -> bool:
    return b"\0" not in file.data[:8192]


def _find_oddities(texts: Iterable[SkillFile], front: FrontMatter) -> Iterable[str]:
    if front.trouble:
        yield front.trouble
    hiding = [each.path for each in texts if _hides(each)]
    if hiding:
        more = f" and {len(hiding) - 3} more" if len(hiding) > 3 else ""
        yield f"characters that cannot be seen are in {', '.join(hiding[:3])}{more}"


def _hides(file: SkillFile) -> bool:
    text = file.data[:LARGEST_TEXT].decode(errors="ignore")
    return not text.isascii() and any(hides_something(line) for line in text.splitlines() if not line.isascii())


def render_tree_changes(before: SkillTree | None, after: SkillTree) -> list[str]:
    """Return the lines of a change: each file that is added, removed or another, the text of those that are text.
    SKILL.md stands first."""
    old = {each.path: each for each in before.files} if before is not None else {}
    new = {each.path: each for each in after.files}
    changed = sorted((path for path in old.keys() | new.keys() if old.get(path) != new.get(path)), key=_by_weight)
    lines: list[str] = []
    for path in changed[:MOST_FILES_CHANGED]:
        lines += _render_file(path, old.get(path), new.get(path))
    if len(changed) > MOST_FILES_CHANGED:
        lines.append(f"· … {len(changed) - MOST_FILES_CHANGED} more files")
    left = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"· … {left} more lines"] if left > 0 else lines


def _by_weight(path: str) -> tuple[bool, str]:
    return path != MAIN, path


def _render_file(path: str, old: SkillFile | None, new: SkillFile | None) -> list[str]:
    shown = show_hidden(path)
    if new is None:
        return [f"- {shown} is removed"]
    what = "is added" if old is None else "is changed"
    runs = ", it can be run" if new.executable and (old is None or not old.executable) else ""
    lines = [f"{'+' if old is None else '·'} {shown} {what}{runs}, {len(new.data):,} bytes"]
    if old is not None and old.data == new.data:
        return lines
    if not _is_text(new) or (old is not None and not _is_text(old)):
        return lines
    before = old.data[:LARGEST_TEXT].decode(errors="replace") if old is not None else ""
    return [*lines, *render_changes(before, new.data[:LARGEST_TEXT].decode(errors="replace"), MOST_LINES)]
