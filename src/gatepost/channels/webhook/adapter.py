"""Posts both ways: in by the hook, out to the one URL of the operator."""

import asyncio
import json

from gatepost.channels.contract import (
    BotIdentity,
    ChannelDeps,
    ChannelEnded,
    EndReason,
    HookRequest,
    HookResponse,
    Receive,
)
from gatepost.channels.kit.hooks import HookInbox
from gatepost.channels.kit.http import PlatformAnswer, PlatformHttp
from gatepost.channels.webhook import CA_FILE, SECRET, URL, wire
from gatepost.core import ids
from gatepost.core.errors import Invalid, NotFound, Unavailable, Unsupported
from gatepost.messages.outbound import MESSAGES, Op, Outbound

WAY_OUT = "give the program the secret of the channel, or set it anew with `gatepost channel set`"
TARGET = "the webhook's target"
UNDER_WAY = 409  # the same post, by an earlier try that is not done (draft of the Idempotency-Key)
NOT_PROVED = "the secret or the signature is wrong"


class WebhookPosts:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._url = deps, deps.config[URL]
        self._inbox = HookInbox(deps)
        self._client: PlatformHttp | None = None
        self._way_to_set = f"gatepost channel set {deps.instance} --set url=https://…"

    async def listen(self, receive: Receive) -> None:
        await self._get_secret()
        async with self._inbox.open(receive, skips_invalid=False):
            await asyncio.Event().wait()

    async def check_hook_head(self, head: HookRequest) -> HookResponse | None:
        if head.method != "POST":
            return _render(405, {"error": "post a message"})
        if not wire.may_be_proved(head, await self._deps.secret(SECRET)):
            return _render(401, {"error": NOT_PROVED})
        if wire.is_by_token(head):
            head.admit()
        return None

    async def answer_hook(self, request: HookRequest) -> HookResponse:
        if request.method != "POST":
            return _render(405, {"error": "post a message"})
        if not wire.is_proved(request, await self._deps.secret(SECRET)):
            return _render(401, {"error": NOT_PROVED})
        request.admit()
        try:
            event = wire.read_post(request, ids.new("post"))
            receipt = await self._inbox.receive_one(event)
        except Invalid as error:
            return _render(400, {"error": str(error)})
        self._deps.beat()
        return _render(202, {"id": event.platform_id, "new": receipt.new})

    async def send(self, address: str, message: Outbound) -> str:
        room = wire.parse_room(address)
        if room is None:
            raise NotFound("room", address, "a room is webhook:<name>")
        if message.op not in (*MESSAGES, Op.STATUS):
            raise Unsupported(message.op, "webhook", "send a new message")
        if not self._url:
            raise Unsupported("send", "webhook", f"it has no URL to post to: `{self._way_to_set}`")
        secret, http = await self._get_secret(), self._connect()
        body = json.dumps(wire.render_post(room, message), ensure_ascii=False).encode()
        headers = {
            "content-type": "application/json",
            wire.KEY: message.key,
            wire.SIGNATURE: wire.sign_post(secret, room, message.key, body),
        }
        answer = await http.call("POST", self._url, action="post a message", headers=headers, content=body)
        return wire.read_answer(answer, message.key)

    async def check(self) -> BotIdentity:
        """The program is not called: a request might be more to it than a question."""
        await self._get_secret()
        if self._url:
            self._connect()
            return BotIdentity(name=f"posts to {self._url}")
        note = f"it has no URL, so nothing can be said: `{self._way_to_set}`"
        return BotIdentity(name="posts from programs", notes=(note,))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _get_secret(self) -> str:
        secret = await self._deps.secret(SECRET)
        if len(secret) < wire.SHORTEST_SECRET:
            why = f"channels.webhook.secret has fewer than {wire.SHORTEST_SECRET} signs"
            raise ChannelEnded(EndReason.SETTING, why, "set one that `openssl rand -hex 32` prints")
        return secret

    def _connect(self) -> PlatformHttp:
        if self._client is None:
            ca_file = self._deps.config[CA_FILE]
            self._client = PlatformHttp(TARGET, self._url, remedy=WAY_OUT, read_error=_read_error, ca_file=ca_file)
        return self._client


def _read_error(given: PlatformAnswer) -> Unavailable | None:
    if given.status != UNDER_WAY:
        return None
    return Unavailable(TARGET, "the post is under way already", uncertain=True)


def _render(status: int, answer: dict[str, object]) -> HookResponse:
    return HookResponse(status=status, body=json.dumps(answer).encode() + b"\n", content_type="application/json")
