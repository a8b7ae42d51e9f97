"""What every provider keeps, run over each one of the package."""

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import Struct

from gatepost.core.home import Home
from gatepost.flow.sessions.sandbox.provider_specs import find_spec
from gatepost.inside import providers
from gatepost.inside.acp.agent import AcpOptions
from gatepost.inside.agent_loop import AgentLoopOptions
from gatepost.inside.coding_agent import RetryingAgentOptions
from gatepost.inside.providers.codex import CodexOptions
from gatepost.inside.providers.contract import (
    Batch,
    ConversationStarted,
    Item,
    ItemKind,
    Provider,
    Text,
    TurnFailed,
    TurnResult,
)
from gatepost.inside.providers.opencode import OpencodeOptions
from gatepost.inside.runner import ProviderNotFound, find_provider
from gatepost_testing.agent_profiles import AGENTS
from gatepost_testing.provider_context import make_context, read_all

# These need an endpoint: see test_agents.py, test_model_providers.py and tests/inside/.
MODELS = set(AGENTS)
NAMES = sorted({info.name for info in pkgutil.iter_modules(providers.__path__)} - {"contract"} - MODELS)


EMULATOR = Path(__file__).parents[1] / "inside" / "providers" / "acp_agent.py"


@pytest.fixture(params=NAMES)
def provider(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Provider:
    """The emulator of ACP stands in for the programs of agents that speak it."""
    for name in ("gemini", "goose"):
        (tmp_path / name).write_text(f"#!/bin/sh\nexec {sys.executable} {EMULATOR}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("agent", "state"):
        (tmp_path / name).mkdir()
    place = make_context(tmp_path, router=tmp_path / "router.sock")
    return find_provider(request.param, None)(place)


def a_batch(*texts: str, turn: str = "t-1", first: int = 1) -> Batch:
    items = tuple(
        Item(row=seq, seq=seq, kind=ItemKind.CHAT, sender="Ann", text=text) for seq, text in enumerate(texts, first)
    )
    return Batch(turn=turn, prompt="\n".join(texts), items=items)


async def test_a_turn_ends_with_exactly_one_result_or_failure(provider: Provider) -> None:
    events = await read_all(provider.query(a_batch("one", "two"), ""))

    assert isinstance(events[-1], TurnResult | TurnFailed)
    assert not any(isinstance(event, TurnResult | TurnFailed) for event in events[:-1])
    await provider.close()


async def test_a_conversation_is_named_once_and_before_anything_is_said(provider: Provider) -> None:
    """A provider that keeps none names none: it is then given the prompt again when a turn is continued."""
    events = await read_all(provider.query(a_batch("one"), ""))
    names = [event.conversation for event in events if isinstance(event, ConversationStarted)]

    assert len(names) <= 1 and all(names)
    if names:
        assert isinstance(events[0], ConversationStarted)
    await provider.close()


async def test_a_conversation_is_resumed_under_its_name(provider: Provider) -> None:
    first = await read_all(provider.query(a_batch("one"), ""))
    names = [event.conversation for event in first if isinstance(event, ConversationStarted)]
    second = await read_all(provider.query(a_batch("two", turn="t-2", first=5), names[0] if names else ""))

    assert [event.conversation for event in second if isinstance(event, ConversationStarted)] == names
    assert any(isinstance(event, Text | TurnResult) for event in second)
    await provider.close()


async def test_a_push_is_taken_during_a_turn_if_the_class_says_so(provider: Provider) -> None:
    said = []
    pushed = False
    async for event in provider.query(a_batch("one"), ""):
        if isinstance(event, Text):
            said.append(event.in_reply_to)
            if not pushed:
                pushed = True
                if getattr(provider, "takes_pushes", False):
                    await provider.push(a_batch("two", first=7))
                else:
                    with pytest.raises(NotImplementedError):
                        await provider.push(a_batch("two", first=7))

    assert (7 in said) == getattr(provider, "takes_pushes", False)
    await provider.close()


async def test_a_push_without_a_turn_is_refused(provider: Provider) -> None:
    with pytest.raises(NotImplementedError):
        await provider.push(a_batch("late"))
    await provider.close()


async def test_an_interrupt_ends_the_turn(provider: Provider) -> None:
    events = []
    async for event in provider.query(a_batch(*(f"m{number}" for number in range(50))), ""):
        events.append(event)
        if isinstance(event, Text):
            await provider.interrupt()

    assert isinstance(events[-1], TurnResult | TurnFailed)
    assert len(events) < 50
    again = await read_all(provider.query(a_batch("after", turn="t-2", first=60), ""))
    assert isinstance(again[-1], TurnResult)
    await provider.close()


async def test_closing_twice_is_harmless(provider: Provider) -> None:
    await provider.close()
    await provider.close()


def test_a_name_that_nobody_has_is_said() -> None:
    with pytest.raises(ProviderNotFound, match="nobody"):
        find_provider("nobody", None)


def test_a_second_provider_of_the_same_name_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "demo.py").write_text("")
    code = "import sys, pathlib, gatepost.inside.runner as r; r.find_provider('demo', pathlib.Path(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "two providers are named 'demo'" in done.stderr


def test_a_broken_file_is_no_other_providers_trouble(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise RuntimeError('x')\n")
    assert find_provider("demo", tmp_path)
    with pytest.raises(ProviderNotFound, match=r"bad\.py does not load: RuntimeError: x"):
        find_provider("bad", tmp_path)


# What each provider reads of its group's options.
OPTIONS: dict[str, type[Struct]] = {
    "acp": AcpOptions,
    "anthropic": AgentLoopOptions,
    "claude": RetryingAgentOptions,
    "codex": CodexOptions,
    "gemini": AcpOptions,
    "goose": AcpOptions,
    "openai": AgentLoopOptions,
    "opencode": OpencodeOptions,
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_provider_declares_the_options_that_it_reads(tmp_path: Path, name: str) -> None:
    declared = find_spec(Home(tmp_path), name).options
    assert set(declared) == set(OPTIONS[name].__struct_fields__) - {"model"}  # which is the group's own
