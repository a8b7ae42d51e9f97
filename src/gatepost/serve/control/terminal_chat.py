"""The terminal's side of the control API: hand in a message, wait for what answers it, follow a room."""

import asyncio
import re
from collections.abc import Iterator
from itertools import chain

from msgspec import Struct

from gatepost.channels.local_channel import LocalChannel
from gatepost.core import ids
from gatepost.core.errors import Invalid, NotFound
from gatepost.flow import notices
from gatepost.flow.requests.card_delivery import make_decided_key
from gatepost.flow.requests.chat_replies import get_decided_request
from gatepost.messages.address import LONGEST, parse
from gatepost.messages.inbound import Direction, Inbound, MessageKind
from gatepost.messages.text import clean
from gatepost.serve.control.chat_outcome import ChatOutcome, ChatReply
from gatepost.serve.room_events import QUICKEST_S, combine_states, parse_card
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import EffectState
from gatepost.store.port import Db, Store
from gatepost.store.rights import request_cards, switches, waiting_requests
from gatepost.store.sessions import forks

LONGEST_WAIT_S = 60.0  # one request; who wants to wait longer asks again
SLOWEST_S = 0.5  # between looks while nothing rings
_NAME = re.compile(r"[^\s/:][^\s:]{0,63}\Z")
_SPOKEN = ("send", "file", "card")
NOTICE = "notice:"  # the keys of what the gateway says to a message begin so, its id follows
STOPPED = "command /stop"  # the reason of an inbox row that was one


class TerminalMessage(Struct, frozen=True, kw_only=True):
    """Words that somebody wrote at a terminal."""

    text: str
    room: str = ""
    thread: str = ""
    sender: str = ""
    key: str = ""  # sent twice under one key, accepted once


def parse_message(written: TerminalMessage, hub: LocalChannel) -> Inbound:
    """As an event of the terminal. Names are brought under the terminal's own platform, whatever they say."""
    text = clean(written.text)
    if not text.strip():
        raise Invalid("text", "there is nothing in it")
    if len(written.thread) > LONGEST or len(written.key) > LONGEST:
        raise Invalid("thread or id", f"longer than {LONGEST} characters")
    sender = parse_sender(written.sender, hub)
    return Inbound(
        address=parse_room(written.room, hub),
        platform_id=clean(written.key) or ids.new("c"),
        sender=sender,
        sender_name=sender.partition(":")[2],
        text=text,
        thread=clean(written.thread),
        direct=True,
    )


def parse_room(name: str, hub: LocalChannel) -> str:
    """`main`, or `terminal:main`: both are the room of that name."""
    if not name:
        return hub.main_room
    bare = name.removeprefix(f"{hub.platform}:")
    if ":" in bare:
        raise Invalid("room", f"{name!r} is not a room of the {hub.platform}")
    return str(parse(f"{hub.platform}:{bare}", "room"))


def parse_sender(name: str, hub: LocalChannel) -> str:
    if not name:
        return hub.owner
    prefix = f"{hub.platform}:"
    bare = name.removeprefix(prefix)
    if not _NAME.match(bare):
        raise Invalid("as", f"{name!r} is not a name; it may have up to 64 characters, no spaces and no colon")
    return prefix + bare


def read_outcome(db: Db, message_id: int) -> ChatOutcome:
    message = messages.get(db, message_id)
    if message is None:
        raise NotFound("message", str(message_id), "`gatepost ledger list` shows what there is")
    entries = inbox.list_for_message(db, message_id)
    replies: list[ChatReply] = []
    under_way = forks.is_wanted(db, message_id)  # its answer comes with the fork
    for entry in entries:
        for effect in outbox.list_for_turn(db, entry.turn_id) if entry.turn_id else []:
            if not _is_reply(effect, entry, message.instance, message.address):
                continue
            under_way = under_way or effect.state not in outbox.END
            replies.append(_make_reply(effect))
    for effect in _list_gateway_replies(db, message, entries):
        under_way = under_way or effect.state not in outbox.END
        replies.append(_make_reply(effect))
    state, reason = combine_states(entries)
    done = bool(entries) and not under_way and all(entry.state in inbox.END for entry in entries)
    folders = dict.fromkeys(entry.folder for entry in entries if entry.state not in inbox.END)
    stops = [stop for each in folders if not done and (stop := switches.find_stop(db, each)) is not None]
    keys = [notices.make_stop_key(each, message.instance, message.address) for each in stops]
    told = [notice for key in keys if (notice := outbox.find_by_key(db, key)) is not None]
    replies += map(_make_reply, told)
    held = [entry.reason for entry in entries if entry.state is InboxState.HELD and entry.reason]
    pending = (waiting_requests.find_pending(db, entry.turn_id) for entry in entries if entry.turn_id and not done)
    asks = chain(held, pending)
    return ChatOutcome(
        message=message_id,
        state=state,
        reason=reason,
        done=done,
        halted=bool(told) and not under_way,
        until=notices.render_way_out(stops[0]) if told else "",
        replies=tuple(replies),
        asks=next(filter(None, asks), ""),
    )


def _make_reply(effect: outbox.OutboxEffect) -> ChatReply:
    """Make the reply of an effect. A decided card is shown by its decision alone: the person who decided has seen the
    rest."""
    card = parse_card(effect.payload)
    text = card.done if card is not None and card.done else str(effect.payload.get("text", ""))
    return ChatReply(text=text, seq=effect.seq, state=effect.state)


def _list_decisions(db: Db, message: Message, entries: list[inbox.InboxEntry]) -> Iterator[outbox.OutboxEffect]:
    """Yield what the card in the message's room says since the message decided it."""
    for request_id in filter(None, (get_decided_request(entry.reason) for entry in entries)):
        for card in request_cards.list_for_request(db, request_id):
            effect = outbox.find_by_key(db, make_decided_key(card))
            here = (card.instance, card.address) == (message.instance, message.address)
            if effect is not None and here and effect.message_id > message.id:
                yield effect


def _list_gateway_replies(db: Db, message: Message, entries: list[inbox.InboxEntry]) -> Iterator[outbox.OutboxEffect]:
    """Yield what the gateway itself said to a message: why it was not taken, or what a command came to."""
    key, part = f"{NOTICE}{message.id}", 1
    while (effect := outbox.find_by_key(db, key if part == 1 else f"{key}/{part}")) is not None:
        yield effect
        part += 1
    yield from _list_decisions(db, message, entries)
    if part == 1 and any(entry.reason == STOPPED for entry in entries):
        # It is the stopped session that speaks then, and it does not know whose word stopped it.
        for later in messages.list_in_room(db, message.instance, message.address, message.id, 20):
            if later.direction == Direction.OUT and later.kind == MessageKind.SYSTEM and later.thread == message.thread:
                yield from outbox.list_for_message(db, later.id)
                return


def _is_reply(effect: outbox.OutboxEffect, entry: inbox.InboxEntry, instance: str, address: str) -> bool:
    """A turn may answer several messages: what names another one, or another room, is not this one's reply."""
    return (
        effect.op in _SPOKEN
        and (effect.instance, effect.address) == (instance, address)
        and effect.state not in (EffectState.SUPERSEDED, EffectState.CANCELLED)
        and effect.payload.get("in_reply_to") in (None, entry.seq)
    )


async def wait_for_outcome(
    store: Store, hub: LocalChannel, message_id: int, timeout: float, stopping: asyncio.Event
) -> ChatOutcome:
    """Return when nothing more will come, now or until a panic is over, or after `timeout` with what there is."""
    deadline = asyncio.get_running_loop().time() + min(timeout, LONGEST_WAIT_S)
    wait = QUICKEST_S
    with hub.watch() as watch:
        while True:
            answer = await store.read(read_outcome, message_id)
            left = deadline - asyncio.get_running_loop().time()
            if answer.done or answer.halted or left <= 0 or stopping.is_set():
                return answer
            woken = await watch.wait(min(wait, left), stopping)
            wait = QUICKEST_S if woken else min(wait * 2, SLOWEST_S)
