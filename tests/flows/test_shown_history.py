"""The ledger shows what people see: the newest words of a message, and nothing of one that was deleted."""

from pathlib import Path

from gatepost.app import Gateway
from gatepost.messages.inbound import Verb
from gatepost.store import search
from gatepost.store.messages import messages, room_history
from gatepost.store.messages.room_history import Cursor
from gatepost.store.search import SearchQuery, Subtree
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder

ROOM = "fake:room/1"
EVERYTHING = Subtree("", everything=True)


async def list_shown(gateway: Gateway) -> list[tuple[str, str, str]]:
    seen, _ = await gateway.store.read(
        room_history.list_in_room, "fake", ROOM, None, Cursor(), 50, EVERYTHING, "", 10_000
    )
    return [(each.message.text, each.message.revision, each.message.topic) for each in reversed(seen)]


async def count_hits(gateway: Gateway, word: str) -> int:
    await gateway.store.write(search.index)
    return len(await gateway.store.read(search.find, SearchQuery(query=word, part=EVERYTHING)))


async def test_history_and_search_have_the_newest_words_of_people_and_nothing_that_they_deleted(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        ScriptBuilder().turn("").say("hm").write(gateway.home.group("home"))
        await channel.say("meet at four", platform_id="m1")
        await channel.say("my pin is plum", platform_id="m2")
        await channel.say("meet at five", platform_id="m1", event="edit:1", verb=Verb.EDIT)
        await channel.say("meet at six", platform_id="m1", event="edit:2", verb=Verb.EDIT)
        await channel.say("meet at nine", platform_id="m1", event="edit:3", verb=Verb.EDIT, sender="fake:user/eve")
        await channel.say("", platform_id="m2", event="delete", verb=Verb.DELETE)
        await wait_until_settled(gateway)
        shown = [each for each in await list_shown(gateway) if each[0] != "hm"]

        assert shown[:2] == [("meet at six", "edited", ""), ("", "deleted", "")]
        assert [each[0] for each in shown[2:]] == ["meet at nine"], "nobody edits the words of others"
        counts = [await count_hits(gateway, word) for word in ("four", "five", "six", "plum")]
        assert counts == [0, 0, 1, 0]


async def test_a_topic_is_kept_with_its_messages_and_their_answers(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        ScriptBuilder().turn("").say("noted").write(gateway.home.group("home"))
        await channel.say("#plans buy a boat")
        await channel.wait_for(1)
        await channel.say("nothing special")
        await channel.wait_for(2)
        await wait_until_settled(gateway)
        found = await gateway.store.read(messages.list_in_room, "fake", ROOM, 0, 10)

        assert [(each.direction, each.topic, each.thread) for each in found] == [
            ("in", "plans", ""),
            ("out", "plans", ""),
            ("in", "", ""),
            ("out", "", ""),
        ]
