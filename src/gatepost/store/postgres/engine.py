"""A store on PostgreSQL, as `open_store` uses it. It is imported where `store.url` names a database, and nowhere else:
the library comes with it."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from msgspec import Struct

from gatepost.core.clock import Clock
from gatepost.core.settings import Config
from gatepost.store.engine.place import LANES, UNSAFE
from gatepost.store.engine.store_copy import CopySource, CopyTarget
from gatepost.store.gateways.gateways import GatewayIdentity
from gatepost.store.postgres.gateway_lease import GatewayLease
from gatepost.store.postgres.migrate import migrate_postgres
from gatepost.store.postgres.postgres_copy import read_postgres, write_postgres
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost.store.postgres.server_check import check_server, wait_for_server


class PostgresEngine(Struct, frozen=True):
    """The database at an address."""

    url: str

    def wait(self, say: Callable[[str], None]) -> None:
        wait_for_server(self.url, say)

    def check(self, config: Config) -> None:
        check_server(self.url, lanes=config[LANES], unsafe=config[UNSAFE])

    def migrate(self, clock: Clock, own: GatewayIdentity) -> int:
        """Make the tables, or bring them up to date; the version that they have afterwards."""
        return migrate_postgres(self.url, clock, own.name, own.home)

    def join(self, own: GatewayIdentity) -> GatewayLease:
        lease = GatewayLease(self.url, own)
        lease.begin()
        return lease

    def open(
        self,
        config: Config,
        readers: int,
        unit_s: float,
        slow: Callable[[str, float, float], None],
        lease: GatewayLease | None,
    ) -> PostgresStore:
        return PostgresStore(
            self.url,
            lanes=max(1, config[LANES]),
            readers=readers,
            unit_s=unit_s,
            slow=slow,
            gateway="" if lease is None else lease.name,
            fence=None if lease is None else lease.render_opening,
            may_write=None if lease is None else lease.may_write,
        )

    def open_source(self, *, running: bool = False) -> AbstractContextManager[CopySource]:
        return read_postgres(self.url, running=running)

    def open_target(self) -> AbstractContextManager[CopyTarget]:
        return write_postgres(self.url)
