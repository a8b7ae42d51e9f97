"""Spoken messages: from the call over a speech endpoint on loopback to the platform, with what they cost."""

import asyncio
import json
import wave
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.tiers import Tier
from gatepost.core.clock import Period
from gatepost.core.keyring import Keyring
from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.egress import speech
from gatepost.egress.model_proxy import ModelProxy
from gatepost.egress.way_out import EgressDeps
from gatepost.flow.group_egress import StoreBudget
from gatepost.flow.worktrees.sandbox_jobs import SandboxJobs
from gatepost.gate.dispatch import INVALID_PARAMS, Dispatch
from gatepost.messages.outbound import Feature, Op
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import messages, outbox
from gatepost.store.messages.outbox import OutboxEffect
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.port import Db
from gatepost.store.rights import secrets
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.tools.contract import TOOLS
from gatepost_testing.channel import EVERYTHING, FakeChannel, SendFault
from gatepost_testing.gate_agent import FOLDERS, PLATFORM, GateAgent, is_invalid
from gatepost_testing.outbox_harness import OutboxHarness
from gatepost_testing.waiting import PATIENCE_S

load_package("gatepost.sandboxes")
load_package("gatepost.tools")

SOUND = b"OggS" + bytes(60)


@dataclass
class Endpoint:
    port: int = 0
    status: str = "200 OK"
    sound: bytes = SOUND
    heads: list[str] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    hangs: bool = False
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
        self.heads.append(head)
        self.asked.append(json.loads(await reader.readexactly(int(lines["content-length"]))))
        self.arrived.set()
        if self.hangs:
            await reader.read()
            writer.close()
            return
        writer.write(
            f"HTTP/1.1 {self.status}\r\ncontent-length: {len(self.sound)}\r\nconnection: close\r\n\r\n".encode()
        )
        writer.write(self.sound)
        await writer.drain()
        writer.close()

    @property
    def settings(self) -> dict[str, Any]:
        return {"tts.base_url": f"http://127.0.0.1:{self.port}/v1"}


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    made = Endpoint()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


async def arrive(
    home: Path, store: SqliteStore, settings: dict[str, Any], folder: str = "acme/eng", **more: Any
) -> GateAgent:
    agent = await GateAgent.create(home, store, folder, **more)
    agent.deps = replace(agent.deps, config=Config(settings))
    agent.dispatch = Dispatch(TOOLS, agent.deps)
    return agent


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore, endpoint: Endpoint) -> GateAgent:
    return await arrive(tmp_path, store, endpoint.settings)


async def effect_of(agent: GateAgent, key: str) -> OutboxEffect:
    assert agent.dispatch
    found = await agent.store.read(lambda db: [each for each in _all(db, agent) if each.key.endswith(key)])
    assert len(found) == 1
    return found[0]


def _all(db: Db, agent: GateAgent) -> list[OutboxEffect]:
    found = []
    for seq in range(1, 50):
        message = messages.find_by_seq(db, agent.session.id, seq)
        found += outbox.list_for_message(db, message.id) if message is not None else []
    return found


async def spent(store: SqliteStore) -> list[tuple[str, int, int]]:
    return [(each.key, each.calls, each.micro) for each in await store.read(costs.list_sums, "model")]


@pytest.mark.parametrize("tier", list(Tier))
async def test_it_is_there_for_its_tiers_and_for_no_other(
    tier: Tier, tmp_path: Path, store: SqliteStore, endpoint: Endpoint
) -> None:
    agent = await arrive(tmp_path, store, endpoint.settings, FOLDERS[tier])
    answer = await agent.call("send_voice", text="hello")
    if tier <= Tier.AGENT:
        assert json.loads(answer.text)["ok"] is True
    else:
        assert (answer.code, answer.text) == (INVALID_PARAMS, "Unknown tool: send_voice")
        assert endpoint.asked == []


async def test_words_are_spoken_kept_paid_for_and_put_on_their_way(
    agent: GateAgent, store: SqliteStore, endpoint: Endpoint
) -> None:
    answer = await agent.call("send_voice", "c.1", text="  hello there ")
    assert not answer.failed, answer.text
    assert endpoint.asked == [{"model": "tts-1", "voice": "alloy", "input": "hello there", "response_format": "opus"}]
    effect = await effect_of(agent, "c.1")
    (file,) = effect.payload["files"]
    assert (effect.op, effect.payload["text"], effect.state) == ("voice", "hello there", "pending")
    assert (file["name"], file["mime"], file["size"]) == ("voice.ogg", "audio/ogg", len(SOUND))
    assert Path(file["path"]).read_bytes() == SOUND
    assert await spent(store) == [("tts-1", 1, 11 * 15)]
    assert await agent.audited() == [("send_voice", "allowed")]


@pytest.mark.slow
async def test_the_same_words_are_made_and_paid_for_once(
    agent: GateAgent, store: SqliteStore, endpoint: Endpoint
) -> None:
    for _ in range(2):
        assert not (await agent.call("send_voice", text="hello")).failed
    assert not (await agent.call("send_voice", text="hello", voice="nova")).failed
    assert [each["voice"] for each in endpoint.asked] == ["alloy", "nova"]
    assert await spent(store) == [("tts-1", 2, 2 * 5 * 15)]
    folder = agent.deps.home.media / "voice"
    assert len(list(folder.iterdir())) == 2
    assert {path.suffix for path in folder.iterdir()} == {".ogg"}


@pytest.mark.parametrize(
    ("persona", "given", "voice"),
    [
        ("---\nname: Ada\nvoice: 'shimmer' \n---\nYou are Ada.", None, "shimmer"),
        ("---\nvoice: shimmer\n---\n", " nova ", "nova"),
        ("---\nname: Ada\n---\nvoice: not here", None, "echo"),
        ("voice: not here", None, "echo"),
        ("---\nvoice: shimmer\n---\n", "", "shimmer"),
        (None, None, "echo"),
    ],
)
async def test_the_voice_is_the_calls_else_the_personas_else_the_setting(
    persona: str | None, given: str | None, voice: str, tmp_path: Path, store: SqliteStore, endpoint: Endpoint
) -> None:
    agent = await arrive(tmp_path, store, {**endpoint.settings, "tts.voice": "echo"})
    if persona is not None:
        (agent.deps.home.group("acme/eng") / "PERSONA.md").write_text(persona)
    await agent.call("send_voice", text="hello", voice=given)
    assert endpoint.asked[0]["voice"] == voice


async def test_a_persona_that_is_a_link_out_is_not_read(agent: GateAgent, endpoint: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("---\nvoice: leaked\n---\n")
    (agent.deps.home.group("acme/eng") / "PERSONA.md").symlink_to(tmp_path / "outside.md")
    await agent.call("send_voice", text="hello")
    assert endpoint.asked[0]["voice"] == "alloy"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"text": " \n\x00"}, "text: has 0 bytes; 1 to 5000 can be spoken"),
        ({"text": "é" * 2501}, "text: has 5002 bytes; 1 to 5000 can be spoken"),
        ({"text": "x", "voice": "v" * 101}, "voice: has 101 characters"),
    ],
)
async def test_bad_input_is_named_and_nothing_is_asked_for(
    given: dict[str, Any], why: str, agent: GateAgent, endpoint: Endpoint
) -> None:
    answer = await agent.call("send_voice", **given)
    assert answer.failed
    assert answer.text.startswith(why)
    assert endpoint.asked == []


async def test_5000_bytes_after_the_trim_are_spoken(agent: GateAgent, endpoint: Endpoint) -> None:
    assert not (await agent.call("send_voice", text="  " + "é" * 2500 + "\n")).failed
    assert is_invalid(await agent.call("send_voice"))


async def test_arizuko_34_without_an_endpoint_it_is_unsupported_with_a_call_that_works(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await arrive(tmp_path, store, {})
    first, second = (await agent.call("send_voice", text="hello")).text.split("\n")
    assert first == f"unsupported: send_voice on {PLATFORM}"
    assert second.startswith("hint: use send") and "tts.base_url" in second and "tts.command" in second
    assert agent.woken == []


async def test_arizuko_34_where_neither_voices_nor_files_arrive_it_is_unsupported(
    tmp_path: Path, store: SqliteStore, endpoint: Endpoint
) -> None:
    agent = await arrive(tmp_path, store, endpoint.settings, features=EVERYTHING - {Feature.VOICE, Feature.FILES})
    answer = await agent.call("send_voice", text="hello")
    assert answer.text == f"unsupported: send_voice on {PLATFORM}\nhint: use send with the same text"
    assert endpoint.asked == []


async def test_arizuko_16_a_room_of_nobodys_is_refused_before_anything_is_spent(
    agent: GateAgent, endpoint: Endpoint
) -> None:
    answer = await agent.call("send_voice", text="hello", chatJid="fake:room/9")
    assert "acme/eng may not send_voice on fake:room/9" in answer.text
    assert endpoint.asked == []


async def test_a_spent_budget_speaks_nothing(agent: GateAgent, store: SqliteStore, endpoint: Endpoint) -> None:
    await store.write(_limit, 100)
    dear = await agent.call("send_voice", text="x" * 100)
    assert dear.failed
    assert dear.text.startswith("acme/eng may not send_voice")
    assert endpoint.asked == []
    assert await spent(store) == []


def _limit(db: Db, micro: int) -> None:
    budgets.put(db, BudgetScope(BudgetScopeKind.GROUP, "acme/eng"), Period.DAY, micro, "owner", 1)


async def test_a_model_without_a_price_speaks_nothing_and_a_free_one_does(
    tmp_path: Path, store: SqliteStore, endpoint: Endpoint
) -> None:
    agent = await arrive(tmp_path, store, {**endpoint.settings, "tts.model": "kokoro"})
    answer = await agent.call("send_voice", text="hello")
    assert answer.failed
    assert "'kokoro' has no price" in answer.text and "prices.file" in answer.text
    assert endpoint.asked == []

    (agent.deps.home.path / "prices.toml").write_text("[kokoro]\ninput = 0\noutput = 0\ncharacters = 0\n")
    priced = {**endpoint.settings, "tts.model": "kokoro", "prices.file": "prices.toml"}
    agent.dispatch = Dispatch(TOOLS, replace(agent.deps, config=Config(priced)))
    assert not (await agent.call("send_voice", text="hello")).failed


async def test_its_key_is_a_secret_and_its_use_is_on_record(
    agent: GateAgent, store: SqliteStore, endpoint: Endpoint
) -> None:
    ring = Keyring(agent.deps.home)
    await store.write(secrets.put, ring, SecretOwner(), "OPENAI_API_KEY", "sk-models", 1)
    await agent.call("send_voice", text="without")
    await store.write(secrets.put, ring, SecretOwner(), "TTS_API_KEY", "sk-tts", 1)
    await agent.call("send_voice", text="with")
    without, with_key = endpoint.heads
    assert "authorization" not in without  # a model's key is not for another host
    assert "authorization: bearer sk-tts\r\n" in with_key
    uses = await store.read(secrets.list_uses, 10)
    assert [(use.name, use.purpose, use.outcome) for use in uses] == [
        ("TTS_API_KEY", "speech at 127.0.0.1", "used"),
        ("TTS_API_KEY", "speech at 127.0.0.1", "missing"),
    ]


async def test_an_endpoint_that_fails_costs_nothing_and_leaves_nothing(
    agent: GateAgent, store: SqliteStore, endpoint: Endpoint
) -> None:
    endpoint.status = "500 Oh"
    answer = await agent.call("send_voice", text="hello")
    assert answer.failed
    assert "it answered 500; use send" in answer.text
    assert sum(micro for _, _, micro in await spent(store)) == 0
    assert agent.woken == []
    assert not (agent.deps.home.media / "out").exists()
    assert not (agent.deps.home.media / "voice").exists()

    endpoint.status = "200 OK"
    assert not (await agent.call("send_voice", text="hello")).failed


async def test_a_call_that_is_cancelled_while_words_are_spoken_is_paid_for(
    agent: GateAgent, store: SqliteStore, endpoint: Endpoint
) -> None:
    endpoint.hangs = True
    task = asyncio.create_task(agent.call("send_voice", text="hello"))
    await asyncio.wait_for(endpoint.arrived.wait(), PATIENCE_S)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert await spent(store) == [("tts-1", 1, 5 * 15)]


async def test_a_call_that_is_cancelled_while_its_money_is_set_aside_leaves_nothing_held_back(
    agent: GateAgent, store: SqliteStore, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()
    reserve = StoreBudget.reserve

    async def slow(self: StoreBudget, *given: Any) -> Any:
        held = await reserve(self, *given)
        asked.set()
        await go_on.wait()
        return held

    monkeypatch.setattr(StoreBudget, "reserve", slow)
    task = asyncio.create_task(agent.call("send_voice", text="hello"))
    await asyncio.wait_for(asked.wait(), PATIENCE_S)
    task.cancel()
    go_on.set()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert await store.read(lambda db: db.rows("SELECT id FROM reservations")) == []
    assert endpoint.asked == [] and [micro for _, _, micro in await spent(store)] in ([], [0])


# Made by a program.


class NoEgress:
    """Nothing is asked here."""

    async def get(self, name: str, spender: object, purpose: str = "") -> None:
        return None

    room = reserve = settle = get


async def arrive_with_program(home: Path, store: SqliteStore, script: str, **more: Any) -> GateAgent:
    """An agent for whom this script of the shell speaks."""
    home.chmod(0o711)
    program = home / "speak"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    settings = {"tts.command": "speak {voice}", "programs": (f"speak={program}",), "sandbox.kind": "bubblewrap", **more}
    agent = await arrive(home / "h", store, settings)
    deps, nothing = agent.deps, NoEgress()
    models = ModelProxy(deps.config, nothing, nothing, lambda model: None)
    egress = EgressDeps(store=store, clock=deps.clock, models=models, keys=nothing)
    jobs = SandboxJobs(deps.home, deps.config, store, deps.clock, egress)
    agent.deps = replace(deps, programs=jobs)
    agent.dispatch = Dispatch(TOOLS, agent.deps)
    return agent


WAV = "printf 'RIFF....WAVEfmt '; cat; echo $#:$1"


async def test_a_program_speaks_once_for_the_same_words_and_costs_nothing(tmp_path: Path, store: SqliteStore) -> None:
    agent = await arrive_with_program(tmp_path, store, WAV)
    for call in ("c.1", "c.2"):
        answer = await agent.call("send_voice", call, text=" $(id) 'é' ", voice="a b")
        assert not answer.failed, answer.text
        (file,) = (await effect_of(agent, call)).payload["files"]
        assert (file["name"], file["mime"]) == ("voice.wav", "audio/wav")
        assert Path(file["path"]).read_text() == "RIFF....WAVEfmt $(id) 'é'\n1:a b\n"
    (kept,) = (agent.deps.home.media / "voice").iterdir()
    assert kept.suffix == ".wav"
    assert await spent(store) == []
    assert await agent.audited() == [("send_voice", "allowed")] * 2
    assert not list(agent.deps.home.sessions.glob("job-*"))


async def test_a_program_that_writes_ogg_makes_a_voice_message(tmp_path: Path, store: SqliteStore) -> None:
    agent = await arrive_with_program(tmp_path, store, "printf OggS; cat")
    channel = FakeChannel()
    assert (await put(agent, channel)).state == "sent"
    message = channel.sent[0].message
    assert (message.op, message.files[0].name, message.files[0].mime) == (Op.VOICE, "voice.ogg", "audio/ogg")


@pytest.mark.parametrize(
    ("script", "settings", "why"),
    [
        (
            "echo no such voice >&2; exit 3",
            {},
            "the program speak is unavailable: it ended with the code 3: no such voice",
        ),
        ("echo hello", {}, "it wrote neither Opus in Ogg nor a wav"),
        ("", {}, "it wrote neither Opus in Ogg nor a wav"),
        (
            "",
            {"tts.command": "no-such-program"},
            "the program no-such-program is unavailable: it ended with the code 127",
        ),
        pytest.param("exec cat /dev/zero", {}, "it wrote more than 16777216 bytes", marks=pytest.mark.slow),
        ("rm /workspace/out/output; mkfifo /workspace/out/output", {}, "it wrote"),
        ("rm /workspace/out/output; ln -s /etc/passwd /workspace/out/output", {}, "it wrote"),
    ],
)
async def test_a_program_that_fails_is_one_sentence_and_leaves_nothing(
    script: str, settings: dict[str, Any], why: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await arrive_with_program(tmp_path, store, script, **settings)
    answer = await agent.call("send_voice", text="hello")
    assert answer.failed and why in answer.text, answer.text
    assert answer.text.endswith("; use send with the same text") and "\n" not in answer.text
    assert agent.woken == [] and await spent(store) == []
    home = agent.deps.home
    assert not (home.media / "voice").exists() and not list(home.sessions.glob("job-*"))


@pytest.mark.slow
async def test_a_program_that_takes_too_long_is_ended(
    tmp_path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speech, "COMMAND_S", 0.3)
    agent = await arrive_with_program(tmp_path, store, "exec sleep 600")
    first, second = await asyncio.gather(*(agent.call("send_voice", text=text) for text in ("one", "two")))
    said = [first.text, second.text]
    assert any("it took longer than 0.3 s" in text for text in said)
    assert all("it took longer than" in text or "others are using it" in text for text in said)
    assert isinstance(agent.deps.programs, SandboxJobs) and not agent.deps.programs.running


async def test_without_walls_a_program_speaks_nothing(tmp_path: Path, store: SqliteStore) -> None:
    agent = await arrive_with_program(tmp_path, store, f"touch {tmp_path}/ran; {WAV}", **{"sandbox.kind": "process"})
    answer = await agent.call("send_voice", text="hello")
    assert answer.failed and "speak runs within walls only, and the sandbox 'process' has none" in answer.text
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/usr/bin/flite").exists(), reason="flite is not installed: apt install flite")
async def test_flite_speaks(tmp_path: Path, store: SqliteStore) -> None:
    agent = await arrive_with_program(tmp_path, store, "", **{"tts.command": "flite -o /dev/stdout"})
    answer = await agent.call("send_voice", "c.1", text="good morning")
    assert not answer.failed, answer.text
    (file,) = (await effect_of(agent, "c.1")).payload["files"]
    with wave.open(file["path"]) as sound:
        assert sound.getnframes() > 1000


# What the platform gets.


async def put(agent: GateAgent, channel: FakeChannel, text: str = "hello") -> OutboxEffect:
    """Speak, and see it out."""
    assert not (await agent.call("send_voice", "c.9", text=text)).failed
    post = OutboxHarness(agent.store, {PLATFORM: channel})
    post.clock.set(agent.deps.clock.now())
    async with post.running():
        return await post.ended((await effect_of(agent, "c.9")).key)


async def test_a_voice_message_reaches_the_platform_and_its_copy_goes(agent: GateAgent) -> None:
    channel = FakeChannel()
    assert (await put(agent, channel)).state == "sent"
    message = channel.sent[0].message
    assert (message.op, message.text, message.files[0].mime) == (Op.VOICE, "hello", "audio/ogg")
    assert not Path(message.files[0].path).exists()


@pytest.mark.parametrize(("most", "text"), [(0, "hello"), (4, "")])
async def test_where_there_are_no_voice_messages_it_is_a_file_with_its_words_if_they_fit(
    most: int, text: str, agent: GateAgent
) -> None:
    channel = FakeChannel(features=EVERYTHING - {Feature.VOICE}, max_text=most)
    await put(agent, channel)
    message = channel.sent[0].message
    assert (message.op, message.text, message.files[0].name) == (Op.SEND, text, "voice.ogg")


async def test_a_voice_message_that_may_have_arrived_is_not_sent_again(agent: GateAgent) -> None:
    channel = FakeChannel(features=EVERYTHING - {Feature.LOOKUP})
    channel.script(SendFault.UNCERTAIN)
    assert (await put(agent, channel)).state == "uncertain"
    assert len(channel.sent) == 1
