"""Slack: events by Socket Mode or HTTP, everything else by the Web API.

`chat.postMessage` takes no key by which it would know a repeated message. So each message carries ours in its metadata,
and the history is searched for it before one is sent again. A file has no metadata: its id says whether it was shared.
"""

import asyncio
import hashlib
import hmac
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from gatepost.channels.contract import (
    MYSELF,
    BotIdentity,
    ChannelDeps,
    ChannelEnded,
    EndReason,
    HookRequest,
    HookResponse,
    Receive,
)
from gatepost.channels.kit.receiving import skip_invalid
from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.channels.slack import API_URL, APP_TOKEN, MODE, PING_S, SIGNING_SECRET, TOKEN, SlackMode
from gatepost.channels.slack.render import fit_slash_commands
from gatepost.channels.slack.rest import APPS, SlackHttp
from gatepost.channels.slack.rooms import NameCache, SlackMissedMessages
from gatepost.channels.slack.sending import SlackSender, find_channel
from gatepost.channels.slack.socket_mode import SocketMode, check_alone, find_room, is_command, is_urgent
from gatepost.channels.slack.wire import (
    Payload,
    SlackSelf,
    is_id,
    is_ts,
    list_people,
    parse_person,
    read_click,
    read_command,
    read_delete,
    read_edit,
    read_message,
    read_reaction,
    render_ts,
)
from gatepost.core import log
from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid, NotFound, Refused, Unavailable
from gatepost.core.records import replace
from gatepost.messages.inbound import Inbound, OpenFile
from gatepost.messages.outbound import Outbound
from gatepost.messages.text import may_stop

LOG = log.get("channels")
CHECK_S = 60.0  # in HTTP mode, how often the platform is asked whether it still knows us
MOST_ROOMS = 5000
PAGE = 100
SCOPES = {
    "chat:write": "to send",
    "channels:history": "to read channels",
    "groups:history": "to read private channels",
    "im:history": "to read direct messages",
    "im:write": "to open direct messages",
    "mpim:history": "to read group chats",
    "channels:read": "to know what channels are called",
    "groups:read": "to know what private channels are called",
    "mpim:read": "to know what group chats are called",
    "users:read": "to know what people are called",
    "reactions:read": "to see reactions",
    "reactions:write": "to react",
    "files:read": "to get files",
    "files:write": "to send files",
    "pins:read": "to list pins",
    "pins:write": "to pin",
    "assistant:write": "to use the pane",
    "commands": "to take slash commands",
}
WINDOW_S = 300
COMMAND_FIELDS = ("command", "text", "trigger_id", "team_id", "channel_id", "user_id", "user_name")
MOMENT, SIGNATURE = "x-slack-request-timestamp", "x-slack-signature"


class SlackChannel:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._mode = deps, SlackMode(deps.config[MODE])
        self._http: SlackHttp | None = None
        self._me = SlackSelf()
        self._names = NameCache()
        self._latest: OrderedDict[str, str] = OrderedDict()  # by channel: where a status can be shown
        self._queues = RoomQueues()
        self._receive: Receive | None = None
        self._commands = fit_slash_commands(deps.commands)
        self._missed = SlackMissedMessages(deps.cursor, self._receive_message, shared=self._mode is SlackMode.HTTP)
        self._sender = SlackSender(deps, self._get_http, self._latest)

    @property
    def own_names(self) -> frozenset[str]:
        return frozenset({each.lower() for each in (self._me.name, *self._me.shown)} - {""})

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def _get_http(self) -> SlackHttp:
        if self._http is None:
            token = await self._deps.secret(TOKEN)
            if not token:
                raise ChannelEnded(EndReason.TOKEN, "there is no token of a bot", f"copy it from {APPS} and set it")
            if self._http is None:
                self._http = SlackHttp(self._deps.config[API_URL], token, "bot token")
        return self._http

    async def _find_self(self) -> SlackSelf:
        """Return who we are; the platform may have been asked before."""
        if not self._me.user:
            self._me = await _ask_self(await self._get_http())
        return self._me

    # Receiving.

    async def listen(self, receive: Receive) -> None:
        http = await self._get_http()
        self._me = await _ask_self(http)
        self._receive, self._queues = skip_invalid(receive), RoomQueues()
        async with self._queues:
            await self._missed.check(http, self._queues)
            if self._mode is SlackMode.HTTP:
                await self._listen_for_hooks(http)
            else:
                await self._listen_by_socket()

    async def _listen_by_socket(self) -> None:
        async with self._with_app_token() as http:
            mode = SocketMode(http, self._queues, self._handle, self._deps.beat, self._deps.config[PING_S])
            await mode.run()

    async def _listen_for_hooks(self, http: SlackHttp) -> None:
        await self._check_signing_secret()
        while True:
            await http.ask("auth.test", "ask who it is")
            self._deps.beat()
            await asyncio.sleep(CHECK_S)

    async def check_hook_head(self, head: HookRequest) -> HookResponse | None:
        recent = _is_recent(head, self._deps.clock.now() // SECOND)
        return None if recent and head.headers.get(SIGNATURE) else HookResponse(status=401, body=b"not signed")

    async def answer_hook(self, request: HookRequest) -> HookResponse:
        secret = await self._deps.secret(SIGNING_SECRET)
        if not _is_genuine(request, secret, self._deps.clock.now() // SECOND):
            return HookResponse(status=401, body=b"not signed")
        request.admit()
        payload = _read_hook(request)
        if payload is None:
            return HookResponse(status=400, body=b"not understood")
        if payload.get("type") == "url_verification":
            return HookResponse(body=str(payload.get("challenge") or "")[:1000].encode())
        kind = "interactive" if payload.get("type") == "block_actions" else "events_api"
        kind = "slash_commands" if is_command(payload) else kind
        try:
            job, urgent = partial(self._handle, kind, payload), is_urgent(payload)
            await self._queues.run(find_room(payload), job, urgent=urgent)
        except Unavailable:
            return HookResponse(status=503, body=b"later")  # the platform sends it again
        return HookResponse()

    async def _handle(self, kind: str, payload: dict[str, Any]) -> None:
        if kind == "interactive":
            await self._hand_in(self._read(read_click, payload, self._me))
            return
        if kind == "slash_commands":
            await self._hand_in(self._read(read_command, payload, self._me, self._commands))
            return
        event = payload.get("event") or {}
        match event.get("type"):
            case "message" | "app_mention":
                await self._receive_event(event)
            case "reaction_added":
                names = await self._find_names(str((event.get("item") or {}).get("channel") or ""), event)
                await self._hand_in(self._read(read_reaction, event, self._me, names))
            case "assistant_thread_started":
                await self._open_pane(event.get("assistant_thread") or {})
            case _:
                pass

    async def _receive_event(self, event: dict[str, Any]) -> None:
        channel = str(event.get("channel") or "")
        match event.get("subtype"):
            case "message_changed":
                names = await self._find_names(channel, event)
                await self._hand_in(self._read(read_edit, event, channel, self._me, names, self._open_url))
            case "message_deleted":
                names = await self._find_names(channel, event)
                await self._hand_in(self._read(read_delete, event, channel, self._me, names))
            case _:
                await self._receive_message(event, channel)

    async def _receive_message(self, event: dict[str, Any], channel: str) -> None:
        names = await self._find_names(channel, event)
        made = self._read(read_message, event, channel, self._me, names, self._open_url)
        if made is None:
            return
        if not made.own:
            self._remember(channel, made.thread or made.platform_id)
        await self._hand_in(made)
        await self._sender.show_kept(channel, made.thread or made.platform_id)
        if not made.thread and not may_stop(made.text):  # before that one, something may still be under way
            await self._missed.record(channel, made.platform_id)

    async def _find_names(self, channel: str, event: Payload) -> Any:
        return await self._names.find(await self._get_http(), channel, list_people(event))

    def _read(self, read: Callable[..., Inbound | None], *given: Any) -> Inbound | None:
        """An event that is not as documented would come again and again, so it is left out."""
        try:
            return read(*given)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            LOG.warning("an event of Slack cannot be read", instance=self._deps.instance, error=repr(error))
            return None

    async def _hand_in(self, made: Inbound | None) -> None:
        if made is not None and self._receive is not None:
            await self._receive(made)
            self._deps.beat()

    async def _open_pane(self, pane: Payload) -> None:
        """Somebody opened the assistant. Nothing was said yet, so there is nothing to hand in."""
        channel, thread = pane.get("channel_id"), pane.get("thread_ts")
        if not is_id(channel) or not is_ts(thread):
            return
        self._remember(str(channel), str(thread))
        await self._sender.set_title(str(channel), str(thread), f"{self._me.name} — chat")
        await self._sender.show_kept(str(channel), str(thread))

    def _remember(self, channel: str, thread: str) -> None:
        self._latest[channel] = thread
        self._latest.move_to_end(channel)
        if len(self._latest) > MOST_ROOMS:
            self._latest.popitem(last=False)

    def _open_url(self, url: str) -> OpenFile:
        async def read() -> AsyncIterator[bytes]:
            http = await self._get_http()
            if not http.is_own_place(url):
                raise Invalid("file", "it does not lie on Slack")
            async for chunk in http.download(url):
                yield chunk

        return read

    # Sending.

    async def send(self, address: str, message: Outbound) -> str:
        return await self._sender.send(find_channel(address), message)

    async def look_up(self, address: str, key: str) -> str | None:
        return await self._sender.look_up(find_channel(address), key)

    async def typing(self, address: str, thread: str, on: bool) -> None:
        await self._sender.set_status(find_channel(address), thread, on)

    # The rest.

    async def history(self, address: str, before: int | None, limit: int) -> list[Inbound]:
        channel, http, me = find_channel(address), await self._get_http(), await self._find_self()
        found, more = list[Inbound](), ""
        latest = render_ts(before) if before is not None else ""
        while len(found) < limit:
            size = min(limit - len(found), PAGE)
            answer = await http.ask(
                "conversations.history", "read what was said", channel=channel, latest=latest, limit=size, cursor=more
            )
            for row in answer.get("messages") or ():
                made = read_message(row, channel, me, await self._find_names(channel, row), self._open_url)
                if made is not None:
                    found.append(replace(made, sender=MYSELF) if made.own else made)
            more = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
            if not more:
                break
        return found[:limit][::-1]

    async def open_direct(self, sender: str) -> str:
        person = parse_person(sender)
        if not person:
            raise NotFound("person", sender, "a person on Slack is slack:<team>/user/<id>")
        http, me = await self._get_http(), await self._find_self()
        opened = await http.act("conversations.open", {"users": person}, "open a direct chat", reads=True)
        return f"slack:{me.team}/channel/{opened['channel']['id']}"

    async def check(self) -> BotIdentity:
        http = await self._get_http()
        response, answer = await http.exchange("POST", "auth.test", reads=True, action="ask who it is")
        me = _read_self(answer)
        granted = {each.strip() for each in response.headers.get("x-oauth-scopes", "").split(",")}
        missing = tuple(f"{scope} ({why})" for scope, why in SCOPES.items() if scope not in granted)
        if "chat:write" not in granted:
            remedy = f"add it at {APPS} under OAuth & Permissions, and install the app again"
            raise ChannelEnded(EndReason.RIGHTS, "the app lacks the scope chat:write", remedy)
        if self._mode is SlackMode.SOCKET:
            await self._check_app_token()
        else:
            await self._check_signing_secret()
        return BotIdentity(
            name=f"@{me.name} in {answer.get('team') or me.team}", link=str(answer.get("url") or ""), missing=missing
        )

    async def _check_signing_secret(self) -> None:
        if not await self._deps.secret(SIGNING_SECRET):
            why = "there is no signing secret for HTTP events"
            raise ChannelEnded(EndReason.SETTING, why, f"copy it from {APPS}, Basic Information, and set it")

    async def _check_app_token(self) -> None:
        async with self._with_app_token() as http:
            await http.act("apps.connections.open", {}, "open a socket", reads=True)

    async def check_poller(self) -> None:
        """In HTTP mode the app has one address for its events, which Slack does not tell."""
        if self._mode is SlackMode.SOCKET:
            async with self._with_app_token() as http:
                await check_alone(http)

    @asynccontextmanager
    async def _with_app_token(self) -> AsyncIterator[SlackHttp]:
        token = await self._deps.secret(APP_TOKEN)
        if not token:
            why = "there is no app-level token for Socket Mode"
            raise ChannelEnded(EndReason.TOKEN, why, f"make one at {APPS} with connections:write, and set it")
        http = SlackHttp(self._deps.config[API_URL], token, "app-level token")
        try:
            yield http
        finally:
            await http.close()


async def _ask_self(http: SlackHttp) -> SlackSelf:
    """People see the display name or the real name of a bot; `auth.test` gives another one."""
    me = _read_self(await http.ask("auth.test", "ask who it is"))
    try:
        user = (await http.ask("users.info", "ask for its own name", user=me.user)).get("user") or {}
    except (Refused, ChannelEnded):
        return me  # without users:read the app may not know
    profile = user.get("profile") or {}
    found = (profile.get("display_name"), user.get("real_name"), profile.get("real_name"))
    return replace(me, shown=tuple(str(each)[:100] for each in found if each))


def _read_self(answer: Payload) -> SlackSelf:
    team, user, bot = (str(answer.get(name) or "") for name in ("team_id", "user_id", "bot_id"))
    if not is_id(team) or not is_id(user):
        raise Unavailable("Slack", "it does not say who we are")
    return SlackSelf(team, user, bot, str(answer.get("user") or ""))


def sign(secret: str, moment: str, body: bytes) -> str:
    return "v0=" + hmac.new(secret.encode(), f"v0:{moment}:".encode() + body, hashlib.sha256).hexdigest()


def _is_genuine(request: HookRequest, secret: str, now_s: int) -> bool:
    """Signed with our secret, and not long ago: an old request is somebody's recording."""
    if not secret or not _is_recent(request, now_s):
        return False
    expected = sign(secret, request.headers[MOMENT], request.body)
    return hmac.compare_digest(expected.encode(), request.headers.get(SIGNATURE, "").encode())


def _is_recent(head: HookRequest, now_s: int) -> bool:
    moment = head.headers.get(MOMENT, "")
    known = moment.isascii() and moment.isdecimal() and len(moment) <= 12
    return known and abs(now_s - int(moment)) <= WINDOW_S


def _read_hook(request: HookRequest) -> dict[str, Any] | None:
    """Events are JSON; a click is JSON in a form, and a slash command is a form itself."""
    body = request.body
    try:
        if "form-urlencoded" in request.headers.get("content-type", ""):
            form = parse_qs(body.decode(), max_num_fields=50)
            if "payload" not in form and ("command" in form or "ssl_check" in form):  # the latter asks for nothing
                return {name: form[name][0] for name in COMMAND_FIELDS if name in form}
            body = (form.get("payload") or [""])[0].encode()
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
