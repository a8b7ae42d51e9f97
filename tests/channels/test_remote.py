"""A program elsewhere as an adapter: the protocol over HTTP, and what a token can never do."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gatepost.channels.contract import CHANNELS, ChannelDeps, ChannelEnded, ChannelPulse
from gatepost.channels.remote import OFFERED, wire
from gatepost.channels.remote.adapter import RESERVED, RemoteProgram
from gatepost.channels.remote.exchange import MOST_WAITING, EffectExchange
from gatepost.channels.remote.uploads import UploadStore
from gatepost.channels.remote.wire import EffectKind
from gatepost.core import registry
from gatepost.core.clock import SystemClock
from gatepost.core.errors import Invalid, Refused, Unavailable
from gatepost.core.settings import Config
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature, Op, Outbound, OutboundFile, PassedMessage
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, serve_hooks
from gatepost_testing.waiting import PATIENCE_S, until

TOKEN = "the-token-of-this-program"
ROOM = "bridge:team"
EVENT = {"address": ROOM, "platform_id": "m1", "sender": "bridge:user/ann", "text": "hi"}


def make(folder: Path | None = None, instance: str = "bridge", **settings: Any) -> RemoteProgram:
    registry.load_package("gatepost.channels")
    clock = SystemClock()

    async def check_token(shown: str) -> bool:
        return shown == TOKEN

    deps = ChannelDeps(
        instance=instance,
        config=Config({f"channels.remote.{name}": value for name, value in settings.items()}),
        clock=clock,
        pulse=ChannelPulse(clock),
        folder=folder,
        check_token=check_token,
    )
    made = CHANNELS["remote"].make(deps)
    assert isinstance(made, RemoteProgram)
    return made


class Program:
    def __init__(self, client: httpx2.AsyncClient, url: str, name: str = "one", token: str = TOKEN) -> None:
        self._client, self._url = client, url
        self._headers = {"authorization": f"Bearer {token}", "x-gatepost-program": name}

    async def call(self, method: str, path: str, **more: Any) -> httpx2.Response:
        headers = {**self._headers, **more.pop("headers", {})}
        return await self._client.request(method, self._url + path, headers=headers, timeout=PATIENCE_S, **more)

    async def post(self, *events: dict[str, Any]) -> httpx2.Response:
        return await self.call("POST", "/events", json={"events": list(events)})

    async def take(self, wait: float = 20.0) -> list[dict[str, Any]]:
        answer = await self.call("GET", f"/effects?wait={wait}")
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["effects"]
        return found

    async def settle(self, effect: str, **outcome: Any) -> int:
        return (await self.call("POST", f"/effects/{effect}", json=outcome)).status_code


class Desk:
    def __init__(self, channel: RemoteProgram, received: ReceivedEvents, client: httpx2.AsyncClient, url: str) -> None:
        self.channel, self.received, self.client, self.url = channel, received, client, url
        self.program = Program(client, url)

    def send(self, **more: Any) -> asyncio.Task[str]:
        message = Outbound(**{"key": "k1", "text": "hello", **more})
        return asyncio.create_task(self.channel.send(ROOM, message))


@asynccontextmanager
async def open_desk(channel: RemoteProgram) -> AsyncIterator[Desk]:
    async with (
        listening(channel) as received,
        serve_hooks(channel, channel.platform) as url,
        httpx2.AsyncClient() as client,
    ):
        await until(lambda: channel._inbox.is_open)  # until then a program is told to come again
        yield Desk(channel, received, client, url)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(make(tmp_path, features=("keyed", "files"), answer_s=2.0, largest_file=1000)) as made:
        yield made


async def test_events_are_durable_when_they_are_answered_and_known_when_they_come_again(desk: Desk) -> None:
    edit = {**EVENT, "event": "edit:2", "verb": "edit", "text": "hi!", "thread": "t", "at_ms": 1_700_000_000_000}
    answers = [(await desk.program.post(EVENT, edit)).json()["receipts"] for _ in range(2)]
    assert [[each["new"] for each in receipts] for receipts in answers] == [[True, True], [False, False]]
    assert answers[0][1]["event"] == "edit:2"
    first, second = desk.received.events
    assert (first.address, first.sender, first.text) == (ROOM, "bridge:user/ann", "hi")
    assert (second.verb, second.thread, second.at) == (Verb.EDIT, "t", 1_700_000_000_000_000)


async def test_a_click_comes_with_the_id_of_its_button(desk: Desk) -> None:
    assert (await desk.program.post({**EVENT, "event": "click", "click": "t:0", "text": ""})).status_code == 200
    assert desk.received.events[0].click == "t:0"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"address": "telegram:group/1"}, "address: it begins with telegram:"),
        ({"address": "web:home"}, "address"),
        ({"sender": "telegram:user/9"}, "sender"),
        ({"sender": "terminal:owner"}, "sender"),
        ({"sender": "bridge:ann"}, "sender"),
        ({"sender": "gatepost:self"}, "sender"),
        ({"sender": "bridge:user/"}, "sender"),
        ({"reply_to": {"platform_id": "m0", "sender": "web:user/1"}}, "sender"),
        ({"address": "bridge:a b"}, "address"),
        ({"platform_id": ""}, "platform_id"),
        ({"platform_id": "x" * 256}, "platform_id"),
        ({"thread": "a\nb"}, "thread"),
        ({"text": "x" * 100_001}, "text"),
        ({"event": "Message"}, "event"),
        ({"event": "click"}, "click"),
        ({"click": "t:0"}, "click"),
        ({"at_ms": -1}, "at_ms"),
        ({"verb": "shout"}, "verb"),
        ({"kind": "system"}, "kind"),
        ({"attachments": [{"file": "file-0"}]}, "attachments"),
    ],
)
def test_an_event_that_is_wrong_or_of_others_is_refused(changes: dict[str, Any], named: str) -> None:
    body = json.dumps({"events": [EVENT, {**EVENT, "platform_id": "m2", **changes}]}).encode()
    with pytest.raises(Invalid, match=rf"(events\[1\].*{named}|`{named}`.*events\[1\])"):
        wire.read_events(body, "bridge", UploadStore(None, 1).find)


async def test_a_batch_with_a_wrong_event_is_refused_whole(desk: Desk) -> None:
    answer = await desk.program.post(EVENT, {**EVENT, "platform_id": "m2", "sender": "telegram:user/9"})
    assert answer.status_code == 400 and "events[1].sender" in answer.json()["error"]
    assert desk.received.calls == 0


async def test_what_cannot_be_kept_now_is_to_be_posted_again(desk: Desk) -> None:
    desk.received.error = Unavailable("the store", "it is busy")
    answer = await desk.program.post(EVENT)
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable") and int(answer.headers["retry-after"])
    desk.received.error = None
    assert (await desk.program.post(EVENT)).json()["receipts"][0]["new"]


@pytest.mark.parametrize("token", ["wrong", TOKEN[:-1], "x" * 500])
async def test_without_the_token_nothing_is_answered(desk: Desk, token: str) -> None:
    stranger = Program(desk.client, desk.url, "stranger", token)
    waiting = desk.send()
    for method, path in (("GET", "/"), ("GET", "/effects"), ("POST", "/events"), ("POST", "/beat"), ("POST", "/files")):
        answer = await stranger.call(method, path)
        assert (answer.status_code, answer.json()["code"]) == (401, "token")
    (effect,) = await desk.program.take()
    await desk.program.settle(effect["id"], status="sent", platform_id="p")
    await waiting


async def test_a_program_names_itself(desk: Desk) -> None:
    answer = await Program(desk.client, desk.url, "a b").call("POST", "/beat")
    assert answer.status_code == 400 and "x-gatepost-program" in answer.json()["error"]


async def test_an_effect_is_taken_once_and_its_outcome_is_the_answer(desk: Desk) -> None:
    polling = asyncio.create_task(desk.program.take())
    sending = desk.send(text="**bold**", thread="t", reply_to="m1")
    (effect,) = await polling
    assert (effect["kind"], effect["address"]) == ("send", ROOM)
    wanted = {"key": "k1", "op": "send", "text": "**bold**", "thread": "t", "reply_to": "m1"}
    assert effect["message"] == wanted
    assert await desk.program.take(wait=0) == []
    assert await desk.program.settle(effect["id"], status="sent", platform_id="p1") == 204
    assert await sending == "p1"
    assert await desk.program.settle(effect["id"], status="sent", platform_id="p1") == 404


def test_a_program_that_forwards_is_not_told_where_files_lie() -> None:
    file = OutboundFile(name="a", mime="text/plain", path="/home/media/in/f-1/a", size=1)
    passed = PassedMessage(author="Ann", text="x", files=(file,))
    shown = wire.render_message("e1", Outbound(key="k", op=Op.FORWARD, target="m1", passed=passed))
    assert shown == {"key": "k", "op": "forward", "target": "m1"}


@pytest.mark.parametrize(
    ("outcome", "uncertain", "after"),
    [
        ({"status": "unavailable", "reason": "busy", "retry_after": 7, "everywhere": True}, False, 7),
        ({"status": "unavailable", "uncertain": True}, True, None),
        ({"status": "sent"}, True, None),  # it happened, and has no name
    ],
)
async def test_what_did_not_happen_and_what_may_have_are_told_apart(
    desk: Desk, outcome: dict[str, Any], uncertain: bool, after: float | None
) -> None:
    sending = desk.send()
    (effect,) = await desk.program.take()
    assert await desk.program.settle(effect["id"], **outcome) == 204
    with pytest.raises(Unavailable) as raised:
        await sending
    assert (raised.value.uncertain, raised.value.retry_after) == (uncertain, after)
    assert raised.value.everywhere == outcome.get("everywhere", False)


async def test_a_refusal_is_final(desk: Desk) -> None:
    sending = desk.send()
    (effect,) = await desk.program.take()
    await desk.program.settle(effect["id"], status="refused", reason="the room is closed")
    with pytest.raises(Refused, match="the room is closed"):
        await sending


async def test_an_outcome_that_cannot_be_read_leaves_the_effect_open(desk: Desk) -> None:
    sending = desk.send()
    (effect,) = await desk.program.take()
    assert await desk.program.settle(effect["id"], status="maybe") == 400
    assert await desk.program.settle(effect["id"], status="sent", platform_id="p", more=1) == 400
    assert await desk.program.settle(effect["id"], status="sent", platform_id="p") == 204
    assert await sending == "p"


async def test_taken_and_not_answered_is_uncertain_not_taken_is_not(tmp_path: Path) -> None:
    exchange = EffectExchange("it", answer_s=0.05, pickup_s=0.05)
    with pytest.raises(Unavailable) as raised:
        await exchange.ask(EffectKind.SEND, ROOM, Outbound(key="k"))
    assert not raised.value.uncertain
    assert exchange.claim("one") == []
    for is_effect in (True, False):
        asking = asyncio.create_task(exchange.ask(EffectKind.SEND, ROOM, Outbound(key="k"), is_effect=is_effect))
        await exchange.wait(lambda: False)
        exchange.claim("one")
        with pytest.raises(Unavailable) as raised:
            await asking
        assert raised.value.uncertain is is_effect


async def test_no_more_waits_than_there_is_place_for() -> None:
    exchange = EffectExchange("it", answer_s=1.0)
    waiting = [
        asyncio.create_task(exchange.ask(EffectKind.SEND, ROOM, Outbound(key=f"k{number}")))
        for number in range(MOST_WAITING)
    ]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="too much waits"):
        await exchange.ask(EffectKind.SEND, ROOM, Outbound(key="one more"))
    for number in range(200):
        exchange.show_typing(f"{ROOM}{number}", "", True)
    assert len([each for each in exchange.claim("one") if each.kind is EffectKind.TYPING]) == 50
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_poll_whose_caller_hung_up_takes_nothing(desk: Desk) -> None:
    async with httpx2.AsyncClient() as other:
        polling = asyncio.create_task(Program(other, desk.url).take())
        await until(lambda: desk.channel.active_program.open_polls == 1)
        assert "waits" in (await desk.channel.check()).notes[0]
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
    await until(lambda: desk.channel.active_program.open_polls == 0)
    sending = desk.send()
    (effect,) = await desk.program.take()
    await desk.program.settle(effect["id"], status="sent", platform_id="p")
    assert await sending == "p"


async def test_the_newest_poll_of_a_program_gets_the_effects_and_the_older_ends(desk: Desk) -> None:
    older = asyncio.create_task(desk.program.take())
    await until(lambda: desk.channel.active_program.is_newest(1))
    newer = asyncio.create_task(desk.program.take())
    assert await asyncio.wait_for(older, PATIENCE_S) == []
    sending = desk.send()
    (effect,) = await newer
    await desk.program.settle(effect["id"], status="sent", platform_id="p")
    await sending


async def test_a_newer_program_wins_and_the_older_is_told_and_never_comes_back(desk: Desk) -> None:
    sending = desk.send()
    (effect,) = await desk.program.take()
    held = asyncio.create_task(desk.program.call("GET", "/effects?wait=20"))
    await until(lambda: desk.channel.active_program.is_newest(2))
    second = Program(desk.client, desk.url, "two")
    assert (await second.call("POST", "/beat")).status_code == 204
    answer = await held
    assert (answer.status_code, answer.json()["code"]) == (409, "replaced")
    assert await desk.program.settle(effect["id"], status="sent", platform_id="p") == 204  # what it took it may answer
    assert await sending == "p"
    assert (await desk.program.post(EVENT)).status_code == 409
    assert (await second.post(EVENT)).status_code == 200
    assert desk.channel._deps.pulse is not None and "two took its place" in desk.channel._deps.pulse.note


@pytest.mark.slow
async def test_what_a_replaced_program_had_taken_becomes_uncertain(tmp_path: Path) -> None:
    async with open_desk(make(tmp_path, answer_s=0.3)) as desk:
        sending = desk.send()
        await desk.program.take()
        await Program(desk.client, desk.url, "two").call("POST", "/beat")
        with pytest.raises(Unavailable) as raised:
            await sending
        assert raised.value.uncertain


async def test_effects_come_as_a_stream_for_who_asks_for_one(desk: Desk) -> None:
    headers = {**desk.program._headers, "accept": "text/event-stream"}
    sending = desk.send()
    async with (
        asyncio.timeout(PATIENCE_S),
        desk.client.stream("GET", f"{desk.url}/effects", headers=headers) as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.aiter_lines()
        effect = await next_data(lines)
        await desk.program.settle(effect["id"], status="sent", platform_id="p")
        assert await sending == "p"
        await Program(desk.client, desk.url, "two").call("POST", "/beat")
        assert (await next_data(lines))["code"] == "replaced"


async def next_data(lines: AsyncIterator[str]) -> dict[str, Any]:
    async for line in lines:
        if line.startswith("data: "):
            found: dict[str, Any] = json.loads(line.removeprefix("data: "))
            return found
    raise AssertionError("the stream ended")


async def test_files_come_in_before_their_event_and_stream(desk: Desk) -> None:
    posted = await desk.program.call(
        "POST", "/files?name=a.txt", content=b"abc", headers={"content-type": "text/plain"}
    )
    assert posted.status_code == 201
    file = posted.json()["file"]
    for number in range(2):  # posted again, its file is still there
        event = {**EVENT, "platform_id": f"m{number}", "attachments": [{"file": file}]}
        assert (await desk.program.post(event)).status_code == 200
    (attachment,) = desk.received.events[0].attachments
    assert (attachment.name, attachment.mime, attachment.size) == ("a.txt", "text/plain", 3)
    assert attachment.open is not None
    assert b"".join([chunk async for chunk in attachment.open()]) == b"abc"


async def test_a_file_that_is_too_large_leaves_nothing_behind(desk: Desk, tmp_path: Path) -> None:
    answer = await desk.program.call("POST", "/files", content=b"x" * 1001)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert list((tmp_path / "uploads").iterdir()) == []
    for _ in range(4):
        assert (await desk.program.call("POST", "/files", content=b"x" * 1000)).status_code == 201
    for _ in range(2):
        full = await desk.program.call("POST", "/files", content=b"x" * 1000)
    assert full.status_code == 503


async def test_a_file_that_goes_out_can_be_read_until_its_effect_is_answered(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"picture")
    file = OutboundFile(name="p.png", mime="image/png", path=str(tmp_path / "out"), size=7)
    sending = desk.send(files=(file,), op=Op.FILE)
    (effect,) = await desk.program.take()
    (shown,) = effect["message"]["files"]
    assert (shown["name"], shown["mime"], shown["size"]) == ("p.png", "image/png", 7) and "path" not in shown
    assert (await desk.program.call("GET", f"/files/{shown['id']}")).content == b"picture"
    for wrong in (f"{effect['id']}-1", f"{effect['id']}-x", effect["id"], "fx-0-0", f"{effect['id']}-٣"):
        assert (await desk.program.call("GET", f"/files/{wrong}")).status_code == 404
    await desk.program.settle(effect["id"], status="sent", platform_id="p")
    await sending
    assert (await desk.program.call("GET", f"/files/{shown['id']}")).status_code == 404


async def test_a_look_up_finds_or_does_not_and_typing_needs_no_answer(desk: Desk) -> None:
    for outcome, found in (({"status": "sent", "platform_id": "p"}, "p"), ({"status": "not_found"}, None)):
        asking = asyncio.create_task(desk.channel.look_up(ROOM, "k1"))
        (effect,) = await desk.program.take()
        assert (effect["kind"], effect["key"]) == ("look_up", "k1")
        await desk.program.settle(effect["id"], **outcome)
        assert await asking == found
    await desk.channel.typing(ROOM, "t", True)
    await desk.channel.typing(ROOM, "t", False)
    (effect,) = await desk.program.take()
    assert (effect["kind"], effect["thread"], effect["on"]) == ("typing", "t", False)


async def test_a_private_room_is_one_of_its_own_platform(desk: Desk) -> None:
    for address, error in (("bridge:dm/9", None), ("telegram:9", Invalid)):
        asking = asyncio.create_task(desk.channel.open_direct("bridge:user/9"))
        (effect,) = await desk.program.take()
        assert effect["kind"] == "open_direct"
        await desk.program.settle(effect["id"], status="sent", address=address)
        if error is None:
            assert await asking == address
        else:
            with pytest.raises(error):
                await asking


async def test_nothing_is_sent_to_rooms_of_others(desk: Desk) -> None:
    with pytest.raises(Invalid):
        await desk.channel.send("telegram:group/1", Outbound(key="k"))


async def test_each_call_is_a_sign_of_life_and_says_who_is_there(desk: Desk) -> None:
    assert "has not called yet" in (await desk.channel.check()).name
    answer = (await desk.program.call("GET", "/")).json()
    assert (answer["platform"], answer["features"]) == ("bridge", ["files", "keyed"])
    assert desk.channel._deps.pulse is not None and desk.channel._deps.pulse.beats == 1
    assert (await desk.channel.check()).name == "the program one"


async def test_a_program_that_is_gone_is_named_and_one_that_comes_back_is_heard_at_once(tmp_path: Path) -> None:
    channel, received = make(tmp_path), ReceivedEvents()
    channel.gone_s = 0.05
    with pytest.raises(Unavailable, match="none has called"):
        await channel.listen(received.receive)
    with pytest.raises(Unavailable, match="none has called") as raised:
        await channel.send(ROOM, Outbound(key="k", text="x"))
    assert not raised.value.uncertain
    async with serve_hooks(channel, "bridge") as url, httpx2.AsyncClient() as client:
        assert (await Program(client, url).post(EVENT)).status_code == 200  # the gateway listens again only later
        await channel.close()
        assert (await Program(client, url).post(EVENT)).status_code == 503
    assert received.texts == ["hi"]


async def test_an_overlong_body_is_refused(desk: Desk) -> None:
    answer = await desk.program.call("POST", "/events", content=b" " * (1024 * 1024 + 1))
    assert answer.status_code == 413
    assert (await desk.program.call("POST", "/events", content=b"[" * 100_000)).status_code == 400
    assert (await desk.program.call("GET", "/effects?wait=1e9")).status_code == 400


@pytest.mark.parametrize("name", ["telegram", "web", "terminal", *sorted(RESERVED)])
def test_a_program_cannot_have_the_name_of_something_else(name: str) -> None:
    with pytest.raises(ChannelEnded, match="another name"):
        make(instance=name)


def test_a_feature_that_nobody_knows_is_named() -> None:
    with pytest.raises(ChannelEnded, match="did you mean"):
        make(features=("edits",))


def test_what_an_instance_can_do_stands_in_its_settings() -> None:
    kind = CHANNELS["remote"]
    assert kind.features == OFFERED and kind.tailor is not None
    values = {"channels.remote.features": ("edit", "keyed"), "channels.remote.max_text": 500}
    made = kind.tailor(kind, "bridge", Config(values))
    assert (made.name, made.features, made.max_text) == ("bridge", {Feature.EDIT, Feature.KEYED}, 500)
