"""How many tokens a model can have before it, and who says so."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.inside.http_client import parse_endpoint
from gatepost.inside.model.context_window import (
    USUAL,
    LearntWindow,
    ModelWindow,
    decide_window,
    find_listed_window,
    find_vendor_window,
)
from gatepost.inside.providers.openai import ChatCompletionsApi
from gatepost_testing.models import MODEL, ModelEndpoint


def test_the_group_says_it_first_then_the_endpoint_then_the_table() -> None:
    assert decide_window(1000, 2000, 3000, None) == 1000
    assert decide_window(0, 2000, 3000, None) == 2000
    assert decide_window(0, 0, 3000, None) == 3000
    assert decide_window(0, 0, 0, None) == USUAL


def test_what_was_learnt_holds_as_long_as_the_others_say_the_same() -> None:
    learnt = LearntWindow(1500, 2000)

    assert decide_window(0, 2000, 0, learnt) == 1500
    assert decide_window(0, 4000, 0, learnt) == 4000  # the server was started anew, with more
    assert decide_window(9000, 2000, 0, learnt) == 9000  # the operator knows better


@pytest.mark.parametrize(
    ("said", "window"),
    [
        ({"max_model_len": 8192}, 8192),  # vLLM
        ({"meta": {"n_ctx": 8192, "n_ctx_train": 40_960}}, 8192),  # llama.cpp
        ({"meta": {"n_ctx_train": 40_960}}, 0),  # what it was trained with says nothing
        ({"loaded_context_length": 4096, "max_context_length": 131_072}, 4096),  # LM Studio
        ({"max_context_length": 131_072}, 131_072),
        ({"context_length": 200_000, "top_provider": {"context_length": 131_072}}, 131_072),  # OpenRouter
        ({"context_length": 32_768}, 32_768),  # Together
        ({"context_window": 131_072}, 131_072),  # Groq
        ({"max_input_tokens": 200_000}, 200_000),  # Anthropic
        ({"context_length": "many"}, 0),
        ({"context_length": 1}, 0),
        ({"context_length": True}, 0),
        ({"meta": None}, 0),
        ({}, 0),
    ],
)
def test_every_server_has_a_word_of_its_own_for_it(said: dict[str, Any], window: int) -> None:
    body = json.dumps({"data": [{"id": "other", "max_model_len": 7777}, {"id": "m", **said}]}).encode()

    assert find_listed_window(body, "m") == window


def test_a_server_with_one_model_alone_means_that_one() -> None:
    body = json.dumps([{"id": "/models/some.gguf", "meta": {"n_ctx": 4096}}]).encode()

    assert find_listed_window(body, "anything") == 4096


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"data": 7}', b"\xff", b'"x"', b"[" * 100_000])
def test_a_list_that_is_none_says_nothing(body: bytes) -> None:
    assert find_listed_window(body, "m") == 0


def test_the_longest_beginning_of_a_name_decides() -> None:
    assert find_vendor_window("gpt-4-0613") == 8192
    assert find_vendor_window("gpt-4o-mini") == 128_000
    assert find_vendor_window("anthropic/claude-sonnet-4-5") == 200_000
    assert find_vendor_window("qwen2.5:7b") == 0


@pytest.fixture
async def endpoint() -> AsyncIterator[ModelEndpoint]:
    async with ModelEndpoint() as made:
        yield made


def a_window(path: Path, endpoint: ModelEndpoint, option: int = 0) -> ModelWindow:
    return ModelWindow(path, parse_endpoint(endpoint.openai), ChatCompletionsApi(), MODEL, option)


async def test_the_endpoint_is_asked_once_and_what_it_said_is_kept(tmp_path: Path, endpoint: ModelEndpoint) -> None:
    endpoint.listed = {"max_model_len": 4096}
    window = a_window(tmp_path, endpoint)
    await window.wait()
    await window.wait()

    assert window.tokens == 4096 and len(endpoint.requests) == 1
    assert a_window(tmp_path, endpoint).tokens == 4096  # another process, before it has asked


async def test_an_endpoint_without_a_list_is_as_good_as_any(tmp_path: Path, endpoint: ModelEndpoint) -> None:
    endpoint.key = "another"  # 401
    window = a_window(tmp_path, endpoint)
    await window.wait()

    assert window.tokens == USUAL


async def test_what_was_learnt_is_kept_by_endpoint_and_model(tmp_path: Path, endpoint: ModelEndpoint) -> None:
    a_window(tmp_path, endpoint).learn(5000)
    other = ModelWindow(tmp_path, parse_endpoint(endpoint.openai), ChatCompletionsApi(), "other", 0)

    assert a_window(tmp_path, endpoint).tokens == 5000 and other.tokens == USUAL


async def test_a_file_that_is_broken_is_as_good_as_none(tmp_path: Path, endpoint: ModelEndpoint) -> None:
    (tmp_path / "windows.json").write_text("{")

    assert a_window(tmp_path, endpoint).tokens == USUAL


async def test_only_so_many_models_are_kept(tmp_path: Path, endpoint: ModelEndpoint) -> None:
    for number in range(60):
        ModelWindow(tmp_path, parse_endpoint(endpoint.openai), ChatCompletionsApi(), f"m{number}", 0).learn(5000)

    assert len(json.loads((tmp_path / "windows.json").read_bytes())["learnt"]) == 50
