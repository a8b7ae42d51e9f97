"""Files that are still coming: messages that were accepted before all of their files were there."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db


class AwaitedFiles(Struct, frozen=True):
    """The files of one message. `names`: JSON. `until`: when nobody fetches them any more."""

    message_id: int
    names: str
    until: int

    @property
    def listed(self) -> list[str]:
        return msgspec.json.decode(self.names, type=list[str])


AWAITED_FILES = Table("awaited_files", AwaitedFiles)


def add(db: Db, message_id: int, names: Sequence[str], until: int) -> None:
    AWAITED_FILES.insert(db, message_id=message_id, names=msgspec.json.encode(names).decode(), until=until)


def remove(db: Db, message_id: int) -> bool:
    """Return True for whoever settles them: nobody else does."""
    return bool(db.run("DELETE FROM awaited_files WHERE message_id = ?", (message_id,)))


def count(db: Db) -> int:
    """Return how many messages wait for files."""
    row = db.row("SELECT COUNT(*) FROM awaited_files")
    return int(row[0]) if row else 0


def list_overdue(db: Db, now: int, most: int) -> list[AwaitedFiles]:
    return AWAITED_FILES.list(db, "WHERE until < ? ORDER BY message_id LIMIT ?", now, most)
