"""openai: any endpoint that speaks OpenAI's chat completions, local models among them, driven by our own loop with the
group's tools. No key is in here: whoever stands between the sandbox and the endpoint puts it in.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gatepost.inside.agent_loop import AgentLoop
from gatepost.inside.drafts import GrowingText
from gatepost.inside.media import MediaBlock, MediaKind, get_audio_format
from gatepost.inside.model.api import CompletionReply, CompletionRequest, ReplyStreamReader, RequestedToolCall
from gatepost.inside.model.conversation import ConversationMessage, UserMessage, list_blocks
from gatepost.inside.prompts import prompt
from gatepost.inside.provider_errors import parse_provider_error
from gatepost.inside.providers.contract import ProviderContext, provider

Json = dict[str, Any]
END = b"[DONE]"
MODEL = "gpt-5-mini"  # for a group that names none
PICTURES = "These pictures are results of your tool calls above, in this order: {}. No person sent them."
CUT = frozenset({"length", "max_tokens", "model_context_window_exceeded"})  # why an answer ended before its end


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None

    def numbers(self) -> dict[str, int]:
        """Those read from a cache are not among the input here, as everywhere else in the gateway."""
        cached = (self.prompt_tokens_details.cached_tokens if self.prompt_tokens_details else None) or 0
        return {
            "input_tokens": (self.prompt_tokens or 0) - cached,
            "output_tokens": self.completion_tokens or 0,
            "cache_read_tokens": cached,
        }


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    function: _Function = msgspec.field(default_factory=_Function)


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None


class _Body(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: msgspec.Raw | None = None


_read_body = msgspec.json.Decoder(_Body).decode
_encode = msgspec.json.Encoder().encode


class ChatCompletionsApi:
    """The wire. Pure."""

    name = "openai"
    model = MODEL
    variable = "OPENAI_BASE_URL"
    egress = "/openai/v1"
    path = "/chat/completions"
    models = "/models"
    headers: Mapping[str, str] = {}

    def render(self, asked: CompletionRequest) -> bytes:
        body: Json = {
            "model": asked.model,
            "max_completion_tokens": asked.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [
                {"role": "system", "content": asked.system},
                *render_messages(asked.messages, asked.bytes_of),
            ],
        }
        if asked.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.input_schema or {"type": "object", "properties": {}},
                    },
                }
                for tool in asked.tools
            ]
        return _encode(body)

    def read(self, body: bytes) -> CompletionReply:
        stream = ChatStreamReader()
        stream.feed(body)
        stream.feed(END)
        reply = stream.reply()
        assert reply is not None
        return reply

    def stream(self) -> ReplyStreamReader:
        return ChatStreamReader()


def render_messages(messages: Sequence[ConversationMessage], bytes_of: Mapping[str, bytes]) -> list[Json]:
    rendered: list[Json] = []
    for message in messages:
        if isinstance(message, UserMessage):
            blocks = [_block(block, bytes_of[block.file]) for block in message.blocks]
            content = [*blocks, {"type": "text", "text": message.text}] if blocks else message.text
            rendered.append({"role": "user", "content": content})
            continue
        said: Json = {"role": "assistant", "content": message.text or None}
        if message.uses:
            said["tool_calls"] = [
                {
                    "id": use.id,
                    "type": "function",
                    "function": {"name": use.tool, "arguments": _encode(use.input).decode()},
                }
                for use, _ in message.uses
            ]
        if message.text or message.uses:
            rendered.append(said)
        for use, used in message.uses:
            text = f"Error: {used.text}" if used.error else used.text
            rendered.append({"role": "tool", "tool_call_id": use.id, "content": text})
        if shown := list_blocks(message):  # a message of a tool has none
            note = prompt.render_note("pictures", PICTURES.format(", ".join(block.name for block in shown)))
            pictures = [_block(block, bytes_of[block.file]) for block in shown]
            rendered.append({"role": "user", "content": [{"type": "text", "text": note}, *pictures]})
    return rendered


def _block(block: MediaBlock, data: bytes) -> Json:
    if block.kind is MediaKind.AUDIO:
        sound = {"data": b64encode(data).decode(), "format": get_audio_format(data)}
        return {"type": "input_audio", "input_audio": sound}
    url = f"data:{block.mime};base64,{b64encode(data).decode()}"
    if block.kind is MediaKind.PDF:
        return {"type": "file", "file": {"filename": block.name, "file_data": url}}
    return {"type": "image_url", "image_url": {"url": url}}


class ChatStreamReader:
    """Chunks, or one whole answer: the same fields, in pieces or at once."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._written = GrowingText()
        self._tools: dict[int, tuple[list[str], list[str]]] = {}
        self._usage: dict[str, int] = {}
        self._stop = ""
        self._ended = False

    def feed(self, data: bytes) -> None:
        if data.strip() == END:
            self._ended = bool(self._stop)  # a stream that stops without a reason was cut off
            return
        body = _read_body(data)
        if body.error is not None and bytes(body.error) != b"null":
            raise parse_provider_error(0, data)
        if body.usage is not None:
            self._usage = body.usage.numbers()
        for choice in body.choices[:1]:
            self._stop = choice.finish_reason or self._stop
            if (part := choice.delta or choice.message) is not None:
                self._add(part)

    def _add(self, part: _Message) -> None:
        self._texts.append(part.content or "")
        if part.refusal:
            self._texts.append(part.refusal)
        for place, call in enumerate(part.tool_calls or []):
            names, arguments = self._tools.setdefault(call.index if call.index is not None else place, ([], []))
            names.append(call.function.name or "")
            arguments.append(call.function.arguments or "")

    def written(self) -> str:
        return self._written.join(self._texts)

    def reply(self) -> CompletionReply | None:
        if not self._ended:
            return None
        wanted = tuple(
            RequestedToolCall("".join(names), "".join(parts)) for _, (names, parts) in sorted(self._tools.items())
        )
        text = "".join(self._texts).strip()
        return CompletionReply(text, wanted, self._usage, self._stop == "content_filter", self._stop in CUT)


@provider(
    "openai",
    title="a model behind OpenAI's API, or a local one",
    media={"image": "block", "pdf": "block", "native": ("wav", "mp3")},
    vendor="openai",
    model=MODEL,
    compacts=True,
    options=("base_url", "context", "max_tokens", "history", "silence", "patience", "shell"),
    trial={"patience": 10},
)
class OpenAi(AgentLoop):
    def __init__(self, place: ProviderContext) -> None:
        super().__init__(place, ChatCompletionsApi())
