"""anthropic: any endpoint that speaks Anthropic's Messages API, driven by our own loop with the group's tools. No key
is in here: whoever stands between the sandbox and the endpoint puts it in.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gatepost.inside.agent_loop import AgentLoop
from gatepost.inside.drafts import GrowingText
from gatepost.inside.media import MediaBlock, MediaKind
from gatepost.inside.model.api import CompletionReply, CompletionRequest, ReplyStreamReader, RequestedToolCall
from gatepost.inside.model.conversation import ConversationMessage, ToolResultEntry, UserMessage
from gatepost.inside.provider_errors import parse_provider_error
from gatepost.inside.providers.contract import ProviderContext, provider

Json = dict[str, Any]
_CACHED = {"cache_control": {"type": "ephemeral"}}  # what comes again with the next request costs less
MODEL = "claude-sonnet-4-5"  # for a group that names none
CUT = frozenset({"max_tokens", "model_context_window_exceeded"})  # why an answer ended before its end


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None

    def numbers(self) -> dict[str, int]:
        named = {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_read_tokens": self.cache_read_input_tokens,
            "cache_write_tokens": self.cache_creation_input_tokens,
        }
        return {name: number for name, number in named.items() if number is not None}


class _Part(msgspec.Struct):
    type: str
    text: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _MessageBody(msgspec.Struct):
    content: list[_Part] = []
    stop_reason: str | None = None
    usage: _Usage = msgspec.field(default_factory=_Usage)


class _Delta(msgspec.Struct):
    text: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Event(msgspec.Struct):
    type: str
    index: int = 0
    message: _MessageBody | None = None
    content_block: _Part | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None


_read_event = msgspec.json.Decoder(_Event).decode
_read_whole = msgspec.json.Decoder(_MessageBody).decode
_encode = msgspec.json.Encoder().encode


class MessagesApi:
    """The wire. Pure."""

    name = "anthropic"
    model = MODEL
    variable = "ANTHROPIC_BASE_URL"
    egress = "/anthropic"
    path = "/v1/messages"
    models = "/v1/models"
    headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}

    def render(self, asked: CompletionRequest) -> bytes:
        body: Json = {
            "model": asked.model,
            "max_tokens": asked.max_tokens,
            "stream": True,
            "system": [{"type": "text", "text": asked.system, **_CACHED}],
            "messages": render_messages(asked.messages, asked.bytes_of),
        }
        if asked.tools:
            body["tools"] = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": tool.input_schema or {"type": "object"},
                }
                for tool in asked.tools
            ]
        return _encode(body)

    def read(self, body: bytes) -> CompletionReply:
        whole = _read_whole(body)
        wanted = tuple(
            RequestedToolCall(part.name, bytes(part.input).decode())
            for part in whole.content
            if part.type == "tool_use"
        )
        text = "".join(part.text for part in whole.content if part.type == "text")
        stop = whole.stop_reason
        return CompletionReply(text.strip(), wanted, whole.usage.numbers(), stop == "refusal", stop in CUT)

    def stream(self) -> ReplyStreamReader:
        return MessagesStreamReader()


def render_messages(messages: Sequence[ConversationMessage], bytes_of: Mapping[str, bytes]) -> list[Json]:
    """Roles must alternate: everything between two answers is one message of the user."""
    rendered: list[Json] = []
    for message in messages:
        if isinstance(message, UserMessage):
            blocks = [_block(block, bytes_of[block.file]) for block in message.blocks]
            _add(rendered, "user", [*blocks, {"type": "text", "text": message.text}])
            continue
        said: list[Json] = [{"type": "text", "text": message.text}] if message.text else []
        said += [{"type": "tool_use", "id": use.id, "name": use.tool, "input": use.input} for use, _ in message.uses]
        if said:
            _add(rendered, "assistant", said)
        results = [
            {
                "type": "tool_result",
                "tool_use_id": use.id,
                "content": _render_result(used, bytes_of),
                "is_error": used.error,
            }
            for use, used in message.uses
        ]
        if results:
            _add(rendered, "user", results)
    if rendered:
        rendered[-1]["content"][-1].update(_CACHED)
    return rendered


def _render_result(used: ToolResultEntry, bytes_of: Mapping[str, bytes]) -> str | list[Json]:
    if not used.blocks:
        return used.text
    said: list[Json] = [{"type": "text", "text": used.text}] if used.text else []
    return [*said, *(_block(block, bytes_of[block.file]) for block in used.blocks)]


def _add(rendered: list[Json], role: str, content: list[Json]) -> None:
    if rendered and rendered[-1]["role"] == role:
        rendered[-1]["content"] += content
    else:
        rendered.append({"role": role, "content": content})


def _block(block: MediaBlock, data: bytes) -> Json:
    source = {"type": "base64", "media_type": block.mime, "data": b64encode(data).decode()}
    return {"type": "document" if block.kind is MediaKind.PDF else "image", "source": source}


class MessagesStreamReader:
    def __init__(self) -> None:
        self._texts: list[str] = []
        self._written = GrowingText()
        self._tools: dict[int, tuple[str, list[str]]] = {}
        self._usage: dict[str, int] = {}
        self._stop = ""
        self._ended = False

    def feed(self, data: bytes) -> None:
        event = _read_event(data)
        match event.type:
            case "error":
                raise parse_provider_error(0, data)
            case "message_start" if event.message is not None:
                self._usage |= event.message.usage.numbers()
            case "content_block_start" if event.content_block is not None:
                if event.content_block.type == "tool_use":
                    self._tools[event.index] = (event.content_block.name, [])
                self._texts.append(event.content_block.text)
            case "content_block_delta" if event.delta is not None:
                self._texts.append(event.delta.text)
                if event.index in self._tools:
                    self._tools[event.index][1].append(event.delta.partial_json)
            case "message_delta":
                self._stop = (event.delta.stop_reason if event.delta else None) or self._stop
                self._usage |= event.usage.numbers() if event.usage else {}
            case "message_stop":
                self._ended = True
            case _:
                pass

    def written(self) -> str:
        return self._written.join(self._texts)

    def reply(self) -> CompletionReply | None:
        if not self._ended:
            return None
        wanted = tuple(RequestedToolCall(name, "".join(parts)) for name, parts in self._tools.values())
        text = "".join(self._texts).strip()
        return CompletionReply(text, wanted, self._usage, self._stop == "refusal", self._stop in CUT)


@provider(
    "anthropic",
    title="a model behind Anthropic's API",
    media={"image": "block", "pdf": "block"},
    vendor="anthropic",
    model=MODEL,
    compacts=True,
    options=("base_url", "context", "max_tokens", "history", "silence", "patience", "shell"),
    trial={"patience": 10},
)
class Anthropic(AgentLoop):
    def __init__(self, place: ProviderContext) -> None:
        super().__init__(place, MessagesApi())
