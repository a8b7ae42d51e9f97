"""The files that an agent was sent in its conversations lately."""

from itertools import islice

from msgspec import Struct

from gatepost.flow.delivery.content_fallback import render_size
from gatepost.serve.room_events import parse_files
from gatepost.serve.web.dashboard.contract import PageRequest
from gatepost.serve.web.dashboard.tables import made, make_moment, make_table, shorten
from gatepost.serve.web.dashboard.view import Block, EmptyState, Link
from gatepost.store.messages import messages
from gatepost.store.messages.messages import Message
from gatepost.store.port import Db
from gatepost.store.sessions import sessions

MOST_SESSIONS, MOST_MESSAGES, MOST_FILES = 20, 50, 50  # messages: of each conversation
OUR_CHAT = "web"  # the channel whose files this page can open


class ReceivedFile(Struct, frozen=True, kw_only=True):
    name: str
    size: int
    sender: str
    at: int
    href: str = ""


async def list_received_blocks(request: PageRequest, folder: str) -> list[Block]:
    """Nothing for whoever may not see its messages."""
    if not await request.may("ledger.list", scope=folder):
        return []
    found = await request.operation_deps.store.read(list_received, folder)
    fields = (
        made("name", "File", lambda each: Link(shorten(each.name), each.href) if each.href else shorten(each.name)),
        made("size", "Size", lambda each: render_size(each.size)),
        made("sender", "From", lambda each: each.sender),
        made("at", "When", lambda each: make_moment(each.at)),
    )
    none = EmptyState(text="Nobody sent it a file.")
    return [make_table(found, fields, none, title="Files that it was sent")] if found else []


def list_received(db: Db, folder: str) -> list[ReceivedFile]:
    """The newest first, of a bounded part of its conversations."""
    talked = sessions.list_open(db, folder, MOST_SESSIONS)
    found = {each.id: each for one in talked for each in messages.list_with_files(db, one.id, MOST_MESSAGES)}
    newest = (file for number in sorted(found, reverse=True) for file in _read_files(found[number]))
    return [*islice(newest, MOST_FILES)]


def _read_files(message: Message) -> list[ReceivedFile]:
    place = f"/api/files/{message.id}/" if message.instance == OUR_CHAT else ""
    return [
        ReceivedFile(
            name=each.name,
            size=each.size,
            sender=message.sender_name or message.sender,
            at=message.at,
            href=f"{place}{number}" if place else "",
        )
        for number, each in enumerate(parse_files(message.content))
    ]
