"""The bot in Microsoft Teams: activities by hooks, answers to the service address that a proved activity named.

Teams neither recognizes a repeated message nor lets a bot look back. A message whose answer got lost is uncertain.
"""

from functools import partial
from typing import Any

from gatepost.channels.contract import BotIdentity, ChannelDeps, HookRequest, HookResponse, Receive
from gatepost.channels.kit.hooks import HookInbox, parse_object
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.teams import APP_ID, CHECK_S, TENANT, wire
from gatepost.channels.teams.session import CHANNEL, TeamsSession
from gatepost.core import log
from gatepost.core.errors import Unavailable, Unsupported
from gatepost.core.json_web_tokens import NotProven
from gatepost.messages.outbound import Op, Outbound

LOG = log.get("channels")
GONE = (404, 410)
LARGEST_ACTIVITY = 256 * 1024  # bytes; the Bot Framework sends at most that much


class TeamsBot:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._config = deps, deps.config
        self._inbox = HookInbox(deps)
        self._session = TeamsSession(deps)
        self._own_name = ""  # as the last activity names us

    @property
    def own_names(self) -> frozenset[str]:
        return frozenset({self._own_name.lower()} - {""})

    async def listen(self, receive: Receive) -> None:
        """Activities come by the hook. Meanwhile the secret is tried now and then, so that one that ended is found."""
        self._session.check_settings()
        await self._inbox.listen(receive, partial(self._session.get_token, fresh=True), self._config[CHECK_S])

    async def check_hook_head(self, head: HookRequest) -> HookResponse | None:
        kind, _, token = head.headers.get("authorization", "").partition(" ")
        known = head.method == "POST" and kind.lower() == "bearer" and token.count(".") == 2
        return None if known else HookResponse(status=403)

    async def answer_hook(self, request: HookRequest) -> HookResponse:
        if len(request.body) > LARGEST_ACTIVITY:
            return HookResponse(status=413)
        activity = parse_object(request.body) if request.method == "POST" else None
        if activity is None:
            return HookResponse(status=400)
        service_url = str(activity.get("serviceUrl") or "")
        try:
            await self._session.prove(request.headers.get("authorization", ""), service_url)
        except NotProven as error:
            LOG.info("an activity was not proved", instance=self._deps.instance, why=str(error))
            return HookResponse(status=403)
        request.admit()
        if activity.get("channelId") != CHANNEL or wire.read_tenant(activity) != self._config[TENANT]:
            return HookResponse(status=202)  # proved, and not for us: another organization has added the bot
        room = wire.read_room(activity)
        if room is not None:
            self._own_name = wire.read_own_name(activity) or self._own_name
            await self._session.record_service(room.address, service_url)
            await self._inbox.receive(wire.read_activity(activity))
        return HookResponse(status=202)

    async def send(self, address: str, message: Outbound) -> str:
        room = wire.parse_address(address)
        path = room.get_path(message.thread and wire.check_message_id(message.thread))
        match message.op:
            case Op.POST if room.kind is not wire.RoomKind.CHANNEL:
                raise Unsupported("post", "teams", "use send: only channels have posts")
            case Op.SEND | Op.FILE | Op.CARD | Op.VOICE | Op.POST:
                path = room.get_path() if message.op is Op.POST else path
                answer = await self._call(address, "POST", path, "send a message", json=wire.render_activity(message))
                sent = answer.get("id") if isinstance(answer, dict) else None
                if not isinstance(sent, str) or not sent:
                    raise Unavailable("Microsoft Teams", "its answer names no message", uncertain=True)
                return sent
            case Op.EDIT:
                target = wire.check_message_id(message.target)
                body = {**wire.render_activity(message), "id": target}
                await self._call(address, "PUT", f"{path}/{target}", "edit a message", json=body)
                return target
            case Op.DELETE:
                return await self._delete(address, path, wire.check_message_id(message.target))
        raise Unsupported(message.op.value, "teams", "use send with the same text")

    async def _delete(self, address: str, path: str, target: str) -> str:
        try:
            await self._call(address, "DELETE", f"{path}/{target}", "delete a message")
        except PlatformRefusal as refusal:
            if refusal.status not in GONE:
                raise
        return target

    async def typing(self, address: str, thread: str, on: bool) -> None:
        """The sign ends by itself, or with the answer."""
        if on:
            path = wire.parse_address(address).get_path(thread and wire.check_message_id(thread))
            await self._call(address, "POST", path, "show that it writes", json={"type": "typing"}, reads=True)

    async def _call(self, address: str, method: str, path: str, action: str, **more: Any) -> Any:
        return await self._session.call(address, method, path, action=action, **more)

    async def check(self) -> BotIdentity:
        await self._session.get_token(fresh=True)
        app = self._config[APP_ID]
        return BotIdentity(
            name=f"the application {app}",
            link=f"https://teams.microsoft.com/l/chat/0/0?users=28:{app}",
            notes=("whether Teams reaches this gateway is seen only once somebody writes to the bot",),
        )

    async def close(self) -> None:
        await self._session.close()
