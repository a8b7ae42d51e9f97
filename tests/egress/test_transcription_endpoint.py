"""The endpoint that transcribes for every group: its own address, key, model and price, whatever a sandbox says."""

import json
from typing import Any

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.settings import Config
from gatepost.egress.audio import find_transcription_endpoint, read_form, split_command
from gatepost.inside.transcribe import transcribe
from gatepost.store.money.costs import TokenCounts

PATH = "/transcribe/v1/audio/transcriptions"
SOUND = b"OggS" + bytes(12_496)  # 12,500 bytes: 100 seconds at most
FORM = (
    b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\ndearest-of-all\r\n'
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.ogg"\r\n\r\n' + SOUND + b"\r\n--b--\r\n"
)


def settings(way: Any, **more: Any) -> Config:
    given = {"media.transcribe_base_url": f"http://127.0.0.1:{way.host.port}", "media.transcribe_price": "0.006"}
    return Config({**given, **{f"media.{name}": value for name, value in more.items()}})


async def send(way: Any) -> Any:
    head = (
        f"POST {PATH} HTTP/1.1\r\ncontent-type: multipart/form-data; boundary=b\r\ncontent-length: {len(FORM)}\r\n\r\n"
    )
    return await way.send(head.encode() + FORM)


def http(body: dict[str, Any]) -> bytes:
    raw = json.dumps(body)
    return f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n{raw}".encode()


async def test_a_recording_goes_to_the_endpoint_of_all_groups_with_its_own_key_model_and_price(way: Any) -> None:
    way.models.move(settings(way, transcribe="whisper-large"))
    way.keys.keys["TRANSCRIBE_API_KEY"] = "sk-only-for-words-0123"
    way.host.reply = http({"text": "hello", "usage": {"type": "duration", "seconds": 20}})
    answer = await send(way)

    assert json.loads(answer.body)["text"] == "hello" and way.vendor.heads == []
    (head,), (body,) = way.host.heads, way.host.bodies
    assert head.startswith("POST /v1/audio/transcriptions") and "bearer sk-only-for-words-0123" in head.lower()
    kind = next(line for line in head.split("\r\n") if line.lower().startswith("content-type: "))[14:]
    assert read_form(kind, body).model == "whisper-large"  # and not what the sandbox said
    assert way.purse.held == {1: 10_000} and way.purse.booked == [(2_000, TokenCounts())]


async def test_no_key_of_a_model_goes_to_another_endpoint_that_transcribes(way: Any) -> None:
    way.models.move(settings(way))
    way.host.reply = http({"text": "x"})
    await send(way)
    assert "authorization" not in way.host.heads[0].lower()


@pytest.mark.parametrize(
    ("price", "usage", "booked"),
    [
        ("0", {}, (0, False)),
        ("0.006", {}, (10_000, True)),
        ("0.006", {"usage": {"type": "tokens", "input_tokens": 9, "output_tokens": 1}}, (10_000, True)),
    ],
)
async def test_a_free_server_costs_nothing_and_a_paid_one_is_booked_in_full_if_it_tells_no_seconds(
    way: Any, price: str, usage: dict[str, Any], booked: tuple[int, bool]
) -> None:
    way.models.move(settings(way, transcribe_price=price))
    way.host.reply = http({"text": "x", **usage})
    await send(way)
    assert [(cost, way.purse.estimated[0]) for cost, _ in way.purse.booked] == [booked]


async def test_a_recording_that_the_budget_does_not_buy_is_not_sent_there(way: Any) -> None:
    way.models.move(settings(way))
    way.purse.left = 9_999
    assert (await send(way)).status == 402
    assert way.host.heads == []


async def test_without_a_price_and_without_an_endpoint_nothing_is_sent(way: Any) -> None:
    assert (await send(way)).status == 404
    way.models.move(settings(way, transcribe_price=""))
    assert (await send(way)).status == 400
    assert way.host.heads == [] and way.vendor.heads == []


async def test_an_endpoint_that_does_not_answer_in_time_makes_no_transcript_and_does_not_hold_the_turn(
    way: Any, tmp_path: Any
) -> None:
    way.models.move(settings(way))
    way.host.reply, way.host.hang = b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{", True
    recording = tmp_path / "a.ogg"
    recording.write_bytes(SOUND)
    assert await transcribe(way.path.parent, recording, "default", "/transcribe/v1", seconds=0.1) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"media.transcribe_base_url": "whisper"},
        {"media.transcribe_base_url": "http://h", "media.transcribe_price": "cheap"},
        {"media.transcribe_base_url": "http://h", "media.transcribe": "two words"},
        {"media.transcribe_base_url": "http://h", "media.transcribe_command": "whisper {file}"},
        {"media.transcribe_command": "whisper 'open"},
    ],
)
def test_settings_that_cannot_hold_are_refused_at_the_start(wrong: dict[str, str]) -> None:
    with pytest.raises(SetupError, match=r"media\.transcribe"):
        find_transcription_endpoint(Config(wrong))
        split_command(Config(wrong))
