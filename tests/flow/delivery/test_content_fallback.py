"""How content degrades, and that verbs do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.errors import Unsupported
from gatepost.core.records import replace
from gatepost.flow.delivery.content_fallback import SMALLEST_FENCED, check_supported, degrade, split_text
from gatepost.messages.markdown.dialects import WORDS
from gatepost.messages.markdown.markup import render_counted, strip_markdown
from gatepost.messages.outbound import NEEDS, Feature, Op, Outbound, OutboundFile
from gatepost.messages.text_size import TextUnit, measure

NOTHING: frozenset[Feature] = frozenset()
EVERYTHING = frozenset(Feature)
SOUND = OutboundFile(name="voice.ogg", mime="audio/ogg", path="/media/out/k/0", size=1_234)
PLAN = OutboundFile(name="plan.pdf", mime="application/pdf", path="/media/out/k/plan.pdf", size=1_234_567)


def shown(message: Outbound, features: frozenset[Feature] = NOTHING, quote: str = "") -> Outbound:
    result = degrade(message, features, "fake", quote)
    assert result is not None
    return result


def test_a_channel_that_can_do_everything_gets_the_message_as_it_is() -> None:
    message = Outbound(key="k", text="**bold**", thread="t", reply_to="m1", files=(PLAN,))

    assert degrade(message, EVERYTHING, "fake") is message


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("**bold** and *thin* and __bold__ and _thin_ and ~~gone~~", "bold and thin and bold and thin and gone"),
        ("# Title\n\ntext", "Title\n\ntext"),
        ("see [the docs](https://example.org/a_b)", "see the docs (https://example.org/a_b)"),
        ("<https://example.org>", "https://example.org"),
        ("[https://example.org](https://example.org)", "https://example.org"),
        ("run `make *all*` now", "run make *all* now"),
        ("```python\nx = a * b * c\n```\ndone", "x = a * b * c\ndone"),
        ("2 * 3 * 4 and snake_case_name", "2 * 3 * 4 and snake_case_name"),
        (r"a \*star\*", "a *star*"),
        ("- one\n- two", "- one\n- two"),
    ],
)
def test_markdown_becomes_plain_text(markdown: str, text: str) -> None:
    assert shown(Outbound(key="k", text=markdown)).text == text


def test_a_file_becomes_a_line_that_names_it() -> None:
    result = shown(Outbound(key="k", op=Op.FILE, text="see", files=(PLAN,)))

    assert (result.op, result.text, result.files) == (Op.SEND, "see\n[file: plan.pdf, 1.2 MB]", ())


def test_a_reply_becomes_a_short_quote() -> None:
    message = Outbound(key="k", text="yes", reply_to="m1")

    result = shown(message, quote="shall we **go** " + "on " * 50)

    assert result.reply_to == ""
    quote, _, text = result.text.partition("\n")
    assert quote.startswith("> shall we go on") and quote.endswith("…") and len(quote) <= 82
    assert text == "yes"


def test_a_reply_to_something_unknown_drops_the_reference() -> None:
    assert shown(Outbound(key="k", text="yes", reply_to="m1")).text == "yes"


def test_a_quote_that_does_not_fit_is_dropped_and_an_edit_that_does_not_fit_is_cut() -> None:
    reply = degrade(Outbound(key="k", text="x" * 95, reply_to="m1"), NOTHING, "fake", "what now?", 100)
    edit = degrade(Outbound(key="k", op=Op.EDIT, text="x" * 200, target="m1"), EVERYTHING, "fake", "", 100)

    assert reply is not None and reply.text == "x" * 95
    assert edit is not None and edit.text == "x" * 99 + "…"


def test_a_thread_that_a_channel_does_not_have_is_the_room() -> None:
    assert shown(Outbound(key="k", text="x", thread="t")).thread == ""


def test_a_status_is_a_message_then_an_edit_and_nothing_where_it_could_not_be_taken_back() -> None:
    first, later = Outbound(key="k", op=Op.STATUS, text="…"), Outbound(key="l", op=Op.STATUS, text="…", target="m1")

    assert shown(first, frozenset({Feature.EDIT})).op is Op.SEND
    assert shown(later, frozenset({Feature.EDIT})).op is Op.EDIT
    assert degrade(first, NOTHING, "fake") is None


def test_a_card_becomes_its_text() -> None:
    assert shown(Outbound(key="k", op=Op.CARD, text="yes or no?")).op is Op.SEND


@pytest.mark.parametrize("op", sorted(NEEDS))
def test_a_verb_does_not_degrade_and_the_hint_names_what_would_work(op: Op) -> None:
    with pytest.raises(Unsupported) as caught:
        check_supported(op, NOTHING, "sms")

    assert (caught.value.verb, caught.value.platform) == (op, "sms")
    assert "use " in caught.value.hint
    check_supported(op, EVERYTHING, "sms")


def test_a_verb_is_told_by_the_name_that_the_caller_has_for_it() -> None:
    with pytest.raises(Unsupported, match="unsupported: dislike on sms"):
        check_supported(Op.REACT, NOTHING, "sms", "dislike")


def test_where_single_pins_come_off_the_hint_says_so() -> None:
    with pytest.raises(Unsupported) as caught:
        check_supported(Op.UNPIN_ALL, frozenset({Feature.PIN}), "sms")

    assert caught.value.hint == "use unpin_message for each message"


def test_a_voice_message_becomes_a_file_with_its_words_if_they_fit_and_else_there_is_none() -> None:
    message = Outbound(key="k", op=Op.VOICE, text="good morning", files=(SOUND,))
    files = frozenset({Feature.FILES})

    assert shown(message, frozenset({Feature.VOICE})) == message
    assert (shown(message, files).op, shown(message, files).text) == (Op.SEND, "good morning")
    cut = degrade(message, files, "fake", limit=5)
    assert cut is not None and (cut.text, cut.files) == ("", (SOUND,))
    with pytest.raises(Unsupported):
        check_supported(Op.VOICE, NOTHING, "sms")


def test_a_sound_that_is_no_voice_message_anywhere_is_a_file_or_its_words() -> None:
    wav = replace(SOUND, name="voice.wav", mime="audio/wav")
    message = Outbound(key="k", op=Op.VOICE, text="good morning", files=(wav,))
    there = shown(message, frozenset({Feature.VOICE, Feature.FILES}))
    assert (there.op, there.text, there.files) == (Op.SEND, "good morning", (wav,))
    without_files = shown(message, frozenset({Feature.VOICE}))
    assert (without_files.op, without_files.files) == (Op.SEND, ())
    assert without_files.text.startswith("good morning\n[file: voice.wav")


def test_a_text_is_cut_at_a_blank_line_before_a_line_before_a_space_before_anywhere() -> None:
    assert split_text("one two\n\nthree\nfour", 12) == ["one two", "three\nfour"]
    assert split_text("one two\nthree four", 12) == ["one two", "three four"]
    assert split_text("one two three four", 10) == ["one two", "three four"]
    assert split_text("abcdefghij" * 2, 8) == ["abcdefgh", "ijabcdef", "ghij"]


def test_a_text_without_a_limit_is_one_part_and_blank_text_is_none() -> None:
    assert split_text("x" * 10_000, 0) == ["x" * 10_000]
    assert split_text(" \n ", 100) == []


def test_a_code_block_that_is_cut_is_closed_and_opened_again() -> None:
    lines = [f"line {number}" for number in range(40)]
    text = "look:\n```python\n" + "\n".join(lines) + "\n```\nthat was it"

    parts = split_text(text, 100)

    assert all(len(part) <= 100 and part.count("```") % 2 == 0 for part in parts)
    assert all(part.startswith("```python\n") for part in parts[1:-1])
    assert [line for part in parts for line in part.split("\n") if line.startswith("line")] == lines


@given(st.text(alphabet=st.sampled_from("ab \n`~"), max_size=400), st.integers(min_value=1, max_value=120))
def test_no_part_is_over_the_limit_and_no_word_is_lost(text: str, limit: int) -> None:
    parts = split_text(text, limit)

    assert all(len(part) <= limit and part.strip() for part in parts)
    letters = [char for part in parts for char in part if char in "ab"]
    info = sum(part.count("`") + part.count("~") for part in parts)
    if info == 0:
        assert letters == [char for char in text if char in "ab"]
    else:  # opening lines may be repeated, words of their own are never dropped
        assert len(letters) >= sum(char in "ab" for char in text)


@pytest.mark.slow
@given(st.text(max_size=300))
def test_plain_text_is_not_much_longer_and_never_fails(text: str) -> None:
    assert len(strip_markdown(text)) <= 3 * len(text)


HOSTILE = {
    "backticks": "`",
    "backticks that nothing closes": "`a``b```c",
    "quotes": "> ",
    "brackets": "[",
    "closed brackets": "[[]",
    "links that never end": "[a](b",
    "links with a space": "[a](b [c](d",
    "links with titles": '[a](b "',
    "strong": "**a",
    "strong that nothing closes": " **a",
    "emphasis": "*a _b ",
    "words": "__a",
    "words that nothing closes": " __a",
    "deleted": "~~a ~~",
    "deleted that nothing closes": " ~~a",
    "escapes": "\\",
    "headings": "# ",
    "fences": "``` `",
    "tables": "|a|-",
    "blanks": "# a ",
}


def visits(text: str) -> int:
    return render_counted(text, WORDS)[1]


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_stranger_02_the_work_for_a_text_grows_with_its_length_only(unit: str) -> None:
    once, twice = (visits((unit * size)[:size]) for size in (4_000, 8_000))

    assert twice <= 2.1 * once
    assert twice <= 40 * 8_000


@pytest.mark.slow
@given(st.text(alphabet='`*_~[]()<>"\\!# a\n', min_size=1, max_size=12))
def test_stranger_02_no_mixture_of_signs_is_looked_at_more_often_when_it_is_repeated(unit: str) -> None:
    once, twice = (visits(unit * (size // len(unit))) for size in (1_000, 2_000))

    assert twice <= 2.1 * once + 200


@pytest.mark.parametrize(
    "tail",
    [
        "](a" * 1000 + " " * 1000,
        "][](a" * 1000 + " " * 1000,
        "](<a>" * 600 + ' "' * 500,
        '][](a "' * 600,
        "[" * 2000 + "](a)",
        "](" + " " * 3000 + "x",
    ],
)
def test_stranger_02_the_end_of_a_link_is_looked_for_once(tail: str) -> None:
    assert visits(f"[{tail}") <= 40 * len(tail)


def test_stranger_02_what_closes_a_run_of_backticks_is_looked_for_once() -> None:
    runs = "a".join("`" * length for length in range(1, 250))  # nothing closes any of them
    assert visits(runs) <= 40 * len(runs)


def test_stranger_02_only_the_head_of_a_strangers_text_is_looked_at_for_a_quote() -> None:
    result = shown(Outbound(key="k", text="yes", reply_to="m1"), quote="**go** " + "`" * 4_000)
    assert result.text.startswith("> go `") and result.text.endswith("…\nyes")

    result = shown(Outbound(key="k", text="yes", reply_to="m1"), quote="**go " + "on " * 4_000 + "now**")
    assert result.text.startswith("> **go on"), "the mark is closed behind what is looked at"


def test_stranger_02_a_very_long_text_keeps_its_marks() -> None:
    assert strip_markdown("*" * 20_001) == "*" * 20_001
    assert strip_markdown("**a** " * 300) == ("a " * 300).rstrip()


CLUSTERS = ["e\u0301", "👩\u200d👧", "👍🏽", "🇩🇪", "\u1112\u1161\u11ab", "漢", "a", "b", " ", " ", "\n"]


@given(st.lists(st.sampled_from(CLUSTERS), max_size=300), st.sampled_from(TextUnit), st.integers(32, 120))
def test_parts_are_within_the_limit_of_their_unit_and_no_sign_is_torn(
    signs: list[str], unit: TextUnit, limit: int
) -> None:
    parts = split_text("".join(signs), limit, unit)

    assert all(measure(part, unit) <= limit for part in parts)
    joints = {0}
    for sign in (sign for sign in signs if not sign.isspace()):
        joints.add(max(joints) + len(sign))
    at = 0
    for part in parts:
        at += len("".join(part.split()))
        assert at in joints
    assert "".join("".join(parts).split()) == "".join("".join(signs).split())


_LINE = st.text(alphabet="ab 漢🙂", max_size=60)
_BLOCK = st.builds(
    lambda mark, info, lines: "\n".join([mark + info, *lines, mark]),
    st.sampled_from(["```", "~~~", "`````"]),
    st.sampled_from(["", "python", "日本"]),
    st.lists(_LINE, max_size=8),
)


@given(st.lists(_LINE | _BLOCK, max_size=12), st.sampled_from(TextUnit), st.integers(SMALLEST_FENCED, 300))
def test_each_part_closes_the_code_blocks_that_it_opens_and_no_line_is_lost(
    pieces: list[str], unit: TextUnit, limit: int
) -> None:
    text = "\n".join(pieces)
    parts = split_text(text, limit, unit)

    assert all(measure(part, unit) <= limit for part in parts)
    assert all(not _is_open_at_end(part) for part in parts)
    assert _words("\n".join(parts)) == _words(text)


def _is_open_at_end(part: str) -> bool:
    mark = ""
    for line in part.split("\n"):
        run = line[: len(line) - len(line.lstrip(line[0]))] if line[:3] in ("```", "~~~") else ""
        if run and not mark:
            mark = run
        elif run and line.startswith(mark) and line == run:
            mark = ""
    return bool(mark)


def _words(text: str) -> str:
    return "".join("".join(line for line in text.split("\n") if line[:3] not in ("```", "~~~")).split())


class CountedText(str):
    """Counts the code points that are looked at."""

    steps = 0

    def __getitem__(self, place: object) -> str:
        found = super().__getitem__(place)  # type: ignore[index]
        CountedText.steps += len(found)
        return found

    def rfind(self, sign: str, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
        at = super().rfind(sign, start, end)
        CountedText.steps += (len(self) if end is None else end) - max(at, start)
        return at


@pytest.mark.parametrize("unit", TextUnit)
@pytest.mark.parametrize("piece", ["x", "🙂", "word ", "e\u0301", " \u0301", "🇩🇪", "```\ncode\n```\n", "\n"])
def test_splitting_looks_at_each_sign_a_few_times_however_long_the_text(piece: str, unit: TextUnit) -> None:
    text = CountedText(piece * (20_000 // len(piece)))
    CountedText.steps = 0

    split_text(text, 256, unit)

    assert CountedText.steps <= 20 * len(text)


def test_a_file_larger_than_the_channel_takes_is_named_and_the_others_are_sent() -> None:
    small = OutboundFile(name="small.txt", mime="text/plain", path="/x/small.txt", size=10)
    message = Outbound(key="k", text="here", files=(PLAN, small))

    result = degrade(message, EVERYTHING, "fake", largest_file=PLAN.size - 1)

    assert result is not None and result.files == (small,)
    assert result.text.startswith("here\n[file: plan.pdf, ")
    assert degrade(message, EVERYTHING, "fake", largest_file=PLAN.size) is message


def test_a_voice_message_larger_than_the_channel_takes_becomes_its_words() -> None:
    message = Outbound(key="k", op=Op.VOICE, text="good morning", files=(PLAN,))
    result = degrade(message, EVERYTHING, "fake", largest_file=1)
    assert result is not None and (result.op, result.files) == (Op.SEND, ())
    assert result.text.startswith("good morning\n[file: plan.pdf")
