"""When tool calls of a trace ended: the audit has their beginning, the timeline their end."""

from gatepost.core.clock import SECOND
from gatepost.store.port import Db
from gatepost.store.sessions import groups, sessions, timeline
from gatepost.store.sessions.timeline import TimelineKind, TimelineToolCall, ToolCallStatus
from gatepost.store.sessions.trace_facts import TracedToolCall, find_ends

RUNNING, COMPLETED, FAILED = ToolCallStatus.RUNNING, ToolCallStatus.COMPLETED, ToolCallStatus.FAILED


def test_calls_of_one_name_end_in_their_order() -> None:
    calls = [TracedToolCall(1, "send", "allowed"), TracedToolCall(4, "list", "allowed"), TracedToolCall(7, "send", "x")]
    told = [
        TimelineToolCall(1, "t", "send", COMPLETED, 3),
        TimelineToolCall(2, "t", "Bash", COMPLETED, 9),
        TimelineToolCall(4, "t", "list", RUNNING),
        TimelineToolCall(6, "t", "send", FAILED, 8),
    ]
    assert [each.ended_at for each in find_ends(calls, told)] == [3, None, 8]


def test_where_audit_and_timeline_know_of_different_numbers_no_end_is_guessed() -> None:
    calls = [TracedToolCall(1, "send", "allowed"), TracedToolCall(2, "send", "allowed")]
    assert [each.ended_at for each in find_ends(calls, [TimelineToolCall(1, "t", "send", COMPLETED, 3)])] == [None] * 2
    assert find_ends(calls, []) == calls


def test_the_timeline_tells_of_each_call_once_with_its_end(db: Db) -> None:
    groups.add(db, "home", "", "", 1)
    (own,) = sessions.add_isolated(db, [("home", "web", "web:home", "")], 1)
    for at, data in (
        (1, {"callId": "a", "name": "Old", "status": RUNNING}),
        (5, {"callId": "b", "name": "Bash", "status": RUNNING, "input": {"name": "x"}}),
        (6, {"callId": "c", "name": "Read", "status": RUNNING}),
        (7, {"callId": "b", "status": FAILED, "output": "no"}),
        (8, {"erased": True}),
    ):
        timeline.add(db, own, "t-1", TimelineKind.TOOL_CALL, data, at * SECOND)
    timeline.add(db, own, "t-1", TimelineKind.STATUS, {"text": "x"}, 9 * SECOND)
    assert timeline.list_tool_calls(db, own, 5 * SECOND, 100) == [
        TimelineToolCall(5 * SECOND, "t-1", "Bash", FAILED, 7 * SECOND),
        TimelineToolCall(6 * SECOND, "t-1", "Read", RUNNING),
    ]
