"""Models on this machine: found by what their servers say, judged by what they do."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gatepost.egress.upstream import Upstream
from gatepost.serve.control import local_models
from gatepost.serve.control.arguments.connect import LocalModel, LocalService, ModelProbe
from gatepost.serve.control.local_models import choose_model, find_local, probe_model
from gatepost_testing import local_model_servers as servers
from gatepost_testing.models import MODEL, ModelEndpoint

ABLE = {
    "turns": [
        {"when": "Call the tool note", "do": [{"call": "note", "with": {"word": "blue"}}]},
        {"when": "Which colour", "do": [{"say": "Magenta."}]},
    ],
    "default": [{"say": "yes"}],
}


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    made = Upstream()
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (
            servers.ollama("qwen3:8b", "llama3.2:3b", context=4096),
            [
                ("Ollama", "qwen3:8b", 4_700_000_000, 4096, 40_960, True, False, True),
                ("Ollama", "llama3.2:3b", 4_700_000_000, 0, 40_960, True, False, False),
            ],
        ),
        (servers.ollama("nomic-embed-text", can=("embedding",)), []),
        (servers.lm_studio("gemma-3", context=8192), [("LM Studio", "gemma-3", 0, 8192, 131_072, True, True, True)]),
        (
            servers.llama_cpp("qwen.gguf", 16_384),
            [("llama.cpp", "qwen.gguf", 2_019_377_376, 16_384, 32_768, True, False, True)],
        ),
        (servers.vllm("mistral", 32_768), [("vLLM", "mistral", 0, 32_768, 0, None, None, False)]),
        ({}, [("a model server", MODEL, 0, 0, 0, None, None, False)]),
    ],
    ids=["ollama", "ollama with no model that talks", "lm studio", "llama.cpp", "vllm", "another"],
)
async def test_each_server_is_understood_in_its_own_words(
    upstream: Upstream, answers: dict[str, Any], expected: list[tuple[Any, ...]]
) -> None:
    async with ModelEndpoint(answers=answers) as endpoint:
        found = (await find_local(upstream, (endpoint.url,))).models
        assert {each.base_url for each in found} <= {endpoint.openai}
        assert expected == [
            (each.server, each.model, each.size, each.context, each.longest, each.tools, each.vision, each.loaded)
            for each in found
        ]


async def test_a_search_service_is_named_and_what_is_no_model_server_is_nothing(upstream: Upstream) -> None:
    empty = {"GET /v1/models": {"object": "list", "data": []}}
    async with ModelEndpoint(answers={**empty, **servers.searxng()}) as search, ModelEndpoint(answers=empty) as other:
        found = await find_local(upstream, (search.url, other.url, "http://127.0.0.1:1"))
        assert found.models == () and found.services == (LocalService("SearXNG", search.url),)


@pytest.mark.parametrize(
    "hostile",
    [
        {"GET /v1/models": {"data": [{"id": "a\u001b[2Jb"}, {"id": "x" * 300}, {"id": 7}, {"id": ""}]}},
        {"GET /v1/models": {"data": {"id": "no list"}}},
        {"GET /v1/models": {"data": [{"id": "large"}], "padding": "x" * 5_000_000}},
    ],
    ids=["names that cannot be shown", "no list", "more than is read"],
)
async def test_a_hostile_server_is_left_out(upstream: Upstream, hostile: dict[str, Any]) -> None:
    async with ModelEndpoint(answers=hostile) as endpoint:
        assert (await find_local(upstream, (endpoint.url,))).models == ()


async def test_a_server_that_says_nothing_is_given_up(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_models, "ASK_S", 0.05)

    async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        assert (await find_local(upstream, (f"http://127.0.0.1:{port}",))).models == ()
    finally:
        server.close()


async def test_a_model_that_can_all_shows_it_and_its_window_is_the_servers(upstream: Upstream) -> None:
    async with ModelEndpoint(ABLE, answers=servers.ollama(MODEL, context=16_384)) as endpoint:
        probe = await probe_model(upstream, endpoint.openai, MODEL)
        assert (probe.trouble, probe.tools, probe.vision, probe.context, probe.cuts) == ("", True, True, 16_384, False)


async def test_a_server_that_cuts_long_texts_without_a_word_is_found_by_its_count(upstream: Upstream) -> None:
    async with ModelEndpoint(window=4096, cuts_silently=True) as endpoint:
        probe = await probe_model(upstream, endpoint.openai, MODEL)
        assert (probe.tools, probe.vision, probe.context, probe.cuts) == (False, False, 4096, True)


async def test_a_window_that_nobody_says_and_that_is_large_enough_stays_unknown(upstream: Upstream) -> None:
    async with ModelEndpoint() as endpoint:
        assert (await probe_model(upstream, endpoint.openai, MODEL)).context == 0


async def test_a_model_that_refuses_tools_is_asked_without_them(upstream: Upstream) -> None:
    script = {"turns": [{"when": "Call the tool", "do": [{"fault": 400, "times": -1}]}], "default": [{"say": "yes"}]}
    async with ModelEndpoint(script) as endpoint:
        probe = await probe_model(upstream, endpoint.openai, MODEL)
        assert (probe.trouble, probe.tools) == ("", False)


async def test_one_that_does_not_answer_is_said_with_the_reason(upstream: Upstream) -> None:
    async with ModelEndpoint({"default": [{"fault": 500, "times": -1}]}) as endpoint:
        assert await probe_model(upstream, endpoint.openai, MODEL) == ModelProbe(trouble="it answers 500")
    gone = await probe_model(upstream, endpoint.openai, MODEL)
    assert gone.trouble == "the model's endpoint cannot be reached"


def test_one_with_tools_in_memory_is_likeliest_meant() -> None:
    def make(name: str, **about: Any) -> LocalModel:
        return LocalModel(server="Ollama", base_url="http://127.0.0.1:11434/v1", model=name, **about)

    large, loaded, dull = make("a", size=9, tools=True), make("b", size=5, loaded=True), make("c", size=99, tools=False)
    assert choose_model((dull, large, loaded)) == loaded
    assert choose_model((dull, large)) == large
    assert choose_model(()) is None
