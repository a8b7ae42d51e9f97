"""The beginning of a transaction, in one statement: the fence, the first lock, and the state that the rules are in.

Each statement costs the server and this process, even if it travels with others; nearly every unit has all three.
"""

from functools import lru_cache

from gatepost.store.port import Row


class Opening:
    """Not sent yet: it can still take a lock and a question along."""

    def __init__(self, fence: str) -> None:
        """`fence` finds one value at most; without it nothing else is found."""
        self._fence = fence
        self.lock: int | None = None
        self.asks_rules = False

    def render(self) -> tuple[str, tuple[int, ...]]:
        sql = render_opening(self._fence, self.lock is not None, self.asks_rules)
        return sql, () if self.lock is None else (self.lock,)

    def read_rules(self, found: Row) -> list[Row]:
        """As if they were asked for alone."""
        return [found[-2:]] if self.asks_rules and found[-1] is not None else []


@lru_cache(maxsize=256)
def render_opening(fence: str, locks: bool, asks_rules: bool) -> str:
    """The lock is taken behind the fence's lock of its row: so does whoever takes over from a gateway."""
    if not locks and not asks_rules:
        return fence
    columns = ["value", *["pg_advisory_xact_lock(?)"] * locks, *["name, places"] * asks_rules]
    rules = " LEFT JOIN rule_state ON true" if asks_rules else ""
    return f"SELECT {', '.join(columns)} FROM ({fence}) AS fence (value){rules}"
