"""What a model wrote, and what of it people get."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.inside.prompts.output_parser import (
    AddressedText,
    ParsedOutput,
    is_silent,
    parse_draft,
    parse_output,
    split_text,
    strip_tag,
)
from gatepost.mailbox import runner_frames


def test_bare_text_goes_to_the_room_of_the_turn() -> None:
    assert parse_output("  Hello.\n") == ParsedOutput((AddressedText("Hello."),))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a<think>b<think>c</think>d</think>e", "ae"),
        ("a<think>never closed", "a"),
        ("<think>a</think>b<think>", "b"),
        ("a stray </think> stays", "a stray </think> stays"),
        ("<THINK>a</Think>b", "b"),
        ('<think mood="x">a</think>b', "b"),
        ("<thinking>is another word</thinking>", "<thinking>is another word</thinking>"),
    ],
)
def test_arizuko_20_thoughts_are_removed_with_nesting(text: str, kept: str) -> None:
    assert strip_tag(text, "think") == kept


def test_arizuko_20_an_unclosed_thought_leaves_nothing() -> None:
    assert parse_output("<think>should I").pieces == ()


@pytest.mark.parametrize(
    "text",
    [
        "<silent/>",
        " <silent /> ",
        "`<silent/>`",
        "<SILENT></SILENT>",
        "<think>not for me</think><silent/>",
        "",
    ],
)
def test_arizuko_20_silence_is_one_reserved_word_or_no_word_at_all(text: str) -> None:
    assert parse_output(text).pieces == ()


@pytest.mark.parametrize(
    "text",
    [
        "Silence.",
        "Acknowledged.",
        "Nothing to add.",
        "No response requested.",
        "[silent]",
        "acknowledged, will do",
        "There is nothing to add to the list.",
        "Answer <silent/> to say nothing.",
    ],
)
def test_arizuko_20_an_answer_that_is_words_is_said_whatever_the_words_mean(text: str) -> None:
    assert parse_output(text).pieces == (AddressedText(text),) and not is_silent(text)
    assert parse_draft(text) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<silent/>", "it answered <silent/>"),
        (" ", "its answer was empty"),
        ("<internal>my plan</internal>", "all 28 characters of its answer were thoughts or statuses"),
        ("said", ""),
    ],
)
def test_what_was_held_back_is_told_without_telling_thoughts(text: str, why: str) -> None:
    assert parse_output(text).withheld == why


def test_arizuko_20_a_status_block_is_taken_out_and_shown_apart() -> None:
    out = parse_output("<status>reading the log</status>It was the disk.<status> </status>")

    assert out == ParsedOutput((AddressedText("It was the disk."),), ("reading the log",))


def test_internal_text_never_leaves_not_even_as_a_status_or_a_block() -> None:
    text = 'Hi<internal><status>plan</status><message to="ops">secret</message><internal>x</internal></internal>'

    assert parse_output(text) == ParsedOutput((AddressedText("Hi"),))
    assert parse_output("Hi <internal>and the rest is mine").pieces == (AddressedText("Hi"),)


def test_nanoclaw_30_each_block_goes_to_its_name_and_bare_text_to_the_room() -> None:
    text = "Done.\n<message to=\"ops\">\nrestart it\n</message>\n<message to='Ann B'>hello</message>"

    assert parse_output(text).pieces == (
        AddressedText("Done."),
        AddressedText("restart it", "ops"),
        AddressedText("hello", "Ann B"),
    )


def test_an_empty_or_silent_block_sends_nothing() -> None:
    assert parse_output('<message to="ops"> </message><message to="ops"><silent/></message>').pieces == ()


def test_a_text_is_split_at_a_line_end_or_blank_and_nothing_is_lost() -> None:
    text = "word " * 100
    parts = split_text(text, 64)

    assert "".join(parts) == text
    assert all(len(part) <= 64 and part.endswith(" ") for part in parts)
    assert "".join(split_text("x" * 200, 64)) == "x" * 200


def test_the_worst_part_fits_a_frame() -> None:
    for part in split_text("\x01" * 400_000):
        frame = runner_frames.ResultFrame(
            id=2**40, turn="t" * 40, epoch=2**40, attempt=9, part=999, text=part, to="n" * 1000
        )
        assert len(runner_frames.encode_frame(frame)) <= runner_frames.LARGEST


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Hello, wor", "Hello, wor"),
        ("Hello <think>they want", "Hello"),
        ("Hello <thi", "Hello"),
        ("so <", "so"),
        ("so < b", "so < b"),
        ("so <b", "so <b"),
        ('Sure. <message to="ops">the secret', "Sure."),
        ('Sure. <message to="op', "Sure."),
        ('<message to="ops">all</message>Sure.', "Sure."),
        ("Sure. <status>looking", "Sure."),
        ("<internal>x</internal>", ""),
        ("<sil", ""),
        ("No response nee", "No response nee"),
        ("No", "No"),
        ("No, that is wrong", "No, that is wrong"),
        ("Nothing has changed since the last release, which was on Monday", None),
    ],
)
def test_of_a_text_that_is_being_written_only_what_is_sure_to_be_for_the_room_is_shown(
    written: str, shown: str | None
) -> None:
    assert parse_draft(written) == (written if shown is None else shown)


TAGS = ("<think>", "</think>", "<internal>", "</internal>", "<status>", "</status>", '<message to="ops">', "</message>")


@given(st.lists(st.sampled_from((*TAGS, "word ", "SECRET", "<", ">", "\n")), max_size=14), st.data())
def test_no_beginning_of_a_text_shows_what_the_whole_does_not_show_the_room(
    pieces: list[str], data: st.DataObject
) -> None:
    text = "".join(pieces)
    cut = data.draw(st.integers(min_value=0, max_value=len(text)))
    if not any("SECRET" in piece.text for piece in parse_output(text).pieces if not piece.to):
        assert "SECRET" not in parse_draft(text[:cut])
