"""Words become sound at an endpoint on loopback; what it answers otherwise, and what that costs."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import GatepostError, Invalid, SetupError, Unavailable
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.egress import speech
from gatepost.egress.prices import find_price
from gatepost.egress.speech import Utterance
from gatepost.egress.upstream import Bill, VendorBaseUrl
from gatepost.flow.start_check import check_addresses

SAID = Utterance("good morning", "alloy", "tts-1")
SOUND = b"OggS" + bytes(100)


class Endpoint:
    def __init__(self, answer: bytes, *, hangs: bool = False) -> None:
        self.answer, self.hangs = answer, hangs
        self.head, self.body = "", b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = dict(line.split(": ", 1) for line in self.head.lower().split("\r\n")[1:-2])
            self.body = await reader.readexactly(int(lines["content-length"]))
            writer.write(self.answer)
            await writer.drain()
            if self.hangs:
                await reader.read()
        finally:
            writer.close()

    async def ask(self, key: str = "sk-tts", wait_s: float = 10.0) -> tuple[bytes | GatepostError, Bill]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        bill = Bill()
        async with server:
            base = speech.find_speech_base(at(server.sockets[0].getsockname()[1]))
            assert base is not None
            try:
                return await speech.request_speech(base, key, SAID, bill, wait_s=wait_s), bill
            except GatepostError as error:
                return error, bill


def at(port: int, **more: Any) -> Config:
    return Config({"tts.base_url": f"http://127.0.0.1:{port}", **more})


def answer(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body


async def test_the_words_go_there_and_the_sound_comes_back() -> None:
    endpoint = Endpoint(answer(SOUND))
    sound, bill = await endpoint.ask()
    assert sound == SOUND
    assert not bill.free
    assert endpoint.head.startswith("POST /v1/audio/speech HTTP/1.1\r\n")
    assert "authorization: bearer sk-tts\r\n" in endpoint.head.lower()
    asked = {"model": "tts-1", "voice": "alloy", "input": "good morning", "response_format": "opus"}
    assert json.loads(endpoint.body) == asked


async def test_without_a_key_none_is_sent() -> None:
    endpoint = Endpoint(answer(SOUND))
    await endpoint.ask(key="")
    assert "authorization" not in endpoint.head.lower()


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
async def test_a_refused_key_is_the_operators_to_mend_and_is_not_shown(status: str) -> None:
    error, bill = await Endpoint(answer(b"bad key sk-tts", status)).ask()
    assert isinstance(error, SetupError)
    assert "TTS_API_KEY" in str(error) and "sk-tts" not in str(error)
    assert bill.free


@pytest.mark.parametrize(
    ("said", "free", "why"),
    [
        (answer(b"busy", "503 Service Unavailable"), True, "it answered 503"),
        (answer(b"", "302 Found\r\nlocation: http://127.0.0.1/"), True, "it answered 302"),
        (answer(b"ID3 not what was asked for"), False, "it did not answer with Opus in Ogg"),
        (answer(b""), False, "it did not answer with Opus in Ogg"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nOggS", False, "broke off"),
        (b"no HTTP at all\r\n\r\n", False, "broke off"),
    ],
)
async def test_an_answer_that_is_no_sound_says_so_and_names_what_works(said: bytes, free: bool, why: str) -> None:
    error, bill = await Endpoint(said).ask()
    assert isinstance(error, Unavailable)
    assert why in str(error) and "use send" in str(error)
    assert bill.free is free


@pytest.mark.slow
async def test_an_endpoint_that_does_not_answer_in_time_may_have_cost_something() -> None:
    error, bill = await Endpoint(b"", hangs=True).ask(wait_s=1)  # enough to ask, on a machine with much to do
    assert isinstance(error, Unavailable)
    assert "it has not answered within 1 s" in str(error)
    assert not bill.free
    assert speech.LONGEST_WAIT_S == 15


async def test_an_endpoint_that_is_not_there_costs_nothing() -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    bill = Bill()
    base = speech.find_speech_base(at(port))
    assert base is not None
    with pytest.raises(Unavailable, match="cannot be reached"):
        await speech.request_speech(base, "", SAID, bill)
    assert bill.free


def test_nobody_said_where_or_said_it_wrongly() -> None:
    assert speech.find_speech_base(Config()) is None
    assert speech.find_speech_base(Config({"tts.base_url": " "})) is None
    with pytest.raises(SetupError, match=r"tts\.base_url"):
        speech.find_speech_base(Config({"tts.base_url": "speech.example"}))


@pytest.mark.parametrize(
    "wrong", [{"tts.base_url": "http://h", "tts.command": "flite"}, {"tts.command": "flite 'open"}]
)
def test_a_command_that_cannot_hold_is_refused_at_the_start(wrong: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"tts\.command"):
        check_addresses(Home(tmp_path), Config(wrong))
    assert speech.split_command(Config()) == []


def test_a_voice_is_one_argument_and_never_an_option() -> None:
    command = speech.split_command(Config({"tts.command": "flite -voice {voice} -o /dev/stdout"}))
    assert speech.put_voice(command, "a b; c") == ["flite", "-voice", "a b; c", "-o", "/dev/stdout"]
    with pytest.raises(Invalid, match="voice"):
        speech.put_voice(command, "-o/x")
    assert speech.put_voice(["flite"], "-o/x") == ["flite"]


def test_a_models_key_goes_to_its_own_host_alone() -> None:
    def names(url: str, models: str) -> tuple[str, ...]:
        config = Config({"tts.base_url": url, "openai.base_url": models})
        base: VendorBaseUrl | None = speech.find_speech_base(config)
        assert base is not None
        return speech.key_names(base, config)

    openai = "https://api.openai.com/v1"
    assert names(openai, openai) == ("TTS_API_KEY", "OPENAI_API_KEY")
    assert names("http://127.0.0.1:8880", openai) == ("TTS_API_KEY",)
    assert names("https://api.openai.com.evil.example/v1", openai) == ("TTS_API_KEY",)
    assert names("http://127.0.0.1:8880", "http://127.0.0.1:11434") == ("TTS_API_KEY",)
    assert names("http://api.openai.com/v1", openai) == ("TTS_API_KEY",)  # in the clear


def test_the_same_words_in_the_same_voice_are_the_same_sound() -> None:
    others = [Utterance("x", "alloy", "tts-1"), Utterance("good morning", "x", "tts-1"), Utterance("g", "a", "x")]
    assert SAID.digest == Utterance("good morning", "alloy", "tts-1").digest
    assert len({each.digest for each in (*others, SAID)}) == 4
    assert Utterance("b", "a", "m").digest != Utterance("", "ab", "m").digest


def test_speech_is_paid_by_the_character_and_a_begun_millionth_counts_whole() -> None:
    spoken, talks = find_price("tts-1"), find_price("gpt-5")
    assert spoken is not None and talks is not None
    assert spoken.of_speech("x" * 1_000_000) == 15_000_000
    assert spoken.of_speech("x") == 15
    assert talks.of_speech("x") is None
