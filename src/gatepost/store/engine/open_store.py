"""Opens the store where it is: the one place that knows there are two engines. That of PostgreSQL is loaded here, if
`store.url` names a database."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from gatepost.core.clock import Clock
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.store.engine.damage_check import BROKEN, START_S, WAY_BACK, check_tables, describe_broken
from gatepost.store.engine.deadline import UNIT_S
from gatepost.store.engine.migrate import holds_store, list_migrations, migrate
from gatepost.store.engine.place import StorePlace, check_library, check_place, check_single, get_place
from gatepost.store.engine.sqlite_copy import read_sqlite, write_sqlite
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.engine.store_copy import CopiedTable, CopySource, CopyTarget, copy_tables
from gatepost.store.gateways.gateway_identity import make_identity
from gatepost.store.port import OpenStore

if TYPE_CHECKING:
    from gatepost.store.postgres.engine import PostgresEngine
    from gatepost.store.postgres.gateway_lease import GatewayLease

SlowReport = Callable[[str, float, float], None]


def _find_database(place: StorePlace) -> "PostgresEngine | None":
    """None: the store is a file."""
    if not place.url:
        return None
    check_library(place)
    from gatepost.store.postgres.engine import PostgresEngine

    return PostgresEngine(place.url)


def wait_for_store(home: Home, config: Config, say: Callable[[str], None]) -> None:
    """A database may start at the same time as the gateway. `say` gets a line for each second of waiting."""
    if database := _find_database(get_place(home, config)):
        database.wait(say)


def prepare_store(home: Home, config: Config, clock: Clock, *, new: bool = False) -> int:
    """Make the store, or bring it up to date; the version that it has afterwards. `new`: also where one was lost."""
    place = get_place(home, config)
    if database := _find_database(place):
        database.check(config)
        return database.migrate(clock, make_identity(home, config, list_migrations()[-1].number))
    try:
        check_place(place, holds_store=holds_store(place.path), new=new)
        check_single(home.path)
        return migrate(place.path, clock)
    except BROKEN as error:
        raise SetupError(f"the store {place.path} cannot be used: {describe_broken(error)}") from None


def check_whole(home: Home, config: Config) -> tuple[str, ...]:
    """Raise SetupError if a store that was prepared is damaged. The tables for which a start had no time."""
    place = get_place(home, config)
    if place.url:
        return ()
    report = check_tables(place.path, within=START_S)
    if report.damage:
        raise SetupError(f"the store {place.path} is damaged ({report.damage}), so nothing is started; {WAY_BACK}")
    return report.unchecked


def join_gateways(home: Home, config: Config, listen: str = "", capacity: int = 0) -> "GatewayLease | None":
    """Begin the lease of this gateway on a prepared store; return None if the store cannot be shared. `listen` is the
    address of its web page, `capacity` the number of sandboxes that may be awake here."""
    database = _find_database(get_place(home, config))
    if database is None:
        return None
    return database.join(make_identity(home, config, list_migrations()[-1].number, listen, capacity))


def open_store(
    home: Home,
    config: Config,
    *,
    readers: int = 2,
    unit_s: float = UNIT_S.default,
    slow: SlowReport = lambda name, wall, cpu: None,
    lease: "GatewayLease | None" = None,
) -> OpenStore:
    """One that was prepared, on a running loop. `lease`: of the gateway whose writes it takes."""
    place = get_place(home, config)
    if database := _find_database(place):
        return database.open(config, readers, unit_s, slow, lease)
    return SqliteStore(place.path, readers=readers, unit_s=unit_s, slow=slow)


def copy_store_rows(
    old: StorePlace, new: StorePlace, report: Callable[[CopiedTable], None], *, running: bool = False
) -> None:
    """`report` gets each table that is whole on both sides. Nothing is kept before all of them are. `running`: gateways
    may write to the old one meanwhile, if it is a database."""
    copy_tables(_open_source(old, running), _open_target(new), report)


def _open_source(place: StorePlace, running: bool) -> AbstractContextManager[CopySource]:
    database = _find_database(place)
    return database.open_source(running=running) if database else read_sqlite(place.path)


def _open_target(place: StorePlace) -> AbstractContextManager[CopyTarget]:
    database = _find_database(place)
    return database.open_target() if database else write_sqlite(place.path)
