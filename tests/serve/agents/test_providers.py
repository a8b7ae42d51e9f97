"""What a provider lacks, and the models that it can be asked for."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.egress import prices
from gatepost.serve.agents.providers import list_models
from gatepost.store.rights import secrets
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost_testing.clients.management_client import ManagementClient, open_management_gateway


async def state(desk: ManagementClient, name: str) -> dict[str, Any]:
    (found,) = [each for each in (await desk("list_providers"))["providers"] if each["id"] == name]
    return dict(found)


async def test_a_provider_says_what_it_lacks_and_is_ready_once_it_has_it(tmp_path: Path) -> None:
    async with open_management_gateway(tmp_path / "h", sandbox__kind="process") as desk:
        assert (await state(desk, "scripted"))["ready"]
        lacking = await state(desk, "anthropic")
        assert not lacking["ready"]
        assert lacking["reason"] == "there is no key for it; `gatepost connect anthropic` takes one"

        keyring, now = Keyring(desk.gateway.home), desk.gateway.clock.now()
        key = secrets.ANTHROPIC_API_KEY
        await desk.gateway.store.write(secrets.put, keyring, SecretOwner(), key, "sk-x", now)
        ready = await state(desk, "anthropic")
        assert (ready["ready"], ready["reason"], ready["defaultModel"]) == (True, None, "claude-sonnet-4-5")
        assert not (await state(desk, "openai"))["ready"]


async def test_an_endpoint_of_ones_own_needs_no_key(tmp_path: Path) -> None:
    home = tmp_path / "h"
    home.mkdir()
    (home / "gatepost.toml").write_text('[openai]\nbase_url = "http://127.0.0.1:11434/v1"\n')
    async with open_management_gateway(home, sandbox__kind="process") as desk:
        assert (await state(desk, "openai"))["ready"]
        assert not (await state(desk, "anthropic"))["ready"]


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "h" / "plugins" / "providers"
    folder.mkdir(parents=True)
    (folder / "parrot.py").write_text('@provider("parrot", programs=("unheard-of",))\nclass Parrot: ...\n')
    async with open_management_gateway(tmp_path / "h", sandbox__kind="process") as desk:
        assert "the program unheard-of is not on this machine" in (await state(desk, "parrot"))["reason"]


async def test_models_are_told_with_their_prices_the_default_first(tmp_path: Path) -> None:
    async with open_management_gateway(tmp_path / "h") as desk:
        found = (await desk("list_models", provider="codex"))["models"]
        assert [each["id"] for each in found if each["isDefault"]] == [found[0]["id"]] == ["gpt-5.5"]
        assert {each["vendor"] for each in found} == {"openai"}
        refused = await desk.ask("list_models", provider="nobody")
        assert refused.failed and "there are models for" in refused.text


@pytest.mark.parametrize("provider", ["claude", "anthropic", "openai", "codex", "opencode", "acp"])
def test_what_is_listed_has_a_price_and_answers_in_text(provider: str, tmp_path: Path) -> None:
    found = list_models(Home(tmp_path), provider)
    assert found and len({each.id for each in found}) == len(found)
    for each in found:
        price = prices.find_price(each.id)
        assert price is not None and (price.input, price.output) == (each.input * 1e6, each.output * 1e6)
    assert not {"whisper-1", "tts-1"} & {each.id for each in found}


def test_a_price_of_the_operators_own_wins_and_a_model_of_theirs_is_there_too(tmp_path: Path) -> None:
    (tmp_path / "gatepost.toml").write_text('[prices]\nfile = "mine.toml"\n')
    (tmp_path / "mine.toml").write_text("[gpt-5]\ninput = 7\noutput = 9\n[my-own]\ninput = 0\noutput = 0\n")
    home = Home(tmp_path)
    openai = {each.id: each for each in list_models(home, "openai")}
    assert (openai["gpt-5"].input, openai["gpt-5"].own_price) == (7, True)
    assert openai["my-own"].own_price and openai["my-own"].vendor == "openai"
    assert {each.id: each for each in list_models(home, "anthropic")}["my-own"].vendor == "anthropic"


def test_a_provider_without_a_vendor_has_no_models(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="'scripted' asks no model"):
        list_models(Home(tmp_path), "scripted")
