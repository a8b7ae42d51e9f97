"""Recordings on their way to a transcript: what is sent, what is booked, what is refused."""

import json
from typing import Any

import pytest

from gatepost.egress.audio import read_form
from gatepost.egress.prices import Price
from gatepost.egress.token_usage import read_response_usage
from gatepost.inside.transcribe import transcribe
from gatepost.store.money.costs import TokenCounts

PATH = "/openai/v1/audio/transcriptions"
KEY = "sk-ant-the-real-key-0123456789"
SOUND = b"OggS" + bytes(12_496)  # 12,500 bytes: 100 seconds at most
MINUTE = Price(
    input=6_000_000, output=10_000_000, cache_read=0, cache_write=0, cache_write_long=0, minute=6_000, longest_s=1500
)


def form(**fields: bytes | tuple[str, bytes]) -> bytes:
    parts = []
    for name, given in fields.items():
        file, content = (f'; filename="{given[0]}"', given[1]) if isinstance(given, tuple) else ("", given)
        parts.append(
            b'--b\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n'
            % (name.encode(), file.encode(), content)
        )
    return b"".join(parts) + b"--b--\r\n"


WHOLE = form(model=b"hears-1", language=b"de", response_format=b"json", file=("../a b.OGG", SOUND))


@pytest.fixture
def hearing(way: Any) -> Any:
    way.models._prices = lambda model: MINUTE if model == "hears-1" else None
    return way


async def send(way: Any, body: bytes, kind: str = "multipart/form-data; boundary=b") -> Any:
    head = f"POST {PATH} HTTP/1.1\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return await way.send(head.encode() + body)


def http(body: dict[str, Any]) -> bytes:
    raw = json.dumps(body)
    return f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n{raw}".encode()


async def test_a_recording_is_sent_in_a_form_of_our_own_and_booked_by_the_second(hearing: Any) -> None:
    hearing.vendor.reply = http({"text": "hello", "usage": {"type": "duration", "seconds": 20}})
    answer = await send(hearing, WHOLE)

    assert json.loads(answer.body)["text"] == "hello"
    head, body = hearing.vendor.heads[0], hearing.vendor.bodies[0]
    assert head.startswith("POST /v1/audio/transcriptions") and f"authorization: Bearer {KEY}" in head.replace(
        "Authorization", "authorization"
    )
    kind = next(line for line in head.split("\r\n") if line.lower().startswith("content-type: "))[14:]
    sent = read_form(kind, body)
    assert (sent.model, sent.data, sent.ending, sent.language) == ("hears-1", SOUND, "ogg", "de")
    assert b"a b.OGG" not in body and hearing.purse.held == {1: 10_000}  # 100 seconds
    assert hearing.purse.booked == [(2_000, TokenCounts())]


@pytest.mark.parametrize(
    ("usage", "booked"),
    [
        (
            {"usage": {"type": "tokens", "input_tokens": 100, "output_tokens": 10}},
            (700, TokenCounts(input=100, output=10)),
        ),
        ({}, None),
        ({"usage": {"type": "duration", "seconds": -1}}, None),
        ({"usage": {"type": "duration", "seconds": True}}, None),
        ({"usage": {"type": "tokens"}}, None),
    ],
)
async def test_what_the_vendor_tells_is_booked_and_all_of_it_if_it_tells_nothing(
    hearing: Any, usage: dict[str, Any], booked: tuple[int, TokenCounts] | None
) -> None:
    hearing.vendor.reply = http({"text": "x", **usage})
    await send(hearing, WHOLE)
    all_of_it = (hearing.purse.held[1], TokenCounts())
    assert hearing.purse.booked == [booked or all_of_it] and hearing.purse.estimated == [booked is None]


async def test_a_recording_that_the_budget_does_not_buy_is_not_sent(hearing: Any) -> None:
    hearing.purse.left = 9_999
    assert (await send(hearing, WHOLE)).status == 402
    assert hearing.vendor.heads == []


async def test_no_recording_is_longer_than_its_vendor_takes(hearing: Any) -> None:
    hearing.vendor.reply = http({"text": "x"})
    await send(hearing, form(model=b"hears-1", file=("a.wav", bytes(1_000_000))))
    assert hearing.purse.held == {1: 150_000}


SMUGGLED = b'\r\n--b\r\ncontent-disposition: form-data; name="stream"\r\n\r\ntrue'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--b--",
        WHOLE[:-4],
        WHOLE.replace(b"--b", b"--c"),
        b"preamble" + WHOLE,
        WHOLE + b"epilogue",
        form(model=b"hears-1"),
        form(file=("a.ogg", SOUND)),
        form(model=b"hears-1", file=("a.ogg", b"")),
        form(model=b"hears-1", file=("a.exe", SOUND)),
        form(model=b"hears-1", file=SOUND),
        form(model=("m", b"hears-1"), file=("a.ogg", SOUND)),
        form(model=b"hears-1\r\nx", file=("a.ogg", SOUND)),
        form(model=b"hears-1", file=("a.ogg", SOUND), response_format=b"verbose_json"),
        form(model=b"hears-1", file=("a.ogg", SOUND), stream=b"true"),
        form(model=b"hears-1", file=("a.ogg", SOUND), prompt=b"x"),
        form(model=b"hears-1", file=("a.ogg", SOUND + SMUGGLED)),
        form(model=b"hears-1", file=("a.ogg", SOUND)) + form(model=b"other"),
        WHOLE.replace(b'name="language"', b'name="model"'),
        WHOLE.replace(b'name="language"', b"name=language"),
        WHOLE.replace(b'name="language"', b'name="language"\r\ncontent-transfer-encoding: base64'),
    ],
)
async def test_what_is_no_plain_form_is_refused(hearing: Any, body: bytes) -> None:
    assert (await send(hearing, body)).status == 400
    assert hearing.vendor.heads == [] and hearing.purse.held == {}


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data", "multipart/mixed; boundary=b", ""])
async def test_what_is_no_form_at_all_is_refused(hearing: Any, kind: str) -> None:
    assert (await send(hearing, WHOLE, kind)).status == 400


async def test_a_model_has_either_minutes_or_tokens(way: Any, hearing: Any) -> None:
    assert (await send(hearing, WHOLE.replace(b"hears-1", b"hears-2"))).status == 400
    chat = {"model": "hears-1", "messages": []}
    assert (await way.post("/openai/v1/chat/completions", chat)).status == 400
    way.models._prices = lambda model: Price(input=1, output=1, cache_read=1, cache_write=1, cache_write_long=1)
    assert (await send(hearing, WHOLE)).status == 400
    assert way.vendor.heads == []


def test_a_boundary_cannot_be_known_beforehand() -> None:
    first, second = (read_form("multipart/form-data; boundary=b", WHOLE).boundary for _ in range(2))
    assert first != second


def test_an_answer_without_numbers_is_not_measured() -> None:
    assert read_response_usage(b'{"text":"x"}').seconds is None


async def test_who_is_inside_hears_what_is_said_or_nothing(hearing: Any, tmp_path: Any) -> None:
    run, sound = hearing.path.parent, tmp_path / "a.ogg"
    sound.write_bytes(SOUND)
    hearing.vendor.reply = http({"text": " hello there "})
    assert await transcribe(run, sound, "hears-1") == "hello there"
    assert await transcribe(run, sound, "unknown") is None
    assert await transcribe(run, tmp_path / "missing", "hears-1") is None
    assert await transcribe(tmp_path / "nowhere", sound, "hears-1") is None
