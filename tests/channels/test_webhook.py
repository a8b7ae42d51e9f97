"""The generic webhook: programs post in, and get what is said at their own URL."""

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost.channels.contract import (
    CHANNELS,
    Channel,
    ChannelDeps,
    ChannelEnded,
    HookRequest,
    HookResponse,
    SupportsCheck,
    SupportsHook,
)
from gatepost.channels.webhook import wire
from gatepost.core import registry
from gatepost.core.clock import SystemClock
from gatepost.core.errors import Invalid, NotFound, Refused, Unavailable, Unsupported
from gatepost.core.process.listen_address import parse
from gatepost.core.settings import Config, Setting
from gatepost.flow.pairing import PAGE_URL
from gatepost.messages.inbound import MessageKind, Verb
from gatepost.messages.outbound import Op, Outbound
from gatepost.serve.control.channel_changes import render_after
from gatepost.serve.http import HttpServer, bind, get_bound_address
from gatepost_testing.platforms.webhook import WebhookPlatform
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, serve_hooks
from gatepost_testing.waiting import PATIENCE_S

SECRET = "0123456789abcdef0123"
BEARER = {"authorization": f"Bearer {SECRET}"}
JSON = {"content-type": "application/json"}
PAGE = Path(__file__).parents[2] / "docs" / "channels" / "webhook.md"


def make(url: str = "", secret: str = SECRET) -> Channel:
    registry.load_package("gatepost.channels")

    async def read_secret(wanted: Setting[str]) -> str:
        return secret

    config = Config({"channels.webhook.url": url})
    return CHANNELS["webhook"].make(
        ChannelDeps(instance="build", config=config, clock=SystemClock(), secret=read_secret)
    )


@pytest.fixture
def channel() -> Channel:
    return make()


@pytest.fixture
async def received(channel: Channel) -> AsyncIterator[ReceivedEvents]:
    async with listening(channel) as events:
        await asyncio.sleep(0)  # it listens from its first step on
        yield events


async def post(channel: Channel, path: str, body: Any, **headers: str) -> HookResponse:
    assert isinstance(channel, SupportsHook)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = {} if isinstance(body, bytes) else JSON
    given = {**kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return await channel.answer_hook(HookRequest(method="POST", path=path, headers=given, body=raw))


class Target:
    """A program that gets what is said."""

    def __init__(self) -> None:
        self.posts: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[Response] = []
        self.url = ""

    async def _answer(self, request: Request) -> Response:
        self.posts.append((dict(request.headers), await request.body()))
        return self.answers.pop(0) if self.answers else JSONResponse({"id": f"m{len(self.posts)}"})

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Target"]:
        listen = parse("127.0.0.1:0")
        sock = bind(listen)
        app = Starlette(routes=[Route("/{path:path}", self._answer, methods=["GET", "POST"])])
        server = HttpServer(app, sock)
        running = asyncio.create_task(server.run())
        self.url = f"{get_bound_address(listen, sock).url}/in/gatepost?team=7"
        yield self
        server.stop()
        await asyncio.wait_for(running, PATIENCE_S)


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    async with Target().serving() as made:
        yield made


async def test_a_message_comes_with_what_the_program_says_of_it(channel: Channel, received: ReceivedEvents) -> None:
    said = {"text": "hi", "sender": "ann", "sender_name": "Ann A.", "thread": "t1", "reply_to": "m1", "mention": True}
    answer = await post(channel, "/office/desk", said, idempotency_key="k1", **BEARER)

    assert (answer.status, json.loads(answer.body)) == (202, {"id": "k1", "new": True})
    (event,) = received.events
    assert (event.address, event.platform_id, event.sender) == ("webhook:office/desk", "k1", "webhook:user/ann")
    assert (event.text, event.thread, event.verb, event.sender_name) == ("hi", "t1", Verb.MENTION, "Ann A.")
    assert event.reply_to is not None and event.reply_to.platform_id == "m1"


async def test_plain_text_is_a_message_of_the_caller(channel: Channel, received: ReceivedEvents) -> None:
    assert (await post(channel, "/office", "grüß Gott".encode(), **BEARER)).status == 202
    assert (received.events[0].text, received.events[0].sender) == ("grüß Gott", "webhook:user/caller")


async def test_what_another_program_posts_is_read_as_it_is(channel: Channel, received: ReceivedEvents) -> None:
    await post(channel, "/alerts", {"status": "firing", "labels": {"job": "db"}}, **BEARER)
    assert received.events[0].kind is MessageKind.WEBHOOK and '"firing"' in received.events[0].text


async def test_a_key_that_comes_twice_is_one_message(channel: Channel, received: ReceivedEvents) -> None:
    answers = [await post(channel, "/a", {"text": "x"}, idempotency_key="k", **BEARER) for _ in range(2)]
    assert [json.loads(each.body)["new"] for each in answers] == [True, False]
    for _ in range(2):
        await post(channel, "/a", {"text": "without a key"}, **BEARER)
    assert received.texts == ["x", "without a key", "without a key"]


async def test_a_signature_proves_the_room_the_key_and_the_body(channel: Channel, received: ReceivedEvents) -> None:
    body = b'{"text": "signed"}'
    good = wire.sign_post(SECRET, "/office", "k", body)

    async def send(path: str, key: str, content: bytes, signature: str = good) -> int:
        headers = {"x_gatepost_signature": signature, "idempotency_key": key, "content_type": "application/json"}
        return (await post(channel, path, content, **headers)).status

    assert await send("/office", "k", body) == 202
    assert await send("/other", "k", body) == 401
    assert await send("/office", "k2", body) == 401
    assert await send("/office", "k", body + b" ") == 401
    assert await send("/office", "k", body, "") == 401
    assert received.texts == ["signed"]


async def test_a_copy_of_a_signed_post_without_a_key_is_no_second_message(
    channel: Channel, received: ReceivedEvents
) -> None:
    signature = wire.sign_post(SECRET, "/office", "", b"once")
    for _ in range(2):
        assert (await post(channel, "/office", b"once", x_gatepost_signature=signature)).status == 202
    assert received.texts == ["once"]


@pytest.mark.parametrize(
    "given", [{}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer "}, {"authorization": f"Basic {SECRET}"}]
)
async def test_without_the_secret_nobody_is_believed(
    channel: Channel, received: ReceivedEvents, given: dict[str, str]
) -> None:
    assert (await post(channel, "/office", {"text": "x"}, **given)).status == 401
    assert received.calls == 0


@pytest.mark.parametrize("secret", ["", "short"])
async def test_a_secret_that_is_missing_or_short_opens_nothing(secret: str) -> None:
    channel = make(secret=secret)
    assert (await post(channel, "/a", {"text": "x"}, authorization=f"Bearer {secret}")).status == 401
    assert isinstance(channel, SupportsCheck)
    for asked in (channel.check(), channel.listen(ReceivedEvents().receive)):
        with pytest.raises(ChannelEnded, match="fewer than 16"):
            await asked


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("", {"text": "x"}, "path"),
        ("/", {"text": "x"}, "path"),
        ("/a b", {"text": "x"}, "path"),
        ("/../x", {"text": "x"}, "path"),
        ("/a", {"text": 5}, "text"),
        ("/a", {"text": " "}, "text"),
        ("/a", {"text": "x", "sender": "a/../b"}, "sender"),
        ("/a", {"text": "x", "sender": 5}, "sender"),
        ("/a", {"text": "x", "thread": "a b"}, "thread"),
        ("/a", [1], "body"),
        ("/a", b"\xff\xfe", "body"),
        ("/a", {"text": "x" * 100_001}, "text"),
    ],
)
async def test_what_is_wrong_is_named(
    channel: Channel, received: ReceivedEvents, path: str, body: Any, named: str
) -> None:
    answer = await post(channel, path, body, **BEARER)
    assert answer.status == 400 and json.loads(answer.body)["error"].startswith(named)
    assert received.calls == 0


async def test_what_cannot_be_kept_is_to_be_sent_again(channel: Channel, received: ReceivedEvents) -> None:
    received.error = Unavailable("the store")
    with pytest.raises(Unavailable):
        await post(channel, "/a", {"text": "x"}, **BEARER)


async def test_what_is_said_is_posted_signed_and_with_our_key(target: Target) -> None:
    channel = make(target.url)
    message = Outbound(key="k1", text="**hello**", thread="t", reply_to="m0")
    assert await channel.send("webhook:office", message) == "m1"

    ((headers, body),) = target.posts
    assert json.loads(body) == {"room": "office", "key": "k1", "text": "**hello**", "thread": "t", "reply_to": "m0"}
    assert headers["idempotency-key"] == "k1"
    assert headers["x-gatepost-signature"] == wire.sign_post(SECRET, "/office", "k1", body)
    assert SECRET not in str(headers) and SECRET.encode() not in body


async def test_a_target_that_is_busy_is_tried_again_and_one_that_refuses_is_not(target: Target) -> None:
    channel = make(target.url)
    target.answers = [
        Response(status_code=429, headers={"retry-after": "3"}),
        Response(status_code=500),
        Response(status_code=422, content="no such room"),
        Response(status_code=302, headers={"location": "http://127.0.0.1:9/steal"}),
        Response(status_code=204),
    ]
    with pytest.raises(Unavailable) as busy:
        await channel.send("webhook:a", Outbound(key="k", text="x"))
    assert busy.value.retry_after == 3.0
    with pytest.raises(Unavailable) as broken:
        await channel.send("webhook:a", Outbound(key="k", text="x"))
    assert broken.value.uncertain  # repeated under the same key
    with pytest.raises(Refused, match="no such room"):
        await channel.send("webhook:a", Outbound(key="k", text="x"))
    with pytest.raises(Refused):  # a redirect is not followed
        await channel.send("webhook:a", Outbound(key="k", text="x"))
    assert len(await channel.send("webhook:a", Outbound(key="k", text="x"))) == 32


async def test_nothing_is_said_without_a_target_or_to_a_strange_room(target: Target) -> None:
    with pytest.raises(Unsupported, match=r"gatepost channel set .* --set url="):
        await make().send("webhook:a", Outbound(key="k", text="x"))
    for room in ("webhook:", "webhook:a b", "webhook:../x", "http://evil.example/", "webhook://evil"):
        with pytest.raises(NotFound):
            await make(target.url).send(room, Outbound(key="k", text="x"))
    with pytest.raises(Unsupported):
        await make(target.url).send("webhook:a", Outbound(key="k", op=Op.EDIT, target="m", text="x"))
    assert target.posts == []


async def test_a_url_that_is_none_is_named() -> None:
    channel = make("ftp://x")
    assert isinstance(channel, SupportsCheck)
    with pytest.raises(ChannelEnded, match="no web address"):
        await channel.check()


async def test_the_lines_for_curl_in_the_docs_work(channel: Channel, received: ReceivedEvents) -> None:
    """Exactly what the page shows runs in a shell."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 3
    async with serve_hooks(channel, "build") as url:
        for block in blocks:
            script = block.replace("https://gate.example", url.removesuffix("/channels/build"))
            process = await asyncio.create_subprocess_exec(
                "sh", "-euc", script, env={"SECRET": SECRET, "PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE
            )
            out, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
            assert process.returncode == 0 and b'"new": true' in out, out
    assert len(received.events) == len(blocks)


def test_the_operator_is_told_the_whole_address() -> None:
    config = Config({PAGE_URL.name: "https://bot.example"})
    told = render_after(CHANNELS["webhook"].guide.after, "shop", config)
    assert "https://bot.example/channels/shop/<room>" in told


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


async def test_a_post_that_intake_refuses_for_good_is_answered_with_the_reason(
    channel: Channel, received: ReceivedEvents
) -> None:
    received.error = Invalid("sender", "it is too long")
    answer = await post(channel, "/office", {"text": "hello"}, **BEARER)
    assert (answer.status, json.loads(answer.body)) == (400, {"error": "sender: it is too long"})


async def test_a_post_that_the_program_still_works_on_is_uncertain() -> None:
    """As after a lost answer: the program has it, and says 409 to the repetition."""
    with WebhookPlatform() as platform:
        assert isinstance(platform, WebhookPlatform)
        platform.running.add("k")
        channel = make(f"{platform.url}/in", platform.hook_secret)
        with pytest.raises(Unavailable) as raised:
            await channel.send("webhook:office", Outbound(key="k", text="x"))
        assert raised.value.uncertain
        platform.running.clear()
        await channel.send("webhook:office", Outbound(key="k", text="x"))
        with pytest.raises(Refused, match="another post"):
            await channel.send("webhook:office", Outbound(key="k", text="y"))
        assert platform.texts() == ["x"]
        await channel.close()  # type: ignore[attr-defined]
