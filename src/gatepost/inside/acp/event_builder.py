"""An ACP agent's updates as our events: pieces of text become whole messages, reports on a tool its use and its result.
Pure, for one turn.
"""

from typing import Any

from gatepost.inside.acp.protocol import SessionUpdate, plan_line, result_of, text_of, tool_name
from gatepost.inside.coding_agent import get_patience
from gatepost.inside.drafts import GrowingText
from gatepost.inside.provider_errors import ProviderError
from gatepost.inside.providers.contract import Event, StatusLine, Text, ToolResult, ToolUse

LONGEST_MESSAGE = 4_000_000  # characters
_BEGUN = ("in_progress", "completed", "failed")
_ENDED = ("completed", "failed")


class AcpEventBuilder:
    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size, self._written = 0, GrowingText()
        self._message: str | None = None
        self._plan = ""
        self._tools: dict[str, tuple[str, dict[str, Any]]] = {}  # title and input, so far
        self._used: set[str] = set()
        self._ended: set[str] = set()

    def add(self, update: SessionUpdate) -> list[Event]:
        match update.session_update:
            case "agent_message_chunk":
                return self._piece(update)
            case "tool_call":
                return [*self.finish(), *self._tool(update)]
            case "tool_call_update":
                return self._tool(update)
            case "plan" if (line := plan_line(update.entries)) not in ("", self._plan):
                self._plan = line
                return [StatusLine(line)]
        return []

    def written(self) -> str:
        """The message that the agent is at, so far."""
        return self._written.join(self._pieces)

    def rest(self) -> str:
        """Return what was said since the last whole message."""
        text, self._pieces, self._size, self._written = "".join(self._pieces), [], 0, GrowingText()
        return text if text.strip() else ""

    def finish(self) -> list[Event]:
        text = self.rest()
        return [Text(text)] if text else []

    def _piece(self, update: SessionUpdate) -> list[Event]:
        another = update.message_id is not None and self._message not in (None, update.message_id)
        before = self.finish() if another else []
        self._message = update.message_id or self._message
        self._pieces.append(text_of(update.content))
        self._size += len(self._pieces[-1])
        if self._size > LONGEST_MESSAGE:
            raise ProviderError(f"the agent said more than {LONGEST_MESSAGE} characters in one message")
        return before

    def _tool(self, update: SessionUpdate) -> list[Event]:
        key = update.tool_call_id
        title, given = self._tools.get(key, ("", {}))
        title = title or update.title or ""  # the first one names the tool, later ones what it does
        if isinstance(update.raw_input, dict) and update.raw_input:
            given = update.raw_input
        self._tools[key] = title, given
        events: list[Event] = []
        # Until it begins, some agents know only where it will.
        if key not in self._used and (update.status in _BEGUN or set(given) - {"cwd"}):
            self._used.add(key)
            events.append(ToolUse(key, tool_name(title), given, get_patience(given)))
        if update.status in _ENDED and key not in self._ended:
            self._ended.add(key)
            events.append(ToolResult(key, result_of(update), update.status == "failed"))
        return events
