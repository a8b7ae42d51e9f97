"""opencode's words and ours: what is written into its configuration, and what its events mean. Pure, but for the names
of messages.

Its messages are ordered by their names, so ours are made as it makes its own: a moment, then chance.
"""

import os
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from gatepost.inside.coding_agent import LONGEST_ERROR, LONGEST_RESULT, get_patience
from gatepost.inside.drafts import add_piece
from gatepost.inside.mcp_json import OURS, McpServerConfig
from gatepost.inside.provider_errors import ProviderError, parse_provider_error
from gatepost.inside.providers.contract import (
    DraftText,
    Event,
    PermissionRequest,
    PermissionRequestKind,
    Text,
    ToolResult,
    ToolUse,
)
from gatepost.inside.question_forms import list_answers, render_questions, split_answer
from gatepost.mailbox.runner_frames import TurnErrorClass

TOOL_PATIENCE = 3_600_000  # milliseconds; some of the group's tools wait for people
ASKING = "ask"  # an agent of our own: the usual one, which asks before it acts
AGENTS = {"allow": "build", "ask": ASKING, "plan": "plan"}  # mode → the agent that works in it
_ASKED_FOR = ("bash", "edit", "task", "external_directory")
# The gateway's `fetch` does what the first two do, and says why a host is refused. Its own skills are whatever lies in
# folders that an agent can write; those that people agreed to are in the prompt.
NOT_OURS = ("webfetch", "websearch", "skill")
_PLANNING = {"bash": "ask", "edit": "deny", "task": "ask"}  # sub-agents and commands could change something
_MOMENT = (1 << 48) - 1


class OpencodeApi(msgspec.Struct, frozen=True):
    """A way of asking a model: the client that opencode brings for it, and where the way out has it."""

    client: str
    variable: str
    suffix: str = ""
    sees: tuple[str, ...] = ("text",)


APIS: Mapping[str, OpencodeApi] = {
    "messages": OpencodeApi("@ai-sdk/anthropic", "ANTHROPIC_BASE_URL", "/v1", ("text", "image", "pdf")),
    "responses": OpencodeApi("@ai-sdk/openai", "OPENAI_BASE_URL", "", ("text", "image", "pdf")),
    "chat": OpencodeApi("@ai-sdk/openai-compatible", "OPENAI_BASE_URL"),
}


def api_of(model: str) -> str:
    """Which API a model of that name speaks; most servers of one's own speak chat completions only."""
    if model.startswith("claude"):
        return "messages"
    return "responses" if model.startswith(("gpt-", "o1", "o3", "o4", "codex")) else "chat"


def render_config(
    *,
    model: str,
    api: OpencodeApi,
    endpoint: str,
    key: str,
    command: Sequence[str],
    context: int,
    max_tokens: int,
    own: Mapping[str, McpServerConfig] = MappingProxyType({}),
) -> dict[str, object]:
    """opencode.json. Nothing is fetched, shared or updated."""
    about = {
        "name": model,
        "tool_call": True,
        "attachment": len(api.sees) > 1,
        "modalities": {"input": list(api.sees), "output": ["text"]},
        "limit": {"context": context, "output": max_tokens},
    }
    name = f"{OURS}/{model}"
    foreign = {f"{each}_*": "ask" for each in own}  # no server has a name that begins with ours
    return {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "lsp": False,
        "formatter": False,
        "model": name,
        "small_model": name,
        "enabled_providers": [OURS],
        "provider": {
            OURS: {
                "npm": api.client,
                "name": OURS,
                "options": {"baseURL": endpoint, "apiKey": key},
                "models": {model: about},
            }
        },
        "mcp": {
            **{
                name: {"type": "local", "command": [each.command, *each.args], "environment": each.env}
                for name, each in own.items()
            },
            OURS: {"type": "local", "command": list(command), "timeout": TOOL_PATIENCE},
        },
        "permission": {"*": "allow", **dict.fromkeys(NOT_OURS, "deny")},
        "agent": {
            # What stands here comes after what holds for all: without it, a plan could be carried out while it is made.
            "plan": {"permission": {**_PLANNING, **foreign}},
            ASKING: {"mode": "primary", "permission": {**dict.fromkeys(_ASKED_FOR, "ask"), **foreign}},
        },
    }


def message_id(milliseconds: int | None = None) -> str:
    moment = int(time.time() * 1000) if milliseconds is None else milliseconds
    return f"msg_{(moment << 12) & _MOMENT:012x}{os.urandom(7).hex()}"


class OpencodeAttachment(msgspec.Struct, frozen=True):
    """Something that the model sees beside the words."""

    name: str
    mime: str
    data: bytes

    def part(self, id: str) -> dict[str, object]:
        url = f"data:{self.mime};base64,{b64encode(self.data).decode()}"
        return {"id": id, "type": "file", "mime": self.mime, "filename": self.name, "url": url}


def render_prompt(
    id: str, text: str, system: str, agent: str, model: str, shown: Sequence[OpencodeAttachment] = ()
) -> dict[str, object]:
    """Return what is handed over. Said again under the same names, it is still said once. Without a model, opencode
    would ask the one that the conversation had last, which its configuration may not have any more."""
    names = part_ids(id, len(shown))
    parts = [each.part(name) for name, each in zip(names[1:], shown, strict=True)]
    return {
        "messageID": id,
        "agent": agent,
        "model": {"providerID": OURS, "modelID": model},
        "system": system,
        "parts": [{"id": names[0], "type": "text", "text": text}, *parts],
    }


def part_ids(id: str, shown: int) -> list[str]:
    """Return the ids of a message's parts: of its text, then of the media beside it."""
    name = f"prt{id.removeprefix('msg')}"
    return [name, *(f"{name}{number}" for number in range(shown))]


class OpencodeEvent(msgspec.Struct, frozen=True):
    """One event of the server."""

    type: str
    properties: dict[str, Any] = {}

    @property
    def session(self) -> str:
        return str(self.properties.get("sessionID") or "")


class OpencodeEventReader:
    """Words that were heard in one turn: the same part is told again whenever something of it changes. `known`:
    messages that were there before."""

    def __init__(self, session: str, known: frozenset[str] = frozenset()) -> None:
        self._session, self._known = session, known
        self._answers: set[str] = set()  # messages of the model, for people
        self._seen: set[tuple[str, str]] = set()
        self._written: dict[str, str] = {}  # texts that the model is at
        self.spent: Counter[str] = Counter()
        self.is_cut = False  # the last answer reached its length limit
        self.newest = ""  # the newest message that the model has before it

    def read(self, event: OpencodeEvent) -> list[Event]:
        if event.type == "message.updated" and event.session == self._session:
            self._message(event.properties["info"])
        elif event.type == "message.part.updated":
            return self._part(event.properties["part"])
        elif event.type == "message.part.delta":
            return self._delta(event.properties)
        elif event.type == "permission.asked":
            return [read_permission(event.properties)]
        elif event.type == "question.asked":
            return [read_question(event.properties)]
        return []

    def _message(self, info: dict[str, Any]) -> None:
        if info.get("role") == "assistant" and info.get("id") not in self._known:
            self.newest = max(self.newest, str(info.get("parentID") or ""))
            if not info.get("summary"):  # one that makes the conversation shorter is for nobody
                self._answers.add(str(info["id"]))

    def _part(self, part: dict[str, Any]) -> list[Event]:
        if part.get("messageID") in self._known:
            return []
        match part.get("type"):
            case "text" if part.get("messageID") in self._answers and (part.get("time") or {}).get("end"):
                text = str(part.get("text") or "")
                self._written.pop(str(part["id"]), None)
                return [Text(text)] if text.strip() and self._is_new(part, "said") else []
            case "text" if part.get("messageID") in self._answers:
                self._written[str(part["id"])] = str(part.get("text") or "")
            case "tool":
                return self._tool(part, part.get("state") or {})
            case "step-finish" if self._is_new(part, "spent"):
                self.is_cut = part.get("reason") == "length"
                self._spend(part.get("tokens") or {})
        return []

    def _delta(self, about: dict[str, Any]) -> list[Event]:
        """Return the draft that a delta leads to, if it belongs to a text for people. Thoughts grow in the same way and
        are left out."""
        id = str(about.get("partID"))
        if id not in self._written or about.get("field") != "text":
            return []
        self._written[id] = add_piece(self._written[id], str(about.get("delta") or ""))
        return [DraftText(self._written[id])]

    def _tool(self, part: dict[str, Any], state: dict[str, Any]) -> list[Event]:
        key, found = str(part["id"]), list[Event]()
        status = state.get("status")
        if status in ("running", "completed", "error") and self._is_new(part, "used"):
            given = state.get("input") or {}
            name = str(part.get("tool")).removeprefix(f"{OURS}_")
            found.append(ToolUse(key, name, given, get_patience(given)))
        if status in ("completed", "error") and self._is_new(part, "ended"):
            text = str(state.get("output" if status == "completed" else "error") or "")
            found.append(ToolResult(key, text[:LONGEST_RESULT], status == "error"))
        return found

    def _is_new(self, part: dict[str, Any], what: str) -> bool:
        mark = (str(part["id"]), what)
        if mark in self._seen:
            return False
        self._seen.add(mark)
        return True

    def _spend(self, tokens: dict[str, Any]) -> None:
        cache = tokens.get("cache") or {}
        numbers = {
            "requests": 1,
            "input_tokens": tokens.get("input"),
            "output_tokens": tokens.get("output"),
            "reasoning_tokens": tokens.get("reasoning"),
            "cache_read_tokens": cache.get("read"),
            "cache_write_tokens": cache.get("write"),
        }
        self.spent.update({name: value for name, value in numbers.items() if isinstance(value, int)})


def read_permission(asked: Mapping[str, Any]) -> PermissionRequest:
    about = {**(asked.get("metadata") or {}), "patterns": asked.get("patterns") or []}
    return PermissionRequest(str(asked["id"]), str(asked.get("permission") or ""), about)


def read_question(asked: Mapping[str, Any]) -> PermissionRequest:
    form = render_questions(asked.get("questions"), many="multiple", own_words="custom")
    return PermissionRequest(str(asked["id"]), "question", form, PermissionRequestKind.QUESTION)


def render_question_reply(asked: PermissionRequest, given: Mapping[str, Any]) -> dict[str, object]:
    """Each question has a list of answers, empty if there is none."""
    questions = asked.input.get("questions") or []
    answers = zip(questions, list_answers(questions, given), strict=True)
    return {"answers": [split_answer(each, answer) if answer else [] for each, answer in answers]}


def read_error(error: Mapping[str, Any]) -> ProviderError:
    """From what a session's error says."""
    data = error.get("data") or {}
    reason = " ".join(str(data.get("message") or error.get("name") or "it did not say why").split())[:LONGEST_ERROR]
    match error.get("name"):
        case "MessageAbortedError":
            return ProviderError("interrupted")
        case "ContextOverflowError":
            return ProviderError(reason, TurnErrorClass.OVERFLOW)
        case "ProviderAuthError":
            return ProviderError(reason, TurnErrorClass.AUTH)
        case "APIError" if isinstance(status := data.get("statusCode"), int):
            return parse_provider_error(status, str(data.get("responseBody") or reason).encode())
        case "APIError":
            return ProviderError(f"the model cannot answer just now ({reason})", TurnErrorClass.RETRYABLE)
    if "content filter" in reason:
        return ProviderError("the model declined to answer", TurnErrorClass.REFUSAL)
    return ProviderError(f"opencode could not go on: {reason}")


def read_retry(
    status: Mapping[str, Any], most: int, patience: float, now: float, seen: ProviderError | None = None
) -> ProviderError | None:
    """It asks the model again and again, for ever: when that is enough. `now` in seconds; `seen`: how its last call of
    the model failed, as the endpoint said it."""
    if status.get("type") != "retry":
        return None
    following = status.get("next")
    wait = following / 1000 - now if isinstance(following, int | float) else 0.0
    if int(status.get("attempt") or 0) <= most and wait <= patience:
        return None
    reason = " ".join(str(status.get("message") or "it did not say why").split())[:LONGEST_ERROR]
    message = seen.message if seen is not None else f"the model cannot answer just now ({reason})"
    kind = seen.kind if seen is not None else TurnErrorClass.RETRYABLE
    return ProviderError(message, kind, wait if wait > patience else None)
