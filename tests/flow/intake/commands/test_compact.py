"""/compact: by the provider where it can, else by a summary of the agent's own."""

import pytest

from gatepost.core.periods import Period
from gatepost.flow.intake.commands.compact import ASKED, NOTHING
from gatepost.flow.sessions import compaction
from gatepost.messages.outbound import Op
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.outbox import EffectOrigin, NewEffect
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.port import Db
from gatepost.store.sessions import groups, sessions, turn_claims, turns
from gatepost_testing.clock import NOON

from .conftest import ADA, ADMIN, CommandDesk

pytestmark = pytest.mark.anyio


async def talked(desk: CommandDesk, provider: str = "scripted") -> str:
    """A conversation with something in it."""
    await desk.say("hello")
    session = await desk.session()

    def settle(db: Db) -> None:
        inbox.cancel_waiting(db, session.id, "over", NOON)
        sessions.set_conversation(db, session.id, provider, "c-1", NOON)

    await desk.do(settle)
    desk.woken.clear()
    return session.id


async def waiting(desk: CommandDesk, session: str) -> list[tuple[str, dict[str, str]]]:
    rows = await desk.store.read(inbox.list_open, session)
    return [(entry.mode, message.content) for entry, message in rows]


async def test_without_a_conversation_there_is_nothing_to_do(desk: CommandDesk) -> None:
    assert await desk.ask("/compact", ADMIN) == NOTHING
    assert await desk.ask("/compact", ADA) == "Only an owner or an admin of this agent may use /compact."


async def test_a_provider_that_understands_it_gets_the_command_as_it_was_typed(desk: CommandDesk) -> None:
    await desk.do(lambda db: groups.update(db, "home", {"provider": "claude"}))
    session = await talked(desk, "claude")

    assert await desk.ask("/compact keep the names", ADMIN) == ASKED
    [(mode, content)] = await waiting(desk, session)
    assert (mode, content["command"]) == ("compact", "/compact keep the names")
    assert desk.woken == [session]


async def test_another_is_asked_for_a_summary_in_a_turn_of_its_own_which_the_asker_pays(desk: CommandDesk) -> None:
    session = await talked(desk)
    await desk.say("/compact keep the names", ADMIN)
    await desk.say("later")

    [(mode, content), _] = await waiting(desk, session)
    assert mode == "compact" and "command" not in content
    assert content["text"] == f"{compaction.INSTRUCTION}\nIn particular: keep the names"
    turn = await desk.claim()
    assert [message.content["text"] for _, message in await desk.store.read(inbox.list_for_turn, turn.id)] == [
        content["text"]
    ]
    assert await desk.store.read(costs.find_payer, turn.id) == ADMIN


def say(db: Db, session: str, turn: str, text: str) -> None:
    new = NewEffect(
        key=f"{turn}/0",
        op=Op.SEND,
        origin=EffectOrigin.RESULT,
        instance="fake",
        address="fake:group/7",
        text=text,
        payload={"text": text},
        folder="home",
        session_id=session,
        turn_id=turn,
    )
    outbox.add(db, new, NOON)


async def finish(desk: CommandDesk, session: str, text: str) -> list[str]:
    turn = await desk.claim()
    before = len(await desk.notices())
    if text:
        await desk.do(lambda db: say(db, session, turn.id, text))
    channels = desk.intake._channels
    assert await desk.do(lambda db: compaction.finish_turn(db, channels, turn, "{}", NOON))
    assert not await desk.do(lambda db: compaction.finish_turn(db, channels, turn, "{}", NOON))  # once
    return (await desk.notices())[before:]


async def test_the_next_conversation_begins_with_the_summary(desk: CommandDesk) -> None:
    session = await talked(desk)
    await desk.say("/compact", ADMIN)

    assert await finish(desk, session, "We planted a plum.") == ["We planted a plum.", compaction.SHORTENED]
    assert await desk.store.read(sessions.get_conversation, session, "scripted") == ""
    assert (await desk.store.read(sessions.get_notes, session)).summary == "We planted a plum."


async def test_without_a_summary_the_conversation_stays(desk: CommandDesk) -> None:
    session = await talked(desk)
    await desk.say("/compact", ADMIN)

    assert await finish(desk, session, "") == [compaction.NO_SUMMARY]
    assert await desk.store.read(sessions.get_conversation, session, "scripted") == "c-1"


async def test_a_summary_is_bounded(desk: CommandDesk) -> None:
    session = await talked(desk)
    await desk.say("/compact", ADMIN)
    await finish(desk, session, "x" * 100_000)
    assert len((await desk.store.read(sessions.get_notes, session)).summary) == compaction.LONGEST_SUMMARY


async def test_a_provider_that_did_it_keeps_its_conversation(desk: CommandDesk) -> None:
    await desk.do(lambda db: groups.update(db, "home", {"provider": "claude"}))
    session = await talked(desk, "claude")
    await desk.say("/compact", ADMIN)
    turn = await desk.do(lambda db: turn_claims.claim(db, session, "claude", "me", NOON, 60_000_000, 20, ready=False))
    assert turn is not None and turn.compacts
    await desk.do(lambda db: turns.begin(db, turn.turn.id, turn.turn.epoch, turn.rows, NOON))

    channels = desk.intake._channels
    assert await desk.do(lambda db: compaction.finish_turn(db, channels, turn.turn, "{}", NOON))
    assert (await desk.notices())[-1] == compaction.DONE
    assert await desk.store.read(sessions.get_conversation, session, "claude") == "c-1"


async def test_a_turn_that_is_continued_after_a_crash_still_makes_it_shorter(desk: CommandDesk) -> None:
    session = await talked(desk)
    await desk.say("/compact", ADMIN)
    turn = await desk.claim()
    await desk.do(lambda db: db.run("UPDATE turns SET state = 'interrupted', next_at = 0 WHERE id = ?", (turn.id,)))
    again = await desk.do(lambda db: turn_claims.claim(db, session, "scripted", "me", NOON, 60_000_000, 20))
    assert again is not None and again.continued and again.compacts


async def test_a_spent_budget_keeps_it_from_being_started(desk: CommandDesk) -> None:
    session = await talked(desk)
    scope = BudgetScope(BudgetScopeKind.GROUP, "home")
    new = costs.NewCost(key="a", at=NOON, folder="home", model="m", micro=2_000_000)
    await desk.do(lambda db: budgets.put(db, scope, Period.DAY, 1_000_000, "op", NOON))
    await desk.do(lambda db: costs.add_external(db, new, NOON))

    assert "is spent" in await desk.ask("/compact", ADMIN)
    assert await waiting(desk, session) == []


async def test_the_room_does_not_show_what_the_agent_is_asked(desk: CommandDesk) -> None:
    await talked(desk)
    await desk.say("/compact", ADMIN)
    seen = await desk.store.read(messages.list_in_room, "fake", "fake:group/7", 0, 50)
    assert [each.kind for each in seen if each.text == compaction.INSTRUCTION] == ["system"]
