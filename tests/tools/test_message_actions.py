"""What an agent does with messages that are there, up to what the platform is asked for."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.grants import parse
from gatepost.access.tiers import Tier
from gatepost.channels.contract import CHANNELS
from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.flow.delivery.delivery_loop import DeliveryLoop
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.gate.dispatch import INVALID_PARAMS, Dispatch
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.messages.outbound import Feature, Op, Outbound
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import destinations, messages, outbox
from gatepost.store.messages.outbox import EffectOrigin, NewEffect, OutboxEffect
from gatepost.store.port import Db
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups, sessions
from gatepost.tools.contract import TOOLS
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.channel import EVERYTHING, FakeChannel, SendFault
from gatepost_testing.gate_agent import FOLDERS, PLATFORM, ROOM, GateAgent, is_invalid
from gatepost_testing.waiting import PATIENCE_S

load_package("gatepost.tools")

OTHER, FOREIGN = "fake:room/2", "fake:room/9"
OWN = "what the agent said before"
GOOD: dict[str, dict[str, Any]] = {
    "delete": {"targetId": OWN},
    "dislike": {"targetId": 1},
    "forward": {"sourceMsgId": 1, "chatJid": ROOM},
    "quote": {"sourceMsgId": 1, "comment": "so true"},
    "repost": {"sourceMsgId": 1},
    "pin_message": {"targetId": 1},
    "unpin_message": {"targetId": 1},
    "unpin_all": {},
    "post": {"content": "news"},
}
NEEDED = {
    "delete": Feature.DELETE,
    "dislike": Feature.REACT,
    "forward": Feature.FORWARD,
    "quote": Feature.QUOTE,
    "repost": Feature.REPOST,
    "pin_message": Feature.PIN,
    "unpin_message": Feature.PIN,
    "unpin_all": Feature.UNPIN_ALL,
    "post": Feature.POST,
}
BEGINNINGS = tuple(f"hint: {text}" for text in ("use send", "use reply", "use unpin_message", "nothing can be pinned"))


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore) -> GateAgent:
    agent = await GateAgent.create(tmp_path, store)
    await store.write(destinations.add_room, "acme/eng", "ops", PLATFORM, OTHER, "", 1)
    return agent


@asynccontextmanager
async def delivering(agent: GateAgent, channel: FakeChannel) -> AsyncIterator[FakeChannel]:
    """What the agent does goes out."""
    channels = ChannelInstances({PLATFORM: channel.kind})
    deps, config = agent.deps, Config({"delivery.retry_base_s": 0.01})
    pump = DeliveryLoop(agent.store, deps.clock, config, {PLATFORM: channel}, channels, deps.events, "this run")
    task = asyncio.create_task(pump.run())
    try:
        yield channel
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ended(agent: GateAgent, seq: int) -> OutboxEffect:
    def look(db: Db) -> OutboxEffect:
        message = messages.find_by_seq(db, agent.session.id, seq)
        assert message is not None
        return outbox.list_for_message(db, message.id)[-1]

    async with asyncio.timeout(PATIENCE_S):
        while (effect := await agent.store.read(look)).state not in outbox.END:  # noqa: ASYNC110  nobody rings
            await asyncio.sleep(0.005)
    return effect


def seq_of(answer: ToolAnswer) -> int:
    assert not answer.failed and not answer.code, answer.text
    assert answer.structured is not None
    result = json.loads(answer.structured)
    assert result["ok"] is True
    assert json.loads(answer.text) == result
    return int(result["seq"])


async def effects_of(agent: GateAgent) -> int:
    session = await agent.store.read(sessions.get, agent.session.id)
    assert session is not None
    found = [await agent.store.read(messages.find_by_seq, session.id, seq) for seq in range(1, session.next_seq)]
    return sum(1 for message in found if message is not None and message.direction == "out")


async def arguments(agent: GateAgent, name: str) -> dict[str, Any]:
    """Good ones; where a message of one's own is needed, there is one."""
    given = dict(GOOD[name])
    if given.get("targetId") == OWN:
        given["targetId"] = seq_of(await agent.call("reply", text=OWN))
    return given


async def done(agent: GateAgent, channel: FakeChannel, name: str, **given: Any) -> Outbound:
    """A call, and what the platform was asked for by it."""
    seq = seq_of(await agent.call(name, **given))
    effect = await ended(agent, seq)
    assert effect.state == "sent", effect.reason
    return next(sent.message for sent in channel.sent if sent.message.key == effect.key)


def hear_in(db: Db, address: str, text: str, platform_id: str, kind: str = "chat") -> int:
    rooms.add(db, PLATFORM, address, "", False, RoomPolicy.PUBLIC, 1)
    return add_arrival(
        db, 1, instance=PLATFORM, address=address, kind=kind, sender="fake:user/2", text=text, platform_id=platform_id
    )


@pytest.mark.parametrize("name", sorted(GOOD))
@pytest.mark.parametrize("tier", list(Tier))
async def test_each_tool_is_there_for_its_tiers_and_for_no_other(
    name: str, tier: Tier, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, FOLDERS[tier])
    given = await arguments(agent, name)
    before = await effects_of(agent)
    answer = await agent.call(name, **given)
    assert TOOLS[name].tier is Tier.AGENT
    if tier <= Tier.AGENT:
        assert seq_of(answer) > 0
        assert await effects_of(agent) == before + 1
    else:
        assert (answer.code, answer.text) == (INVALID_PARAMS, f"Unknown tool: {name}")
        assert await effects_of(agent) == before


@pytest.mark.parametrize("name", sorted(GOOD))
async def test_arizuko_34_a_verb_that_the_channel_lacks_is_two_lines_with_a_call_that_works(
    name: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, features=EVERYTHING - {NEEDED[name]})
    given = await arguments(agent, name)
    before = await effects_of(agent)
    answer = await agent.call(name, **given)
    first, second = answer.text.split("\n")
    assert answer.failed
    assert first == f"unsupported: {name} on {PLATFORM}"
    assert second.startswith(BEGINNINGS)
    assert await effects_of(agent) == before


async def test_where_pins_come_off_one_by_one_alone_unpin_all_names_unpin_message(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, features=frozenset({Feature.PIN}))
    answer = await agent.call("unpin_all")
    assert answer.text == f"unsupported: unpin_all on {PLATFORM}\nhint: use unpin_message for each message"


@pytest.mark.parametrize("name", sorted(GOOD))
async def test_arizuko_16_a_room_of_another_group_and_a_room_of_nobodys_are_refused_in_the_same_words(
    name: str, agent: GateAgent, store: SqliteStore
) -> None:
    await store.write(groups.add, "other", "other", "scripted", 1)
    await store.write(sessions.find_or_add, "per-thread", "other", PLATFORM, FOREIGN, "", 1)
    given = await arguments(agent, name)
    before = await effects_of(agent)
    room = TOOLS[name].scoped_by or ""
    for address in (FOREIGN, "fake:room/404"):
        answer = await agent.call(name, **{**given, room: address})
        assert answer.failed
        why = "it has no route to this group or those below it"
        assert answer.text == f"acme/eng may not {name} on {address}: {why}"
    assert await effects_of(agent) == before


@pytest.mark.parametrize(
    ("name", "given", "field"),
    [
        ("delete", {}, "targetId"),
        ("dislike", {"targetId": []}, "targetId"),
        ("forward", {"sourceMsgId": 1}, "chatJid"),
        ("forward", {"sourceMsgId": 1, "chatJid": ""}, "chatJid"),
        ("quote", {"sourceMsgId": 1}, "comment"),
        ("repost", {}, "sourceMsgId"),
        ("pin_message", {"targetId": -1}, "targetId"),
        ("unpin_message", {"targetId": 1, "all": True}, "all"),
        ("unpin_all", {"targetId": 1}, "targetId"),
        ("post", {"content": "x", "media": "one.png"}, "media"),
        ("post", {"content": "x", "media": ["x"] * 21}, "media"),
    ],
)
async def test_bad_arguments_are_named(name: str, given: dict[str, Any], field: str, agent: GateAgent) -> None:
    answer = await agent.call(name, **given)
    assert is_invalid(answer)
    assert field in answer.text


@pytest.mark.parametrize(("name", "field"), [("post", "content"), ("quote", "comment"), ("forward", "comment")])
async def test_words_that_are_none_or_too_many_are_invalid(
    name: str, field: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, max_text=10)
    for text, why in (("\x00 ", "is empty"), ("x" * 11, "has 11 characters; one message takes 10 here")):
        answer = await agent.call(name, **{**GOOD[name], field: text})
        assert (answer.failed, answer.text) == (True, f"{field}: {why}")
    assert await effects_of(agent) == 0


@pytest.mark.parametrize("name", [name for name in sorted(GOOD) if name not in ("post", "unpin_all")])
async def test_a_message_that_is_not_there_is_named(name: str, agent: GateAgent) -> None:
    field = "targetId" if "targetId" in GOOD[name] else "sourceMsgId"
    answer = await agent.call(name, **{**GOOD[name], field: "p-404"})
    assert answer.failed
    assert answer.text.startswith("no message named 'p-404'")
    assert await effects_of(agent) == 0


# What reaches the platform.


async def test_delete_takes_back_an_own_message_and_no_other(agent: GateAgent, store: SqliteStore) -> None:
    async with delivering(agent, FakeChannel()) as channel:
        seq = seq_of(await agent.call("send", text="oops"))
        await ended(agent, seq)
        asked = await done(agent, channel, "delete", targetId=seq)
    assert (asked.op, asked.target) == (Op.DELETE, channel.sent[0].platform_id)

    await store.write(hear_in, ROOM, "mine", "p-7")
    for named in (1, "p-7"):
        answer = await agent.call("delete", targetId=named)
        assert answer.failed
        assert answer.text.endswith("only your own messages")


async def test_dislike_is_a_thumb_down(agent: GateAgent) -> None:
    async with delivering(agent, FakeChannel()) as channel:
        asked = await done(agent, channel, "dislike", targetId=1)
    assert (asked.op, asked.reaction) == (Op.REACT, "👎")


async def test_pins_are_set_and_taken_off(agent: GateAgent) -> None:
    async with delivering(agent, FakeChannel()) as channel:
        seq = await agent.receive("second", platform_id="p-2")
        pinned = await done(agent, channel, "pin_message", targetId=1)
        await done(agent, channel, "pin_message", targetId="p-2")
        assert channel.pinned(ROOM) == [pinned.target, "p-2"]
        await done(agent, channel, "unpin_message", targetId=seq)
        assert channel.pinned(ROOM) == [pinned.target]
        await done(agent, channel, "unpin_all")
        assert channel.pinned(ROOM) == []


async def test_post_publishes_its_words_and_its_files(agent: GateAgent) -> None:
    folder = agent.deps.home.group("acme/eng")
    (folder / "one.png").write_bytes(b"1")
    (folder / "two.txt").write_bytes(b"22")
    async with delivering(agent, FakeChannel()) as channel:
        asked = await done(agent, channel, "post", content="look", media=["one.png", "/workspace/agent/two.txt"])
    assert (asked.op, asked.text) == (Op.POST, "look")
    assert [(file.name, file.mime, file.size) for file in asked.files] == [
        ("one.png", "image/png", 1),
        ("two.txt", "text/plain", 2),
    ]
    assert list((agent.deps.home.media / "out").iterdir()) == []


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "link", "id_rsa", "missing"])
async def test_arizuko_33_media_that_lead_out_are_refused_and_leave_nothing(path: str, agent: GateAgent) -> None:
    folder = agent.deps.home.group("acme/eng")
    for name in ("fine.txt", "id_rsa"):
        (folder / name).write_text("x")
    (folder / "link").symlink_to("/etc/passwd")
    answer = await agent.call("post", content="x", media=["fine.txt", path])
    assert answer.failed
    assert await effects_of(agent) == 0
    out = agent.deps.home.media / "out"
    assert not out.exists() or list(out.iterdir()) == []


async def test_forward_gives_a_message_of_this_room_to_another(agent: GateAgent) -> None:
    await agent.receive("second", platform_id="p-2")
    async with delivering(agent, FakeChannel()) as channel:
        asked = await done(agent, channel, "forward", sourceMsgId="p-2", targetJid="ops", comment="fyi")
    assert (asked.op, asked.source, asked.target, asked.text) == (Op.FORWARD, ROOM, "p-2", "fyi")
    assert channel.sent[0].address == OTHER


async def test_a_source_in_another_room_is_named_with_its_room(agent: GateAgent, store: SqliteStore) -> None:
    await store.write(hear_in, OTHER, "from there", "p-5")
    async with delivering(agent, FakeChannel()) as channel:
        for name, more in (("forward", {"chatJid": ROOM}), ("quote", {"comment": "ha"}), ("repost", {})):
            asked = await done(agent, channel, name, sourceMsgId="p-5", sourceJid="ops", **more)
            assert (asked.op, asked.source, asked.target) == (Op(name), OTHER, "p-5")
        here = await done(agent, channel, "quote", sourceMsgId="p-5", comment="ha", chatJid="ops")
        assert (here.source, here.target) == (OTHER, "p-5")


@pytest.mark.parametrize("name", ["forward", "quote", "repost"])
async def test_what_lies_in_a_room_out_of_reach_cannot_be_passed_on_however_it_is_named(
    name: str, agent: GateAgent, store: SqliteStore
) -> None:
    await store.write(hear_in, FOREIGN, "their secret", "p-9")
    good = {**GOOD[name], "sourceMsgId": "p-9"}
    named = await agent.call(name, **good, sourceJid=FOREIGN)
    unnamed = await agent.call(name, **good)
    assert named.failed and f"acme/eng may not {name} on {FOREIGN}" in named.text
    assert unnamed.failed and unnamed.text.startswith("no message named 'p-9'")
    assert await effects_of(agent) == 0


async def test_a_number_of_this_session_in_another_room_needs_that_rooms_name(
    agent: GateAgent, store: SqliteStore
) -> None:
    seq = seq_of(await agent.call("send", text="said there", chatJid="ops"))
    answer = await agent.call("repost", sourceMsgId=seq)
    assert answer.failed
    assert answer.text == f"sourceMsgId: message {seq} is not in this room; name its room in sourceJid"
    async with delivering(agent, FakeChannel()):
        await ended(agent, seq)
    assert seq_of(await agent.call("repost", sourceMsgId=seq, sourceJid="ops"))


async def test_what_is_not_on_its_platform_yet_is_not_passed_on_to_another_room(agent: GateAgent) -> None:
    seq = seq_of(await agent.call("send", text="hot off the press"))
    early = await agent.call("forward", sourceMsgId=seq, targetJid="ops")
    assert early.failed
    assert early.text.startswith(f"message {seq} is unavailable: it is not on the platform yet")
    async with delivering(agent, FakeChannel()) as channel:
        await ended(agent, seq)
        asked = await done(agent, channel, "forward", sourceMsgId=seq, targetJid="ops")
        assert asked.target == channel.sent[0].platform_id


@pytest.mark.parametrize("name", [name for name in sorted(GOOD) if name not in ("post", "unpin_all", "delete")])
async def test_what_nobody_wrote_in_the_room_cannot_be_acted_on(
    name: str, agent: GateAgent, store: SqliteStore
) -> None:
    await store.write(hear_in, ROOM, "", "delivery:1", "system")
    field = "targetId" if "targetId" in GOOD[name] else "sourceMsgId"
    answer = await agent.call(name, **{**GOOD[name], field: "delivery:1"})
    assert answer.failed
    assert answer.text.startswith(f"{field}: delivery:1 was not written in the room")
    assert await effects_of(agent) == 0


async def test_a_rule_may_speak_of_the_source(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, rules=(parse("forward"), parse(f"!forward(sourceJid={OTHER})")))
    await store.write(destinations.add_room, "acme/eng", "ops", PLATFORM, OTHER, "", 1)
    await store.write(hear_in, OTHER, "from there", "p-5")
    assert seq_of(await agent.call("forward", sourceMsgId=1, targetJid="ops"))
    answer = await agent.call("forward", sourceMsgId="p-5", sourceJid="ops", targetJid=ROOM)
    assert answer.failed
    assert "a rule of this gateway forbids it" in answer.text


async def test_nothing_is_forwarded_from_one_platform_to_another(agent: GateAgent, store: SqliteStore) -> None:
    await store.write(destinations.add_room, "acme/eng", "mail", "second", "second:box/1", "", 1)
    channels = ChannelInstances({name: FakeChannel(platform=name).kind for name in (PLATFORM, "second")})
    gate = Dispatch(TOOLS, replace(agent.deps, channels=channels))
    answer = await gate.call(agent.caller, "forward", b'{"sourceMsgId": 1, "targetJid": "mail"}', "c.1")
    first, second = answer.text.split("\n")
    assert first == "unsupported: forward on fake to second"
    assert second.startswith("hint: use send")
    assert await effects_of(agent) == 0


async def test_what_was_passed_on_can_itself_be_named(agent: GateAgent) -> None:
    async with delivering(agent, FakeChannel()) as channel:
        seq = seq_of(await agent.call("quote", sourceMsgId=1, comment="so true"))
        await ended(agent, seq)
        for named in (seq, channel.sent[0].platform_id):
            asked = await done(agent, channel, "delete", targetId=named)
            assert asked.target == channel.sent[0].platform_id


async def test_an_edits_number_names_its_message_and_a_reactions_none(agent: GateAgent) -> None:
    async with delivering(agent, FakeChannel()) as channel:
        first = seq_of(await agent.call("send", text="one"))
        second = seq_of(await agent.call("edit", targetId=first, content="two"))
        third = await done(agent, channel, "edit", targetId=second, content="three")
        liked = seq_of(await agent.call("like", targetId=1, reaction="👍"))
        assert third.target == channel.sent[0].platform_id
    answer = await agent.call("pin_message", targetId=liked)
    assert (answer.failed, answer.text) == (True, f"targetId: {liked} is the number of a react, not of a message")


async def test_a_call_made_again_is_the_same_effect_and_knows_its_id_by_then(agent: GateAgent) -> None:
    async with delivering(agent, FakeChannel()) as channel:
        seq = seq_of(await agent.call("post", "c.1", content="once"))
        await ended(agent, seq)
        again = await agent.call("post", "c.1", content="once")
    assert json.loads(again.text) == {"ok": True, "seq": seq, "id": channel.sent[0].platform_id}
    assert len(channel.sent) == 1


@pytest.mark.parametrize("name", ["delete", "pin_message", "unpin_message", "unpin_all", "dislike"])
async def test_what_is_the_same_done_twice_is_repeated_when_nobody_knows_whether_it_happened(
    name: str, agent: GateAgent
) -> None:
    channel = FakeChannel(features=EVERYTHING - {Feature.LOOKUP})
    given = await arguments(agent, name)
    async with delivering(agent, channel):
        if name == "delete":
            await channel.wait_for(1)
        channel.script(SendFault.UNCERTAIN)
        effect = await ended(agent, seq_of(await agent.call(name, **given)))
    assert effect.state == "sent"
    assert [message.key for _, message in channel.tried].count(effect.key) == 2


@pytest.mark.parametrize("name", ["post", "forward", "quote", "repost"])
async def test_what_would_be_there_twice_is_not_repeated(name: str, agent: GateAgent) -> None:
    channel = FakeChannel(features=EVERYTHING - {Feature.LOOKUP})
    channel.script(SendFault.UNCERTAIN)
    async with delivering(agent, channel):
        effect = await ended(agent, seq_of(await agent.call(name, **GOOD[name])))
    assert effect.state == "uncertain"
    assert len(channel.sent) == 1


def say_ourselves(db: Db) -> None:
    """A word of the gateway's own that has reached the room."""
    text = {"text": "a link for you alone"}
    new = NewEffect(key="n", op=Op.SEND, origin=EffectOrigin.NOTICE, instance=PLATFORM, address=ROOM, payload=text)
    messages.set_platform_id(db, outbox.add(db, new, 1).message_id, "p-9")


@pytest.mark.parametrize(("name", "more"), [("forward", {"targetJid": "ops"}), ("repost", {})])
async def test_what_the_gateway_itself_said_is_not_passed_on(
    name: str, more: dict[str, str], agent: GateAgent, store: SqliteStore
) -> None:
    await store.write(say_ourselves)
    before = await effects_of(agent)
    answer = await agent.call(name, sourceMsgId="p-9", **more)
    assert answer.failed and "was said by the gateway itself" in answer.text
    assert await effects_of(agent) == before


@pytest.mark.parametrize(
    ("kind", "room"),
    [
        ("x", "x:conversation/1"),
        ("mastodon", "mastodon:feed"),
        ("bluesky", "bluesky:feed"),
        ("whatsapp", "whatsapp:group/abcdef"),
    ],
)
async def test_a_dislike_that_the_platform_does_not_have_is_refused_at_once(
    agent: GateAgent, kind: str, room: str
) -> None:
    load_package("gatepost.channels")
    explain = CHANNELS[kind].explain_reaction
    assert explain is not None and explain(room, "👎")
    fake = replace(FakeChannel(platform=PLATFORM).kind, explain_reaction=lambda _, reaction: explain(room, reaction))
    channels = agent.deps.channels
    assert isinstance(channels, ChannelInstances)
    channels._kinds = {PLATFORM: fake}
    answer = await agent.call("dislike", targetId=1)
    assert answer.failed and "dislike" in answer.text
    assert await agent.store.read(outbox.list_pending_rooms) == []


@pytest.mark.parametrize(
    ("kind", "reaction"), [("x", "❤️"), ("mastodon", "⭐"), ("telegram", "✅"), ("github", "🎉"), ("slack", "🧑‍💻")]
)
def test_a_reaction_that_the_platform_has_is_let_through(kind: str, reaction: str) -> None:
    load_package("gatepost.channels")
    explain = CHANNELS[kind].explain_reaction
    assert explain is not None and explain("", reaction) == ""
    assert kind in ("slack",) or explain("", "🧦")
