"""Tools of connectors as the operator accepted them. A server may tell something else the next time it is asked; that
is not offered to agents until somebody has accepted it, too."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db, LockKind

FIRST = "first seen"  # by whom tools are accepted that a connector has when it is new: the operator declared it
_ITSELF = ""  # the row of the connector itself: it may have listed no tool when it was new


class AcceptedTool(Struct, frozen=True):
    connector: str
    tool: str
    digest: str
    listed: str  # JSON
    accepted_by: str
    accepted_at: int


CONNECTOR_TOOLS = Table("connector_tools", AcceptedTool)


class SeenTool(Struct, frozen=True):
    """A tool as its server describes it. `listed`: JSON."""

    tool: str
    digest: str
    listed: str


class ToolChange(Struct, frozen=True):
    """A tool that waits to be accepted. `lines`: what is said of it now in other words, with the signs that hide."""

    connector: str
    tool: str
    new: bool
    lines: list[str]


class ConnectorCheck(Struct, frozen=True):
    """The outcome of asking one: its tools as they are called here, or why there are none."""

    name: str
    tools: tuple[str, ...] = ()
    trouble: str = ""


def review(db: Db, connector: str, seen: Sequence[SeenTool], now: int) -> frozenset[str]:
    """The tools that are not as they were accepted. All of a connector that is new are accepted by this."""
    db.lock(LockKind.RULES, "connector", connector)  # another gateway may see it at the same time
    known = {each.tool: each.digest for each in _list(db, connector)}
    if not known:
        accept(db, connector, (SeenTool(_ITSELF, "", "{}"), *seen), FIRST, now)
        return frozenset()
    return frozenset(each.tool for each in seen if known.get(each.tool) != each.digest)


def accept(db: Db, connector: str, seen: Iterable[SeenTool], by: str, now: int) -> None:
    changed = "digest = excluded.digest, listed = excluded.listed, accepted_by = excluded.accepted_by"
    for each in seen:
        CONNECTOR_TOOLS.insert(
            db,
            f"ON CONFLICT (connector, tool) DO UPDATE SET {changed}, accepted_at = excluded.accepted_at",
            each,
            connector=connector,
            accepted_by=by,
            accepted_at=now,
        )


def list_accepted(db: Db, connector: str) -> Mapping[str, AcceptedTool]:
    """By their names."""
    return {each.tool: each for each in _list(db, connector) if each.tool != _ITSELF}


def _list(db: Db, connector: str) -> list[AcceptedTool]:
    return CONNECTOR_TOOLS.list(db, "WHERE connector = ? ORDER BY tool", connector)
