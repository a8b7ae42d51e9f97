"""The streams that browsers hold open: that a browser has one, and how an event of a room looks on it."""

from collections.abc import Collection
from typing import Any

import msgspec

from gatepost.channels.local_channel import LocalChannel
from gatepost.flow.intake.refusal_reasons import render_reason
from gatepost.flow.intake.slash_commands import parse_command
from gatepost.flow.sessions.notices import STOPPED
from gatepost.messages.inbound import Direction
from gatepost.serve.room_events import RoomEvent, RoomEventFile
from gatepost.store.messages.inbox import InboxState

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")  # shown in the page; SVG is a document and is not
SOUNDS = ("audio/webm", "audio/ogg", "audio/mpeg", "audio/mp4", "audio/wav", "audio/x-wav")  # played in the page
PDF = "application/pdf"  # shown in the browser's own viewer


class BrowserStreams:
    """At most one stream a browser: a new one ends the one before, because browsers open only six connections."""

    def __init__(self, hub: LocalChannel) -> None:
        self._hub = hub
        self._current: dict[str, object] = {}

    def claim(self, browser: str) -> object:
        mine = object()
        self._current[browser] = mine
        self._wake()  # the one before, which then sees that it is over
        return mine

    def is_current(self, browser: str, mine: object) -> bool:
        return self._current.get(browser) is mine

    def leave(self, browser: str, mine: object) -> None:
        if self.is_current(browser, mine):
            del self._current[browser]

    def end(self, browser: str) -> None:
        """The browser has signed out: it hears nothing more."""
        if self._current.pop(browser, None):
            self._wake()

    def _wake(self) -> None:
        self._hub.ring_all()


def render_sse(kind: str, data: dict[str, Any], cursor: int | None = None) -> bytes:
    number = f"id: {cursor}\n" if cursor is not None else ""
    return b"%sevent: %s\ndata: %s\n\n" % (number.encode(), kind.encode(), msgspec.json.encode(data))


def render_event(seen: RoomEvent, html: str, names: Collection[str]) -> dict[str, Any]:
    """One event as the page gets it. `html`: its text, rendered. `names`: the identities of who looks."""
    incoming = seen.direction == Direction.IN
    ours = not seen.folder and seen.sender.startswith("gatepost:")  # what the gateway says by itself
    said_by = seen.agent or seen.folder or seen.sender_name or seen.sender.rpartition(":")[2]
    return {
        "id": seen.id,
        "room": seen.address,
        "thread": seen.thread,
        "mine": incoming and seen.sender in names,
        "incoming": incoming,  # somebody's, who may be another
        "verb": seen.verb,
        "name": "Gatepost" if ours else said_by,
        "notice": ours,
        "html": html,
        "text": seen.text,
        "state": seen.state,
        "reason": render_reason(seen.reason),
        "at": seen.at // 1000,
        "key": seen.platform_id,
        "target": seen.target_id,
        "replyTo": seen.reply_to,
        "reaction": seen.reaction,
        "turn": seen.turn,
        "stop": _find_stop_part(seen, ours=ours),
        "files": [_render_file(seen.id, number, file) for number, file in enumerate(seen.files)],
    }


def _find_stop_part(seen: RoomEvent, *, ours: bool) -> str:
    """Return which part of a stop an event is: its `notice`, its `order`, or what it `ended`; '' if it is none. The
    page shows one line of them."""
    if seen.direction == Direction.OUT:
        return "notice" if ours and seen.text == STOPPED else ""
    if seen.state == InboxState.CANCELLED and seen.reason.startswith("stopped by "):
        return "ended"
    command = parse_command(seen.text) if seen.state == InboxState.ANSWERED else None
    return "order" if command is not None and command.name == "stop" else ""


def _render_file(message_id: int, number: int, file: RoomEventFile) -> dict[str, Any]:
    url = f"/api/files/{message_id}/{number}"
    return {
        "name": file.name,
        "size": file.size,
        "url": url,
        "picture": file.mime in PICTURES,
        "sound": file.mime in SOUNDS,
        "document": file.mime == PDF,
    }
