"""Posts, replies and marks of the bot at a Zulip organization.

Zulip has nothing by which a message could be found again or recognized: `local_id` comes back with the event alone. A
message whose answer got lost is therefore uncertain.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gatepost.channels.kit.http import PlatformHttp, PlatformRefusal
from gatepost.channels.kit.uploads import open_upload
from gatepost.channels.zulip import wire
from gatepost.core.errors import Refused, Unavailable, Unsupported
from gatepost.messages.markdown.dialects import ZULIP
from gatepost.messages.markdown.markup import render_within
from gatepost.messages.outbound import Op, Outbound, OutboundFile

LONGEST_TEXT = 10_000  # code points; the server cuts a longer one, and answers as if it had taken it
LONGEST_TOPIC = 60  # likewise
GONE = ("invalid message(s)", "message already deleted")  # as the server says it to a bot that speaks English
_UNSENDABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]+")


def check_length(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        why = f"with its files it has more than {LONGEST_TEXT:,} characters: send the files after it"
        raise Refused("this bot", "send so long a message", "Zulip", why)
    return text


def render_topic(topic: str) -> str:
    """Return the name of a topic without the signs that the server refuses."""
    return _UNSENDABLE.sub(" ", topic).strip()[:LONGEST_TOPIC]


class ZulipPosting:
    def __init__(self, connect: Callable[[], Awaitable[PlatformHttp]], topic: str) -> None:
        self._connect, self._topic = connect, topic
        self._emoji: Mapping[str, Any] | None = None

    async def send(self, address: str, message: Outbound) -> str:
        try:
            match message.op:
                case Op.SEND | Op.FILE | Op.CARD | Op.VOICE:
                    return await self._post(address, message)
                case Op.EDIT:
                    number = wire.check_message_id(message.target)
                    changed = {"content": check_length(render_within(message.text, ZULIP, LONGEST_TEXT))}
                    return await self._change("PATCH", number, "", "edit a message", changed)
                case Op.DELETE:
                    return await self._delete(wire.check_message_id(message.target))
                case Op.REACT:
                    return await self._react(message)
        except Unavailable as error:
            error.everywhere |= error.retry_after is not None  # the server counts by account, not by channel
            raise
        raise Unsupported(message.op.value, "zulip", "use send with the same text")

    async def _post(self, address: str, message: Outbound) -> str:
        http, place = await self._connect(), wire.parse_address(address)
        links = [await self._upload(file) for file in message.files]
        words = render_within(message.text, ZULIP, LONGEST_TEXT - sum(len(each) + 1 for each in links))
        asked: dict[str, Any] = {"content": check_length("\n".join(part for part in (words, *links) if part))}
        if place.stream:
            asked |= {"type": "stream", "to": place.stream, "topic": render_topic(message.thread or self._topic)}
        else:
            asked |= {"type": "private", "to": json.dumps(list(place.people))}
        answer = await http.call("POST", "api/v1/messages", data=asked, action="send a message")
        return str(answer["id"])

    async def _upload(self, file: OutboundFile) -> str:
        """The link to a file. One that no message names is seen by nobody: doing it twice does no harm."""
        http = await self._connect()
        async with open_upload(file) as data:
            answer = await http.call(
                "POST",
                "api/v1/user_uploads",
                files={"filename": (file.name, data, file.mime)},
                reads=True,
                action="upload a file",
            )
        name = "".join(each for each in file.name if each not in "[]()\n\r") or "file"
        return f"[{name}]({answer.get('url') or answer.get('uri')})"

    async def _change(self, method: str, number: int, path: str, action: str, data: Any = None) -> str:
        http = await self._connect()
        await http.call(method, f"api/v1/messages/{number}{path}", data=data, action=action)
        return str(number)

    async def _delete(self, number: int) -> str:
        try:
            return await self._change("DELETE", number, "", "delete a message")
        except PlatformRefusal as refusal:
            if refusal.detail.lower() not in GONE:
                raise
            return str(number)

    async def _react(self, message: Outbound) -> str:
        number = wire.check_message_id(message.target)
        name = wire.find_emoji_name(message.reaction, await self._get_emoji())
        try:
            return await self._change("POST", number, "/reactions", "react", {"emoji_name": name})
        except PlatformRefusal as refusal:
            if isinstance(refusal.answer, Mapping) and refusal.answer.get("code") == "REACTION_ALREADY_EXISTS":
                return str(number)
            raise

    async def _get_emoji(self) -> Mapping[str, Any]:
        """The server's own table of names, read once."""
        if self._emoji is None:
            http = await self._connect()
            asked = {"event_types": json.dumps(["realm"]), "fetch_event_types": json.dumps(["realm"])}
            state = await http.call("POST", "api/v1/register", data=asked, reads=True, action="read the emoji")
            await http.call("DELETE", "api/v1/events", data={"queue_id": state["queue_id"]}, reads=True)
            table = await http.call("GET", str(state.get("server_emoji_data_url")), action="read the emoji")
            names = table.get("code_to_names") if isinstance(table, Mapping) else None
            self._emoji = names if isinstance(names, Mapping) else {}
        return self._emoji

    async def mark_read(self, messages: tuple[str, ...]) -> None:
        http = await self._connect()
        asked = {
            "messages": json.dumps([wire.check_message_id(each) for each in messages]),
            "op": "add",
            "flag": "read",
        }
        await http.call("POST", "api/v1/messages/flags", data=asked, reads=True, action="mark messages as read")

    async def send_typing(self, address: str, thread: str, on: bool) -> None:
        http, place = await self._connect(), wire.parse_address(address)
        asked: dict[str, Any] = {"op": "start" if on else "stop"}
        if place.stream:
            asked |= {"type": "stream", "stream_id": place.stream, "topic": render_topic(thread or self._topic)}
        else:
            asked |= {"type": "direct", "to": json.dumps(list(place.people))}
        try:
            await http.call("POST", "api/v1/typing", data=asked, action="show that it writes")
        except Refused:
            return  # an old server has no such sign in channels
