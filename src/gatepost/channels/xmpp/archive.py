"""The archives of a server (MAM): of each room, and of our own private chats."""

import itertools
from collections.abc import AsyncIterator
from xml.etree.ElementTree import Element

from msgspec import Struct

from gatepost.channels.xmpp.render import render_query
from gatepost.channels.xmpp.session import XmppConnection, XmppRefusal
from gatepost.channels.xmpp.wire import CLIENT, DELAY, FORWARD, MAM, is_id, read_time

PAGE = 100
NO_ARCHIVE = frozenset({"feature-not-implemented", "service-unavailable", "forbidden", "not-allowed"})
_NUMBERS = itertools.count(1)


class ArchivedMessage(Struct, frozen=True):
    archive_id: str
    at: int | None
    message: Element


async def list_page(
    connection: XmppConnection, archive: str, fields: dict[str, str], page: dict[str, str], most: int = PAGE
) -> tuple[list[ArchivedMessage], bool]:
    """In the order of the archive, and whether there is nothing more. `archive`: a room, or '' for our own."""
    query_id = f"q{next(_NUMBERS)}"
    found: list[Element] = []
    connection.results[query_id] = found
    try:
        answer = await connection.ask("set", archive, render_query(query_id, fields, page, most))
    finally:
        del connection.results[query_id]
    end = answer.find(f"{{{MAM}}}fin")
    complete = end is None or end.get("complete") == "true"
    return [each for each in map(_read_result, found) if each is not None], complete or not found


async def iterate_after(connection: XmppConnection, archive: str, after: str) -> AsyncIterator[ArchivedMessage]:
    """Everything behind an id ('': from the beginning), page by page. An id that the archive no longer has is older
    than all that it has."""
    page = {"after": after} if after else {}
    while True:
        try:
            found, complete = await list_page(connection, archive, {}, page)
        except XmppRefusal as error:
            if error.condition != "item-not-found" or not page:
                raise
            page = {}
            continue
        for each in found:
            yield each
        if complete or not found:
            return
        page = {"after": found[-1].archive_id}


async def list_newest(
    connection: XmppConnection, archive: str, fields: dict[str, str] | None = None, most: int = PAGE
) -> list[ArchivedMessage]:
    return (await list_page(connection, archive, fields or {}, {"before": ""}, most))[0]


def _read_result(result: Element) -> ArchivedMessage | None:
    forwarded = result.find(f"{{{FORWARD}}}forwarded")
    message = forwarded.find(f"{{{CLIENT}}}message") if forwarded is not None else None
    if forwarded is None or message is None or not is_id(result.get("id")):
        return None
    delay = forwarded.find(f"{{{DELAY}}}delay")
    return ArchivedMessage(str(result.get("id")), read_time(delay.get("stamp") if delay is not None else ""), message)
