"""How many connections a server lets a gateway have, and who has them."""

from msgspec import Struct

from gatepost.store.port import Db


class ConnectionLimit(Struct, frozen=True):
    """`most` connections of this kind, without those of other programs. `name`: the setting to raise."""

    name: str
    most: int


def read_limits(db: Db) -> list[ConnectionLimit]:
    """Those of the server, of the database and of the user, if they have one."""
    row = db.row(
        "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
        " - COALESCE(current_setting('reserved_connections', true), '0')::int"
        " - (SELECT COUNT(*) FROM pg_stat_activity WHERE usesysid IS NOT NULL AND datid IS NOT NULL"
        " AND NOT starts_with(COALESCE(application_name, ''), 'gatepost'))::int,"
        " (SELECT datconnlimit FROM pg_database WHERE datname = current_database()),"
        " (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user)"
    )
    names = ("max_connections", "the database's CONNECTION LIMIT", "the user's CONNECTION LIMIT")
    found = zip(names, row or (), strict=False)
    return [ConnectionLimit(name, int(most)) for name, most in found if name == names[0] or most >= 0]
