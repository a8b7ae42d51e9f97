"""Agreed skills on the disk of this machine, as sandboxes see them: made from the store, read-only for agents.

`content/<digest>` has the files of one skill. `sets/<digest>/skills` has the skills of an agent, each below its name,
as further names of the same files; agents with the same skills share one. Both are whole or absent, and never changed.
"""

import hashlib
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from gatepost.core import ids, log
from gatepost.core.errors import Unavailable
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.flow.group_files import SKILLS
from gatepost.flow.skills.skill_files import SkillTree, unpack_tree
from gatepost.mailbox.runner_frames import MOST_SKILLS
from gatepost.store.port import Store
from gatepost.store.sessions import skills
from gatepost.store.sessions.skills import EffectiveSkill

CONTENT, SETS = "content", "sets"
DRAFT = ".new-"  # how the name of what is being made begins; what a killed gateway leaves is swept
LISTED_BYTES = 8_000  # of the lines of skills in a prompt; the rest is found with find_tools
SHORT_DESCRIPTION = 200  # characters, where not all fit

OffLoop = Callable[..., Awaitable[Any]]
_log = log.get("skills")


class PreparedSkills(Struct, frozen=True):
    """The skills of an agent that wakes. `folder`: where they lie on the host; None: it has none. `more`: how many its
    prompt does not list."""

    folder: Path | None = None
    listed: tuple[EffectiveSkill, ...] = ()
    more: int = 0


async def prepare_skills(
    store: Store, home: Home, off_loop: OffLoop, found: Sequence[EffectiveSkill]
) -> PreparedSkills:
    """Bring the skills of an agent to the disk. Raises Unavailable if the disk does not take them."""
    if not found:
        return PreparedSkills()
    try:
        whole = home.skills / SETS / make_set_name(found)
        if not await off_loop(whole.is_dir):
            for digest in {each.digest for each in found}:
                await _prepare_content(store, home, off_loop, digest)
            await off_loop(_make_set, home, whole, found)
    except OSError as error:
        raise Unavailable("the agent's skills", error.strerror or str(error)) from None
    listed = list_shown(found)
    return PreparedSkills(whole / SKILLS, listed, len(found) - len(listed))


async def _prepare_content(store: Store, home: Home, off_loop: OffLoop, digest: str) -> None:
    place = home.skills / CONTENT / digest
    if await off_loop(place.is_dir):
        return
    pack = await store.read(skills.get_pack, digest)
    if pack is None:
        raise Unavailable("the agent's skills", "one was removed meanwhile")
    await off_loop(_write_content, place, pack)


def list_shown(found: Sequence[EffectiveSkill]) -> tuple[EffectiveSkill, ...]:
    """Return those that a prompt lists: as many as fit its share, by name. If there are more, each is described in
    fewer words, so that none takes the place of many."""
    if sum(map(_measure, found)) > LISTED_BYTES:
        found = [replace(each, description=_shorten(each.description)) for each in found]
    left = LISTED_BYTES
    shown: list[EffectiveSkill] = []
    for each in found[:MOST_SKILLS]:
        left -= _measure(each)
        if left < 0 and shown:
            break
        shown.append(each)
    return tuple(shown)


def _measure(skill: EffectiveSkill) -> int:
    """Return the bytes of its line."""
    return len(skill.name) + len(skill.description.encode()) + 32


def _shorten(text: str) -> str:
    return text if len(text) <= SHORT_DESCRIPTION else f"{text[: SHORT_DESCRIPTION - 1]}…"


def make_set_name(found: Iterable[EffectiveSkill]) -> str:
    named = sorted(f"{each.name} {each.digest}\n" for each in found)
    return hashlib.sha256("".join(named).encode()).hexdigest()


def _write_content(place: Path, pack: bytes) -> None:
    tree = unpack_tree(pack)
    if tree.digest != place.name:
        raise Unavailable("the agent's skills", f"the store has another content under the digest {place.name[:12]}")
    _put_in_place(place, lambda draft: _write_tree(draft, tree))


def _write_tree(draft: Path, tree: SkillTree) -> None:
    for each in tree.files:
        path = draft / each.path
        _make_folders(draft, path.parent)
        with path.open("xb") as file:
            file.write(each.data)
            file.flush()
            os.fsync(file.fileno())
        path.chmod(0o755 if each.executable else 0o644)


def _make_set(home: Home, whole: Path, found: Sequence[EffectiveSkill]) -> None:
    def link_all(draft: Path) -> None:
        for each in found:
            shutil.copytree(home.skills / CONTENT / each.digest, draft / SKILLS / each.name, copy_function=_link)
        for top, _, _ in os.walk(draft):
            os.chmod(top, 0o755)

    _put_in_place(whole, link_all)


def _link(source: str, target: str) -> None:
    """A further name of the same file, or a copy where a file can have none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _make_folders(top: Path, folder: Path) -> None:
    """With modes that do not depend on the umask: the user of a sandbox reads them."""
    for place in [*reversed(folder.relative_to(top).parents), folder.relative_to(top)]:
        if not (top / place).is_dir():
            (top / place).mkdir()
            (top / place).chmod(0o755)


def _put_in_place(place: Path, fill: Callable[[Path], None]) -> None:
    """Make a folder whole or not at all. If another start made it meanwhile, that one stays."""
    place.parent.mkdir(mode=0o711, exist_ok=True)
    place.parent.chmod(0o711)
    draft = place.parent / f"{DRAFT}{ids.token(9)}"
    draft.mkdir()
    draft.chmod(0o755)
    try:
        fill(draft)
        draft.rename(place)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not place.is_dir():
            raise
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def sweep_folders(home: Home, digests: Iterable[str]) -> int:
    """Before any sandbox runs: remove all sets, which are quick to make, and contents that the store does not have."""
    known, removed = set(digests), 0
    for kind, kept in ((SETS, set[str]()), (CONTENT, known)):
        try:
            there = [each.name for each in os.scandir(home.skills / kind)]
        except FileNotFoundError:
            continue
        for name in there:
            if name not in kept:
                shutil.rmtree(home.skills / kind / name, ignore_errors=True)
                removed += 1
    return removed
