"""A conversation on disk: what a model is shown of it, and what a crash leaves."""

import os
from pathlib import Path

import pytest

from gatepost.inside.agent_loop import make_tool_call
from gatepost.inside.media import MediaKind
from gatepost.inside.model.api import RequestedToolCall
from gatepost.inside.model.conversation import (
    MISSING,
    AssistantEntry,
    AssistantMessage,
    AssistantToolCall,
    ConversationEntry,
    ModelConversation,
    RejectedTurnEntry,
    SummaryEntry,
    SummaryMessage,
    ToolResultEntry,
    UserEntry,
    UserMessage,
    order_messages,
)


def test_an_answer_stands_before_what_came_meanwhile() -> None:
    entries: list[ConversationEntry] = [
        UserEntry("t", "a"),
        UserEntry("t", "b"),
        AssistantEntry("t", 1, "to a"),
        AssistantEntry("t", 3, "to b"),
    ]

    assert order_messages(entries) == [
        UserMessage("a"),
        AssistantMessage("to a"),
        UserMessage("b"),
        AssistantMessage("to b"),
    ]


def test_results_stand_right_behind_their_calls_and_a_missing_one_is_said() -> None:
    one, two = AssistantToolCall("u-1", "look"), AssistantToolCall("u-2", "send")
    result = ToolResultEntry("t", "u-1", "seen")
    entries: list[ConversationEntry] = [
        UserEntry("t", "a"),
        AssistantEntry("t", 1, "", (one, two)),
        UserEntry("t", "b"),
        result,
    ]

    told, answered, later = order_messages(entries)
    assert (told, later) == (UserMessage("a"), UserMessage("b"))
    assert answered == AssistantMessage("", ((one, result), (two, ToolResultEntry("t", "u-2", MISSING, True))))


def test_a_turn_that_was_refused_is_not_shown() -> None:
    entries: list[ConversationEntry] = [UserEntry("t-1", "bad"), RejectedTurnEntry("t-1"), UserEntry("t-2", "good")]

    assert order_messages(entries) == [UserMessage("good")]


def test_a_summary_takes_the_place_of_what_came_before_it_but_not_of_what_its_turn_answers() -> None:
    entries: list[ConversationEntry] = [
        UserEntry("t-1", "old"),
        AssistantEntry("t-1", 1, "to old"),
        UserEntry("t-2", "task"),
        AssistantEntry("t-2", 3, "step"),
        AssistantEntry("t-2", 4, "next step"),
    ]
    first, *rest = order_messages([*entries, SummaryEntry("t-2", 3.5, "a < b")])

    assert isinstance(first, SummaryMessage) and "a &lt; b" in first.text
    assert rest == [UserMessage("task"), AssistantMessage("next step")]


def test_of_several_summaries_the_newest_holds() -> None:
    entries: list[ConversationEntry] = [
        UserEntry("t-1", "a"),
        SummaryEntry("t-2", 1, "one"),
        UserEntry("t-2", "b"),
        SummaryEntry("t-3", 3, "two"),
        UserEntry("t-3", "c"),
    ]
    first, *rest = order_messages(entries)

    assert isinstance(first, SummaryMessage) and "two" in first.text and rest == [UserMessage("c")]


def test_a_conversation_that_is_a_summary_alone_has_nothing_open(tmp_path: Path) -> None:
    conversation = ModelConversation(tmp_path)
    conversation.add(UserEntry("t-1", "a"), AssistantEntry("t-1", 1, "b"), SummaryEntry("t-2", 3, "both"))

    assert not conversation.is_open()


def test_a_later_process_has_the_same_lines(tmp_path: Path) -> None:
    before = ModelConversation(tmp_path)
    before.add(UserEntry("t", "a", (7,)), AssistantEntry("t", 1, "", (AssistantToolCall("u-1", "look", {"x": 1}),)))
    after = ModelConversation(tmp_path, before.name)

    assert after.entries == before.entries and after.rows() == {7}
    assert [use.id for use in after.unfinished("t")] == ["u-1"] and after.unfinished("t-2") == []
    after.add(ToolResultEntry("t", "u-1", "done"))
    assert after.unfinished("t") == []


def test_a_line_that_was_being_written_in_a_crash_is_forgotten(tmp_path: Path) -> None:
    before = ModelConversation(tmp_path, "c-1")
    before.add(UserEntry("t", "a"))
    path = tmp_path / "c-1.jsonl"
    path.write_bytes(path.read_bytes() + b'{"type":"said","tu')
    after = ModelConversation(tmp_path, "c-1")
    after.add(AssistantEntry("t", 1, "b"))

    assert ModelConversation(tmp_path, "c-1").entries == [UserEntry("t", "a"), AssistantEntry("t", 1, "b")]


def test_a_damaged_line_stands_for_nothing_and_the_others_stay_in_their_places(tmp_path: Path) -> None:
    before = ModelConversation(tmp_path, "c-1")
    before.add(UserEntry("t", "a"), AssistantEntry("t", 1, "b"), UserEntry("t-2", "c"), AssistantEntry("t-2", 3, "d"))
    path = tmp_path / "c-1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged in (b"\0\0\0\n", b'{"type":"heard","tur\xff\n', b"[]\n", b'{"type":"x","a":' + b"[" * 5000 + b"\n"):
        path.write_bytes(b"".join([lines[0], damaged, *lines[2:]]))
        found = order_messages(ModelConversation(tmp_path, "c-1").entries)
        assert found == [UserMessage("a"), UserMessage("c"), AssistantMessage("d")]


def test_a_disk_that_becomes_full_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation, write = ModelConversation(tmp_path, "c-1"), os.write
    conversation.add(UserEntry("t", "a"))
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:10]))
    with pytest.raises(OSError, match="space"):
        conversation.add(AssistantEntry("t", 1, "lost"))
    monkeypatch.undo()
    conversation.add(AssistantEntry("t", 1, "b"))

    expected = [UserEntry("t", "a"), AssistantEntry("t", 1, "b")]
    assert conversation.entries == expected == ModelConversation(tmp_path, "c-1").entries


@pytest.mark.parametrize("depth", [101, 900, 100_000])
def test_arguments_that_nest_without_end_are_no_end_of_a_conversation(depth: int, tmp_path: Path) -> None:
    """A stranger's words steer what a model writes."""
    deep = '{"a":' + "[" * depth + "]" * depth + "}"
    call = make_tool_call(RequestedToolCall("send", deep))
    assert call.bad == deep[:2000] and call.input == {}
    assert make_tool_call(RequestedToolCall("send", '{"a":[[1]]}')).input == {"a": [[1]]}


def test_a_name_is_never_a_way_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    ModelConversation(tmp_path / "state", "../../x").add(UserEntry("t", "a"))

    assert [path.name for path in tmp_path.rglob("*.jsonl")] == ["x.jsonl"]
    assert (tmp_path / "state" / "x.jsonl").exists()


def test_what_was_shown_is_kept_once(tmp_path: Path) -> None:
    conversation = ModelConversation(tmp_path)
    first = conversation.keep("a.png", MediaKind.PNG, b"bytes")
    second = conversation.keep("b.png", MediaKind.PNG, b"bytes")

    assert first.file == second.file and conversation.bytes_of(second) == b"bytes"
    assert first.mime == "image/png" and len(list((tmp_path / "media").iterdir())) == 1


def test_it_is_open_until_its_last_words_are_answered(tmp_path: Path) -> None:
    conversation = ModelConversation(tmp_path)
    assert not conversation.is_open()
    conversation.add(UserEntry("t", "a"))
    assert conversation.is_open()
    conversation.add(AssistantEntry("t", 1, "b"))
    assert not conversation.is_open()
