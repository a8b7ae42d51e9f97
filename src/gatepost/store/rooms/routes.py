"""Routes: which group gets a message. Ordered rows; what a match means is decided in `flow/intake/routing.py`."""

import re
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import asdict

from gatepost.core.errors import Invalid
from gatepost.core.record_fields import ShownAs, option, shown
from gatepost.core.records import extend
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read
from gatepost.store.sessions.sessions import SessionMode

DEFAULT_SEQ = 100
NEVER_ENDS = -1  # as `ttl_s`: who was spoken to by the route stays in the conversation
NEVER = "never"
LONGEST_TTL_S = 10 * 365 * 86_400
_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_TIME = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?")


def parse_ttl(text: str) -> int | None:
    """Return `10m`, `1h30m`, a number of seconds, `0` or `never` in seconds, as a route keeps it; None for ''."""
    wanted = text.strip().lower()
    if wanted in ("", NEVER):
        return NEVER_ENDS if wanted else None
    found = _TIME.fullmatch(wanted)
    if wanted.isascii() and wanted.isdecimal() and len(wanted) < 10:
        seconds = int(wanted)
    elif found is not None:
        seconds = sum(int(number or 0) * size for number, size in zip(found.groups(), _UNITS.values(), strict=True))
    else:
        raise Invalid("ttl", f"{text[:40]!r} is no time; write it like 10m, 1h30m, 0 (not at all) or never (no end)")
    if seconds > LONGEST_TTL_S:
        raise Invalid("ttl", f"{text[:40]!r} is longer than ten years; write never for no end")
    return seconds


def render_ttl(ttl_s: int | None) -> str:
    """Return a time as `parse_ttl` reads it."""
    if ttl_s is None or ttl_s == NEVER_ENDS:
        return "" if ttl_s is None else NEVER
    parts: list[str] = []
    for unit, size in _UNITS.items():
        number, ttl_s = divmod(ttl_s, size)
        parts += [f"{number}{unit}"] if number else []
    return "".join(parts) or "0"


class RouteFields(Struct, frozen=True, kw_only=True):
    """The columns that whoever makes a route sets as they are. A further one is an option of the command, an input of
    the form, an argument of the agents' tools, and a column wherever routes are shown."""

    match: Annotated[
        str,
        shown("Messages that match", ShownAs.CODE, empty="(everything)"),
        option(
            "Conditions, all of which must hold: platform channel room chat_jid sender verb text thread, as key=glob,"
            " key!=glob, key=a|b, key= (absent); '' holds always.",
            examples=("platform=telegram room=group/*", "verb=mention|reply"),
        ),
    ]
    target: Annotated[
        str,
        shown("Go to", ShownAs.CODE),
        option(
            "folder, folder#observe, folder#topic, with {sender} in it, or drop.",
            examples=("acme/eng", "acme/eng#observe", "acme/{sender}", "drop"),
        ),
    ]
    seq: Annotated[int, shown("Order", ShownAs.NUMBER), option("Its place in the order.")] = DEFAULT_SEQ
    also: Annotated[
        bool, shown("Also", ShownAs.FLAG, word="and further routes"), option("Deliver here, and go on matching.")
    ] = False


class Route(RouteFields, frozen=True, kw_only=True):
    id: Annotated[int, shown("Id", ShownAs.ID)] = 0  # 0: not written yet
    folder: str | None = None
    mode: Annotated[SessionMode, shown("Conversation", head="session")] = SessionMode.PER_THREAD
    ttl_s: Annotated[int | None, shown("Stays in it", head="ttl", empty="default", render=render_ttl)] = None
    window_messages: Annotated[int | None, shown("Observed messages", details=True)] = None
    window_chars: Annotated[int | None, shown("Observed characters", details=True)] = None
    created_by: Annotated[str, shown("Made by", head="by")]
    created_at: Annotated[int, shown("Since", ShownAs.MOMENT, details=True)]


ROUTES = Table("routes", Route)


@inline_read
def list_all(db: Db) -> list[Route]:
    return ROUTES.list(db, "ORDER BY seq, id")


@inline_read
def get(db: Db, route_id: int) -> Route | None:
    return ROUTES.get(db, "WHERE id = ?", route_id)


def make_route(fields: RouteFields, **more: Any) -> Route:
    """Return a row with these columns, as whoever makes it gave them, and those that are worked out."""
    return extend(Route, fields, RouteFields, **more)


def add(db: Db, new: Route) -> Route:
    """Insert a row that was already judged well-formed, and return it with its id. The foreign key refuses a ghost."""
    values = asdict(new)
    del values["id"]
    return ROUTES.put(db, **values)


def remove(db: Db, route_id: int) -> bool:
    return bool(db.run("DELETE FROM routes WHERE id = ?", (route_id,)))


def set_seq(db: Db, route_id: int, seq: int) -> None:
    db.run("UPDATE routes SET seq = ? WHERE id = ?", (seq, route_id))
