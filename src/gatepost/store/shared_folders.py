"""The folder that all gateways of this store see, by a mark that lies in it."""

from msgspec import Struct

from gatepost.store.port import Db
from gatepost.store.table import Table

GROUPS = "groups"


class SharedFolder(Struct, frozen=True):
    name: str
    mark: str
    gateway: str  # that put it there
    since: int


SHARED_FOLDERS = Table("shared_folders", SharedFolder)


def find_or_add(db: Db, mark: str, gateway: str, now: int) -> SharedFolder:
    """The mark that is known; the given one, if none was."""
    SHARED_FOLDERS.insert(db, "ON CONFLICT (name) DO NOTHING", name=GROUPS, mark=mark, gateway=gateway, since=now)
    found = SHARED_FOLDERS.get(db, "WHERE name = ?", GROUPS)
    assert found is not None
    return found
