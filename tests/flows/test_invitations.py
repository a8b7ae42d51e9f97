"""Invitations and newcomers as whole ways: a code in a chat lets its sender in, and a stranger gets their own agent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.clock import SystemClock
from gatepost.flow import onboarding
from gatepost.flow.intake.intake import FIRST_OF_A_STRANGER
from gatepost.flow.onboarding import Applicant
from gatepost.flow.people import newcomer_groups
from gatepost.messages.inbound import OPERATOR
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import messages
from gatepost.store.people import newcomers, users
from gatepost.store.people.newcomers import Newcomer, NewcomerState
from gatepost.store.port import Db
from gatepost.store.rooms import routes
from gatepost.store.schedule import tasks
from gatepost.store.sessions import groups
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder

EVE, HERS, BOB, HIS, ROOM = "fake:user/eve", "fake:direct/eve", "fake:user/bob", "fake:direct/bob", "fake:room/1"


async def run(gateway: Gateway, name: str, caller: str = OPERATOR, **given: Any) -> Any:
    """As the control API does."""
    deps = OperationDeps(
        home=gateway.home,
        store=gateway.store,
        clock=gateway.clock,
        config=gateway.config,
        events=gateway.events,
        caller=caller,
    )
    return await OPERATIONS[name](deps, given)


def write_script(folder: Path, says: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ScriptBuilder().turn("(.*)").say(f"{says} got {{1}}").write(folder).chmod(0o644)


@asynccontextmanager
async def started(home: Path, channel: FakeChannel) -> AsyncIterator[Gateway]:
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        write_script(gateway.home.group("home"), "home")
        write_script(gateway.home.group("home") / "prototype", "her own")
        yield gateway


async def wait_for_text(channel: FakeChannel, words: str, address: str) -> None:
    await channel.wait_for(lambda sent: any(each.address == address and words in each.message.text for each in sent))


async def wait_for_state(gateway: Gateway, state: NewcomerState) -> Newcomer:
    """Rung by the loop's own word to the newcomer, which is awaited before this."""
    (found,) = await gateway.store.read(newcomers.list_all)
    assert found.state is state
    return found


@pytest.mark.slow
@pytest.mark.parametrize("form", ["{}", "/join {}", "/start {}", "/join@bot {}"])
async def test_a_code_in_a_chat_lets_its_sender_in(tmp_path: Path, channel: FakeChannel, form: str) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        code = (await run(gateway, "invite.create", folder="home"))["secret"]
        assert (await channel.say("hello", sender=EVE)).state == "refused"
        receipt = await channel.say(form.format(code), sender=EVE)
        assert (receipt.state, receipt.reason) == ("answered", "invited")
        await wait_for_text(channel, "You may write to Home", ROOM)
        assert (await channel.say("hello", sender=EVE)).state == "queued"
        await wait_for_text(channel, "home got hello", ROOM)
        again = await channel.say(form.format(code), sender=BOB)
        assert (again.state, again.reason) == ("refused", "invitation_not_valid")
        assert (await channel.say("hello", sender=BOB)).state == "refused"


@pytest.mark.slow
async def test_the_chat_of_somebody_who_was_invited_leads_to_the_group(tmp_path: Path, channel: FakeChannel) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        await run(gateway, "group.add", folder="acme")
        write_script(gateway.home.group("acme"), "acme")
        code = (await run(gateway, "invite.create", folder="acme", uses=2))["secret"]
        await channel.say(code, sender=EVE, direct=True)
        assert (await channel.say("hello", sender=EVE, direct=True)).state == "queued"
        await wait_for_text(channel, "acme got hello", ROOM)

        await channel.say(code, sender=BOB, address="fake:room/all")  # a room of several: no route is made
        await wait_for_text(channel, "nothing leads there from this chat", "fake:room/all")
        assert (await channel.say("hello", sender=BOB, address="fake:room/all")).state == "refused"


@pytest.mark.slow
async def test_the_code_is_in_no_ledger_and_no_agent_gets_it(tmp_path: Path, channel: FakeChannel) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        code = (await run(gateway, "invite.create", folder="home", uses=2))["secret"]
        await channel.say(f"/join {code}", sender=EVE)
        await channel.say(code, sender=EVE)
        await channel.say(code, sender=EVE, event="edit:1")
        await channel.say(f"/join {code}", sender=EVE, event="edit:2")
        await wait_until_settled(gateway)
        texts = [each.text for each in await gateway.store.read(messages.list_in_room, "fake", ROOM, 0, 100)]
        assert texts.count("GI-****-****-****-****") == 4
    plain = code.removeprefix("GI-")
    kept = [path for path in (tmp_path / "h").rglob("*") if path.is_file()]
    assert kept and not [path for path in kept if plain.encode() in path.read_bytes()]


@pytest.mark.slow
async def test_a_stranger_joins_and_gets_an_agent_of_her_own_from_the_prototype(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        await run(gateway, "onboarding.open", instance="fake", folder="home", per_day=1)
        assert (await channel.say("hello", sender=EVE, address=HERS, direct=True)).state == "refused"
        await wait_for_text(channel, "Write /join", HERS)
        assert (await channel.say("/join", sender=EVE, address=HERS, direct=True)).reason == "joined"
        await wait_for_text(channel, newcomer_groups.READY, HERS)
        newcomer = await wait_for_state(gateway, NewcomerState.SETTLED)
        assert newcomer.folder == "home/fake-user-eve"
        group = await gateway.store.read(groups.get, newcomer.folder)
        assert group is not None and group.name == "eve", "as people know her, and not as the platform counts her"
        assert (await gateway.store.read(users.get_roles, EVE)).member_of == ("home/fake-user-eve",)
        await channel.say("question", sender=EVE, address=HERS, direct=True)
        await wait_for_text(channel, "her own got question", HERS)
        # Nobody else's messages go there, and hers go there from nowhere else.
        assert (await channel.say("hi", sender=BOB, address=HERS, direct=True)).state == "refused"
        assert (await channel.say("hi", sender=EVE, address=ROOM)).state == "refused"
        assert (await channel.say("/join", sender=EVE, address=HERS, direct=True)).reason == "join_settled"

        assert (await channel.say("/join", sender=BOB, address=HIS, direct=True)).reason == "join_queued"
        await wait_until_settled(gateway)
        found = await run(gateway, "onboarding.list")
        assert [each["state"] for each in found["newcomers"]] == ["settled", "queued"]
        assert await gateway.store.read(groups.get, "home/fake-user-bob") is None
        await run(gateway, "onboarding.allow", id=found["newcomers"][1]["id"])
        await wait_for_text(channel, newcomer_groups.READY, HIS)
        assert await gateway.store.read(groups.get, "home/fake-user-bob") is not None


@pytest.mark.slow
async def test_a_newcomers_group_gets_the_tasks_of_the_prototype_as_every_other_does(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        seed = "[settings]\nwindow_messages = 7\n[[task]]\nprompt = 'the brief'\nevery = '2h'\n"
        (gateway.home.group("home") / "prototype" / "tasks.toml").write_text(seed)
        await run(gateway, "onboarding.open", instance="fake", folder="home", per_day=1)
        await channel.say("/join", sender=EVE, address=HERS, direct=True)
        await wait_for_text(channel, newcomer_groups.READY, HERS)
        group = await gateway.store.read(groups.get, "home/fake-user-eve")
        assert group is not None and group.window_messages == 7
        [task] = await gateway.store.read(tasks.list_page, "home/fake-user-eve", "", 10)
        assert (task.prompt, task.address, task.created_by) == ("the brief", HERS, "agent:home")
        [origin] = await gateway.store.read(tasks.list_origins, task.id)
        assert origin.person == EVE
        assert not (gateway.home.group("home/fake-user-eve") / "tasks.toml").exists()

        soon = task.created_at + 1
        await gateway.store.write(lambda db: db.run("UPDATE tasks SET next_at = ? WHERE id = ?", (soon, task.id)))
        gateway.events.tasks()
        await wait_for_text(channel, "her own got the brief", HERS)


@pytest.mark.slow
async def test_an_invitation_to_an_agent_of_her_own_passes_without_an_entrance(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        code = (await run(gateway, "invite.create", folder="home", own_group=True))["secret"]
        assert (await channel.say(code, sender=EVE)).reason == "invitation_not_direct"
        assert (await channel.say(code, sender=EVE, address=HERS, direct=True)).reason == "joined"
        await wait_for_text(channel, newcomer_groups.READY, HERS)
        await channel.say("question", sender=EVE, address=HERS, direct=True)
        await wait_for_text(channel, "her own got question", HERS)


@pytest.mark.slow
async def test_who_was_let_in_before_a_crash_has_her_agent_after_the_start(
    tmp_path: Path, channel: FakeChannel
) -> None:
    """The newcomer is let in, and the making of their group has begun, when it ends."""
    async with started(tmp_path / "h", channel) as gateway:
        await run(gateway, "onboarding.open", instance="fake", folder="home")
        home = gateway.home
    chosen, who = "home/fake-user-eve", Applicant(sender=EVE, name="Eve", instance="fake", address=HERS, direct=True)

    def begin(db: Db) -> bool:
        onboarding.ask(db, newcomers.list_entrances(db), who, SystemClock().now())
        (newcomer,) = newcomers.list_all(db)
        return newcomer.state is NewcomerState.ADMITTED and newcomer_groups.choose_folder(db, newcomer.id, chosen)

    with closing(SqliteStore(home.store)) as store:
        assert await store.write(begin)
    home.group(chosen).mkdir()  # and in the middle of it
    second = FakeChannel()
    async with started(tmp_path / "h", second) as gateway:
        await wait_for_text(second, newcomer_groups.READY, HERS)
        assert (await wait_for_state(gateway, NewcomerState.SETTLED)).folder == chosen
        assert (gateway.home.group(chosen) / "AGENTS.md").exists()


@pytest.mark.slow
async def test_a_group_that_cannot_be_made_is_said_and_can_be_tried_again(tmp_path: Path, channel: FakeChannel) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        bad = gateway.home.group("home") / "prototype" / "AGENTS.md"
        bad.mkdir()
        await run(gateway, "onboarding.open", instance="fake", folder="home")
        await channel.say("/join", sender=EVE, address=HERS, direct=True)
        await wait_for_text(channel, newcomer_groups.FAILED, HERS)
        failed = await wait_for_state(gateway, NewcomerState.FAILED)
        assert "must be a file" in failed.reason and await gateway.store.read(groups.get, failed.folder) is None
        assert (await channel.say("/join", sender=EVE, address=HERS, direct=True)).reason == "join_failed"
        bad.rmdir()
        await run(gateway, "onboarding.allow", id=failed.id)
        await wait_for_text(channel, newcomer_groups.READY, HERS)


async def test_nobody_gets_a_folder_in_which_somebody_elses_files_lie(tmp_path: Path, channel: FakeChannel) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        old = gateway.home.group("home/fake-user-eve")
        old.mkdir()
        (old / "diary.md").write_text("of somebody before her")
        await run(gateway, "onboarding.open", instance="fake", folder="home")
        await channel.say("/join", sender=EVE, address=HERS, direct=True)
        await wait_for_text(channel, newcomer_groups.READY, HERS)
        settled = await wait_for_state(gateway, NewcomerState.SETTLED)
        assert settled.folder == "home/fake-user-eve-2"
        assert not (gateway.home.group(settled.folder) / "diary.md").exists()


async def test_an_invitation_of_somebody_with_rights_for_one_group_takes_no_chat_from_another(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        await run(gateway, "group.add", folder="acme")
        await run(gateway, "acl.add", principal=BOB, action="op:tokens.write", scope="acme")
        made = await run(gateway, "invite.create", BOB, folder="acme", own_group=True)
        await channel.say(made["secret"], sender=EVE, address=HERS, direct=True)
        await wait_for_text(channel, newcomer_groups.READY_ELSEWHERE, HERS)
        (route,) = [each for each in await gateway.store.read(routes.list_all) if each.created_by != "gatepost"]
        assert route.created_by == "agent:acme"


async def test_the_greeting_goes_to_no_agent_and_leaves_no_session(tmp_path: Path, channel: FakeChannel) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        await run(gateway, "onboarding.open", instance="fake", folder="home", senders="fake:user/*@acme.example")
        await channel.say("hello", sender=EVE, address=HERS, direct=True)
        await channel.say("hello", sender="fake:user/ann@acme.example", address=HIS, direct=True)
        await wait_for_text(channel, onboarding.GREETING, HIS)
        assert channel.texts(HERS) == []
        assert await gateway.store.read(lambda db: db.rows("SELECT id FROM sessions")) == []


@pytest.mark.slow
async def test_a_flood_of_one_stranger_leaves_one_link_one_newcomer_and_few_rows(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        await run(gateway, "onboarding.open", instance="fake", folder="home", per_day=0)
        for number in range(90):
            text = ("/pair", "/join", "hello", "GI-2222-3333-4444-5555")[number % 4]
            await channel.say(text, sender=EVE, address=HERS, direct=True)

        def count(db: Db) -> dict[str, int]:
            tables = ("tokens", "newcomers", "messages", "audit")
            return {table: int(db.rows(f"SELECT COUNT(*) FROM {table}")[0][0]) for table in tables}

        counted = await gateway.store.read(count)
        assert counted["tokens"] <= 1 and counted["newcomers"] == 1
        assert counted["messages"] <= 2 * (FIRST_OF_A_STRANGER + 1) + 1  # and an answer to each at most
        assert counted["audit"] < 12
