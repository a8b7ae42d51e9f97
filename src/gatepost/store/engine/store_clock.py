"""The clock that counts for a store, for who joins no gateways: a command."""

from gatepost.core.clock import Clock, SystemClock
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.store.engine.place import check_library, find_place, get_place


def get_clock(home: Home, config: Config | None = None) -> Clock:
    """Return the clock of the store: the database's if machines share it, else the system's. Without `config` the
    settings are read."""
    place = find_place(home) if config is None else get_place(home, config)
    if not place.url:
        return SystemClock()
    check_library(place)
    from gatepost.store.postgres.database_time import make_database_clock

    return make_database_clock(place.url)
