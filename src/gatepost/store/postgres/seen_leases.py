"""The check whether others still renew their leases, by the clock of who looks.

The database's clock says when a lease is over. Somebody may set that clock, and then every lease is over at once, or
none for an hour. So a gateway that was seen to renew just now is not judged, and no lease lasts longer than leases do.
"""

from collections.abc import Callable, Iterable

from gatepost.core.keeper_process import read_clock
from gatepost.store.gateways import GatewayRow

SILENT_S = 3.0  # twice the time between two renewals


class SeenLeases:
    def __init__(self, now: Callable[[], float] = read_clock) -> None:
        self._now = now
        self._since: dict[tuple[str, int, int], float] = {}  # (name, epoch, until): when it was first seen so

    def set_seen(self, rows: Iterable[GatewayRow]) -> None:
        """All that live, as they are now."""
        now = self._now()
        keys = [(each.name, each.epoch, each.until) for each in rows]
        self._since = {key: self._since.get(key, now) for key in keys}

    def find_silence(self, row: GatewayRow) -> float:
        """Seconds until it was not renewed for as long as it takes any gateway that lives; 0 or less: it was not."""
        since = self._since.get((row.name, row.epoch, row.until))
        return SILENT_S if since is None else since + SILENT_S - self._now()
