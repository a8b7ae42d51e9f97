"""Reactions of people to what was said in a room of the page. To the agent they are what they are in other chats."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.errors import Invalid, NotFound
from gatepost.flow.intake.refusal_reasons import render_reason
from gatepost.messages.inbound import Direction, Inbound, Verb
from gatepost.serve.web.chat_places import read_room
from gatepost.serve.web.json_body import get_text, read_object
from gatepost.store import messages
from gatepost.store.port import Store

REACTIONS = ("👍", "👎", "❤️", "🎉", "👀")
LARGEST_BODY = 4096  # bytes
LONGEST_KEY = 512  # characters


class ChatReactions:
    def __init__(self, store: Store, hub: LocalChannel) -> None:
        self._store, self._hub = store, hub

    async def add(self, request: Request) -> Response:
        """React to something that was said to people. Twice the same by one person is once."""
        given, visitor = await read_object(request, LARGEST_BODY), request.state.visitor
        room, key = read_room(self._hub, get_text(given, "room"), visitor), get_text(given, "key")
        emoji = get_text(given, "reaction")
        if emoji not in REACTIONS:
            raise Invalid("reaction", f"it is none of {' '.join(REACTIONS)}")
        known = await self._store.read(messages.find, self._hub.instance, room, Direction.OUT, key[:LONGEST_KEY])
        if known is None:
            raise NotFound("message", key[:80], "it was not said in this room")
        inbound = Inbound(
            address=room,
            platform_id=key,
            sender=visitor.user,
            sender_name=visitor.user.rpartition("/")[2],
            text="",
            event=f"reaction:{emoji}:{visitor.user}",
            verb=Verb.DISLIKE if emoji == "👎" else Verb.LIKE,
            thread=known.thread,
            direct=visitor.is_direct(room, self._hub.main_room),
        )
        receipt = await self._hub.submit(inbound)
        return JSONResponse({"ok": True, "new": receipt.new, "reason": render_reason(receipt.reason)})
