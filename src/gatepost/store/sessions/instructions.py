"""Instructions of agents, version by version: what AGENTS.md said, since when and by whom.

A group keeps some versions that people wrote and some that were found changed in its folder, each kind by itself. So an
agent that rewrites its own file again and again pushes out nothing that a person wrote.
"""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from gatepost.core.clock import DAY
from gatepost.store.engine.table import Table
from gatepost.store.messages.messages import marks
from gatepost.store.port import Db

MOST_WRITTEN, MOST_FOUND = 50, 20
MOST_CHARACTERS = 1_000_000  # of the versions of one kind
MOST_NAMED = 500


class InstructionSource(StrEnum):
    WRITTEN = "written"
    PUT_BACK = "put_back"  # an earlier version, by a person
    FOUND = "found"  # changed in the folder, by the agent or on the machine


class InstructionVersion(Struct, frozen=True):
    id: int
    folder: str
    digest: str
    text: str
    source: InstructionSource
    written_by: str
    written_at: int


INSTRUCTIONS = Table("instructions", InstructionVersion)


def add(db: Db, folder: str, digest: str, text: str, source: InstructionSource, by: str, at: int) -> bool:
    """Add a version, unless it is the newest already. The oldest of its kind beyond the bounds are removed."""
    newest = get_newest(db, folder)
    if newest is not None and newest.digest == digest:
        return False
    INSTRUCTIONS.insert(db, "", folder=folder, digest=digest, text=text, source=source, written_by=by, written_at=at)
    _remove_oldest(db, folder, found=source is InstructionSource.FOUND)
    return True


def _remove_oldest(db: Db, folder: str, *, found: bool) -> None:
    most = MOST_FOUND if found else MOST_WRITTEN
    rows = db.rows(
        f"SELECT id, LENGTH(text) FROM instructions WHERE folder = ? AND source {'=' if found else '<>'} 'found'"
        " ORDER BY id DESC LIMIT ?",
        (folder, most + 1),
    )
    kept = total = 0
    for _, size in rows:
        total += size
        if kept == most or (kept and total > MOST_CHARACTERS):
            break
        kept += 1
    for version_id, _ in rows[kept:]:
        db.run("DELETE FROM instructions WHERE id = ?", (version_id,))


def list_for_group(db: Db, folder: str) -> list[InstructionVersion]:
    """The newest first."""
    return INSTRUCTIONS.list(db, "WHERE folder = ? ORDER BY id DESC", folder)


def get(db: Db, folder: str, version_id: int) -> InstructionVersion | None:
    return INSTRUCTIONS.get(db, "WHERE folder = ? AND id = ?", folder, version_id)


def get_newest(db: Db, folder: str) -> InstructionVersion | None:
    return INSTRUCTIONS.get(db, "WHERE folder = ? ORDER BY id DESC LIMIT 1", folder)


class NewestVersion(Struct, frozen=True):
    digest: str
    written_at: int


def list_newest(db: Db, folders: Sequence[str]) -> dict[str, NewestVersion]:
    """Return the newest version of each group that has one, at most `MOST_NAMED` of these groups."""
    rows = db.rows(
        "SELECT folder, digest, written_at FROM instructions WHERE id IN (SELECT MAX(id) FROM instructions"
        f" WHERE folder IN ({marks(folders)}) GROUP BY folder)",
        tuple(folders),
    )
    return {str(folder): NewestVersion(str(digest), int(at)) for folder, digest, at in rows}


def was_at_work(db: Db, folders: Sequence[str], since: int, until: int) -> bool:
    """Return True if a turn of one of the groups ran at some moment of that time."""
    row = db.row(
        f"SELECT 1 FROM sessions s JOIN turns t ON t.session_id = s.id WHERE s.folder IN ({marks(folders)})"
        " AND s.active_at >= ? AND t.started_at <= ? AND (t.ended_at IS NULL OR t.ended_at >= ?) LIMIT 1",
        (*folders, since - DAY, until, since),  # no turn takes longer than a day
    )
    return row is not None
