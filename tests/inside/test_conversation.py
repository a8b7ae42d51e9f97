"""A conversation on disk: what a model is shown of it, and what a crash leaves."""

from pathlib import Path

from gatepost.inside.conversation import (
    MISSING,
    Answered,
    Conversation,
    Entry,
    Heard,
    Refused,
    Said,
    Told,
    Use,
    Used,
    in_order,
    newest,
)
from gatepost.inside.media import Kind


def test_an_answer_stands_before_what_came_meanwhile() -> None:
    entries: list[Entry] = [Heard("t", "a"), Heard("t", "b"), Said("t", 1, "to a"), Said("t", 3, "to b")]

    assert in_order(entries) == [Told("a"), Answered("to a"), Told("b"), Answered("to b")]


def test_results_stand_right_behind_their_calls_and_a_missing_one_is_said() -> None:
    one, two = Use("u-1", "look"), Use("u-2", "send")
    result = Used("t", "u-1", "seen")
    entries: list[Entry] = [Heard("t", "a"), Said("t", 1, "", (one, two)), Heard("t", "b"), result]

    told, answered, later = in_order(entries)
    assert (told, later) == (Told("a"), Told("b"))
    assert answered == Answered("", ((one, result), (two, Used("t", "u-2", MISSING, True))))


def test_a_turn_that_was_refused_is_not_shown() -> None:
    entries: list[Entry] = [Heard("t-1", "bad"), Refused("t-1"), Heard("t-2", "good")]

    assert in_order(entries) == [Told("good")]


def test_only_the_newest_words_that_fit_are_shown_and_the_last_always() -> None:
    messages = [Told("a" * 10), Answered("b" * 10), Told("c" * 10), Answered("d" * 10), Told("e" * 10)]

    assert newest(messages, 100) == messages
    assert newest(messages, 35) == messages[2:]
    assert newest(messages, 1) == messages[4:]
    assert newest([], 1) == []


def test_a_later_process_has_the_same_lines(tmp_path: Path) -> None:
    before = Conversation(tmp_path)
    before.add(Heard("t", "a", (7,)), Said("t", 1, "", (Use("u-1", "look", {"x": 1}),)))
    after = Conversation(tmp_path, before.name)

    assert after.entries == before.entries and after.rows() == {7}
    assert [use.id for use in after.unfinished("t")] == ["u-1"] and after.unfinished("t-2") == []
    after.add(Used("t", "u-1", "done"))
    assert after.unfinished("t") == []


def test_a_line_that_was_being_written_in_a_crash_is_forgotten(tmp_path: Path) -> None:
    before = Conversation(tmp_path, "c-1")
    before.add(Heard("t", "a"))
    path = tmp_path / "c-1.jsonl"
    path.write_bytes(path.read_bytes() + b'{"type":"said","tu')
    after = Conversation(tmp_path, "c-1")
    after.add(Said("t", 1, "b"))

    assert Conversation(tmp_path, "c-1").entries == [Heard("t", "a"), Said("t", 1, "b")]


def test_a_name_is_never_a_way_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    Conversation(tmp_path / "state", "../../x").add(Heard("t", "a"))

    assert [path.name for path in tmp_path.rglob("*.jsonl")] == ["x.jsonl"]
    assert (tmp_path / "state" / "x.jsonl").exists()


def test_what_was_shown_is_kept_once(tmp_path: Path) -> None:
    conversation = Conversation(tmp_path)
    first = conversation.keep("a.png", Kind.PNG, b"bytes")
    second = conversation.keep("b.png", Kind.PNG, b"bytes")

    assert first.file == second.file and conversation.bytes_of(second) == b"bytes"
    assert first.mime == "image/png" and len(list((tmp_path / "media").iterdir())) == 1


def test_it_is_open_until_its_last_words_are_answered(tmp_path: Path) -> None:
    conversation = Conversation(tmp_path)
    assert not conversation.is_open()
    conversation.add(Heard("t", "a"))
    assert conversation.is_open()
    conversation.add(Said("t", 1, "b"))
    assert not conversation.is_open()
