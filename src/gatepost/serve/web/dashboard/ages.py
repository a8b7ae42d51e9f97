"""Times as people say them: how long ago, how long still."""

from datetime import datetime

from gatepost.core.clock import SECOND

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_NOW_S = 5


def render_span(since: int, now: int) -> str:
    """How long it is since then, without `ago`. Both are in microseconds."""
    return _render_seconds(round((now - since) / SECOND)).removesuffix(" ago")


def render_age(at: str, now: int) -> str:
    """Render the age of a moment. `at` is RFC 3339, `now` is in microseconds. An `at` that is no time is shown as it
    is."""
    try:
        seconds = round(now / SECOND - datetime.fromisoformat(at).timestamp())
    except ValueError:
        return at
    return _render_seconds(seconds)


def _render_seconds(seconds: int) -> str:
    if abs(seconds) < _NOW_S:
        return "now"
    size, unit = next(each for each in _UNITS if abs(seconds) >= each[0])
    shown = f"{abs(seconds) // size} {unit}"
    return f"{shown} ago" if seconds > 0 else f"in {shown}"
