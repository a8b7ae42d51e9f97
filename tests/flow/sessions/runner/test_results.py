"""What a runner hands over becomes rows of the ledger: once, in the right room, and only if it is its own turn's."""

from collections.abc import Callable

import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.core.clock import SECOND
from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import read_rules
from gatepost.flow.sessions.runner.result_rights import EFFECTS
from gatepost.flow.sessions.runner.results import RecordedResults, ResultLimits, record_results, record_status
from gatepost.mailbox import runner_frames
from gatepost.messages.outbound import Feature, OutboundFile
from gatepost.store.messages import destinations, inbox, outbox
from gatepost.store.port import Db
from gatepost.store.rights import acl, audit, waiting_requests
from gatepost.store.rights.acl import OPERATOR, AclEffect, AclRow
from gatepost.store.rooms import engagements
from gatepost.store.rooms.engagements import Engagement
from gatepost.store.sessions import agents, groups, sessions, timeline, turn_claims, turn_failures, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.turn_claims import TurnClaim
from gatepost.store.sessions.turn_failures import FailureCause, TurnRetryPolicy
from gatepost.store.sessions.turns import Turn
from gatepost.tools.contract import TOOLS
from gatepost_testing.arrivals import begin_turn
from gatepost_testing.channel import EVERYTHING, FakeChannel
from gatepost_testing.counting import CountingDb

NOON = 1_800_000_000_000_000
CHANNELS = ChannelInstances({})
CHAT = ChannelInstances({"fake": FakeChannel().kind})
LIMITS = ResultLimits(messages=100, bytes=100_000)


@pytest.fixture
def claim(db: Db) -> TurnClaim:
    groups.add(db, "acme", "Acme", "scripted", NOON)
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", "fake:room/1", "", NOON)
    return begin_turn(db, session, NOON, text="hi", platform_id="1")


def result(claim: TurnClaim, part: int = 0, text: str = "hello", **more: object) -> runner_frames.ResultFrame:
    given = {"epoch": claim.turn.epoch, **more}
    return runner_frames.ResultFrame(id=part + 1, turn=claim.turn.id, attempt=1, part=part, text=text, **given)  # type: ignore[arg-type]


def take(
    db: Db, claim: TurnClaim, *frames: runner_frames.ResultFrame, session: str = ""
) -> list[runner_frames.AckFrame]:
    given = [(frame, ()) for frame in frames]
    return list(record_results(db, CHANNELS, session or claim.turn.session_id, given, LIMITS, NOON).answers)


def test_a_result_handed_over_twice_is_said_once(db: Db, claim: TurnClaim) -> None:
    first, again = take(db, claim, result(claim))[0], take(db, claim, result(claim))[0]
    assert first.ok and again.ok and first.seq == again.seq
    assert [effect.payload["text"] for effect in outbox.list_for_turn(db, claim.turn.id)] == ["hello"]


def test_what_a_continued_turn_of_an_agent_says_again_is_told_once_on_its_timeline(db: Db) -> None:
    groups.add(db, "acme", "Acme", "scripted", NOON)
    made = agents.create(db, agents.NewAgent(folder="acme", provider="scripted"), NOON)
    agents.add_prompt(db, made, "sweep", "operator", "operator", inbox.InboxMode.NEXT, NOON)
    claim = turn_claims.claim(db, made.id, "scripted", "run-1", NOON, 60_000_000, 10)
    assert claim is not None
    take(db, claim, result(claim))
    take(db, claim, result(claim))  # the same, handed over again
    take(db, claim, result(claim, part=1))  # and said again
    take(db, claim, result(claim, part=2, text="more"))
    told = [
        entry.data["text"] for entry in timeline.list_after(db, made.id, 0, 100) if entry.kind == "assistant_message"
    ]
    assert told == ["hello", "more"]


def test_a_result_goes_to_the_room_and_thread_of_its_turn(db: Db, claim: TurnClaim) -> None:
    take(db, claim, result(claim))
    (effect,) = outbox.list_for_turn(db, claim.turn.id)
    assert (effect.instance, effect.address, effect.thread) == ("fake", "fake:room/1", "")


def test_what_another_session_or_an_old_epoch_says_is_not_believed(db: Db, claim: TurnClaim) -> None:
    assert not take(db, claim, result(claim), session="s-other")[0].ok
    assert not take(db, claim, result(claim, epoch=7))[0].ok
    assert outbox.list_for_turn(db, claim.turn.id) == []


def test_a_named_block_goes_to_its_destination_and_an_unknown_name_to_nobody(db: Db, claim: TurnClaim) -> None:
    destinations.add_room(db, "acme", "ops", "fake", "fake:room/2", "t", NOON)
    known, unknown = take(db, claim, result(claim, to="ops"), result(claim, part=1, to="opps"))
    assert known.ok and known.seq and not known.error
    assert unknown.ok and "opps" in unknown.error and "ops" in unknown.error
    assert [(effect.address, effect.thread) for effect in outbox.list_for_turn(db, claim.turn.id)] == [
        ("fake:room/2", "t")
    ]


def test_equal_answers_to_different_messages_are_all_said(db: Db, claim: TurnClaim) -> None:
    take(db, claim, result(claim, in_reply_to=1), result(claim, part=1, in_reply_to=2))
    assert len(outbox.list_for_turn(db, claim.turn.id)) == 2


def test_a_turn_that_says_too_much_is_cut_off(db: Db, claim: TurnClaim) -> None:
    assert not take(db, claim, result(claim, part=100))[0].ok


def test_after_the_end_nothing_new_is_taken_but_what_was_taken_is_confirmed(db: Db, claim: TurnClaim) -> None:
    take(db, claim, result(claim))
    turns.begin(db, claim.turn.id, claim.turn.epoch, claim.rows, NOON)
    turns.finish(db, claim.turn.id, claim.turn.epoch, "{}", NOON)
    confirmed, refused = take(db, claim, result(claim), result(claim, part=1))
    assert confirmed.ok and not refused.ok


def test_interim_lines_edit_the_first_in_place_and_give_way_to_newer_ones(db: Db, claim: TurnClaim) -> None:
    for number, text in enumerate(("reading", "thinking", "writing"), start=1):
        assert record_status(db, CHANNELS, claim.turn.id, claim.turn.epoch, text, number, NOON) == (
            "fake",
            "fake:room/1",
        )
    first, second, third = outbox.list_for_turn(db, claim.turn.id)
    assert (first.op, first.state) == ("send", "pending")
    assert (second.op, second.state, second.target_id) == ("edit", "superseded", first.message_id)
    assert (third.op, third.state, third.payload["text"]) == ("edit", "pending", "writing")


ENDS: dict[str, Callable[[Db, Turn], object]] = {
    "an answer": lambda db, turn: turns.finish(db, turn.id, turn.epoch, "{}", NOON),
    "a stop": lambda db, turn: turns.cancel(db, turn.id, "stopped by somebody", NOON),
    "a failure": lambda db, turn: turn_failures.record_failure(
        db, turn.id, turn.epoch, FailureCause(reason="broken", final=True), TurnRetryPolicy(), NOON
    ),
    "its time": lambda db, turn: turn_failures.record_timeout(db, turn.id, turn.epoch, NOON),
}


@pytest.mark.parametrize("end", ENDS)
def test_interim_lines_go_when_their_turn_ends_where_messages_can_be_deleted(
    db: Db, claim: TurnClaim, end: str
) -> None:
    turn = claim.turn
    turns.begin(db, turn.id, turn.epoch, claim.rows, NOON)
    for number, text in enumerate(("reading", "writing"), start=1):
        record_status(db, CHAT, turn.id, turn.epoch, text, number, NOON)
    ENDS[end](db, turn)
    line, edit, removal = outbox.list_for_turn(db, turn.id)
    assert edit.state == "superseded"
    assert (removal.op, removal.origin, removal.target_id) == ("delete", "status", line.message_id)
    assert (removal.state, removal.seq > line.seq) == ("pending", True)
    assert record_status(db, CHAT, turn.id, turn.epoch, "late", 3, NOON) is None
    assert len(outbox.list_for_turn(db, turn.id)) == 3


def test_an_interim_line_stays_where_people_would_see_that_it_was_deleted(db: Db, claim: TurnClaim) -> None:
    turn, shows = claim.turn, replace(FakeChannel().kind, deletions_show=True)
    turns.begin(db, turn.id, turn.epoch, claim.rows, NOON)
    record_status(db, ChannelInstances({"fake": shows}), turn.id, turn.epoch, "reading", 1, NOON)
    turns.finish(db, turn.id, turn.epoch, "{}", NOON)
    assert [each.op for each in outbox.list_for_turn(db, turn.id)] == ["send"]


def test_a_turn_that_is_continued_keeps_its_interim_line_and_edits_it(db: Db, claim: TurnClaim) -> None:
    turn = claim.turn
    turns.begin(db, turn.id, turn.epoch, claim.rows, NOON)
    for number, text in enumerate(("reading", "writing"), start=1):
        record_status(db, CHAT, turn.id, turn.epoch, text, number, NOON)
    cause = FailureCause(reason="the gateway stopped")
    turn_failures.record_failure(db, turn.id, turn.epoch, cause, TurnRetryPolicy(), NOON)
    assert [each.op for each in outbox.list_for_turn(db, turn.id)] == ["send", "edit"]
    again = turn_claims.claim(db, turn.session_id, "scripted", "test", NOON + SECOND, SECOND, 10)
    assert again is not None and again.turn.id == turn.id
    for number, text in enumerate(("reading", "writing"), start=1):
        record_status(db, CHAT, turn.id, again.turn.epoch, text, number, NOON)
    line, *edits = outbox.list_for_turn(db, turn.id)
    assert [(each.target_id, each.payload["text"]) for each in edits] == [
        (line.message_id, text) for text in ("writing", "reading", "writing")
    ]


@pytest.mark.parametrize(
    "kind",
    [
        FakeChannel(features=EVERYTHING - {Feature.DELETE}).kind,
        replace(FakeChannel().kind, always=True),  # its page folds them
    ],
    ids=["no deletion", "the gateway's own"],
)
def test_interim_lines_stay_where_they_cannot_be_deleted_or_the_page_folds_them(
    db: Db, claim: TurnClaim, kind: ChannelKind
) -> None:
    turn = claim.turn
    turns.begin(db, turn.id, turn.epoch, claim.rows, NOON)
    record_status(db, ChannelInstances({"fake": kind}), turn.id, turn.epoch, "reading", 1, NOON)
    turns.finish(db, turn.id, turn.epoch, "{}", NOON)
    assert [each.op for each in outbox.list_for_turn(db, turn.id)] == ["send"]


def test_stranger_new_the_bytes_of_a_turns_results_are_bounded_and_what_was_taken_is_confirmed(
    db: Db, claim: TurnClaim
) -> None:
    frames = [result(claim, part, f"{part} " + "é" * 10_000) for part in range(10)]  # 20 kB each

    taken = record_results(db, CHANNELS, claim.turn.session_id, [(frame, ()) for frame in frames], LIMITS, NOON)

    assert [answer.ok for answer in taken.answers] == [True] * 4 + [False] * 6
    assert taken.exceeded == claim.turn.id and "100,000 bytes" in taken.answers[-1].error
    assert len(outbox.list_for_turn(db, claim.turn.id)) == 4
    assert take(db, claim, frames[0])[0].ok
    assert not record_results(db, CHANNELS, claim.turn.session_id, [(frames[1], ())], LIMITS, NOON).exceeded


def test_stranger_new_what_comes_after_the_end_costs_no_reading_of_texts(db: Db, claim: TurnClaim) -> None:
    db.run("UPDATE messages SET text = ?", ("x" * 100_000,))
    turns.begin(db, claim.turn.id, claim.turn.epoch, claim.rows, NOON)
    turns.finish(db, claim.turn.id, claim.turn.epoch, "{}", NOON)
    counting = CountingDb(db)

    frames = [(result(claim, part), ()) for part in range(20)]
    assert not any(
        each.ok for each in record_results(counting, CHANNELS, claim.turn.session_id, frames, LIMITS, NOON).answers
    )
    assert counting.read_chars < 50_000
    assert db.row("SELECT COUNT(*) FROM steps WHERE step = 'dropped'") == (1,)


PLACE = ("fake", "fake:room/1", "")
TTL = 600 * SECOND


def say_engaged(db: Db, claim: TurnClaim, after: int) -> tuple[int | None, int]:
    """When an engagement of ten minutes ends after the turn has said something, and the statements of that."""
    engagements.put(db, Engagement(*PLACE, "acme", None, NOON + TTL, TTL, NOON))
    counting = CountingDb(db)
    record_results(counting, CHANNELS, claim.turn.session_id, [(result(claim), ())], LIMITS, NOON + after)
    (found,) = engagements.list_at(db, *PLACE)
    return found.until, counting.statements


def test_arizuko_24_a_reply_extends_an_engagement_once_half_of_its_time_is_over(db: Db, claim: TurnClaim) -> None:
    counting = CountingDb(db)
    record_results(counting, CHANNELS, claim.turn.session_id, [(result(claim, 9, "before"), ())], LIMITS, NOON)
    assert say_engaged(db, claim, TTL // 4) == (NOON + TTL, counting.statements)  # it costs nothing until then
    assert take(db, claim, result(claim, 1))[0].ok


def test_a_late_reply_extends_what_was_on_when_its_turn_began(db: Db, claim: TurnClaim) -> None:
    assert say_engaged(db, claim, 2 * TTL)[0] == NOON + 3 * TTL


@pytest.mark.parametrize(("kind", "sender"), [("task", "task:t1"), ("chat", "agent:acme"), ("system", "gatepost")])
def test_arizuko_24_a_scheduled_turn_and_an_injected_message_do_not_extend_it(db: Db, kind: str, sender: str) -> None:
    groups.add(db, "acme", "Acme", "scripted", NOON)
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", "fake:room/1", "", NOON)
    claim = begin_turn(db, session, NOON, kind=kind, sender=sender, text="due", platform_id="1")
    assert say_engaged(db, claim, TTL - SECOND)[0] == NOON + TTL


ASKING = read_rules(Config())


def take_for_ops(db: Db, claim: TurnClaim, *rules: str, text: str = "hello", part: int = 0) -> RecordedResults:
    """A block that is addressed to another room, under these rules."""
    for rule in rules:
        acl.add_rule(db, "acme", rule, "test", NOON)
    destinations.add_room(db, "acme", "ops", "fake", "fake:room/2", "topic", NOON)
    frame = result(claim, part, text, to="ops")
    return record_results(db, CHANNELS, claim.turn.session_id, [(frame, ())], LIMITS, NOON, lambda: ASKING)


@pytest.mark.parametrize("rule", ["!send(jid=fake:room/2)", "!speak(jid=fake:*)", "!speak"])
def test_a_block_for_another_room_is_refused_where_a_call_of_send_would_be(db: Db, claim: TurnClaim, rule: str) -> None:
    taken = take_for_ops(db, claim, rule)
    assert taken.answers[0].ok and "forbids" in taken.answers[0].error
    assert outbox.list_for_turn(db, claim.turn.id) == []
    assert [row[3:5] for row in audit.list_latest(db, 1)] == [("send", "refused")]


def test_a_denial_for_a_person_binds_what_is_said_elsewhere_for_them(db: Db, claim: TurnClaim) -> None:
    row = AclRow(
        id=0,
        principal="fake:room/1",
        action="mcp:speak",
        effect=AclEffect.DENY,
        params="jid=fake:room/2",
        granted_by=OPERATOR,
    )
    acl.put(db, row, NOON)
    assert "forbids" in take_for_ops(db, claim).answers[0].error


@pytest.mark.parametrize("rule", ["hold send(jid=fake:room/2)", "hold[2] speak(jid=fake:*)"])
def test_a_block_for_another_room_is_held_like_a_call_of_send(db: Db, claim: TurnClaim, rule: str) -> None:
    taken = take_for_ops(db, claim, rule)
    assert taken.asked and "waits for a person's decision" in taken.answers[0].error
    assert outbox.list_for_turn(db, claim.turn.id) == []
    (request,) = waiting_requests.list_pending(db)
    assert (request.tool, request.input) == ("send", {"text": "hello", "chatJid": "fake:room/2"})
    assert (request.rooms, request.reads.threads) == ({"chatJid": "fake"}, {"chatJid": "topic"})
    assert request.quorum == (2 if "[2]" in rule else 1)
    take_for_ops(db, claim)  # handed over again, because the answer was lost
    assert len(waiting_requests.list_pending(db)) == 1


def test_the_answer_itself_is_not_stopped_by_rules_about_speaking(db: Db, claim: TurnClaim) -> None:
    acl.add_rule(db, "acme", "!speak", "test", NOON)
    acl.add_rule(db, "acme", "hold speak", "test", NOON)
    assert take(db, claim, result(claim))[0].error == ""
    assert len(outbox.list_for_turn(db, claim.turn.id)) == 1


@pytest.mark.parametrize("rule", ["!hand_out", "hold send_file", "hold hand_out(jid=fake:*)"])
def test_files_go_with_an_answer_only_where_no_rule_stops_send_file(db: Db, claim: TurnClaim, rule: str) -> None:
    acl.add_rule(db, "acme", rule, "test", NOON)
    file = OutboundFile(name="a.txt", mime="text/plain", path="/nowhere/a.txt", size=1)
    record_results(db, CHANNELS, claim.turn.session_id, [(result(claim), (file,))], LIMITS, NOON, lambda: ASKING)
    (effect,) = outbox.list_for_turn(db, claim.turn.id)
    assert effect.payload.get("files", []) == [] and effect.payload["text"] == "hello"


def test_what_blocks_are_judged_by_is_what_these_tools_declare() -> None:
    load_package("gatepost.tools")
    assert {name: TOOLS[name].effects for name in EFFECTS} == EFFECTS
