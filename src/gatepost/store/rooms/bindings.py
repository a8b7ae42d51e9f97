"""Bindings: which secret goes into which header of requests to which host. No value is in here."""

from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read


class Binding(Struct, frozen=True):
    id: int
    folder: str | None  # None: the whole instance
    name: str
    scheme: str
    host: str
    port: int
    header: str
    template: str
    created_by: str
    created_at: int

    @property
    def place(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


BINDINGS = Table("secret_bindings", Binding)


def list_all(db: Db) -> list[Binding]:
    return BINDINGS.list(db, "ORDER BY name, host, id")


@inline_read
def list_for_host(db: Db, scheme: str, host: str, port: int) -> list[Binding]:
    """Return the bindings for a host, of all groups and people."""
    return BINDINGS.list(db, "WHERE scheme = ? AND host = ? AND port = ? ORDER BY id", scheme, host, port)


def put(
    db: Db, folder: str | None, name: str, place: tuple[str, str, int], header: str, template: str, by: str, now: int
) -> Binding:
    """One secret a folder, place and header: a second one replaces the first. The foreign key refuses a ghost."""
    scheme, host, port = place
    return BINDINGS.put(
        db,
        "ON CONFLICT (COALESCE(folder, ''), scheme, host, port, header)"
        " DO UPDATE SET name = excluded.name, template = excluded.template, created_by = excluded.created_by,"
        " created_at = excluded.created_at",
        folder=folder,
        name=name,
        scheme=scheme,
        host=host,
        port=port,
        header=header,
        template=template,
        created_by=by,
        created_at=now,
    )


def remove(db: Db, folder: str | None, name: str, place: tuple[str, str, int]) -> list[Binding]:
    rows = db.rows(
        "DELETE FROM secret_bindings WHERE COALESCE(folder, '') = ? AND name = ? AND scheme = ? AND host = ?"
        f" AND port = ? RETURNING {BINDINGS.columns}",
        (folder or "", name, *place),
    )
    return [BINDINGS.parse(row) for row in rows]
