"""Opens the store where it is: the one place that knows there are two engines. PostgreSQL's library is loaded here, if
`store.url` names a database."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from gatepost.core.clock import Clock
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.store.engine.damage_check import BROKEN, START_S, WAY_BACK, check_tables, describe_broken
from gatepost.store.engine.deadline import UNIT_S
from gatepost.store.engine.migrate import holds_store, list_migrations, migrate
from gatepost.store.engine.place import LANES, UNSAFE, check_library, check_place, check_single, get_place
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.gateways.gateway_identity import make_identity
from gatepost.store.port import OpenStore

if TYPE_CHECKING:
    from gatepost.store.postgres.gateway_lease import GatewayLease

from contextlib import AbstractContextManager

from gatepost.store.engine.place import StorePlace
from gatepost.store.engine.sqlite_copy import read_sqlite, write_sqlite
from gatepost.store.engine.store_copy import CopiedTable, CopySource, CopyTarget, copy_tables

SlowReport = Callable[[str, float, float], None]


def wait_for_store(home: Home, config: Config, say: Callable[[str], None]) -> None:
    """A database may start at the same time as the gateway. `say` gets a line for each second of waiting."""
    place = get_place(home, config)
    if place.url:
        check_library(place)
        from gatepost.store.postgres.server_check import wait_for_server

        wait_for_server(place.url, say)


def prepare_store(home: Home, config: Config, clock: Clock, *, new: bool = False) -> int:
    """Make the store, or bring it up to date; the version that it has afterwards. `new`: also where one was lost."""
    place = get_place(home, config)
    if not place.url:
        try:
            check_place(place, holds_store=holds_store(place.path), new=new)
            check_single(home.path)
            return migrate(place.path, clock)
        except BROKEN as error:
            raise SetupError(f"the store {place.path} cannot be used: {describe_broken(error)}") from None
    check_library(place)
    from gatepost.store.postgres.migrate import migrate_postgres
    from gatepost.store.postgres.server_check import check_server

    check_server(place.url, lanes=config[LANES], unsafe=config[UNSAFE])
    own = make_identity(home, config, list_migrations()[-1].number)
    return migrate_postgres(place.url, clock, own.name, own.home)


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
    place = get_place(home, config)
    if not place.url:
        return None
    from gatepost.store.postgres.gateway_lease import GatewayLease

    lease = GatewayLease(place.url, make_identity(home, config, list_migrations()[-1].number, listen, capacity))
    lease.begin()
    return lease


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
    if not place.url:
        return SqliteStore(place.path, readers=readers, unit_s=unit_s, slow=slow)
    check_library(place)
    from gatepost.store.postgres.postgres_store import PostgresStore

    return PostgresStore(
        place.url,
        lanes=max(1, config[LANES]),
        readers=readers,
        unit_s=unit_s,
        slow=slow,
        gateway="" if lease is None else lease.name,
        fence=None if lease is None else lease.render_opening,
        may_write=None if lease is None else lease.may_write,
    )


def copy_store_rows(old: StorePlace, new: StorePlace, report: Callable[[CopiedTable], None]) -> None:
    """`report` gets each table that is whole on both sides. Nothing is kept before all of them are."""
    copy_tables(_open_source(old), _open_target(new), report)


def _open_source(place: StorePlace) -> AbstractContextManager[CopySource]:
    check_library(place)
    if place.url:
        from gatepost.store.postgres.postgres_copy import read_postgres

        return read_postgres(place.url)
    return read_sqlite(place.path)


def _open_target(place: StorePlace) -> AbstractContextManager[CopyTarget]:
    check_library(place)
    if place.url:
        from gatepost.store.postgres.postgres_copy import write_postgres

        return write_postgres(place.url)
    return write_sqlite(place.path)
