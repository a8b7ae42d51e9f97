"""The periods that money is counted in: calendar days and months, UTC. A period is named by the moment it starts."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum

from gatepost.core.clock import DAY, SECOND


class Period(StrEnum):
    DAY = "day"
    MONTH = "month"


def start_of(period: Period, at: int) -> int:
    """When the period that holds this moment started."""
    day = at - at % DAY
    if period is Period.DAY:
        return day
    return _moment(datetime.fromtimestamp(day // SECOND, UTC).replace(day=1))


def end_of(period: Period, at: int) -> int:
    """When the next one starts."""
    start = start_of(period, at)
    if period is Period.DAY:
        return start + DAY
    later = datetime.fromtimestamp(start // SECOND, UTC) + timedelta(days=31)
    return _moment(later.replace(day=1))


def _moment(midnight: datetime) -> int:
    return int(midnight.timestamp()) * SECOND
