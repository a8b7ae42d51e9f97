"""Model servers on this machine: which there are, what they say of their models, and what one of these really does.

Each server is asked in its own words. Then the model that is to be used is given a tool, a picture and a long text.
Some servers cut that without a word; their own count of it tells.
"""

import asyncio
import base64
import re
import struct
import zlib
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from gatepost.egress.http import HttpRefusal
from gatepost.egress.upstream import Bill, Upstream
from gatepost.serve.control.arguments.connect import LocalFindings, LocalModel, LocalService, ModelProbe

HERE = "http://127.0.0.1"
# By what each serves when nobody says otherwise: Ollama, LM Studio, llama.cpp and others, vLLM, SGLang, Jan, GPT4All,
# text-generation-webui, a second llama.cpp, SearXNG.
PORTS = (11434, 1234, 8080, 8000, 30000, 1337, 4891, 5000, 8081, 8888)
FIND_S, ASK_S, PROBE_S = 5.0, 2.0, 180.0  # a model that is not in memory yet is read from its disk first
LARGEST = 4 * 1024 * 1024  # bytes of an answer
MOST_MODELS, LONGEST_NAME = 100, 200
_FEW, _MOST_MEASURED = 300, 8000  # words of a text that shows how many tokens a word has; tokens of the long one
_CUT = 0.9  # of what the long one should count: with less, some of it was left out
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)\s*$", re.MULTILINE)
_NOTE = {
    "type": "function",
    "function": {
        "name": "note",
        "description": "Write a word down.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    },
}
_MAGENTA = ("magenta", "fuchsia", "purple", "pink", "violet")

T = TypeVar("T")


class _OllamaDetails(Struct):
    family: Any = ""


class _OllamaModel(Struct):
    name: Any
    details: _OllamaDetails
    size: Any = 0
    context_length: Any = 0  # of one that is loaded


class _OllamaList(Struct):
    models: list[_OllamaModel]


class _OllamaModelFacts(Struct):
    capabilities: list[Any] = []
    model_info: dict[str, Any] = {}
    parameters: Any = ""


class _StudioModel(Struct):
    id: Any
    type: Any
    state: Any
    max_context_length: Any = 0
    loaded_context_length: Any = 0
    capabilities: list[Any] = []


class _StudioList(Struct):
    data: list[_StudioModel]


class _Generation(Struct):
    n_ctx: Any


class _Modalities(Struct):
    vision: Any = None


class _TemplateCaps(Struct):
    supports_tool_calls: Any = None


class _LlamaProps(Struct):
    default_generation_settings: _Generation
    modalities: _Modalities = field(default_factory=_Modalities)
    chat_template_caps: _TemplateCaps = field(default_factory=_TemplateCaps)


class _ModelMeta(Struct):
    n_ctx_train: Any = 0
    size: Any = 0


class _PlainModel(Struct):
    id: Any
    owned_by: Any = ""
    max_model_len: Any = 0
    meta: _ModelMeta | None = None


class _PlainList(Struct):
    data: list[_PlainModel]


class _SearchConfig(Struct):
    instance_name: str
    engines: list[Any]


class _ToolCallFunction(Struct):
    name: Any = ""


class _ToolCall(Struct):
    function: _ToolCallFunction = field(default_factory=_ToolCallFunction)


class _Message(Struct):
    content: Any = ""
    tool_calls: list[_ToolCall] | None = None


class _Choice(Struct):
    message: _Message = field(default_factory=_Message)


class _Usage(Struct):
    prompt_tokens: Any = 0


class _Completion(Struct):
    choices: list[_Choice]
    usage: _Usage | None = None


_OWNERS = {"vllm": "vLLM", "sglang": "SGLang", "llamacpp": "llama.cpp", "library": "Ollama"}


async def find_local(upstream: Upstream, bases: tuple[str, ...] = ()) -> LocalFindings:
    """Return what serves models on this machine, or at these addresses. A server that does not answer soon is not
    there."""
    wanted = bases or tuple(f"{HERE}:{port}" for port in PORTS)
    found = await asyncio.gather(*(_inspect(upstream, _strip(base)) for base in wanted))
    models = [model for each in found if each is not None for model in each.models]
    services = [service for each in found if each is not None for service in each.services]
    return LocalFindings(tuple(models), tuple(services))


def choose_model(models: tuple[LocalModel, ...]) -> LocalModel | None:
    """Return the one that is likeliest meant: it can use tools, it is in memory, it is the largest."""
    return max(models, key=lambda each: (each.tools is not False, each.loaded, each.size), default=None)


def _strip(base: str) -> str:
    return base.rstrip("/").removesuffix("/v1")


async def _inspect(upstream: Upstream, base: str) -> LocalFindings | None:
    try:
        async with asyncio.timeout(FIND_S):
            for ask in (_ask_ollama, _ask_studio, _ask_llama, _ask_any):
                found = await ask(upstream, base)
                if found is not None:
                    return LocalFindings(tuple(found[:MOST_MODELS]), ())
            if await _get(upstream, f"{base}/config", _SearchConfig) is not None:
                return LocalFindings((), (LocalService("SearXNG", base),))
    except (TimeoutError, _NotThere):
        pass
    return None


class _NotThere(Exception):
    """Nobody listens, or not in HTTP."""


async def _fetch(upstream: Upstream, method: str, url: str, body: object | None) -> tuple[int, bytes]:
    headers = {"accept": "application/json", "user-agent": "gatepost", "accept-encoding": "identity"}
    sent = None
    if body is not None:
        headers["content-type"], sent = "application/json", msgspec.json.encode(body)
    pieces, size = [], 0
    async with upstream.ask(method, url, headers, sent, Bill()) as response:
        async for piece in response.aiter_raw():
            size += len(piece)
            if size > LARGEST:
                return 0, b""
            pieces.append(piece)
        return int(response.status_code), b"".join(pieces)


def _decode(body: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


async def _get(upstream: Upstream, url: str, kind: type[T], body: object | None = None) -> T | None:
    """None: it is not that kind of server. Raises _NotThere."""
    try:
        async with asyncio.timeout(ASK_S):
            status, answer = await _fetch(upstream, "GET" if body is None else "POST", url, body)
    except (TimeoutError, HttpRefusal):
        raise _NotThere from None
    return _decode(answer, kind) if status == 200 else None


async def _ask_ollama(upstream: Upstream, base: str) -> list[LocalModel] | None:
    listed = await _get(upstream, f"{base}/api/tags", _OllamaList)
    if listed is None:
        return None
    running = await _get(upstream, f"{base}/api/ps", _OllamaList) or _OllamaList([])
    loaded = {str(each.name): _number(each.context_length) for each in running.models}
    named = [each for each in listed.models if _is_name(each.name)][:MOST_MODELS]
    facts = await asyncio.gather(
        *(_get(upstream, f"{base}/api/show", _OllamaModelFacts, {"model": each.name}) for each in named)
    )
    return [
        _read_ollama(base, each, fact or _OllamaModelFacts(), loaded)
        for each, fact in zip(named, facts, strict=True)
        if fact is None or not fact.capabilities or "completion" in fact.capabilities
    ]


def _read_ollama(base: str, model: _OllamaModel, facts: _OllamaModelFacts, loaded: Mapping[str, int]) -> LocalModel:
    longest = next((each for name, each in facts.model_info.items() if name.endswith(".context_length")), 0)
    set_to = _NUM_CTX.search(str(facts.parameters))
    says = facts.capabilities
    return LocalModel(
        server="Ollama",
        base_url=f"{base}/v1",
        model=model.name,
        size=_number(model.size),
        context=loaded.get(model.name) or (int(set_to[1][:9]) if set_to else 0),
        longest=_number(longest),
        tools="tools" in says if says else None,
        vision="vision" in says if says else None,
        loaded=model.name in loaded,
    )


async def _ask_studio(upstream: Upstream, base: str) -> list[LocalModel] | None:
    listed = await _get(upstream, f"{base}/api/v0/models", _StudioList)
    if listed is None:
        return None
    return [
        LocalModel(
            server="LM Studio",
            base_url=f"{base}/v1",
            model=each.id,
            context=_number(each.loaded_context_length),
            longest=_number(each.max_context_length),
            tools="tool_use" in each.capabilities if each.capabilities else None,
            vision=each.type == "vlm",
            loaded=each.state == "loaded",
        )
        for each in listed.data
        if _is_name(each.id) and each.type in ("llm", "vlm")
    ]


async def _ask_llama(upstream: Upstream, base: str) -> list[LocalModel] | None:
    props = await _get(upstream, f"{base}/props", _LlamaProps)
    listed = await _get(upstream, f"{base}/v1/models", _PlainList) if props is not None else None
    if props is None or listed is None:
        return None
    tools, vision = props.chat_template_caps.supports_tool_calls, props.modalities.vision
    return [
        LocalModel(
            server="llama.cpp",
            base_url=f"{base}/v1",
            model=each.id,
            size=_number(each.meta.size) if each.meta else 0,
            context=_number(props.default_generation_settings.n_ctx),
            longest=_number(each.meta.n_ctx_train) if each.meta else 0,
            tools=tools if isinstance(tools, bool) else None,
            vision=vision if isinstance(vision, bool) else None,
            loaded=True,
        )
        for each in listed.data[:1]
        if _is_name(each.id)
    ]


async def _ask_any(upstream: Upstream, base: str) -> list[LocalModel] | None:
    """Every other server that lists models as OpenAI does."""
    listed = await _get(upstream, f"{base}/v1/models", _PlainList) or _PlainList([])
    found = [
        LocalModel(
            server=_OWNERS.get(str(each.owned_by).lower(), "a model server"),
            base_url=f"{base}/v1",
            model=each.id,
            context=_number(each.max_model_len),
        )
        for each in listed.data
        if _is_name(each.id)
    ]
    return found or None


def _is_name(said: object) -> bool:
    """A name that can be shown and sent back."""
    return isinstance(said, str) and 0 < len(said) <= LONGEST_NAME and said.isprintable()


def _number(said: object) -> int:
    return said if isinstance(said, int) and not isinstance(said, bool) and 0 < said < 1 << 50 else 0


# What a model does.


async def probe_model(upstream: Upstream, base_url: str, model: str) -> ModelProbe:
    """Try one out. It costs what a model on this machine costs: its time, at most PROBE_S."""
    loop = asyncio.get_running_loop()
    asker, began = _Asker(upstream, f"{_strip(base_url)}/v1/chat/completions", model), loop.time()
    probe = ModelProbe(trouble=f"it does not answer within {PROBE_S:g} s")
    try:
        async with asyncio.timeout(PROBE_S):
            found = await asker.ask("Call the tool note with the word blue.", tools=[_NOTE])
            tools = isinstance(found, _Completion) and _calls_note(found)
            if not isinstance(found, _Completion):  # some refuse every request that has tools in it
                found = await asker.ask("Say yes.")
            if not isinstance(found, _Completion):
                return ModelProbe(trouble=found)
            probe = ModelProbe(tools=tools, seconds=loop.time() - began)
            probe = msgspec.structs.replace(probe, vision=await _sees(asker))
            context, cuts = await _measure(asker, await _find_window(upstream, base_url, model))
            return msgspec.structs.replace(probe, context=context, cuts=cuts)
    except TimeoutError:
        return probe


class _Asker:
    def __init__(self, upstream: Upstream, url: str, model: str) -> None:
        self._upstream, self._url, self._model = upstream, url, model

    async def ask(self, content: object, most: int = 400, **more: object) -> _Completion | str:
        """The answer, or why there is none."""
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": most,
            "stream": False,
            **more,
        }
        try:
            status, answer = await _fetch(self._upstream, "POST", self._url, body)
        except HttpRefusal as error:
            return error.reason
        if status != 200:
            return f"it answers {status}"
        return _decode(answer, _Completion) or "it does not answer as OpenAI's chat completions do"


def _calls_note(found: _Completion) -> bool:
    return any(call.function.name == "note" for each in found.choices for call in each.message.tool_calls or ())


async def _sees(asker: _Asker) -> bool:
    address = f"data:image/png;base64,{base64.b64encode(_paint_png(32, (255, 0, 255))).decode()}"
    found = await asker.ask(
        [
            {"type": "text", "text": "Which colour has this picture? Answer with one word."},
            {"type": "image_url", "image_url": {"url": address}},
        ]
    )
    if not isinstance(found, _Completion):
        return False
    said = " ".join(str(each.message.content) for each in found.choices).lower()
    return any(word in said for word in _MAGENTA)


def _paint_png(side: int, color: tuple[int, int, int]) -> bytes:
    """A square of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    lines = (b"\0" + bytes(color) * side) * side
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


async def _find_window(upstream: Upstream, base_url: str, model: str) -> int:
    """The window that its server says now, with the model in memory."""
    found = await _inspect(upstream, _strip(base_url))
    return next((each.context for each in found.models if each.model == model), 0) if found is not None else 0


async def _measure(asker: _Asker, said: int) -> tuple[int, bool]:
    """The window, and whether what is longer is cut without a word. One that nobody says and that does not show
    itself by a cut is 0."""
    few = await _count(asker, _FEW)
    if not few:
        return said, False
    expected = min(_MOST_MEASURED, said * 8 // 10) if said else _MOST_MEASURED
    counted = await _count(asker, expected * _FEW // few)
    if 0 < counted < expected * _CUT:
        return counted, True
    return said, False


async def _count(asker: _Asker, words: int) -> int:
    """The tokens that a server counts in a text of so many words; 0 if it refuses it or does not count."""
    text = " ".join(f"w{number % 89}" for number in range(words))
    found = await asker.ask(f"Say yes. {text}", most=1)
    return _number(found.usage.prompt_tokens) if isinstance(found, _Completion) and found.usage else 0
