"""Model services that speak OpenAI's chat completions: where each is, and where its keys come from. Data, in
`model_services.toml`."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct

from gatepost.core.record_fields import ShownAs, shown

SHIPPED = Path(__file__).with_name("model_services.toml")


class ModelService(Struct, frozen=True, kw_only=True):
    name: Annotated[str, shown("Name", ShownAs.ID)]
    title: Annotated[str, shown("Service")]
    base_url: Annotated[str, shown("Address", head="address")]
    keys: Annotated[str, shown("Its keys", head="keys from")]  # a page


@cache
def list_services() -> dict[str, ModelService]:
    """By name."""
    found = tomllib.loads(SHIPPED.read_text(encoding="utf-8"))
    return {name: msgspec.convert({"name": name, **each}, ModelService) for name, each in found.items()}


def find_services(word: str) -> list[ModelService]:
    """Return those whose name, title or address has this word; with '' all."""
    wanted = word.casefold()
    return [
        each for each in list_services().values() if wanted in f"{each.name} {each.title} {each.base_url}".casefold()
    ]
