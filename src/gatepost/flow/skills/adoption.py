"""The adoption of what agents had in `skills/` before skills were locked. It was listed without anybody's word until
then, so it is kept as it was on the day of the upgrade, once. A file that comes into these folders later is a draft.

It is done before an agent of the group runs, so that nobody can add to it.
"""

import asyncio
import stat
from functools import partial

from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.flow.gateways.folder_check import is_here
from gatepost.flow.group_files import SKILLS, is_skill_name
from gatepost.flow.skills.agreements import agree_to_read
from gatepost.flow.skills.skill_card import ReadSkill, describe_skill
from gatepost.flow.skills.skill_files import MAIN, pack_tree, read_draft
from gatepost.store.port import Db, Store
from gatepost.store.sessions import skills
from gatepost.store.sessions.skills import SkillSource

MOST = 100  # skills of one group that were listed
BY = "gatepost"
_log = log.get("skills")


async def adopt_all(store: Store, home: Home, clock: Clock) -> int:
    """At the start: the skills of every group whose folder is here. How many there were."""
    waiting = await store.read(skills.list_unadopted)
    return sum([await adopt_group(store, home, clock, each) for each in waiting if await is_here(store, home, each)])


async def adopt_group(store: Store, home: Home, clock: Clock, folder: str) -> int:
    """The mark goes last: an adoption that was broken off is made again."""
    found = await asyncio.to_thread(read_listed, home, folder, clock.now())
    for each in found:
        pack = await asyncio.to_thread(pack_tree, each.tree)
        await store.write(_add, folder, each, pack)
    await store.write(skills.end_adoption, folder)
    if found:
        _log.info("skills were adopted", folder=folder, skills=[each.name for each in found])
    return len(found)


def _add(db: Db, folder: str, skill: ReadSkill, pack: bytes) -> None:
    if skills.get(db, folder, skill.name) is None:  # else somebody has agreed to one of this name meanwhile
        agree_to_read(db, folder, skill, pack, BY, skill.content.added_at)


def read_listed(home: Home, folder: str, now: int) -> list[ReadSkill]:
    """Return the skills that prompts listed until now: folders directly below `skills/` with a SKILL.md. One that
    cannot be taken as it is stays a draft, and the log says why."""
    found: list[ReadSkill] = []
    try:
        with open_untrusted(home.groups) as root:
            places = [f"{folder}/{SKILLS}/{name}" for name in root.list(f"{folder}/{SKILLS}")]
            folders = [each for each in places if stat.S_ISDIR(root.stat(each).st_mode)]
            for place in [each for each in folders if root.exists(f"{each}/{MAIN}")][:MOST]:
                try:
                    tree = read_draft(root, place, lenient=True)
                    name = place.rpartition("/")[2]
                    keep = partial(describe_skill, tree, name, SkillSource.BEFORE, now, origin=place)
                    found.append(keep(name=name if is_skill_name(name) else ""))
                except GatepostError as error:
                    _log.warning("a skill was not adopted", place=place, why=str(error))
    except GatepostError:  # there is no such folder, or it is none
        return found
    return found
