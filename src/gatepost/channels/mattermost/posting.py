"""Posts, replies and marks of the bot at a Mattermost server.

The server forgets a `pending_post_id` after 30 seconds, so it only protects against a repetition at once. Our key also
stays with the post, in its props: there it is found again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from gatepost.channels.kit.http import PlatformHttp, PlatformRefusal
from gatepost.channels.kit.uploads import open_upload, split_files
from gatepost.channels.mattermost import LONGEST_TEXT, emoji, wire
from gatepost.channels.mattermost.wire import MattermostBot
from gatepost.core.clock import DAY, Clock
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.messages.markdown.dialects import MATTERMOST
from gatepost.messages.markdown.markup import render_within
from gatepost.messages.outbound import Op, Outbound, OutboundFile

PAGE, MOST_PAGES = 200, 10
MOST_FILES = 10  # of one post: 300 code points of JSON, by 26 of an id


class MattermostPosting:
    def __init__(self, connect: Callable[[], Awaitable[tuple[PlatformHttp, MattermostBot]]], clock: Clock) -> None:
        self._connect, self._clock = connect, clock

    async def send(self, address: str, message: Outbound) -> str:
        channel = wire.get_channel_id(address)
        try:
            match message.op:
                case Op.SEND | Op.FILE | Op.CARD | Op.VOICE:
                    return await self._post_all(address, channel, message)
                case Op.EDIT:
                    return await self._edit(message)
                case Op.DELETE:
                    return await self._delete(message.target)
                case Op.REACT:
                    return await self._react(message)
                case Op.PIN:
                    return await self._change("POST", message.target, "/pin", "pin a message")
                case Op.UNPIN:
                    return await self._change("POST", message.target, "/unpin", "unpin a message")
        except Unavailable as error:
            error.everywhere |= error.retry_after is not None  # the server counts by account, not by channel
            raise
        raise Unsupported(message.op.value, "mattermost", "use send with the same text")

    async def _post_all(self, address: str, channel: str, message: Outbound) -> str:
        """More files than a post takes go in several. Those before the last may be there from an earlier try."""
        *before, last = split_files(message, MOST_FILES)
        made = [await self.find_key(address, each.key) or await self._post(channel, each) for each in before]
        return [*made, await self._post(channel, last)][0]

    async def _post(self, channel: str, message: Outbound) -> str:
        http, bot = await self._connect()
        post: dict[str, Any] = {
            "channel_id": channel,
            "message": render_within(message.text, MATTERMOST, LONGEST_TEXT),
            "pending_post_id": f"{bot.id}:{message.key}",
            "props": {wire.KEY_PROP: message.key},
        }
        if message.thread:
            post["root_id"] = wire.check_post_id(message.thread)
        if message.files:
            post["file_ids"] = [await self._upload(channel, file) for file in message.files]
        answer = await http.call("POST", "api/v4/posts", json=post, action="send a message")
        return str(answer["id"])

    async def _upload(self, channel: str, file: OutboundFile) -> str:
        """A file that no post names is seen by nobody: doing it twice does no harm."""
        http, _ = await self._connect()
        async with open_upload(file) as data:
            answer = await http.call(
                "POST",
                "api/v4/files",
                params={"channel_id": channel},
                files={"files": (file.name, data, file.mime)},
                reads=True,
                action="upload a file",
            )
        return str(answer["file_infos"][0]["id"])

    async def _edit(self, message: Outbound) -> str:
        http, _ = await self._connect()
        target = wire.check_post_id(message.target)
        changed = {"message": render_within(message.text, MATTERMOST, LONGEST_TEXT)}
        await http.call("PUT", f"api/v4/posts/{target}/patch", json=changed, action="edit a message")
        return target

    async def _change(self, method: str, target: str, path: str, action: str) -> str:
        http, _ = await self._connect()
        target = wire.check_post_id(target)
        await http.call(method, f"api/v4/posts/{target}{path}", action=action)
        return target

    async def _delete(self, target: str) -> str:
        try:
            return await self._change("DELETE", target, "", "delete a message")
        except PlatformRefusal as refusal:
            if refusal.status != 404:  # what is gone is deleted
                raise
            return target

    async def _react(self, message: Outbound) -> str:
        http, bot = await self._connect()
        target, name = wire.check_post_id(message.target), emoji.get_name(message.reaction)
        reaction = {"user_id": bot.id, "post_id": target, "emoji_name": name}
        await http.call("POST", "api/v4/reactions", json=reaction, action="react")
        return target

    async def send_typing(self, address: str, thread: str) -> None:
        http, _ = await self._connect()
        body = {"channel_id": wire.get_channel_id(address), "parent_id": thread}
        await http.call("POST", "api/v4/users/me/typing", json=body, action="show that it writes")

    async def open_direct(self, sender: str) -> dict[str, Any]:
        http, bot = await self._connect()
        user = wire.get_user_id(sender)
        try:
            answer = await http.call(
                "POST", "api/v4/channels/direct", json=[bot.id, user], reads=True, action="open a direct channel"
            )
        except PlatformRefusal as refusal:
            if refusal.status in (400, 404):
                raise NotFound("person", sender) from None
            raise
        return wire.read_json(answer)

    async def list_newest(self, address: str) -> AsyncIterator[dict[str, Any]]:
        """Posts of a channel, newest first, as far back as is asked for at all."""
        http, _ = await self._connect()
        channel, before = wire.get_channel_id(address), ""
        for _page in range(MOST_PAGES):
            params = {"per_page": PAGE, **({"before": before} if before else {})}
            answer = await http.call("GET", f"api/v4/channels/{channel}/posts", params=params, action="read posts")
            order, posts = wire.read_list(answer.get("order")), wire.read_json(answer.get("posts"))
            for each in order:
                yield wire.read_json(posts.get(each))
            if len(order) < PAGE:
                return
            before = str(order[-1])

    async def find_key(self, address: str, key: str) -> str | None:
        """The post that we made with this key within the last day. None only if all posts of that time were seen."""
        _, bot = await self._connect()
        seen, now = 0, self._clock.now()
        async for post in self.list_newest(address):
            seen += 1
            if post.get("user_id") == bot.id and wire.read_json(post.get("props")).get(wire.KEY_PROP) == key:
                return str(post["id"])
            if (wire.read_time(post.get("create_at")) or now) < now - DAY:
                return None
        if seen >= PAGE * MOST_PAGES:
            raise Refused("this bot", "look further back", address, "too much was said there since")
        return None
