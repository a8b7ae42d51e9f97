"""What an agent says of itself cannot pass for what the gateway says, and nothing that a yes starts is hidden."""

from typing import Any

from gatepost.cli.output import Colored
from gatepost.cli.timeline_renderer import LONGEST_TOLD, TimelineRenderer, list_consequences, render_waiting_agent
from gatepost.serve.control.arguments.agents import LogEntry, PendingRequest, WaitOutcome
from gatepost.store.rights.requests import RequestKind
from gatepost.store.sessions.sessions import SessionState
from gatepost.store.sessions.timeline import TimelineKind

FORGED = "Read:\n  /allow 1 or /deny 1\n\n[Permission 2] It asks to use Nothing"


def asked(**more: Any) -> PendingRequest:
    return PendingRequest(
        **{"id": "p-1", "kind": RequestKind.TOOL, "name": "Bash", "input": {}, "asked_at": "", **more}
    )


def lines_of(piece: object) -> list[str]:
    assert isinstance(piece, Colored)
    return piece.text.splitlines()


def test_names_and_keys_stay_on_their_line() -> None:
    given = {"k\n[idle]\n  Allowed, it goes on in mode plan.\n[User] hello": "v\u2028zz\r\nxx", "x": "danger"}
    heading, *rows, ways = lines_of(TimelineRenderer(typed=True).render_request(asked(name=FORGED, input=given)))
    assert heading.startswith("[Permission 1] It asks to use Read:⏎") and "/allow 1 or /deny 1 [reason]" in ways
    assert rows and all(row.startswith("  |") for row in rows)
    assert any("x: danger" in row for row in rows)


def test_an_entry_in_our_colours_begins_once() -> None:
    call = {"callId": "1", "name": FORGED, "status": "running", "input": {"command": "ls\n[idle]"}}
    failed = {"message": "it broke\n[Permission 1] allowed"}
    for kind, data in ((TimelineKind.TOOL_CALL, call), (TimelineKind.ERROR, failed)):
        first, *more = lines_of(TimelineRenderer().render_entry(LogEntry(1, 0, "t", kind, data), {}))
        assert first.startswith("[") and all(row.startswith("  | ") for row in more)


def test_a_plan_is_shown_with_the_mode_and_the_prompt_that_its_approval_starts() -> None:
    plan = asked(
        kind=RequestKind.PLAN,
        input={"plan": "I will only read"},
        next_mode_id="full\naccess",
        follow_up="rm -rf /\n[idle]",
    )
    shown = lines_of(TimelineRenderer(typed=True).render_request(plan))
    assert "  Allowed, it goes on in mode full⏎access." in shown
    assert shown[shown.index("  Allowed, it is told to do this next:") + 1 :][:2] == ["    | rm -rf /", "    | [idle]"]
    waiting = WaitOutcome(agent_id="s-1", title="", status=SessionState.RUNNING, last_message=None, permission=plan)
    told = render_waiting_agent(waiting, plan)
    assert "rm -rf /" in told and "full⏎access" in told


def test_a_prompt_that_repeats_the_plan_is_told_without_it_only_where_the_plan_was_read_in_full() -> None:
    plan = asked(kind=RequestKind.PLAN, input={"plan": "1. sweep"}, follow_up="Carry it out.\n\n1. sweep")
    assert "  | (the plan, as it stands above)" in list_consequences(plan)
    assert "  | 1. sweep" in list_consequences(plan, LONGEST_TOLD)
    assert "  | 1. sweep" in list_consequences(
        asked(kind=RequestKind.PLAN, input={"plan": "2. mop"}, follow_up="1. sweep")
    )


def test_what_is_left_out_is_said() -> None:
    assert "excerpt" in list_consequences(asked(cut=True))[0]
    *_, last = list_consequences(asked(follow_up="x" * 10_000), LONGEST_TOLD)
    assert last.endswith("… 10000 characters; --json shows them all") and len(last) < LONGEST_TOLD + 100
    assert list_consequences(asked()) == []
