"""The context window of a model: how many tokens it can have before it, and who says so; and whether it sees pictures.

The group's option `context` comes first, then the endpoint's list of models, then the vendors' table, then a careful
guess. An endpoint's refusal or cut teaches more than any of them. It is kept beside the conversations, and holds for
as long as those that came before it say what they said then.
"""

import asyncio
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gatepost.inside.http_client import ClientEndpoint, IncompleteResponse, get_request
from gatepost.inside.model.api import ModelApi
from gatepost.inside.model.overflow_errors import LARGEST, SMALLEST, is_window
from gatepost.mailbox.outbound import now

USUAL = 32_768  # of a model that nobody says anything of
LIST_S = 5.0  # for which an endpoint's list of models is waited
LARGEST_LIST = 4 * 1024 * 1024  # bytes
MOST_KNOWN = 50  # models of which something is kept
BLIND = 24 * 3600 * 1_000_000  # microseconds: a server may get another model, or what it lacks to show pictures
_TABLE = Path(__file__).with_name("model_windows.toml")

T = TypeVar("T")


class LearntWindow(msgspec.Struct, frozen=True):
    """A window that an endpoint taught, and the one that was believed before."""

    tokens: int
    instead_of: int


class KnownWindows(msgspec.Struct, frozen=True):
    """The file beside the conversations, by endpoint and model."""

    learnt: dict[str, LearntWindow] = {}
    listed: dict[str, int] = {}
    blind: dict[str, int] = {}  # those that take no pictures, and when they said so


class _TopProvider(msgspec.Struct):
    context_length: Any = None


class _Meta(msgspec.Struct):
    n_ctx: Any = None


class _ListedModel(msgspec.Struct):
    """A model in a list; every server has words of its own for its window."""

    id: Any = ""
    meta: _Meta | None = None  # llama.cpp
    loaded_context_length: Any = None  # LM Studio
    max_model_len: Any = None  # vLLM, SGLang
    context_window: Any = None  # Groq
    context_length: Any = None  # OpenRouter, Together, Fireworks
    top_provider: _TopProvider | None = None
    max_context_length: Any = None  # LM Studio, Mistral
    max_input_tokens: Any = None  # Anthropic


class _ModelList(msgspec.Struct):
    data: list[_ListedModel] = []


def find_listed_window(body: bytes, model: str) -> int:
    """Return what a list of models says about one of them; 0 if it says nothing. A server that has one model alone
    means that one, whatever it is called."""
    try:
        found = msgspec.json.decode(body, type=_ModelList | list[_ListedModel])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0
    models = found.data if isinstance(found, _ModelList) else found
    named = [each for each in models if str(each.id) == model] or (models if len(models) == 1 else [])
    return _read_listed(named[0]) if named else 0


def _read_listed(model: _ListedModel) -> int:
    for said in (
        model.loaded_context_length,
        model.meta.n_ctx if model.meta else None,
        model.max_model_len,
        model.context_window,
        model.top_provider.context_length if model.top_provider else None,
        model.context_length,
        model.max_context_length,
        model.max_input_tokens,
    ):
        if is_window(said):
            return said
    return 0


@cache
def _read_table() -> Mapping[str, int]:
    return tomllib.loads(_TABLE.read_text())


def find_vendor_window(model: str) -> int:
    """Return what the vendors' table says; 0 if the model is not in it."""
    name = model.rpartition("/")[2].lower()
    found = [beginning for beginning in _read_table() if name.startswith(beginning)]
    return _read_table()[max(found, key=len)] if found else 0


def decide_window(option: int, listed: int, vendor: int, learnt: LearntWindow | None) -> int:
    """Return the window in tokens."""
    believed = option or listed or vendor or USUAL
    return learnt.tokens if learnt is not None and learnt.instead_of == believed else believed


class ModelWindow:
    """The window of the one model that a provider asks."""

    def __init__(self, state: Path, endpoint: ClientEndpoint, wire: ModelApi, model: str, option: int) -> None:
        self._file, self._endpoint, self._wire = state / "windows.json", endpoint, wire
        self._model, self._option = model, option
        self._key = f"{model} at {endpoint.authority}{endpoint.prefix}"
        self._vendor = find_vendor_window(model)
        self._known = self._load()
        self._asking: asyncio.Task[None] | None = None

    @property
    def tokens(self) -> int:
        return decide_window(self._option, self._listed, self._vendor, self._known.learnt.get(self._key))

    @property
    def _listed(self) -> int:
        return self._known.listed.get(self._key, 0)

    def learn(self, tokens: int) -> None:
        """Keep what the endpoint taught."""
        tokens = min(max(tokens, SMALLEST), LARGEST)
        believed = decide_window(self._option, self._listed, self._vendor, None)
        learnt = {**self._known.learnt, self._key: LearntWindow(tokens, believed)}
        self._keep(msgspec.structs.replace(self._known, learnt=_newest(learnt)))

    @property
    def can_see(self) -> bool:
        return self._known.blind.get(self._key, 0) <= now() - BLIND

    def learn_no_pictures(self) -> None:
        self._keep(msgspec.structs.replace(self._known, blind=_newest({**self._known.blind, self._key: now()})))

    def ask(self) -> None:
        """Begin to ask the endpoint, once in the life of this process. Not where it is a vendor's, whose models are in
        the table."""
        is_vendor = bool(self._vendor) and self._endpoint.socket is not None
        if self._asking is None and not self._option and not is_vendor:
            self._asking = asyncio.create_task(self._ask())

    async def wait(self) -> None:
        """Wait for the endpoint's answer, in bounds, if nothing else is known of the model."""
        self.ask()
        if self._asking is not None and not (self._listed or self._vendor or self._key in self._known.learnt):
            await asyncio.wait({self._asking})

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})

    async def _ask(self) -> None:
        """An endpoint without a list, or with a strange one, is as good as any other."""
        wire = self._wire
        try:
            async with (
                asyncio.timeout(LIST_S),
                get_request(self._endpoint, wire.models, wire.headers, LIST_S) as response,
            ):
                body = await response.read(LARGEST_LIST) if response.status == 200 else b""
        except (IncompleteResponse, TimeoutError):
            return
        listed = find_listed_window(body, self._model)
        if listed and listed != self._listed:
            self._keep(msgspec.structs.replace(self._known, listed=_newest({**self._known.listed, self._key: listed})))

    def _load(self) -> KnownWindows:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=KnownWindows)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return KnownWindows()

    def _keep(self, known: KnownWindows) -> None:
        self._known = known
        fresh = self._file.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(known))
        fresh.replace(self._file)


def _newest(entries: dict[str, T]) -> dict[str, T]:
    return dict(list(entries.items())[-MOST_KNOWN:])
