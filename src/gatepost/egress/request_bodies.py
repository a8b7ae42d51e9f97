"""Requests that a model may get: bodies are parsed, judged and written anew, so that nothing passes unread.

A request is refused if it would make the vendor fetch, run, store or connect for the agent, unless the group allows the
feature. Such are URL and file sources, server-side tools, remote MCP servers, stored prompts and conversations. Content
of unknown meaning is refused if it could do so, too. Fields that are not listed are left out: none that is listed
changes what a token costs or where it is worked on (`speed`, `service_tier`, `inference_geo`, `prompt_cache_retention`,
`prediction` …).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct, field

from gatepost.core.json_limits import has_few_values
from gatepost.egress import prompt_sizes, tool_costs
from gatepost.egress.http import HttpRefusal
from gatepost.egress.prices import CacheWrite
from gatepost.egress.prompt_sizes import MediaTokens, PromptPart
from gatepost.egress.tool_costs import DeclaredTool, Surcharge, ToolCost, ToolCosts

LARGEST_BODY = 32 * 1024 * 1024  # as Anthropic has it; nobody's models take more text than that
DEEPEST = 64
LEAST_OUTPUT = 256  # tokens; an answer that is cut earlier is of no use, unless it was asked for
LEAST_THINKING = 1024
MOST_VALUES = 100_000  # in one body; each becomes an object, whatever it is
FEW_VALUES = 1000  # a body with more is checked in a thread, and that rests after so many parts …
REST_S = 0.003  # … since all threads share one interpreter
MOST_ESCAPES = 2_000_000  # in one body; each is as much work as a hundred plain signs, and text has far fewer


class ModelFeature(StrEnum):
    """A feature that a group may be allowed (`gatepost group set FOLDER options.model_features=url_sources,…`)."""

    URL_SOURCES = "url_sources"
    SERVER_TOOLS = "server_tools"
    REMOTE_MCP = "remote_mcp"


class BodySchema(Struct, frozen=True):
    """One kind of request."""

    fields: frozenset[str]
    refused: Mapping[str, ModelFeature | None]  # None: for everybody
    forced: Mapping[str, object]
    conversation: tuple[str, ...]  # the fields that hold content
    types: frozenset[str]  # of the parts of content
    tools: tuple[str, ...]  # what a tool's type may begin with: those that run with the agent
    limits: tuple[str, ...]  # where the length of the answer stands; the first is set if none is
    at_vendor: Mapping[str, object] = msgspec.field(
        default_factory=dict
    )  # said to the vendor itself, so that the price holds


class CheckedBody(Struct, frozen=True):
    """A body that passed. `clamped` makes what is sent."""

    body: dict[str, Any]
    model: str
    stream: bool
    prompt: int  # tokens at most
    output: int  # tokens, as asked and as the setting allows
    adds_usage: bool  # a usage event that the client did not ask for will come
    surcharge: Surcharge = field(default_factory=Surcharge)  # of the tools that it declares
    parts: tuple[PromptPart, ...] = ()  # the prompt, in the order in which it grows
    writes_cache: CacheWrite = CacheWrite.LONG  # at most
    hides: bool = True  # the model may write tokens that no event shows

    @property
    def is_read_whole(self) -> bool:
        """Return True if the endpoint counts everything that is sent, and nothing else."""
        left_out = self.body.get("context_management") or self.body.get("truncation")
        return not left_out and not any(each.uses for each in self.surcharge.tools)

    @property
    def billed(self) -> int:
        """Tokens of input at most, with those that no byte shows."""
        return self.prompt + self.surcharge.tokens(self.prompt)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ANTHROPIC_TYPES = _words(
    "text image document tool_use tool_result thinking redacted_thinking search_result server_tool_use base64 content"
    " ephemeral char_location page_location content_block_location search_result_location tool_reference"
    " tool_search_tool_result tool_search_tool_search_result direct mid_conv_system compaction"
)
_OPENAI_TYPES = _words(
    "text image_url input_audio file refusal function custom message input_text input_image input_file output_text"
    " summary_text reasoning_text reasoning function_call function_call_output custom_tool_call custom_tool_call_output"
    " local_shell_call local_shell_call_output exec apply_patch_call apply_patch_call_output computer_call"
    " computer_call_output computer_screenshot tool_search_call tool_search_output namespace additional_tools"
    " compaction compaction_summary"
)

# What a model has said before: its arguments may look like anything, and nobody acts on them again.
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use", "local_shell_call", "computer_call", "apply_patch_call")
_SAID = ("input", "action", "actions", "operation", "tools")

_HOLDERS = (dict, list)
_SOURCES = _words("file_id audio image_url file_url file url")
# Fields that no model reads: how long, how often and for whom it answers.
_NO_PROMPT = _words(
    "max_tokens max_completion_tokens max_output_tokens metadata stop_sequences stop stream stream_options temperature"
    " top_k top_p n seed user presence_penalty frequency_penalty logprobs top_logprobs prompt_cache_key"
    " safety_identifier store include"
)

MESSAGES = BodySchema(
    fields=_words(
        "model messages system max_tokens metadata stop_sequences stream temperature top_k top_p tools tool_choice"
        " thinking output_config output_format cache_control context_management"
    ),
    refused={"mcp_servers": ModelFeature.REMOTE_MCP, "container": None},
    forced={},
    conversation=("messages", "system"),
    types=_ANTHROPIC_TYPES,
    tools=("custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_"),
    limits=("max_tokens",),
    at_vendor={"service_tier": "standard_only"},
)
CHAT = BodySchema(
    fields=_words(
        "model messages max_tokens max_completion_tokens stream stream_options temperature top_p n stop"
        " presence_penalty frequency_penalty logit_bias logprobs top_logprobs user tools tool_choice"
        " parallel_tool_calls functions function_call response_format seed reasoning_effort verbosity"
        " prompt_cache_key safety_identifier"
    ),
    refused={"web_search_options": ModelFeature.SERVER_TOOLS, "audio": None},
    forced={},
    conversation=("messages",),
    types=_OPENAI_TYPES,
    tools=("function", "custom"),
    limits=("max_completion_tokens", "max_tokens"),
    at_vendor={"service_tier": "default"},
)
RESPONSES = BodySchema(
    fields=_words(
        "model input instructions max_output_tokens stream temperature top_p tools tool_choice parallel_tool_calls"
        " reasoning text truncation include user top_logprobs prompt_cache_key safety_identifier"
    ),
    refused=dict.fromkeys(("previous_response_id", "conversation", "prompt", "background"), None),
    forced={"store": False},
    conversation=("input", "instructions"),
    types=_OPENAI_TYPES,
    tools=("function", "custom", "namespace", "local_shell", "apply_patch", "computer", "tool_search"),
    limits=("max_output_tokens",),
    at_vendor={"service_tier": "default"},
)


def decode(raw: bytes) -> dict[str, Any]:
    if not has_few_values(raw, MOST_VALUES):
        raise HttpRefusal(413, f"a body may hold at most {MOST_VALUES} values")
    if len(raw) > MOST_ESCAPES and raw.count(b"\\") > MOST_ESCAPES:
        raise HttpRefusal(413, f"a body may hold at most {MOST_ESCAPES} escaped signs")
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HttpRefusal(400, f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise HttpRefusal(400, "the body is not a JSON object")
    return body


def encode(body: object) -> bytes:
    return msgspec.json.encode(body)


def check_body(
    shape: BodySchema,
    given: dict[str, Any],
    features: frozenset[str],
    most_output: int,
    costs: ToolCosts = tool_costs.find_shipped_cost,
    origin: str = "",
) -> CheckedBody:
    """Return the part of a body that is sent, and how much it may come to. Raises Refusal. `origin`: of the endpoint
    that reads it, to tell its counts from those of another."""
    for name, feature in shape.refused.items():
        # An empty object switches a feature on with its defaults; an empty list, like a null, asks for nothing.
        if given.get(name) not in (None, False, "", []) and feature not in features:
            raise _make_refusal(name, feature)
    kept = {name for name, feature in shape.refused.items() if feature in features}
    body = {name: value for name, value in given.items() if name in shape.fields | kept}
    body.update(shape.forced)
    model, stream = body.get("model"), body.get("stream", False)
    if not isinstance(model, str) or not model or len(model) > 200:
        raise HttpRefusal(400, "model: a request names its model")
    if not isinstance(stream, bool):
        raise HttpRefusal(400, "stream: is true or false")
    if body.get("n", 1) not in (1, None) or isinstance(body.get("n"), bool):
        raise HttpRefusal(400, "n: one answer a call")
    declared: list[DeclaredTool] = []
    tools = _ToolContext(shape, features, costs, declared)
    _check_tools(tools, body)
    if body.get("web_search_options") is not None:
        _declare(tools, "web_search_options", {})
    for _ in body.get("mcp_servers") or ():
        _declare(tools, "mcp", {})
    if shape is RESPONSES:
        for name in shape.conversation:
            _check_items(body.get(name))
    walk = _ContentContext(shape, features, prompt_sizes.get_picture_tokens(model), tools)
    pieces = [*_list_pieces(walk, body)]
    parts = prompt_sizes.make_parts(f"{origin} {model}", pieces)
    _check_edits(body)
    if shape is RESPONSES and any(each.uses for each in declared):
        body["max_tool_calls"] = sum(each.uses for each in declared)
    return CheckedBody(
        body=body,
        model=model,
        stream=stream,
        prompt=prompt_sizes.bound_by_bytes(parts),
        output=min(_asked_output(shape, body, most_output), most_output),
        adds_usage=shape is CHAT and stream and not _asks_usage(body),
        surcharge=Surcharge(tuple(declared)),
        parts=parts,
        writes_cache=_find_cache_write(shape, [raw for raw, _ in pieces]),
        hides=shape is not MESSAGES or not stream or body.get("thinking") is not None,
    )


def _list_pieces(walk: "_ContentContext", body: dict[str, Any]) -> Iterator[tuple[bytes, MediaTokens]]:
    """The tools first, then the words of the system, then each message: a conversation grows at its end."""
    known = walk.shape.conversation
    settings = {name: value for name, value in body.items() if name not in known and name not in _NO_PROMPT}
    yield encode(settings), prompt_sizes.NO_MEDIA
    for name in reversed(known):
        value = body.get(name)
        if isinstance(value, list):
            yield from ((encode(each), _check_content(walk, each, 1)) for each in value)
        elif value is not None:
            yield encode(value), _check_content(walk, value, 0)


def _find_cache_write(shape: BodySchema, raws: Sequence[bytes]) -> CacheWrite:
    """Anthropic writes to its cache where it is told to, and only there. Others do as they like, at no other price."""
    if shape is not MESSAGES:
        return CacheWrite.SHORT
    if not any(b'"cache_control":' in raw for raw in raws):
        return CacheWrite.NONE
    return CacheWrite.LONG if any(b'"ttl":' in raw for raw in raws) else CacheWrite.SHORT


def check_count_body(
    given: dict[str, Any], features: frozenset[str], costs: ToolCosts = tool_costs.find_shipped_cost
) -> bytes:
    """A request that only counts, as it is sent: the same walls, and no money."""
    body = check_body(MESSAGES, given | {"max_tokens": 1, "stream": False}, features, 1, costs).body
    return encode({name: value for name, value in body.items() if name not in ("max_tokens", "stream")})


def render_count_body(asked: CheckedBody) -> bytes:
    """A body that passed, as the question how many tokens it has; only what belongs to the prompt is taken there."""
    return encode({name: value for name, value in asked.body.items() if name not in _NO_PROMPT})


def render_clamped_body(shape: BodySchema, asked: CheckedBody, output: int, *, at_vendor: bool = False) -> bytes:
    """The body as it is sent: the answer is at most `output` tokens long. `at_vendor`: not to a place of one's own."""
    body = dict(asked.body)
    named = [name for name in shape.limits if body.get(name) is not None] or list(shape.limits[:1])
    for name in named:
        body[name] = output
    _fit_thinking(body, output)
    if shape is CHAT and asked.stream:
        given = body.get("stream_options")
        body["stream_options"] = (given if isinstance(given, dict) else {}) | {"include_usage": True}
    return encode({**body, **shape.at_vendor} if at_vendor else body)


def _fit_thinking(body: dict[str, Any], output: int) -> None:
    """Thoughts are a part of the answer: they are shortened with it, and left out where an answer alone still fits."""
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if not isinstance(thinking, dict) or not isinstance(budget, int) or budget < output:
        return
    if output >= LEAST_THINKING + LEAST_OUTPUT:
        body["thinking"] = thinking | {"budget_tokens": output - LEAST_OUTPUT}
        return
    del body["thinking"]
    edits = (body.get("context_management") or {}).get("edits") or []
    kept = [each for each in edits if not each["type"].startswith("clear_thinking")]
    body.pop("context_management", None)
    if kept:
        body["context_management"] = {"edits": kept}


def _make_refusal(what: str, feature: ModelFeature | None) -> HttpRefusal:
    way = f"; the operator can allow {feature} for this group" if feature else ""
    return HttpRefusal(400, f"{what} is not passed on to the model's vendor{way}")


def _asks_usage(body: dict[str, Any]) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _asked_output(shape: BodySchema, body: dict[str, Any], most: int) -> int:
    given = [body[name] for name in shape.limits if body.get(name) is not None]
    if not given:
        return most
    if any(not isinstance(each, int) or isinstance(each, bool) or each < 1 for each in given):
        raise HttpRefusal(400, f"{shape.limits[0]}: is a whole number above 0")
    return int(min(given))


class _ToolContext(Struct, frozen=True):
    """Those that a body may declare, and those that it does."""

    shape: BodySchema
    features: frozenset[str]
    costs: ToolCosts
    declared: list[DeclaredTool]


def _check_tools(known: _ToolContext, holder: dict[str, Any], depth: int = 0) -> None:
    tools = holder.get("tools")
    if tools is None:
        return
    if not isinstance(tools, list) or depth > 3:
        raise HttpRefusal(400, "tools: is a list")
    for tool in tools:
        kind = tool.get("type", "custom") if isinstance(tool, dict) else None
        if not isinstance(kind, str):
            raise HttpRefusal(400, "tools: each is an object with a type")
        if any(kind == name or (name.endswith("_") and kind.startswith(name)) for name in known.shape.tools):
            known.declared.append(DeclaredTool(kind, known.costs(kind) or ToolCost()))
            _check_tools(known, tool, depth + 1)
            continue
        feature = ModelFeature.REMOTE_MCP if kind.startswith("mcp") else ModelFeature.SERVER_TOOLS
        if feature not in known.features:
            raise _make_refusal(f"the tool {kind[:60]!r}, which the vendor would run,", feature)
        _declare(known, kind, tool)


def _declare(known: _ToolContext, kind: str, tool: dict[str, Any]) -> None:
    """A tool that the vendor runs: it must have a price, and is used no more often than that says."""
    cost = known.costs(kind)
    if cost is None or not cost.uses:
        raise HttpRefusal(
            400,
            f"the tool {kind[:60]!r}, which the vendor would run, has no price, so it is not passed on; the operator"
            f' can add one to the file of the setting prices.file, under ["tool:{kind[:60]}"]',
        )
    uses, given = cost.uses, tool.get("max_uses")
    if given is not None:
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise HttpRefusal(400, "max_uses: is a whole number above 0")
        uses = min(given, uses)
    box = tool.get("container")
    if isinstance(box, dict) and box.get("memory_limit") not in (None, "1g"):
        raise _make_refusal("memory_limit: a container that costs more", None)
    family = tool_costs.find_family(kind, tool_costs.SHIPPED) or kind
    if known.shape is MESSAGES and family in ("web_search", "web_fetch"):
        tool["max_uses"] = uses
    if family == "web_fetch":
        asked = tool.get("max_content_tokens")
        fits = isinstance(asked, int) and not isinstance(asked, bool) and 0 < asked < cost.tokens
        tool["max_content_tokens"] = asked if fits else cost.tokens
    known.declared.append(DeclaredTool(family, cost, uses))


class _ContentContext(Struct):
    shape: BodySchema
    features: frozenset[str]
    picture: int  # tokens of one at most
    tools: _ToolContext
    parts: int = 0  # that were checked

    def rest(self) -> None:
        """Leave the interpreter to others after many parts. A body with few values never comes to it."""
        self.parts += 1
        if self.parts % FEW_VALUES == 0:
            time.sleep(REST_S)


def _check_content(walk: _ContentContext, content: Any, depth: int) -> MediaTokens:
    """Go through everything that the model would read, level by level, and return what of it is not text. A body may
    hold so many values that a call or an object for each would hold up everybody."""
    found, level = prompt_sizes.NO_MEDIA, [content]
    while level:
        if depth > DEEPEST:
            raise HttpRefusal(400, f"the content is nested more than {DEEPEST} deep")
        inner: list[Any] = []
        for part in level:
            if type(part) is dict:
                walk.rest()
                _check_part(walk, part)
                if (media := prompt_sizes.measure_part(part, walk.picture)) is not prompt_sizes.NO_MEDIA:
                    found += media
                skipped = _SAID if part.get("type") in _CALLS else ("tools",)
                inner += [each for name, each in part.items() if type(each) in _HOLDERS and name not in skipped]
            elif type(part) is list:
                inner += [each for each in part if type(each) in _HOLDERS]
        level, depth = inner, depth + 1
    return found


def _check_part(walk: _ContentContext, part: dict[str, Any]) -> None:
    shape, features, kind = walk.shape, walk.features, part.get("type", "")
    if kind is not None and not isinstance(kind, str):
        raise HttpRefusal(400, "type: is a word")
    if kind and kind not in shape.types and not _with_feature(kind, features):
        raise make_type_refusal(str(kind)[:60])
    if kind == "server_tool_use" and not _is_search(part) and ModelFeature.SERVER_TOOLS not in features:
        raise _make_refusal("a call of a tool that the vendor would run", ModelFeature.SERVER_TOOLS)
    if not _SOURCES.isdisjoint(part):
        _check_sources(part, features)
    if shape is not MESSAGES and "tools" in part:
        _check_tools(walk.tools, part)


def make_type_refusal(kind: str) -> HttpRefusal:
    if kind == "url":
        return _make_refusal("a source that the vendor would fetch", ModelFeature.URL_SOURCES)
    if kind in ("file", "container_upload", "item_reference"):
        return _make_refusal(f"{kind}: something that is kept at the vendor's", None)
    return _make_refusal(
        f"content of type {kind!r}", ModelFeature.REMOTE_MCP if kind.startswith("mcp_") else ModelFeature.SERVER_TOOLS
    )


def _is_search(part: dict[str, Any]) -> bool:
    """Return True for a search among the tools of the same body, which leads nowhere else."""
    return str(part.get("name", "")).startswith("tool_search_tool_")


def _check_items(items: Any) -> None:
    """Check the items of a Responses request. One with an id alone stands for an item kept by the vendor, and is
    refused."""
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and not item.get("type") and not item.get("role"):
            raise _make_refusal("an item without a type or a role, which is looked up at the vendor's,", None)


def _with_feature(kind: object, features: frozenset[str]) -> bool:
    return isinstance(kind, str) and (
        (ModelFeature.SERVER_TOOLS in features and ("_tool_result" in kind or kind.startswith(("web_", "code_"))))
        or (ModelFeature.REMOTE_MCP in features and kind.startswith("mcp_"))
        or (ModelFeature.URL_SOURCES in features and kind == "url")
    )


def _check_sources(part: dict[str, Any], features: frozenset[str]) -> None:
    """Names of fields under which a vendor looks elsewhere than in this body."""
    if "file_id" in part and part["file_id"] is not None:
        raise _make_refusal("file_id: a file that is kept at the vendor's", None)
    sound = part.get("audio")
    if isinstance(sound, dict) and sound.get("id") is not None:
        raise _make_refusal("audio: a sound that is kept at the vendor's", None)
    for name in ("image_url", "file_url", "file", "url"):
        value = part.get(name)
        where = value.get("url") if isinstance(value, dict) else value
        if isinstance(where, str) and not where.startswith("data:") and ModelFeature.URL_SOURCES not in features:
            raise _make_refusal(f"{name}: a source that the vendor would fetch", ModelFeature.URL_SOURCES)


def _check_edits(body: dict[str, Any]) -> None:
    """Context management may forget; it may not have the model write a summary that is not in the usage."""
    given = body.get("context_management")
    edits = (given.get("edits") or []) if isinstance(given, dict) else [] if given is None else None
    kinds = [each.get("type") if isinstance(each, dict) else None for each in edits] if isinstance(edits, list) else [0]
    if not all(isinstance(kind, str) and kind.startswith("clear_") for kind in kinds):
        raise HttpRefusal(400, "context_management: only edits that clear are passed on")
