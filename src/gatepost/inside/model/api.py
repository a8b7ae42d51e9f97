"""Questions to a model and its answers, whatever kind of endpoint it is behind."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from gatepost.inside.mcp_client import McpTool
from gatepost.inside.model.conversation import ConversationMessage


class RequestedToolCall(msgspec.Struct, frozen=True):
    """A tool call that a model asks for, with its arguments as JSON."""

    tool: str
    arguments: str


class CompletionReply(msgspec.Struct, frozen=True):
    """A model's whole answer. `cut`: it ended at its length limit, in the middle of what it was about to say."""

    text: str
    wanted: tuple[RequestedToolCall, ...] = ()
    usage: dict[str, int] = {}
    refused: bool = False
    cut: bool = False

    @property
    def tokens_read(self) -> int:
        """Tokens of the request, as the endpoint counted them; 0 if it did not say."""
        return sum(self.usage.get(name, 0) for name in ("input_tokens", "cache_read_tokens", "cache_write_tokens"))


class CompletionRequest(msgspec.Struct, frozen=True):
    """Everything that a model's answer depends on."""

    model: str
    max_tokens: int
    system: str
    messages: Sequence[ConversationMessage]
    tools: Sequence[McpTool]
    bytes_of: Mapping[str, bytes]  # of the blocks, by file


class ReplyStreamReader(Protocol):
    """Puts an answer together from the events of a stream."""

    def feed(self, data: bytes) -> None:
        """Raises ProviderError for an event that reports one."""
        ...

    def reply(self) -> CompletionReply | None:
        """None: it has not ended yet."""
        ...

    def written(self) -> str:
        """Its text so far."""
        ...


class ModelApi(Protocol):
    """How one kind of endpoint is spoken to. Pure."""

    name: str  # of the provider
    model: str  # if the group names none
    variable: str  # that holds the base URL
    egress: str  # what the paths begin with on egress.sock
    path: str
    models: str  # the path of the list of models
    headers: Mapping[str, str]

    def render(self, asked: CompletionRequest) -> bytes: ...

    def read(self, body: bytes) -> CompletionReply: ...

    def stream(self) -> ReplyStreamReader: ...
