"""What people in a room see of a whole gateway: files, reactions, statuses, typing, and who answers whom."""

import asyncio
import re
from pathlib import Path

import pytest

from gatepost.flow.sessions.runner import results
from gatepost.flow.sessions.session_ending import Ending
from gatepost.messages.outbound import Feature, Op, Outbound
from gatepost.store.messages import destinations, inbox
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.sessions import sessions
from gatepost_testing.channel import EVERYTHING, FakeChannel, SendFault
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import until

from .conftest import ROOM, add_group, add_looker, add_route


class Reader(FakeChannel):
    """Reads the files that it is given, as a platform does while it sends."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[tuple[str, bytes]] = []

    async def send(self, address: str, message: Outbound) -> str:
        self.read += [(file.name, Path(file.path).read_bytes()) for file in message.files]
        return await super().send(address, message)


@pytest.mark.slow
async def test_nanoclaw_34_a_files_bytes_reach_the_channel_and_the_deliverys_folder_is_removed(tmp_path: Path) -> None:
    channel = Reader()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        script = ScriptBuilder().turn("plan").write_file("plan.txt", "step one\nstep two")
        script.call("send_file", filepath="plan.txt", caption="the plan").write(gateway.home.group("home"))
        await channel.say("the plan, please")
        (sent,) = await channel.wait_for(1)
        await wait_until_settled(gateway)

        assert (sent.message.text, channel.read) == ("the plan", [("plan.txt", b"step one\nstep two")])
        kept = gateway.home.media / "out"
        await until(lambda: list(kept.iterdir()) == [], "the delivery's folder to be removed")


@pytest.mark.slow
async def test_nanoclaw_34_and_d18_a_way_out_a_link_and_a_folder_are_refused_and_the_agent_is_told(
    tmp_path: Path,
) -> None:
    channel = Reader()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        (gateway.home.groups / "x").write_text("not yours")
        group = gateway.home.group("home")
        (group / "link").symlink_to(gateway.home.groups / "x")
        (group / "folder").mkdir()
        script = ScriptBuilder()
        for path in ("../x", "link", "folder"):
            script.turn(f"^{path}$").call("send_file", filepath=path).say("refused: {result}")
        script.write(group)
        for path in ("../x", "link", "folder"):
            await channel.say(path)
        await channel.wait_for(3)
        await wait_until_settled(gateway)

        assert [text.partition(": ")[2] for text in channel.texts()] == [
            "filepath: '../x' leads out of the workspace",
            "link: leads over a link, or over something that is not a folder",
            "folder: is not a regular file",
        ]
        assert channel.read == [] and "not yours" not in "".join(channel.texts())
        assert not list((gateway.home.media / "out").glob("*"))


@pytest.mark.slow
async def test_nanoclaw_28_numbers_of_both_directions_are_unique_and_increase_while_everybody_writes_at_once(
    tmp_path: Path, channel: FakeChannel
) -> None:
    def numbers(db: Db, table: str) -> list[int]:
        return [row[0] for row in db.rows(f"SELECT seq FROM {table} WHERE seq IS NOT NULL ORDER BY id")]

    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        ScriptBuilder().otherwise().call("send", text="tool {text}").say("said {text}").write(
            gateway.home.group("home")
        )
        await asyncio.gather(*(channel.say(f"m{number}") for number in range(50)))
        await channel.wait_for(100)
        await wait_until_settled(gateway)

        heard = await gateway.store.read(numbers, "inbox")
        said = await gateway.store.read(numbers, "outbox")
        assert (len(heard), len(said)) == (50, 100)
        assert heard == sorted(heard) and said == sorted(said)
        assert sorted(heard + said) == list(range(1, 151))


@pytest.mark.slow
async def test_nanoclaw_d7_a_reaction_to_an_inbound_message_names_the_platforms_own_id(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        await add_group(gateway, "acme")
        await add_route(gateway, "", "acme", also=True)
        ScriptBuilder().otherwise().call("like", targetId="{seq}", reaction="🎉").write(gateway.home.group("home"))
        ScriptBuilder().otherwise().call("like", targetId="{seq}", reaction="👀").write(gateway.home.group("acme"))
        await channel.say("it works", platform_id="plat-77")
        sent = await channel.wait_for(2)
        await wait_until_settled(gateway)

        assert {(each.message.op, each.message.target, each.message.reaction) for each in sent} == {
            (Op.REACT, "plat-77", "🎉"),
            (Op.REACT, "plat-77", "👀"),
        }


@pytest.mark.slow
@pytest.mark.parametrize("edits", [True, False], ids=["with edit", "without edit"])
async def test_a_status_is_one_message_that_is_edited_in_place_until_the_answer_and_none_where_it_cannot_be(
    tmp_path: Path, edits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "STATUS_PAUSE", 0)  # a line that comes too soon is left out
    channel = FakeChannel(features=EVERYTHING if edits else EVERYTHING - {Feature.EDIT})
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        statuses, script = ("looking", "found it", "reading it"), ScriptBuilder().turn("go")
        for status in statuses:
            script = script.status(status).wait_for(f"{status} is shown")
        script.say("done").write(gateway.home.group("home"))
        await channel.say("go")
        for number, status in enumerate(statuses, 1):
            await channel.wait_for(number if edits else 0)
            (gateway.home.group("home") / f"{status} is shown").touch()
        sent = await channel.wait_for(lambda sent: any(each.message.text == "done" for each in sent))
        await wait_until_settled(gateway)

        shown = [(each.message.op, each.message.text, each.message.target) for each in channel.sent]
        if not edits:
            assert shown == [(Op.SEND, "done", "")]
            return
        first = sent[0].platform_id
        assert shown == [
            (Op.SEND, "looking", ""),
            (Op.EDIT, "found it", first),
            (Op.EDIT, "reading it", first),
            (Op.SEND, "done", ""),
            (Op.DELETE, "", first),
        ]


async def test_a_status_goes_with_a_stop_though_the_platform_is_busy_at_first(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        ScriptBuilder().turn("go").status("looking").hang().write(gateway.home.group("home"))
        await channel.say("go")
        (line,) = await channel.wait_for(1)
        channel.script(SendFault.UNAVAILABLE, retry_after=0.01)
        await channel.say("/stop")
        await channel.wait_for(3)
        await wait_until_settled(gateway)
        first, *others = [(each.message.op, each.message.text, each.message.target) for each in channel.sent]
        assert first == (Op.SEND, "looking", "")
        assert sorted(others) == [(Op.DELETE, "", line.platform_id), (Op.SEND, "Stopped.", "")]  # in either order


async def test_typing_is_shown_while_a_turn_runs_and_taken_away_after_it(tmp_path: Path, channel: FakeChannel) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        ScriptBuilder().turn("go").wait_for("typing").say("done").write(gateway.home.group("home"))
        await channel.say("go")
        await until(lambda: channel.typed, "the sign")
        (gateway.home.group("home") / "typing").touch()
        await channel.wait_for(1)
        await wait_until_settled(gateway)

        await until(lambda: channel.typed[-1:] == [(ROOM, "", False)], "the sign to be taken away")
        assert channel.typed[0] == (ROOM, "", True)


@pytest.mark.slow
async def test_what_is_only_observed_wakes_nobody_and_is_shown_with_the_next_turn(
    tmp_path: Path, channel: FakeChannel
) -> None:
    home = tmp_path / "h"
    add_looker(home)
    async with running_gateway(home, {"fake": (channel.kind, channel)}, sessions__provider="looker") as gateway:
        await open_room(gateway, "fake", ROOM)
        await open_room(gateway, "fake", "fake:room/2")
        await add_route(gateway, "room=room/2", "home#observe", mode="agent-shared")
        await add_route(gateway, "room=room/1", "home", mode="agent-shared")
        for text in ("the build is red", "I am on it"):
            assert (await channel.say(text, address="fake:room/2")).state == "observed"
        assert gateway.sessions.awake == []

        await channel.say("what is up?")
        (answer,) = await channel.wait_for(1)
        await wait_until_settled(gateway)

        observed, _, asked = answer.message.text.partition("</observed>")
        assert observed.index("the build is red") < observed.index("I am on it")
        assert "what is up?" in asked and "what is up?" not in observed
        assert answer.address == ROOM


@pytest.mark.slow
@pytest.mark.parametrize(
    ("window", "shown"),
    [((None, None), range(5, 15)), ((3, None), range(12, 15)), ((None, 30), range(10, 15)), ((0, None), range(0))],
)
async def test_arizuko_25_of_what_was_observed_the_newest_that_fit_are_shown_once(
    tmp_path: Path, channel: FakeChannel, window: tuple[int | None, int | None], shown: range
) -> None:
    home = tmp_path / "h"
    add_looker(home)
    async with running_gateway(home, {"fake": (channel.kind, channel)}, sessions__provider="looker") as gateway:
        await open_room(gateway, "fake", ROOM)
        await open_room(gateway, "fake", "fake:room/2")
        await add_route(gateway, "room=room/2", "home#observe", mode="agent-shared", window=window)
        await add_route(gateway, "room=room/1", "home", mode="agent-shared")
        for number in range(15):
            await channel.say(f"seen{number:02}", address="fake:room/2")  # six characters each
        await channel.say("first")
        await channel.wait_for(1)
        await wait_until_settled(gateway)
        await channel.say("second")
        first, second = await channel.wait_for(2)

        assert re.findall(r"seen(\d\d)", first.message.text) == [f"{number:02}" for number in shown]
        assert "seen" not in second.message.text


@pytest.mark.slow
async def test_nanoclaw_6_with_an_also_route_two_groups_answer_one_message(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        await add_group(gateway, "acme")
        await add_route(gateway, "", "acme", also=True)
        for folder in ("acme", "home"):
            ScriptBuilder().otherwise().say(f"{folder} here").write(gateway.home.group(folder))
        receipt = await channel.say("hello")
        await channel.wait_for(2)
        account = await wait_until_settled(gateway)

        assert sorted(channel.texts()) == ["acme here", "home here"]
        entries = await gateway.store.read(inbox.list_for_message, receipt.message_id)
        assert {entry.state for entry in entries} == {"answered"} and len(entries) == 2
        assert account.unaccounted == 0


@pytest.mark.slow
async def test_nanoclaw_14_in_an_agent_shared_session_each_named_block_lands_in_its_room(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        for number in (1, 2):
            await open_room(gateway, "fake", f"fake:room/{number}")
        await add_route(gateway, "", "home", mode="agent-shared")
        await channel.say("I am in one")
        await channel.say("I am in two", address="fake:room/2", thread="T2")
        await channel.wait_for(2)
        await wait_until_settled(gateway)
        names = {each.address: each.name for each in await gateway.store.read(destinations.list_for_group, "home")}
        blocks = "".join(f'<message to="{names[f"fake:room/{number}"]}">for {number}</message>' for number in (1, 2))
        ScriptBuilder().turn("tell both").say(blocks).write(gateway.home.group("home"))
        (live,) = gateway.sessions.awake
        live.kill(Ending("to read its new script"))
        await until(lambda: gateway.sessions.awake == [], "the old script to be gone")

        await channel.say("tell both")
        await channel.wait_for(4)
        await wait_until_settled(gateway)

        assert [(each.address, each.message.thread, each.message.text) for each in channel.sent[2:]] == [
            ("fake:room/1", "", "for 1"),
            ("fake:room/2", "T2", "for 2"),
        ]
        assert len(await gateway.store.read(sessions.list_open, "home")) == 1


@pytest.mark.slow
async def test_stop_by_the_owner_in_the_room_ends_the_turn_at_once(tmp_path: Path, channel: FakeChannel) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        now = gateway.clock.now()
        await gateway.store.write(users.add, "fake:user/1", "Ada", now)
        await gateway.store.write(users.add_role, "fake:user/1", "owner", "", "test", now)
        ScriptBuilder().turn("hang").say("starting").hang().write(gateway.home.group("home"))
        receipt = await channel.say("hang")
        await channel.wait_for(1)

        await channel.say("/stop", sender="fake:user/9")  # nobody in particular
        await channel.wait_for(2)
        assert [entry.state for entry in await gateway.store.read(inbox.list_for_message, receipt.message_id)] == [
            "working"
        ]
        await channel.say("/stop")
        await channel.wait_for(3)
        await wait_until_settled(gateway)

        assert channel.texts()[0] == "starting" and channel.texts()[2] == "Stopped."
        (entry,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
        assert entry.state == "cancelled"


@pytest.mark.slow
async def test_nanoclaw_d10_a_message_that_failed_is_never_called_answered_and_its_reply_never_sent(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        ScriptBuilder().turn("ill").error("no such model").write(gateway.home.group("home"))
        ill = await channel.say("ill")
        await channel.wait_for(1)
        channel.script(then=SendFault.REFUSE)
        await channel.say("well")
        await wait_until_settled(gateway)

        (entry,) = await gateway.store.read(inbox.list_for_message, ill.message_id)
        assert (entry.state, "no such model" in entry.reason) == ("failed", True)
        states = await gateway.store.read(lambda db: db.rows("SELECT state FROM outbox ORDER BY id"))
        assert [row[0] for row in states] == ["sent", "failed"]
