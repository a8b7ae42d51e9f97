"""Programs that wait for an answer: how many, for how long, and what ends a wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from gatepost.core.clock import SystemClock
from gatepost.core.event_bus import EventBus
from gatepost.core.process.listen_address import parse
from gatepost.messages.outbound import Op
from gatepost.serve.http import HttpServer, bind, get_bound_address
from gatepost.serve.web.hook_admission import HookBusy
from gatepost.serve.web.links.hook import HookLinks
from gatepost.serve.web.links.wait import LinkWaits
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectOrigin, NewEffect
from gatepost.store.port import Db
from gatepost.store.rights import switches
from gatepost.store.sessions import turn_claims, turn_failures, turns
from gatepost.store.sessions.turn_failures import FailureCause, TurnRetryPolicy
from gatepost_testing.waiting import PATIENCE_S, until

from .conftest import FOLDER, ROOM, HookDesk


@asynccontextmanager
async def serving(desk: HookDesk, waits: LinkWaits) -> AsyncIterator[httpx2.AsyncClient]:
    listen = parse("127.0.0.1:0")
    sock = bind(listen)
    server = HttpServer(Starlette(routes=HookLinks(desk.make_deps(), waits=waits).routes()), sock)
    running = asyncio.create_task(server.run())
    async with httpx2.AsyncClient(base_url=get_bound_address(listen, sock).url, timeout=PATIENCE_S) as client:
        yield client
    server.stop()
    await asyncio.wait_for(running, PATIENCE_S)


@pytest.fixture
def waits(desk: HookDesk) -> LinkWaits:
    return LinkWaits(desk.store, desk.events, desk.stopping, most=3, most_of_link=2)


async def begin_turn(desk: HookDesk) -> turns.Turn:
    """Of everything that was posted so far."""
    now = SystemClock().now()

    def begin(db: Db) -> turns.Turn:
        (session_id,) = set(desk.woken)
        claim = turn_claims.claim(db, session_id, "demo", "test", now, 60_000_000, 10)
        assert claim is not None
        turns.begin(db, claim.turn.id, claim.turn.epoch, claim.rows, now)
        return claim.turn

    return await desk.store.write(begin)


def say(db: Db, turn: turns.Turn, text: str, address: str = ROOM) -> None:
    new = NewEffect(
        key=f"{turn.id}/{text}",
        op=Op.SEND,
        origin=EffectOrigin.RESULT,
        instance="hook",
        address=address,
        text=text,
        payload={"text": text},
        folder=FOLDER,
        turn_id=turn.id,
    )
    outbox.add(db, new, SystemClock().now())


async def finish(desk: HookDesk, *said: str, elsewhere: str = "") -> None:
    turn = await begin_turn(desk)

    def end(db: Db) -> None:
        for text in said:
            say(db, turn, text)
        if elsewhere:
            say(db, turn, elsewhere, "hook:acme/eng/other")
        assert turns.finish(db, turn.id, turn.epoch, "{}", SystemClock().now())

    await desk.store.write(end)
    desk.events.change("hook", ROOM)


async def wait_at(client: httpx2.AsyncClient, token: str, text: str = "x", seconds: int = 60) -> Any:
    return (await client.post(f"/hook/{token}?wait={seconds}", content=text)).json()["response"]


@pytest.mark.slow
async def test_the_answer_is_what_the_turn_said_in_the_room_of_the_link(desk: HookDesk, waits: LinkWaits) -> None:
    link = await desk.issue()
    async with serving(desk, waits) as client:
        waiting = [asyncio.create_task(wait_at(client, link.secret, text)) for text in ("one", "two")]
        await until(lambda: len(desk.woken) == 2)
        await finish(desk, "first", "second", elsewhere="not for you")
        assert await asyncio.gather(*waiting) == [{"status": "done", "body": "first\n\nsecond"}] * 2
    assert waits.count == 0


@pytest.mark.slow
async def test_silence_and_failure_are_told_without_the_reason(desk: HookDesk, waits: LinkWaits) -> None:
    link = await desk.issue()
    async with serving(desk, waits) as client:
        waiting = asyncio.create_task(wait_at(client, link.secret))
        await until(lambda: len(desk.woken) == 1)
        await finish(desk)
        assert await waiting == {"status": "silent", "body": ""}
        waiting = asyncio.create_task(wait_at(client, link.secret))
        await until(lambda: len(desk.woken) == 2)
        turn, cause = await begin_turn(desk), FailureCause(reason="the key sk-1 is wrong", final=True)
        await desk.store.write(
            turn_failures.record_failure, turn.id, turn.epoch, cause, TurnRetryPolicy(), SystemClock().now()
        )
        desk.events.change("hook", ROOM)
        assert await waiting == {"status": "failed", "body": ""}


@pytest.mark.slow
async def test_what_takes_longer_times_out_and_is_held_while_everything_is_halted(
    desk: HookDesk, waits: LinkWaits
) -> None:
    link = await desk.issue()
    async with serving(desk, waits) as client:
        assert await wait_at(client, link.secret, seconds=1) == {"status": "timeout", "body": ""}
        await desk.store.write(switches.turn_on, switches.PANIC, "fire", "operator", SystemClock().now())
        assert await wait_at(client, link.secret, seconds=1) == {"status": "held", "body": ""}
    assert len(await desk.list_posted()) == 2  # neither is lost


@pytest.mark.slow
async def test_a_repeated_post_waits_for_the_answer_to_the_first(desk: HookDesk, waits: LinkWaits) -> None:
    link = await desk.issue()
    async with serving(desk, waits) as client:
        client.headers["idempotency-key"] = "k-1"
        waiting = [asyncio.create_task(wait_at(client, link.secret)) for _ in range(2)]
        await until(lambda: waits.count == 2 and len(desk.woken) == 1)
        await finish(desk, "once")
        assert await asyncio.gather(*waiting) == [{"status": "done", "body": "once"}] * 2


@pytest.mark.slow
async def test_so_many_wait_at_a_link_and_at_all_and_the_next_posts_nothing(desk: HookDesk, waits: LinkWaits) -> None:
    link, other, third = await desk.issue(), await desk.issue(label="ci"), await desk.issue(label="cd")
    async with serving(desk, waits) as client:
        held = [asyncio.create_task(wait_at(client, link.secret)) for _ in range(2)]
        await until(lambda: waits.count == 2 and len(desk.woken) == 2)
        answer = await client.post(f"/hook/{link.secret}?wait=1", content="x")
        assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1
        assert len(await desk.list_posted()) == 2  # it may simply be posted again
        held.append(asyncio.create_task(wait_at(client, other.secret)))
        await until(lambda: waits.count == 3)
        assert (await client.post(f"/hook/{third.secret}?wait=1", content="x")).status_code == 429
        assert (await client.post(f"/hook/{third.secret}", content="x")).status_code == 204  # who does not wait
        desk.stopping.set()  # a gateway that stops lets nobody wait
        assert [(await each)["status"] for each in held] == ["timeout"] * 3
    assert waits.count == 0


@pytest.mark.slow
async def test_a_program_that_goes_away_gives_its_place_back(desk: HookDesk, waits: LinkWaits) -> None:
    link = await desk.issue()
    async with serving(desk, waits) as client:
        address = client.base_url
        for _ in range(4):  # more than may wait at once
            _, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(f"POST /hook/{link.secret}?wait=60 HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx".encode())
            await until(lambda: waits.count == 1)
            writer.close()
            await until(lambda: waits.count == 0)
    assert len(await desk.list_posted()) == 4


@pytest.mark.slow
@pytest.mark.parametrize("given", ["61", "-1", "1.5", "x", "1e1", "0x1", "٣", "9999999999999"])
async def test_a_wait_that_is_no_number_of_seconds_is_refused_before_anything_is_posted(
    desk: HookDesk, waits: LinkWaits, given: str
) -> None:
    link = await desk.issue()
    async with serving(desk, waits) as client:
        answer = await client.post(f"/hook/{link.secret}", params={"wait": given}, content="x")
        assert answer.status_code == 400 and "wait" in answer.json()["error"]
    assert await desk.list_posted() == [] and waits.count == 0


async def test_places_are_given_back_whatever_happens(store: SqliteStore) -> None:
    waits = LinkWaits(store, EventBus(), asyncio.Event(), most=1)
    with pytest.raises(ZeroDivisionError), waits.claim("tk-1"):
        with pytest.raises(HookBusy), waits.claim("tk-2"):
            pass
        raise ZeroDivisionError
    assert waits.count == 0


async def test_a_bell_of_another_room_or_channel_wakes_nobody(desk: HookDesk) -> None:
    looks = 0

    class Counting:
        async def read(self, fn: Any, *args: Any) -> Any:
            nonlocal looks
            found = await desk.store.read(fn, *args)
            looks += 1
            return found

    link = await desk.issue()
    await desk.post(link.secret, "x")
    (message,) = await desk.list_posted()
    waits = LinkWaits(Counting(), desk.events, desk.stopping)  # type: ignore[arg-type]  # a store that counts
    gone = asyncio.Event()
    waiting = asyncio.create_task(waits.wait(ROOM, message.id, 60, gone.wait))
    await until(lambda: looks == 1)
    for place in (("hook", "hook:acme/eng/other"), ("web", ROOM)):
        desk.events.change(*place)
    gone.set()
    assert (await waiting).status == "timeout"
    assert looks == 2  # one when it began, one when the program was gone
