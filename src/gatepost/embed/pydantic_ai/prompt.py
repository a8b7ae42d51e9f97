"""A pydantic-ai conversation as one prompt for Claude Code: what was said before as text, the newest words whole."""

from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from pydantic_ai import exceptions
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters

Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ClaudePrompt:
    system: str
    blocks: list[Block]

    def sent(self) -> "str | AsyncIterator[Block]":
        """Text as text; with images, the one message of a stream."""
        if all(block["type"] == "text" for block in self.blocks):
            return "\n\n".join(block["text"] for block in self.blocks)
        return self._stream()

    async def _stream(self) -> AsyncIterator[Block]:
        message = {"role": "user", "content": self.blocks}
        yield {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""}


def make_prompt(messages: list[ModelMessage], parameters: ModelRequestParameters) -> ClaudePrompt:
    system = [part.content for message in messages for part in message.parts if isinstance(part, SystemPromptPart)]
    told = next((each.instructions for each in reversed(messages) if isinstance(each, ModelRequest)), None)
    before, blocks = messages[:-1], list[Block]()
    if lines := [line for message in before for line in _lines(message)]:
        blocks.append(_text("This was said before:\n\n" + "\n\n".join(lines) + "\n\nNow:"))
    for part in messages[-1].parts if messages else ():
        blocks += _blocks(part)
    return ClaudePrompt("\n\n".join(each for each in [*system, told] if each), blocks or [_text("")])


def _lines(message: ModelMessage) -> list[str]:
    who = "User" if isinstance(message, ModelRequest) else "Assistant"
    found = []
    for part in message.parts:
        blocks = [_text(part.content)] if isinstance(part, TextPart) else _blocks(part)
        found += [f"{who}: {block['text']}" for block in blocks if block["type"] == "text"]
    return found


def _blocks(part: Any) -> list[Block]:
    if isinstance(part, UserPromptPart):
        items = [part.content] if isinstance(part.content, str) else list(part.content)
        return [_block(item) for item in items]
    if isinstance(part, RetryPromptPart):
        return [_text(part.model_response())]
    if isinstance(part, ToolReturnPart):
        return [_text(f"{part.tool_name} gave back: {part.model_response_str()}")]
    return []


def _block(item: Any) -> Block:
    if isinstance(item, str):
        return _text(item)
    if isinstance(item, BinaryContent) and item.media_type.startswith("image/"):
        source = {"type": "base64", "media_type": item.media_type, "data": b64encode(item.data).decode()}
        return {"type": "image", "source": source}
    raise exceptions.UserError(f"Claude Code takes text and images in a prompt, not a {type(item).__name__}")


def _text(words: str) -> Block:
    return {"type": "text", "text": words}
