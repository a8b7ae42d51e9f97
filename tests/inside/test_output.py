"""What a model wrote, and what of it people get."""

import pytest

from gatepost.inside.output import Output, Piece, is_silent, read, split, strip
from gatepost.mailbox import wire


def test_bare_text_goes_to_the_room_of_the_turn() -> None:
    assert read("  Hello.\n") == Output((Piece("Hello."),))


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
    assert strip(text, "think") == kept


def test_arizuko_20_an_unclosed_thought_leaves_nothing() -> None:
    assert read("<think>should I").pieces == ()


@pytest.mark.parametrize(
    "text",
    [
        "No response requested.",
        "no reply needed",
        "[silent]",
        "(Nothing to add.)",
        "Acknowledged.",
        "**Nothing to say**",
    ],
)
def test_arizuko_20_a_meta_phrase_is_a_silence(text: str) -> None:
    assert read(text).pieces == ()


@pytest.mark.parametrize("text", ["acknowledged, will do", "Silent night", "There is nothing to add to the list."])
def test_arizuko_20_a_phrase_within_a_sentence_is_kept(text: str) -> None:
    assert not is_silent(text)


def test_arizuko_20_a_status_block_is_taken_out_and_shown_apart() -> None:
    out = read("<status>reading the log</status>It was the disk.<status> </status>")

    assert out == Output((Piece("It was the disk."),), ("reading the log",))


def test_internal_text_never_leaves_not_even_as_a_status_or_a_block() -> None:
    text = 'Hi<internal><status>plan</status><message to="ops">secret</message><internal>x</internal></internal>'

    assert read(text) == Output((Piece("Hi"),))
    assert read("Hi <internal>and the rest is mine").pieces == (Piece("Hi"),)


def test_nanoclaw_30_each_block_goes_to_its_name_and_bare_text_to_the_room() -> None:
    text = "Done.\n<message to=\"ops\">\nrestart it\n</message>\n<message to='Ann B'>hello</message>"

    assert read(text).pieces == (Piece("Done."), Piece("restart it", "ops"), Piece("hello", "Ann B"))


def test_an_empty_or_silent_block_sends_nothing() -> None:
    assert read('<message to="ops"> </message><message to="ops">No reply needed.</message>').pieces == ()


def test_a_text_is_split_at_a_line_end_or_blank_and_nothing_is_lost() -> None:
    text = "word " * 100
    parts = split(text, 64)

    assert "".join(parts) == text
    assert all(len(part) <= 64 and part.endswith(" ") for part in parts)
    assert "".join(split("x" * 200, 64)) == "x" * 200


def test_the_worst_part_fits_a_frame() -> None:
    for part in split("\x01" * 400_000):
        frame = wire.Result(id=2**40, turn="t" * 40, epoch=2**40, attempt=9, part=999, text=part, to="n" * 1000)
        assert len(wire.line(frame)) <= wire.LARGEST
