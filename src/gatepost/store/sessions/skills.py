"""Skills: folders of instructions and scripts that agents work by. Only what a person agreed to is in `skills`.

A content is named by the digest of its files and is never changed. A row of `skills` says for whom it holds: for every
agent, for a group (with or without those below it), or for one replay. The row nearest to an agent wins by name.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Struct

from gatepost.core.clock import DAY
from gatepost.core.errors import Refused
from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, LockKind

MOST = 1000  # skills of one group, or of every agent
KEPT = DAY  # how long a content that nobody has agreed to is kept, for whoever looks at it
MOST_WAITING = 200  # contents that wait for an agreement, of one list
SHORT_DIGEST = 12  # hex digits that people are shown


class SkillSource(StrEnum):
    """The way by which a content came here."""

    PATH = "path"
    GIT = "git"
    ZIP = "zip"
    DRAFT = "draft"  # what lay in the agent's own folder when a person agreed to it
    AGENT = "agent"  # written by an agent, with a person's consent
    PERSON = "person"  # written by a person in the files of the group
    BEFORE = "before"  # it was listed before skills were locked
    REPLAY = "replay"


REREAD = (SkillSource.PATH, SkillSource.ZIP, SkillSource.GIT)  # places that can be read again


class SkillFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The words of a skill's files about it. Nothing of it is believed: it is shown to whoever decides."""

    name: str = ""  # by which it would be agreed to
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()
    env: tuple[str, ...] = ()  # variables that it wants
    programs: tuple[str, ...] = ()  # that it says it needs
    hosts: tuple[str, ...] = ()  # that its files name
    scripts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # oddities


class SkillContent(Struct, frozen=True, kw_only=True):
    digest: str
    description: str
    facts: str  # JSON of SkillFacts
    size: int  # bytes
    files: int
    source: SkillSource
    origin: str
    revision: str
    added_at: int

    def read_facts(self) -> SkillFacts:
        return msgspec.json.decode(self.facts, type=SkillFacts)


def shorten_digest(digest: str) -> str:
    return digest[:SHORT_DIGEST]


def render_folder(folder: str) -> str:
    return folder or "every agent"


_SOURCES = {
    SkillSource.DRAFT: "the agent's folder",
    SkillSource.AGENT: "the agent",
    SkillSource.PERSON: "a person",
    SkillSource.BEFORE: "was there before",
    SkillSource.REPLAY: "a replay",
}


def render_source(source: SkillSource) -> str:
    return _SOURCES.get(source, source)


class AgreedSkill(Struct, frozen=True, kw_only=True):
    """A content and for whom it holds."""

    name: Annotated[str, shown("Skill", ShownAs.ID, head="skill")]
    folder: Annotated[str, shown("Agent", head="group", render=render_folder)]
    below: Annotated[bool, shown("Below", ShownAs.FLAG, head="below", word="and agents below")] = False
    session_id: str = ""
    digest: Annotated[str, shown("Digest", ShownAs.CODE, head="digest", render=shorten_digest)]
    source: Annotated[SkillSource, shown("Source", head="source", render=render_source)]
    origin: Annotated[str, shown("From", ShownAs.CODE, details=True)] = ""
    revision: Annotated[str, shown("Commit", ShownAs.CODE, details=True)] = ""
    agreed_by: Annotated[str, shown("Agreed by", head="by")]
    agreed_at: Annotated[int, shown("Agreed", ShownAs.MOMENT, head="agreed")]

    @property
    def place(self) -> str:
        """Its address on the page: by whom it is had, and its name."""
        return f"{self.folder}:{self.name}"


class EffectiveSkill(Struct, frozen=True):
    """A skill of an agent, as its prompt lists it."""

    name: str
    digest: str
    description: str


SKILLS = Table("skills", AgreedSkill)
CONTENTS = Table("skill_contents", SkillContent)


def add_content(db: Db, content: SkillContent, pack: bytes) -> None:
    """A content that is there already is kept; it counts as read now, and as not agreed to since."""
    again = ", ".join(f"{each} = excluded.{each}" for each in ("facts", "source", "origin", "revision", "added_at"))
    CONTENTS.insert(db, f"ON CONFLICT (digest) DO UPDATE SET {again}, agreed = 0 RETURNING digest", content, pack=pack)


def get_content(db: Db, digest: str) -> SkillContent | None:
    return CONTENTS.get(db, "WHERE digest = ?", digest)


def get_pack(db: Db, digest: str) -> bytes | None:
    row = db.row("SELECT pack FROM skill_contents WHERE digest = ?", (digest,))
    return bytes(row[0]) if row is not None else None


def agree(db: Db, skill: AgreedSkill) -> AgreedSkill | None:
    """From now on it holds; the row that it took the place of, if there was one."""
    before = get(db, skill.folder, skill.name, skill.session_id)
    if before is None:
        db.lock(LockKind.QUOTA, "skills", skill.folder)
        row = db.row("SELECT COUNT(*) FROM skills WHERE folder = ? AND session_id = ''", (skill.folder,))
        if row is not None and row[0] >= MOST and not skill.session_id:
            why = f"there are {MOST} already; remove one with `gatepost skill rm`"
            raise Refused(skill.agreed_by, "add a skill", render_folder(skill.folder), why)
    same = ", ".join(f"{name} = excluded.{name}" for name in ("below", "digest", "source", "origin", "revision"))
    by = "agreed_by = excluded.agreed_by, agreed_at = excluded.agreed_at"
    SKILLS.insert(db, f"ON CONFLICT (folder, session_id, name) DO UPDATE SET {same}, {by} RETURNING name", skill)
    db.run("UPDATE skill_contents SET agreed = 1 WHERE digest = ?", (skill.digest,))
    return before


def get(db: Db, folder: str, name: str, session_id: str = "") -> AgreedSkill | None:
    return SKILLS.get(db, "WHERE folder = ? AND name = ? AND session_id = ?", folder, name, session_id)


def remove(db: Db, folder: str, name: str) -> bool:
    row = get(db, folder, name)
    if row is None:
        return False
    db.run("DELETE FROM skills WHERE folder = ? AND name = ? AND session_id = ''", (folder, name))
    unused = "NOT EXISTS (SELECT 1 FROM skills WHERE skills.digest = skill_contents.digest)"
    db.run(f"DELETE FROM skill_contents WHERE digest = ? AND {unused}", (row.digest,))
    return True


def remove_for_group(db: Db, folder: str) -> None:
    """With the group: a later one of its name has none of them, and adopts nothing."""
    db.run("DELETE FROM skills WHERE folder = ?", (folder,))
    db.run("DELETE FROM skill_adoptions WHERE folder = ?", (folder,))


def sweep_contents(db: Db, before: int) -> int:
    """Remove the rows of replays that are gone or closed, and contents that no row names and that came before a
    time."""
    db.run(
        "DELETE FROM skills WHERE session_id <> '' AND session_id NOT IN"
        " (SELECT id FROM sessions WHERE closed_at IS NULL)"
    )
    unused = "DELETE FROM skill_contents WHERE added_at < ? AND digest NOT IN (SELECT digest FROM skills)"
    return db.run(unused, (before,))


def list_all(db: Db) -> list[AgreedSkill]:
    """Those of replays are left out."""
    return SKILLS.list(db, "WHERE session_id = '' ORDER BY folder, name")


def list_waiting(db: Db) -> list[SkillContent]:
    """Return the newest contents that nobody has agreed to since they were read. One that another took the place of is
    none of these."""
    waits = "agreed = 0 AND digest NOT IN (SELECT digest FROM skills)"
    return CONTENTS.list(db, f"WHERE {waits} ORDER BY added_at DESC, digest LIMIT {MOST_WAITING}")


def list_digests(db: Db) -> list[str]:
    return [str(row[0]) for row in db.rows("SELECT digest FROM skill_contents")]


def list_for_agent(db: Db, folder: str, session_id: str = "") -> list[AgreedSkill]:
    """Return the rows that hold for an agent, by name: of the replay, else of its group, else of the nearest above it,
    else of every agent."""
    chain = list_chain(folder)
    marks = ", ".join("?" * len(chain))
    found = SKILLS.list(
        db, f"WHERE folder IN ({marks}) AND session_id IN ('', ?) ORDER BY session_id, folder", *chain, session_id
    )
    holding = (each for each in found if each.below or each.folder in ("", folder))
    nearest: dict[str, AgreedSkill] = {}
    for each in sorted(holding, key=lambda row: (row.session_id, len(row.folder))):
        nearest[each.name] = each
    return [nearest[name] for name in sorted(nearest)]


def list_chain(folder: str) -> list[str]:
    """Return a group, those above it and '', for every agent."""
    parts = folder.split("/")
    return [*("/".join(parts[:depth]) for depth in range(len(parts), 0, -1)), ""]


def list_effective(db: Db, folder: str, session_id: str = "") -> list[EffectiveSkill]:
    rows = list_for_agent(db, folder, session_id)
    said = {each.digest: each.description for each in list_contents(db, [row.digest for row in rows])}
    return [EffectiveSkill(row.name, row.digest, said.get(row.digest, "")) for row in rows]


def list_contents(db: Db, digests: Sequence[str]) -> Iterable[SkillContent]:
    found: list[SkillContent] = []
    for at in range(0, len(digests), 200):
        some = digests[at : at + 200]
        found += CONTENTS.list(db, f"WHERE digest IN ({', '.join('?' * len(some))})", *some)
    return found


def list_unadopted(db: Db) -> list[str]:
    """Return the groups whose skills were listed before skills were locked, and are not adopted yet."""
    return [str(row[0]) for row in db.rows("SELECT folder FROM skill_adoptions ORDER BY folder")]


def is_unadopted(db: Db, folder: str) -> bool:
    return db.row("SELECT 1 FROM skill_adoptions WHERE folder = ?", (folder,)) is not None


def end_adoption(db: Db, folder: str) -> None:
    db.run("DELETE FROM skill_adoptions WHERE folder = ?", (folder,))
