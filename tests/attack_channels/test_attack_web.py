"""Strangers on the web: hooks."""

import asyncio
from typing import Any

from gatepost.channels.contract import HookRequest, HookResponse
from gatepost.channels.webhook import wire
from gatepost.core.settings import Config
from gatepost.serve.web.hooks import AT_ONCE, ChannelHooks

SECRET = "0123456789abcdef0123"


def test_a_copied_signed_post_is_known_whatever_header_is_added_to_it() -> None:
    """`is_proved` looks at the scheme of Authorization, `_find_identity` at whether there is one. With any other scheme
    the signature proves the copy, and its identity is fresh: it is received as often as it is sent."""
    body = b'{"text": "pay 100 to Eve"}'
    headers = {
        "content-type": "application/json",
        wire.SIGNATURE: wire.sign_post(SECRET, "/office", "", body),
        "authorization": "Basic eDp4",
    }
    copy = HookRequest(method="POST", path="/office", headers=headers, body=body)
    if wire.is_proved(copy, SECRET):
        assert wire.read_post(copy, "fresh-1").platform_id == wire.read_post(copy, "fresh-2").platform_id


class Hooked:
    async def listen(self, receive: Any) -> None: ...

    async def send(self, address: str, message: Any) -> str:
        return ""

    async def answer_hook(self, request: HookRequest) -> HookResponse:
        return HookResponse(status=202)


async def _post(hooks: ChannelHooks, peer: str, body: bytes | None) -> int:
    """The status. Without a body nothing comes but the head, as from a client that takes its time."""
    sent: list[int] = []

    async def receive() -> dict[str, Any]:
        if body is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": body, "more_body": False}

    async def keep(message: Any) -> None:
        if message["type"] == "http.response.start":
            sent.append(message["status"])

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/phone",
        "root_path": "",
        "query_string": b"",
        "headers": [],
        "client": (peer, 1),
    }
    await hooks(scope, receive, keep)  # type: ignore[arg-type]
    return sent[0]


async def test_one_stranger_who_sends_slowly_does_not_keep_the_platform_out() -> None:
    """32 connections of one peer, each without its body for ten seconds, are all places of the instance."""
    hooks = ChannelHooks({"phone": Hooked()}, Config())  # type: ignore[dict-item]
    slow = [asyncio.create_task(_post(hooks, "203.0.113.9", None)) for _ in range(AT_ONCE)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    try:
        assert await _post(hooks, "192.0.2.1", b"{}") == 202
    finally:
        for each in slow:
            each.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
