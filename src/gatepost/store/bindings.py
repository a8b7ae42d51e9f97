"""Bindings: which secret goes into which header of requests to which host. No value is in here."""

from msgspec import Struct

from gatepost.store.port import Db, Row, quick

COLUMNS = "id, folder, name, scheme, host, port, header, template, created_by, created_at"


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


def _parse_row(row: Row) -> Binding:
    return Binding(*row)


def list_all(db: Db) -> list[Binding]:
    return [_parse_row(row) for row in db.rows(f"SELECT {COLUMNS} FROM secret_bindings ORDER BY name, host, id")]


@quick
def list_for_host(db: Db, scheme: str, host: str, port: int) -> list[Binding]:
    """Whoever's they are."""
    rows = db.rows(
        f"SELECT {COLUMNS} FROM secret_bindings WHERE scheme = ? AND host = ? AND port = ? ORDER BY id",
        (scheme, host, port),
    )
    return [_parse_row(row) for row in rows]


def put(
    db: Db, folder: str | None, name: str, place: tuple[str, str, int], header: str, template: str, by: str, now: int
) -> Binding:
    """One secret a folder, place and header: a second one replaces the first. The foreign key refuses a ghost."""
    rows = db.rows(
        "INSERT INTO secret_bindings (folder, name, scheme, host, port, header, template, created_by, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (COALESCE(folder, ''), scheme, host, port, header)"
        " DO UPDATE SET name = excluded.name, template = excluded.template, created_by = excluded.created_by,"
        f" created_at = excluded.created_at RETURNING {COLUMNS}",
        (folder, name, *place, header, template, by, now),
    )
    return _parse_row(rows[0])


def remove(db: Db, folder: str | None, name: str, place: tuple[str, str, int]) -> list[Binding]:
    rows = db.rows(
        "DELETE FROM secret_bindings WHERE COALESCE(folder, '') = ? AND name = ? AND scheme = ? AND host = ?"
        f" AND port = ? RETURNING {COLUMNS}",
        (folder or "", name, *place),
    )
    return [_parse_row(row) for row in rows]
