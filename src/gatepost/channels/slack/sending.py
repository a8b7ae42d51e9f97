"""Requests to Slack: messages, files, the marks on them, and the assistant's pane."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gatepost.channels.contract import ChannelDeps, ChannelEnded
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.kit.send_attempts import SendAttempt, SendAttempts
from gatepost.channels.slack.render import make_mark, render_content, render_message, render_prompts, render_text
from gatepost.channels.slack.rest import SlackHttp
from gatepost.channels.slack.wire import is_ts, parse_room, render_emoji, render_ts
from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid, NotFound, Refused, SetupError, Unavailable, Unsupported
from gatepost.core.records import replace
from gatepost.messages.outbound import MESSAGES, Op, Outbound, OutboundFile

CHUNK = 256 * 1024
SKEW = 60 * SECOND
PAGE = 100
MOST_PAGES = 10
APPEARS_WITHIN = 60 * SECOND
RETRY_S = 5.0
SHARED_S = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # a file appears in its channel a moment after it was completed
WORKING = "is thinking…"
MOST_KEPT = 200
NOT_PINNED = ("no_pin", "not_pinned")


class SlackSender:
    def __init__(
        self, deps: ChannelDeps, get_http: Callable[[], Awaitable[SlackHttp]], latest: Mapping[str, str]
    ) -> None:
        """`latest`: by channel, the thread or message in which a status can be shown."""
        self._get_http, self._latest, self._clock = get_http, latest, deps.clock
        self._attempts = SendAttempts(deps.cursor, deps.clock)
        self._statusless = False
        self._kept: dict[tuple[str, Op], Outbound] = {}

    async def send(self, channel: str, message: Outbound) -> str:
        http = await self._get_http()
        if message.thread and not is_ts(message.thread):
            raise NotFound("thread", message.thread)
        if message.op in MESSAGES:
            return await self._post(http, channel, message)
        if message.op in (Op.PROMPTS, Op.TITLE):
            return await self._set_pane(http, channel, message)
        if message.op is Op.UNPIN_ALL:
            return await self._unpin_all(http, channel)
        if not is_ts(message.target):
            raise NotFound("message", message.target)
        await self._mark(http, channel, message)
        return message.target

    async def _mark(self, http: SlackHttp, channel: str, message: Outbound) -> None:
        target = {"channel": channel, "timestamp": message.target}
        match message.op:
            case Op.EDIT:
                body = {"channel": channel, "ts": message.target, **render_content(message)}
                await http.act("chat.update", body, "edit a message")
            case Op.DELETE:
                body = {"channel": channel, "ts": message.target}
                await _act_once(http, "chat.delete", body, "delete a message", "message_not_found")
            case Op.REACT:
                name = render_emoji(message.reaction)
                if not name:
                    raise Invalid("reaction", f"{message.reaction[:40]!r} has no name on Slack; use one such as :tada:")
                await _act_once(http, "reactions.add", {**target, "name": name}, "react", "already_reacted")
            case Op.PIN:
                await _act_once(http, "pins.add", target, "pin a message", "already_pinned")
            case Op.UNPIN:
                await _act_once(http, "pins.remove", target, "unpin a message", *NOT_PINNED)
            case _:
                raise Unsupported(message.op.value, "slack")

    async def _unpin_all(self, http: SlackHttp, channel: str) -> str:
        found = await http.ask("pins.list", "list pins", channel=channel)
        for each in (found.get("items") or ())[:PAGE]:
            ts = (each.get("message") or {}).get("ts")
            if is_ts(ts):
                body = {"channel": channel, "timestamp": ts}
                await _act_once(http, "pins.remove", body, "unpin a message", *NOT_PINNED)
        return channel

    # New messages.

    async def _post(self, http: SlackHttp, channel: str, message: Outbound) -> str:
        if message.op not in (Op.SEND, Op.FILE, Op.CARD, Op.VOICE):
            raise Unsupported(message.op.value, "slack", "use send")
        uploaded = await self._upload(http, message.files)
        async with self._attempts.attempt(message.key, thread=message.thread, note=",".join(uploaded)):
            if uploaded:
                return await self._share(http, channel, message, uploaded)
            body = render_message(channel, message)
            return str((await http.act("chat.postMessage", body, "send a message"))["ts"])

    async def _upload(self, http: SlackHttp, files: tuple[OutboundFile, ...]) -> list[str]:
        """Nobody sees a file that is only uploaded, so an answer that is lost here leaves nothing uncertain."""
        if empty := [each.name for each in files if not each.size]:
            raise Invalid("file", f"{empty[0]} has no content, and Slack takes no such file")
        made = []
        for file in files:
            place = await http.ask(
                "files.getUploadURLExternal", "send a file", filename=file.name, length=str(file.size)
            )
            headers = {"content-type": "application/octet-stream", "content-length": str(file.size)}
            place_url, content = str(place["upload_url"]), read_chunks(file.path)
            await http.call("POST", place_url, content=content, headers=headers, reads=True)
            made.append(str(place["file_id"]))
        return made

    async def _share(self, http: SlackHttp, channel: str, message: Outbound, uploaded: list[str]) -> str:
        named = [{"id": ident, "title": file.name} for ident, file in zip(uploaded, message.files, strict=True)]
        body: dict[str, Any] = {"files": named, "channel_id": channel}
        if message.text:
            body["initial_comment"] = render_text(message.text)
        if message.thread:
            body["thread_ts"] = message.thread
        await http.act("files.completeUploadExternal", body, "send a file")
        for wait in SHARED_S:
            await asyncio.sleep(wait)
            try:
                if found := await _find_share(http, channel, uploaded[0]):
                    return found
            except (Unavailable, Refused, SetupError):
                break  # it is there; only its name is not known
        return f"file:{uploaded[0]}"

    async def look_up(self, channel: str, key: str) -> str | None:
        attempt = await self._attempts.find(key)
        http = await self._get_http()
        if attempt is not None and attempt.note:
            return await self._find_late_share(http, channel, attempt)
        return await _find_marked(http, channel, key, attempt)

    async def _find_late_share(self, http: SlackHttp, channel: str, attempt: SendAttempt) -> str:
        """A file appears in its channel some time after it was completed. So that it is not there proves nothing."""
        found = await _find_share(http, channel, attempt.note.partition(",")[0])
        if found is not None:
            return found
        if self._clock.now() - attempt.at < APPEARS_WITHIN:
            raise Unavailable("Slack", "the file has not appeared in its channel yet", retry_after=RETRY_S)
        raise Refused("this bot", "know whether it was sent", channel, "the file never appeared in its channel")

    # The pane.

    async def _set_pane(self, http: SlackHttp, channel: str, message: Outbound) -> str:
        """Set the title or the prompts of an assistant pane. Without a thread yet, they are kept for the first one."""
        thread = message.thread or self._latest.get(channel, "")
        if not thread:
            self._kept[channel, message.op] = message
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            return channel
        where = {"channel_id": channel, "thread_ts": thread}
        if message.op is Op.TITLE:
            await http.act("assistant.threads.setTitle", {**where, "title": message.text[:255]}, "set a title")
        else:
            body = {**where, "prompts": render_prompts(message.prompts)}
            await http.act("assistant.threads.setSuggestedPrompts", body, "suggest prompts")
        return thread

    async def show_kept(self, channel: str, thread: str) -> None:
        """A thread is there now. Nothing depends on it: the platform refuses it outside of the pane."""
        kept = [self._kept.pop((channel, op), None) for op in (Op.TITLE, Op.PROMPTS)]
        for message in kept:
            if message is not None:
                with suppress(Unavailable, Refused, SetupError):
                    await self._set_pane(await self._get_http(), channel, replace(message, thread=thread))

    async def set_title(self, channel: str, thread: str, title: str) -> None:
        """Nothing depends on it."""
        http = await self._get_http()
        body = {"channel_id": channel, "thread_ts": thread, "title": title}
        with suppress(Unavailable, Refused, SetupError):
            await http.act("assistant.threads.setTitle", body, "set a title", reads=True)

    async def set_status(self, channel: str, thread: str, on: bool) -> None:
        """A status stands under a thread, or under the message that would begin one. It ends with the next message."""
        where = thread or self._latest.get(channel, "")
        if not where or self._statusless:
            return
        http = await self._get_http()
        body = {"channel_id": channel, "thread_ts": where, "status": WORKING if on else ""}
        try:
            await http.act("assistant.threads.setStatus", body, "show that it is at work", reads=True)
        except ChannelEnded:
            self._statusless = True  # the app has no pane; it can do without the sign
        except Refused:
            return


async def _act_once(http: SlackHttp, method: str, body: dict[str, Any], action: str, *done: str) -> None:
    """`done`: the errors that say that it was so before."""
    try:
        await http.act(method, body, action)
    except PlatformRefusal as error:
        if error.detail not in done:
            raise


async def _find_share(http: SlackHttp, channel: str, file: str) -> str | None:
    """The message in which a file is shown."""
    answer = await http.ask("files.info", "look for a file", file=file)
    shares = (answer.get("file") or {}).get("shares") or {}
    for kind in shares.values():
        for share in kind.get(channel) or ():
            if is_ts(share.get("ts")):
                return str(share["ts"])
    return None


async def _find_marked(http: SlackHttp, channel: str, key: str, attempt: SendAttempt | None) -> str | None:
    """A message by its mark, from shortly before the first try on."""
    wanted: dict[str, Any] = {"channel": channel, "limit": PAGE, "include_all_metadata": "true"}
    method = "conversations.history"
    if attempt is not None:
        wanted["oldest"] = render_ts(max(attempt.at - SKEW, 0))
        if attempt.thread:
            method, wanted["ts"] = "conversations.replies", attempt.thread
    mark, more = make_mark(key), ""
    for _ in range(MOST_PAGES if attempt is not None else 1):
        answer = await http.ask(method, "look for a message", **wanted, cursor=more)
        for each in answer.get("messages") or ():
            payload = (each.get("metadata") or {}).get("event_payload") or {}
            if payload.get("key") == mark and is_ts(each.get("ts")):
                return str(each["ts"])
        more = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
        if not more or attempt is None:
            return None
    raise Refused("this bot", "find out whether a message was sent", channel, "too much was said since")


async def read_chunks(path: str) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(Path(path).open, "rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk


def find_channel(address: str) -> str:
    channel = parse_room(address)
    if not channel:
        raise NotFound("room", address, "a room on Slack is slack:<team>/channel/<id>")
    return channel
