"""A prompt is bounded in one pass, however many of its beginnings were counted. Nothing that a model reads as text
escapes the count; pictures, sounds and documents count what they may cost."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.egress import prompt_sizes, request_bodies
from gatepost.egress.http import HttpRefusal
from gatepost.egress.prompt_sizes import (
    FRAME,
    WINDOW,
    CountedPrompts,
    MediaTokens,
    bound_by_beginning,
    bound_by_bytes,
    make_parts,
)
from gatepost.egress.request_bodies import CHAT, MESSAGES, RESPONSES, BodySchema

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


TEXT = "word " * 40_000
PNG = "data:image/png;base64," + "A" * 3000


def count(shape: BodySchema, content: object, model: str = "gpt-4o") -> int:
    body = {"input": content} if shape is RESPONSES else {"messages": [{"role": "user", "content": content}]}
    return request_bodies.check_body(shape, {"model": model, **body}, frozenset(), 100).prompt


@pytest.mark.parametrize(
    "beside",
    [{"format": "x"}, {"format": "x", "image_url": PNG}, {"media_type": "image/png"}, {"url": PNG}, {"image_url": PNG}],
)
def test_text_is_counted_whatever_stands_beside_it(beside: dict[str, str]) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": TEXT, **beside}
    assert count(MESSAGES, [{"type": "document", "source": source}]) >= len(TEXT)
    assert count(MESSAGES, [{"type": "text", "text": "", "source": source}]) >= len(TEXT)
    assert count(CHAT, [{"type": "text", "text": TEXT, **beside}]) >= len(TEXT)


NAMES = st.sampled_from(
    [
        "type",
        "text",
        "data",
        "format",
        "source",
        "media_type",
        "url",
        "image_url",
        "input_audio",
        "file",
        "file_data",
        "content",
        "output",
        "other",
    ]
)
KINDS = st.sampled_from(
    [
        "text",
        "document",
        "base64",
        "content",
        "image_url",
        "input_audio",
        "file",
        "image",
        "tool_result",
        "computer_call_output",
        "input_file",
        "computer_screenshot",
        "input_image",
        "png",
        "application/pdf",
        "image/png",
    ]
)
WORDS = st.text('wört "\\\n', min_size=1, max_size=2000)
MEDIA_PARTS = st.recursive(
    KINDS | WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=15
)


def texts(part: Any, holder: str = "") -> int:
    """Bytes of everything that is no picture's, sound's or document's data."""
    if isinstance(part, list):
        return sum(texts(each) for each in part)
    if isinstance(part, dict):
        return sum(texts(each, name) for name, each in part.items())
    is_data = holder == "data" or str(part).startswith("data:")
    return 0 if is_data else len(str(part).encode())


@pytest.mark.slow
@given(st.sampled_from([MESSAGES, CHAT, RESPONSES]), MEDIA_PARTS, WORDS)
def test_every_byte_of_text_is_counted(shape: BodySchema, part: Any, text: str) -> None:
    content = [part, {"type": "text", "text": text}]
    try:
        counted = count(shape, content)
    except HttpRefusal:
        return
    assert counted >= texts(content)


@given(st.sampled_from([MESSAGES, CHAT, RESPONSES]), MEDIA_PARTS)
def test_data_that_is_not_inside_a_counted_part_is_text(shape: BodySchema, part: Any) -> None:
    try:
        counted = count(shape, [part])
    except HttpRefusal:
        return
    if not any(f'"{kind}"' in json.dumps(part) for kind in ("image", "document", "input_audio")):
        assert counted >= len(json.dumps(part, ensure_ascii=False).encode()) - json.dumps(part).count(" ")


@pytest.mark.parametrize(
    "item",
    [
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": PNG}},
        {"type": "computer_call_output", "call_id": "c", "output": {"image_url": PNG}},
        {"role": "user", "content": [{"type": "input_image", "image_url": PNG}]},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": PNG}]},
    ],
)
def test_a_screenshot_is_a_picture(item: dict[str, Any]) -> None:
    assert 24_000 * 3 < count(RESPONSES, [item] * 3, "gpt-5.5") < 26_000 * 3


@pytest.mark.parametrize(
    ("model", "least"),
    [("gpt-4o-mini", 2833 + 8 * 5667), ("gpt-4o", 85 + 8 * 170), ("gpt-4o-mini-2024-07-18", 2833 + 8 * 5667),
     ("gpt-5-nano", 3779), ("gpt-5", 1190), ("gpt-5.4-nano", 24_600), ("gpt-6-sol", 10_000), ("claude-opus-5", 4784),
     ("llava", 16_384)],
)  # fmt: skip
def test_a_picture_is_never_counted_below_what_its_vendor_bills(model: str, least: int) -> None:
    assert prompt_sizes.get_picture_tokens(model) >= least
    assert count(CHAT, [{"type": "image_url", "image_url": {"url": PNG}}], model) >= least


def test_sound_counts_by_its_length() -> None:
    def sound(size: int) -> list[dict[str, Any]]:
        return [{"type": "input_audio", "input_audio": {"data": "A" * size, "format": "mp3"}}]

    hour = 3600 * 1000 * 4 // 3  # of mp3 at 8 kbit/s, in base64
    assert 3600 * 10 <= count(CHAT, sound(hour)) < hour
    assert count(CHAT, sound(100)) >= prompt_sizes.LEAST_SOUND


@pytest.mark.parametrize(
    ("shape", "part"),
    [
        (MESSAGES, {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}}),
        (CHAT, {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}}),
        (CHAT, {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA"}, "source": {"type": "text"}}),
        (RESPONSES, {"type": "input_file", "file_data": "data:text/plain;base64,AAAA", "filename": "a.pdf"}),
    ],
)
def test_a_small_document_may_have_as_many_pages_as_a_model_takes(shape: BodySchema, part: dict[str, Any]) -> None:
    content = [{"role": "user", "content": [part]}] if shape is RESPONSES else [part]
    assert prompt_sizes.WINDOW <= count(shape, content) < prompt_sizes.WINDOW + 1000


@pytest.mark.parametrize("unit", [b"[],", b"{},", b'"",', b'{"a":{}},', b"1,", b'{"a":"b","c":[1,2,3]},'])
def test_a_body_of_very_many_values_is_refused_before_it_is_built(unit: bytes) -> None:
    raw = b'{"model":"m","messages":[' + unit * request_bodies.MOST_VALUES + b"1]}"
    with pytest.raises(HttpRefusal, match="values"):
        request_bodies.decode(raw)


def test_signs_in_a_text_are_no_values() -> None:
    text = '{"a": [1, 2, "x\\"], {", ' * 100_000 + "\\"
    raw = json.dumps({"model": "m", "system": text, "messages": [{"content": text}, "\\\\", "\\"]}).encode()
    assert request_bodies.decode(raw)["system"] == text
