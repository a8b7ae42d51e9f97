"""What platforms send to a channel: who gets it, and what a stranger can cost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.responses import Response

from gatepost.channels.contract import ADMIT, Channel, ChannelEnded, EndReason, HookRequest, HookResponse, Receive
from gatepost.core.clock import SystemClock
from gatepost.core.errors import Unavailable
from gatepost.core.home import Home
from gatepost.core.process.listen_address import parse
from gatepost.core.settings import Config
from gatepost.core.token_bucket import Rate
from gatepost.messages.outbound import Outbound
from gatepost.serve.http import HttpServer, bind, get_bound_address
from gatepost.serve.web import hook_admission
from gatepost.serve.web.hook_admission import FAILURES, FAILURES_OF_ALL, FIRST_BYTES, MOST_DEBT_S
from gatepost.serve.web.hooks import AT_ONCE, UNPROVED_AT_ONCE, UNPROVED_OF_PEER, ChannelHooks
from gatepost.serve.web.site import WebDeps, make_site
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost_testing.waiting import PATIENCE_S, until


class Deaf:
    """A channel without a hook."""

    async def listen(self, receive: Receive) -> None:
        await asyncio.Event().wait()

    async def send(self, address: str, message: Outbound) -> str:
        return ""


class Hooked(Deaf):
    def __init__(self) -> None:
        self.requests: list[HookRequest] = []
        self.answer = HookResponse(body=b"taken")
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.strangers = 0

    async def answer_hook(self, request: HookRequest) -> HookResponse:
        if request.headers.get("x-sign") == "wrong":
            self.strangers += 1
            return HookResponse(status=401)
        request.admit()
        self.requests.append(request)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.answer


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    listen = parse("127.0.0.1:0")
    sock = bind(listen)
    server = HttpServer(app, sock)
    running = asyncio.create_task(server.run())
    yield get_bound_address(listen, sock).url
    server.stop()
    await asyncio.wait_for(running, PATIENCE_S)


@pytest.fixture
def hooked() -> Hooked:
    return Hooked()


@pytest.fixture
async def page(store: SqliteStore, home: Home, web: Any, hooked: Hooked) -> AsyncIterator[httpx2.AsyncClient]:
    adapters: dict[str, Channel] = {"phone": hooked, "deaf": Deaf()}  # made by hand
    parts = WebDeps(
        store=store,
        clock=SystemClock(),
        config=Config({"web.largest_hook_bytes": 1000}),
        home=home,
        channel=web.hub,
        stopping=asyncio.Event(),
        adapters=adapters,
    )
    async with serving(make_site(parts)) as base, httpx2.AsyncClient(base_url=base, timeout=PATIENCE_S) as client:
        yield client


async def test_a_hook_reaches_its_channel_by_any_name_and_method(page: httpx2.AsyncClient, hooked: Hooked) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        answer = await page.request(
            method, "/channels/phone/a/b?x=1&y=%C3%A9", headers={"host": "hooks.example", "x-sign": "s"}, content=b"z"
        )
        assert (answer.status_code, answer.text) == (200, "taken")
    first = hooked.requests[0]
    assert (first.method, first.path, dict(first.query), first.body) == ("GET", "/a/b", {"x": "1", "y": "é"}, b"z")
    assert first.headers["x-sign"] == "s"


async def test_the_page_is_still_refused_under_a_strange_name(page: httpx2.AsyncClient) -> None:
    for path in ("/", "/channels", "/api/start", "/channelsx/phone"):
        assert (await page.get(path, headers={"host": "hooks.example"})).status_code == 403
    assert (await page.post("/login", json={"token": "x"})).status_code == 403
    up = await page.request("POST", "/channels/../login", json={"token": "x"}, headers={"host": "hooks.example"})
    assert up.status_code in (403, 404)


async def test_an_unknown_instance_and_one_without_a_hook_look_alike(page: httpx2.AsyncClient) -> None:
    answers = [await page.post(f"/channels/{name}", content=b"x") for name in ("nobody", "deaf", "", "web", "phone%2F")]
    assert {(each.status_code, each.text) for each in answers[:4]} == {(404, "There is nothing here.\n")}


async def test_a_cookie_never_reaches_a_channel_and_none_is_set(page: httpx2.AsyncClient, hooked: Hooked) -> None:
    answer = await page.post("/channels/phone", headers={"cookie": "gatepost-1-2=secret", "x-gatepost": "1"})
    assert "cookie" not in hooked.requests[0].headers and "x-gatepost" not in hooked.requests[0].headers
    assert "set-cookie" not in answer.headers
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_header_that_comes_twice_is_given_to_nobody(page: httpx2.AsyncClient, hooked: Hooked) -> None:
    await page.post("/channels/phone", headers=[("x-sign", "a"), ("x-sign", "b")])
    assert "x-sign" not in hooked.requests[0].headers


async def test_a_body_over_the_limit_is_refused_whatever_it_announces(page: httpx2.AsyncClient, hooked: Hooked) -> None:
    async def trickle() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"x" * 100

    assert (await page.post("/channels/phone", content=b"x" * 1001)).status_code == 413
    assert (await page.post("/channels/phone", content=trickle())).status_code == 413
    assert hooked.requests == []
    assert (await page.post("/channels/phone", content=b"x" * 1000)).status_code == 200


@pytest.mark.parametrize(
    "error", [RuntimeError("the token is s3cret"), ChannelEnded(EndReason.TOKEN, "s3cret", "s3cret")]
)
async def test_an_error_of_the_channel_is_answered_without_words(
    page: httpx2.AsyncClient, hooked: Hooked, error: Exception
) -> None:
    hooked.error = error
    answer = await page.post("/channels/phone")
    assert (answer.status_code, answer.content) == (500, b"")


async def test_the_platform_is_asked_to_come_again_while_we_cannot_take_it(
    page: httpx2.AsyncClient, hooked: Hooked
) -> None:
    hooked.error = Unavailable("the store", retry_after=2.5)
    answer = await page.post("/channels/phone")
    assert (answer.status_code, answer.headers["retry-after"], answer.content) == (503, "3", b"")


@pytest.mark.slow
async def test_a_flood_of_one_hook_is_refused_and_starves_nobody(page: httpx2.AsyncClient, hooked: Hooked) -> None:
    hooked.gate = asyncio.Event()
    flood = [asyncio.create_task(page.post("/channels/phone")) for _ in range(64)]
    done: set[Any] = set()
    while len(done) < 32:
        done, _ = await asyncio.wait(flood, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)

    assert {each.result().status_code for each in done} == {429}
    assert (await page.get("/health")).status_code == 200
    hooked.gate.set()
    answers = await asyncio.gather(*flood)
    assert sum(each.status_code == 200 for each in answers) == len(hooked.requests) == 32


async def test_requests_over_the_rate_are_told_how_long_to_wait(hooked: Hooked) -> None:
    other = Hooked()
    adapters: dict[str, Channel] = {"phone": hooked, "other": other}  # made by hand
    hooks = ChannelHooks(adapters, Config(), arrivals=Rate(per_second=0.01, burst=3, patience_s=float("inf")))
    async with serving(hooks) as base, httpx2.AsyncClient(base_url=base) as client:
        answers = [await client.post("/phone") for _ in range(8)]
        assert [each.status_code for each in answers] == [200] * 4 + [429] * 4
        assert {each.headers["retry-after"] for each in answers[4:]} <= {"99", "100"}
        assert (await client.post("/other")).status_code == 200


async def test_a_channel_that_does_not_answer_in_time_is_asked_again(hooked: Hooked) -> None:
    hooked.gate = asyncio.Event()
    hooks = ChannelHooks({"phone": hooked}, Config(), answer_s=0.01)  # made by hand
    async with serving(hooks) as base, httpx2.AsyncClient(base_url=base) as client:
        assert (await client.post("/phone")).status_code == 503


async def test_a_body_that_does_not_come_is_not_waited_for(hooked: Hooked) -> None:
    hooks = ChannelHooks({"phone": hooked}, Config(), body_s=0.01)  # made by hand
    async with serving(hooks) as base:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]))
        writer.write(b"POST /phone HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab")
        async with asyncio.timeout(PATIENCE_S):
            assert b" 408 " in await reader.readline()
        writer.close()
    assert hooked.requests == []


async def _post(
    hooks: ChannelHooks, peer: str, body: "asyncio.Future[bytes]", path: str = "/phone", sign: str = "right"
) -> int:
    """The status. The head is there at once, the body when it comes."""
    sent: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": await asyncio.shield(body), "more_body": False}

    async def keep(message: Any) -> None:
        if message["type"] == "http.response.start":
            sent.append(message["status"])

    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": path,
        "root_path": "",
        "query_string": b"",
        "headers": [(b"x-sign", sign.encode())],
        "client": (peer, 1),
    }
    await hooks(scope, receive, keep)
    return sent[0]


def _make_body(content: bytes | None) -> "asyncio.Future[bytes]":
    made = asyncio.get_running_loop().create_future()
    if content is not None:
        made.set_result(content)
    return made


STRANGER, PLATFORM, PROXY = "8.8.8.8", "9.9.9.9", "127.0.0.1"


@pytest.mark.parametrize(("stranger", "most"), [(STRANGER, UNPROVED_OF_PEER), (PROXY, UNPROVED_AT_ONCE)])
async def test_a_stranger_who_sends_slowly_keeps_nobody_else_out(hooked: Hooked, stranger: str, most: int) -> None:
    """Not even behind the same proxy: the slowest makes room."""
    hooks, body = ChannelHooks({"phone": hooked}, Config()), _make_body(None)
    slow = [asyncio.create_task(_post(hooks, stranger, body)) for _ in range(most + 3)]
    await until(lambda: sum(each.done() for each in slow) == 3)
    assert [each.result() for each in slow if each.done()] == [429] * 3 and all(each.done() for each in slow[:3])
    assert await _post(hooks, stranger, _make_body(b"{}")) == 200
    assert await _post(hooks, PLATFORM, _make_body(b"{}")) == 200
    for each in slow:
        each.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_many_strangers_who_send_slowly_make_room_for_a_platform(hooked: Hooked) -> None:
    hooks, body = ChannelHooks({"phone": hooked}, Config()), _make_body(None)
    peers = [f"8.8.{number}.8" for number in range(UNPROVED_AT_ONCE // UNPROVED_OF_PEER + 1)]
    slow = [asyncio.create_task(_post(hooks, peer, body)) for peer in peers for _ in range(UNPROVED_OF_PEER)]
    await until(lambda: any(each.done() for each in slow))
    assert await _post(hooks, PLATFORM, _make_body(b"{}")) == 200
    for each in slow:
        each.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


@pytest.mark.parametrize("stranger", [STRANGER, PROXY])
async def test_wrong_signatures_do_not_count_for_the_platform(hooked: Hooked, stranger: str) -> None:
    arrivals = Rate(per_second=0.01, burst=3, patience_s=float("inf"))
    hooks = ChannelHooks({"phone": hooked}, Config(), arrivals=arrivals)
    for _ in range(2 * FAILURES.burst):
        assert await _post(hooks, stranger, _make_body(b"{}"), sign="wrong") in (401, 429)
    assert await _post(hooks, PROXY if stranger == PROXY else PLATFORM, _make_body(b"{}")) == 200


async def test_who_proves_nothing_again_and_again_is_refused_before_the_body_is_read(hooked: Hooked) -> None:
    hooks = ChannelHooks({"phone": hooked}, Config())
    for _ in range(FAILURES.burst + 1):
        assert await _post(hooks, STRANGER, _make_body(b"{}"), sign="wrong") == 401
    assert await _post(hooks, STRANGER, _make_body(None), sign="wrong") == 429
    assert hooked.strangers == FAILURES.burst + 1


async def test_a_proxy_that_the_operator_names_has_no_budget(hooked: Hooked) -> None:
    hooks = ChannelHooks({"phone": hooked}, Config({"http.connections_per_peer": 0}))
    for _ in range(2 * FAILURES.burst):
        assert await _post(hooks, STRANGER, _make_body(b"{}"), sign="wrong") == 401
    assert await _post(hooks, STRANGER, _make_body(b"{}")) == 200


class Streamed(Deaf):
    """A channel that answers by itself. The proof of strangers takes until the gate opens."""

    def __init__(self) -> None:
        self.gate, self.asked = asyncio.Event(), 0

    async def answer_stream(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        is_right = dict(scope["headers"])[b"x-sign"] == b"right"
        if is_right:
            scope[ADMIT]()
        else:
            await self.gate.wait()
        await Response(status_code=200 if is_right else 401)(scope, receive, send)


async def test_strangers_take_no_place_of_a_stream_before_they_are_proved() -> None:
    streamed = Streamed()
    hooks = ChannelHooks({"program": streamed}, Config(), at_once=2)
    strangers = [asyncio.create_task(_post(hooks, PROXY, _make_body(b""), "/program", "wrong")) for _ in range(AT_ONCE)]
    await until(lambda: streamed.asked == AT_ONCE)
    assert await _post(hooks, PROXY, _make_body(b""), "/program") == 200
    streamed.gate.set()
    assert set(await asyncio.wait_for(asyncio.gather(*strangers), PATIENCE_S)) == {401}


async def test_a_stream_whose_caller_proves_nothing_in_time_is_ended() -> None:
    hooks = ChannelHooks({"program": Streamed()}, Config(), body_s=0.01)
    assert await _post(hooks, STRANGER, _make_body(b""), "/program", "wrong") == 408


async def test_bodies_that_come_together_find_no_more_places_than_there_are(hooked: Hooked) -> None:
    hooks, body = ChannelHooks({"phone": hooked}, Config(), at_once=2), _make_body(None)
    hooked.gate = asyncio.Event()
    posted = [asyncio.create_task(_post(hooks, f"192.0.2.{number}", body)) for number in range(5)]
    body.set_result(b"{}")
    await until(lambda: sum(each.done() for each in posted) == 3)
    hooked.gate.set()
    assert sorted(await asyncio.wait_for(asyncio.gather(*posted), PATIENCE_S)) == [200, 200, 429, 429, 429]
    assert len(hooked.requests) == 2


@pytest.mark.parametrize("status", [400, 413])
async def test_whatever_a_stranger_fails_with_uses_up_their_budget(status: int) -> None:
    class Picky(Hooked):
        async def answer_hook(self, request: HookRequest) -> HookResponse:
            self.strangers += 1
            return HookResponse(status=status)

    hooks = ChannelHooks({"phone": Picky()}, Config({}))
    for _ in range(FAILURES.burst + 1):
        assert await _post(hooks, STRANGER, _make_body(b"{}")) == status
    assert await _post(hooks, STRANGER, _make_body(None)) == 429


class HeadFirst(Hooked):
    """One whose head alone says who sent it."""

    async def check_hook_head(self, head: HookRequest) -> HookResponse | None:
        assert head.body == b""
        if head.headers.get("x-sign") != "right":
            return HookResponse(status=401)
        head.admit()
        return None


async def test_a_request_whose_head_proves_nothing_is_refused_before_its_body_is_sent() -> None:
    channel = HeadFirst()
    async with serving(ChannelHooks({"phone": channel}, Config({}))) as base:
        reader, writer = await asyncio.open_connection(*base.removeprefix("http://").rstrip("/").split(":"))
        writer.write(b"POST /phone HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n")  # and nothing follows
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n"), PATIENCE_S)
        writer.close()
        assert b"401" in answer and channel.requests == []
        async with httpx2.AsyncClient(base_url=base) as client:
            sent = await client.post("/phone", content=b"x" * 900_000, headers={"x-sign": "right"})
        assert sent.status_code == 200 and len(channel.requests[0].body) == 900_000


async def test_bytes_of_strangers_are_read_at_one_pace_and_those_of_a_proved_sender_are_not(
    hooked: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pace is counted, not timed: what strangers together still owe."""
    hooks, proved = ChannelHooks({"phone": hooked}, Config({})), HeadFirst()
    other = ChannelHooks({"phone": proved}, Config({}))

    def get_debt(each: ChannelHooks) -> float:
        return each._unproved._volume.charge(0, asyncio.get_running_loop().time())

    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(hook_admission.asyncio, "sleep", sleep)  # type: ignore[attr-defined]
    async with serving(hooks) as base, httpx2.AsyncClient(base_url=base) as client:
        for _ in range(20):
            await client.post("/phone", content=b"x" * FIRST_BYTES, headers={"x-sign": "wrong"})
        assert not any(slept) and not get_debt(hooks)  # small ones are what platforms send
        for _ in range(8):
            await client.post("/phone", content=b"x" * 1_000_000, headers={"x-sign": "wrong"})
    assert max(slept) > 0 and 0 < get_debt(hooks) <= MOST_DEBT_S + 1  # and never more: others are refused for a moment
    async with serving(other) as base, httpx2.AsyncClient(base_url=base) as client:
        for _ in range(8):
            await client.post("/phone", content=b"x" * 1_000_000, headers={"x-sign": "right"})
    assert not get_debt(other)


async def test_whoever_fails_without_an_address_of_their_own_is_answered_ever_slower(
    hooked: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(hook_admission.asyncio, "sleep", sleep)  # type: ignore[attr-defined]
    async with (
        serving(ChannelHooks({"phone": hooked}, Config({}))) as base,
        httpx2.AsyncClient(base_url=base) as client,
    ):
        for _ in range(2 * FAILURES_OF_ALL.burst):
            await client.post("/phone", headers={"x-sign": "wrong"})
        assert slept[0] == 0 and max(slept) > 0
        assert (await client.post("/phone")).status_code == 200  # and a platform behind the same proxy is not held up
