"""A prompt is bounded in one pass, however many of its beginnings were counted."""

import pytest

from gatepost.egress.media_tokens import WINDOW, MediaTokens
from gatepost.egress.prompt_sizes import (
    FRAME,
    CountedPrompts,
    bound_by_beginning,
    bound_by_bytes,
    make_parts,
)

PIECES = [
    (b"x" * 900, MediaTokens(0, 0)),
    (b"y" * 500, MediaTokens(100, 300)),
    (b"z" * 700, MediaTokens(WINDOW, 600)),
    (b"w" * 40, MediaTokens(0, 0)),
]
PARTS = make_parts("m", PIECES)


def test_bytes_bound_the_tokens_and_media_count_as_media() -> None:
    assert bound_by_bytes(PARTS) == FRAME + 2140 - 900 + WINDOW


@pytest.mark.parametrize("known", range(4))
def test_a_counted_beginning_leaves_the_bytes_of_what_is_new(known: int) -> None:
    counted = {PARTS[known].beginning: 7}
    assert bound_by_beginning(PARTS, counted) == 7 + bound_by_bytes(PARTS[known + 1 :])


def test_the_lowest_of_all_bounds_is_taken() -> None:
    everything = {part.beginning: 10_000_000 for part in PARTS}
    assert bound_by_beginning(PARTS, everything) == bound_by_bytes(PARTS)
    assert bound_by_beginning(PARTS, everything | {PARTS[0].beginning: 5}) == 5 + bound_by_bytes(PARTS[1:])


def test_a_long_conversation_of_which_every_beginning_was_counted_is_gone_through_once() -> None:
    class Looks(dict[str, int]):
        count = 0

        def __contains__(self, key: object) -> bool:
            Looks.count += 1
            return super().__contains__(key)

    parts = make_parts("m", [(b"x", MediaTokens(0, 0))] * 2000)
    counted = Looks({part.beginning: 10 for part in parts})
    assert bound_by_beginning(parts, counted) == 10 + FRAME
    assert Looks.count == len(parts)


def test_only_what_is_news_is_kept_in_the_store() -> None:
    prompts = CountedPrompts()
    assert prompts.learn(PARTS, 100) == (PARTS[0].beginning, PARTS[1].beginning)
    assert prompts.learn(PARTS, 100) == ()
    assert prompts.find(PARTS)[PARTS[-1].beginning] == 100
