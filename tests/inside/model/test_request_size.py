"""How much of a context a request takes, and how a conversation is cut so that it fits."""

import pytest

from gatepost.inside.model.conversation import (
    AssistantMessage,
    AssistantToolCall,
    ConversationMessage,
    PlacedMessage,
    SummaryMessage,
    ToolResultEntry,
    UserMessage,
)
from gatepost.inside.model.conversation_summary import (
    MOST_PARTS,
    choose_summary_end,
    list_summed_up,
    sketch_summary,
    split_transcript,
)
from gatepost.inside.model.request_size import (
    ContextBudget,
    TokenFigure,
    estimate_tokens,
    fit_messages,
    get_size,
    guess_cut_window,
    is_cut_silently,
    shorten,
)


def test_before_the_first_figure_the_guess_is_careful_in_every_script() -> None:
    assert estimate_tokens(3000, None) == 1000
    assert get_size(UserMessage("梅" * 100)) > 300  # a token each


def test_from_the_first_figure_on_the_endpoints_own_count_decides() -> None:
    figure = TokenFigure(10_000, 2000)

    assert estimate_tokens(10_000, figure) == 2000
    assert estimate_tokens(14_000, figure) == 3000  # growth is counted carefully
    assert 1000 < estimate_tokens(5000, figure) < 1100


def test_an_endpoint_that_reads_no_more_of_more_cuts_silently() -> None:
    first, last = TokenFigure(8000, 2000), TokenFigure(16_000, 4000)

    assert not is_cut_silently(18_000, 4500, first, last)
    assert is_cut_silently(20_000, 4000, first, last)
    assert is_cut_silently(40_000, 4096, first, TokenFigure(40_000, 4096))
    assert is_cut_silently(60_000, 4096, None, None)
    assert not is_cut_silently(60_000, 12, None, None)  # it does not count at all
    assert not is_cut_silently(2000, 500, None, None)
    assert guess_cut_window(4096) == guess_cut_window(3000) == 4096


@pytest.mark.parametrize("window", [1000, 8192, 32_768, 200_000])
def test_an_answer_always_has_some_room_and_so_have_messages(window: int) -> None:
    budget = ContextBudget(window, window // 2, 8192)

    assert budget.answer >= 256 or budget.answer == 8192
    assert budget.room >= window * 0.149
    assert budget.get_answer_limit(window) > 0
    assert budget.get_answer_limit(0) <= 8192


def test_a_large_window_leaves_the_answer_as_long_as_the_group_says() -> None:
    assert ContextBudget(200_000, 5000, 8192).get_answer_limit(100_000) == 8192


def test_a_text_is_shortened_in_its_middle_and_says_so() -> None:
    short = shorten(f"begin {'x' * 5000} end", 1000)

    assert short.startswith("begin") and short.endswith("end") and len(short) < 1100
    assert "characters are left out here" in short
    assert shorten("short", 1000) == "short" and len(shorten("x" * 500, 5)) < 100


def exchange(number: int, size: int = 100) -> list[ConversationMessage]:
    return [UserMessage(f"{number} {'u' * size}"), AssistantMessage(f"{number} {'a' * size}")]


def test_what_does_not_fit_loses_its_oldest_and_never_its_summary_or_its_newest() -> None:
    summary = SummaryMessage("all before")
    messages = [summary, *(message for number in range(20) for message in exchange(number))]
    fitted = fit_messages(messages, 1000)

    assert fitted[0] == summary and fitted[-1] == messages[-1] and len(fitted) < 12
    assert fit_messages(messages, 1_000_000) == messages


def test_without_a_summary_it_begins_with_a_word_for_the_model() -> None:
    fitted = fit_messages([message for number in range(20) for message in exchange(number)], 700)

    assert isinstance(fitted[0], UserMessage) and "left out" in fitted[0].text


def test_a_call_that_is_shortened_keeps_its_result() -> None:
    use, used = AssistantToolCall("u-1", "write", {"text": "x" * 9000}), ToolResultEntry("t", "u-1", "y" * 9000)
    (user, said) = fit_messages([UserMessage("do"), AssistantMessage("", ((use, used),))], 3000)

    assert isinstance(said, AssistantMessage) and get_size(said) < 3000 and user == UserMessage("do")
    assert [(each.id, result.id) for each, result in said.uses] == [("u-1", "u-1")]


def place(*messages: ConversationMessage) -> list[PlacedMessage]:
    return [
        PlacedMessage(float(index), message, f"t-{index // 2}" if isinstance(message, UserMessage) else "")
        for index, message in enumerate(messages)
    ]


def test_the_newest_stay_and_the_last_always() -> None:
    placed = place(*exchange(0), *exchange(1), *exchange(2))

    assert choose_summary_end(placed, "t-9", 1) == 5
    assert choose_summary_end(placed, "t-9", 300) == 4
    assert choose_summary_end(placed, "t-9", 10_000) is None
    assert choose_summary_end(placed, "t-9", 1, least=10_000) is None  # not worth it
    assert choose_summary_end([], "t-9", 1) is None


def test_words_that_the_turn_answers_are_not_summed_up() -> None:
    placed = place(*exchange(0), *exchange(1))

    assert list_summed_up(placed, "t-0", 3) == [placed[1].message, placed[2].message]


def test_a_transcript_has_so_many_parts_at_most_and_none_is_too_long() -> None:
    messages = [message for number in range(500) for message in exchange(number, 1000)]
    parts = split_transcript(messages, 8000)

    assert len(parts) <= MOST_PARTS and max(len(part) for part in parts) <= 9000
    assert "0 u" in parts[0] and "499 a" in parts[-1]


def test_without_a_summary_the_beginnings_of_what_was_said_stand_in_its_place() -> None:
    messages = [UserMessage("the word is plum"), AssistantMessage("noted"), UserMessage("and more")]
    sketch = sketch_summary("before that: pears", messages, ContextBudget(8192, 2000, 1000))

    assert "before that: pears" in sketch and "- the word is plum" in sketch and "- and more" in sketch
