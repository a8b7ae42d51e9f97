"""/remember, /memory and /forget: the people of a chat, and what its agent keeps."""

import pytest

from gatepost.flow.intake.commands.memory import NOTHING
from gatepost.store.memory import memories
from gatepost.store.memory.memories import Memory, MemoryFilter, MemoryScope, MemoryTrust

from .conftest import ADA, ADMIN, BOB, GUEST, CommandDesk

pytestmark = pytest.mark.anyio
DIRECT = "fake:dm/ada"


async def remembered(desk: CommandDesk) -> list[Memory]:
    return await desk.store.read(memories.list_chosen, MemoryFilter(), desk.clock.now())


async def test_a_thing_is_kept_for_the_chat_shown_and_dropped_by_whoever_said_it(desk: CommandDesk) -> None:
    assert await desk.ask("/memory") == NOTHING
    answer = await desk.ask("/remember The bins go out\non Tuesday", ADA)
    (kept,) = await remembered(desk)
    assert answer == f"Remembered for this chat. `/forget {kept.id}` drops it."
    assert (kept.scope, kept.speaker, kept.trust) == (MemoryScope.ROOM, ADA, MemoryTrust.MEMBER)

    assert await desk.ask("/memory", BOB) == f"#{kept.id} The bins go out on Tuesday"
    assert await desk.ask(f"/forget {kept.id}", BOB) == "Somebody else said that. An admin of this agent can drop it."
    assert await desk.ask(f"/forget {kept.id}", ADA) == "Forgotten: The bins go out on Tuesday"
    assert await remembered(desk) == []


async def test_an_admin_drops_what_others_said(desk: CommandDesk) -> None:
    await desk.ask("/remember x", ADA)
    (kept,) = await remembered(desk)
    assert await desk.ask(f"/forget {kept.id}", ADMIN) == "Forgotten: x"


async def test_what_is_said_in_private_is_seen_and_dropped_there_alone(desk: CommandDesk) -> None:
    await desk.say("hello", ADA, address=DIRECT, direct=True)
    answer = await desk.ask("/remember I am ill", ADA, address=DIRECT, direct=True)
    (kept,) = await remembered(desk)
    assert answer.startswith("Remembered for you alone.")
    assert (kept.scope, kept.person) == (MemoryScope.PERSON, ADA)

    assert await desk.ask("/memory", ADA) == NOTHING
    assert "no such entry here" in await desk.ask(f"/forget {kept.id}", ADMIN)
    assert "I am ill" in await desk.ask("/memory", ADA, address=DIRECT, direct=True)


async def test_a_command_that_is_the_first_thing_said_in_private_stays_private(desk: CommandDesk) -> None:
    answer = await desk.ask("/remember I am ill", ADA, address=DIRECT, direct=True)
    assert answer.startswith("Remembered for you alone.")
    await desk.say("hello", ADA, address="fake:dm/other", direct=True)
    assert "I am ill" in await desk.ask("/memory", ADA, address="fake:dm/other", direct=True)


async def test_somebody_new_in_a_direct_room_is_shown_nothing_of_whoever_was_alone_there(desk: CommandDesk) -> None:
    await desk.say("hello", ADA, address=DIRECT, direct=True)
    await desk.ask("/remember I am ill", ADA, address=DIRECT, direct=True)
    (kept,) = await remembered(desk)
    assert await desk.ask("/memory", BOB, address=DIRECT, direct=True) == NOTHING
    await desk.say("hello", BOB, address=DIRECT, direct=True)
    await desk.say("hello", BOB, address="fake:dm/bob", direct=True)
    assert await desk.ask("/memory", ADA, address=DIRECT, direct=True) == NOTHING  # Bob reads there still
    assert "no such entry" in await desk.ask(f"/forget {kept.id}", BOB, address=DIRECT, direct=True)


@pytest.mark.parametrize("command", ["/remember", "/remember " + "x" * 2001])
async def test_nothing_or_too_much_is_refused(command: str, desk: CommandDesk) -> None:
    assert "Write what to remember behind it" in await desk.ask(command)
    assert await remembered(desk) == []


@pytest.mark.parametrize("given", ["", "x", "0", "-1", "9" * 30, "1; DROP"])
async def test_a_number_that_is_none_is_refused(given: str, desk: CommandDesk) -> None:
    assert "no such entry here" in await desk.ask(f"/forget {given}")


async def test_strangers_have_no_part_in_it(desk: CommandDesk) -> None:
    await desk.ask("/remember x", ADA)
    for command in ("/remember y", "/memory", "/forget 1"):
        assert "Only a member of this agent may use" in await desk.ask(command, GUEST)
    assert [each.text for each in await remembered(desk)] == ["x"]


@pytest.mark.parametrize("said", ["/memory", "/status", "/nothing", "hello"])
async def test_whoever_was_refused_or_only_gave_a_command_reads_in_a_direct_room(said: str, desk: CommandDesk) -> None:
    await desk.say("hello", ADA, address=DIRECT, direct=True)
    await desk.ask("/remember I am ill", ADA, address=DIRECT, direct=True)
    await desk.say(said, GUEST if said == "hello" else BOB, address=DIRECT, direct=True)
    assert await desk.ask("/memory", ADA, address=DIRECT, direct=True) == NOTHING


async def test_a_room_that_is_full_of_what_people_said_says_so(
    desk: CommandDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memories, "MOST_OF_ONE", 1)
    await desk.ask("/remember one", ADA)
    answer = await desk.ask("/remember two", BOB)
    assert answer == "1 things are remembered for this room already; something must be forgotten first."
