"""The Agent Client Protocol, version 1: its messages, and what they mean here. Pure.

Fields that are not needed are not read, so that agents may say more than this knows.
"""

import re
from base64 import b64encode
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec

from gatepost.inside.coding_agent import get_patience
from gatepost.inside.drafts import GrowingText
from gatepost.inside.jsonrpc_process import Json, JsonRpcFailure
from gatepost.inside.mcp_json import McpServerConfig
from gatepost.inside.media import MIMES, MediaKind
from gatepost.inside.model.overflow_errors import find_overflow
from gatepost.inside.provider_errors import LONGEST, ProviderError, find_budget
from gatepost.inside.providers.contract import Event, StatusLine, Text, ToolResult, ToolUse
from gatepost.mailbox.runner_frames import TurnErrorClass

VERSION = 1
AUTH_REQUIRED = -32000
LONGEST_RESULT = 4000  # characters of a tool's result in the timeline
SERVER = "gatepost"
# Updates by which an agent shows that it has the prompt.
AT_WORK = frozenset({"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"})
LONGEST_MESSAGE = 4_000_000  # characters
_BEGUN = ("in_progress", "completed", "failed")
_ENDED = ("completed", "failed")


class AcpStruct(msgspec.Struct, frozen=True, rename="camel"):
    pass


# What the agent is.


class PromptCapabilities(AcpStruct, frozen=True):
    image: bool = False
    audio: bool = False


class SessionCapabilities(AcpStruct, frozen=True):
    resume: Any = None


class AgentCapabilities(AcpStruct, frozen=True):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    session_capabilities: SessionCapabilities | None = None


class AuthMethod(AcpStruct, frozen=True):
    id: str = ""
    name: str = ""


class InitializeResponse(AcpStruct, frozen=True):
    protocol_version: int = 0
    agent_capabilities: AgentCapabilities = AgentCapabilities()
    auth_methods: list[AuthMethod] | None = None

    @property
    def can_resume(self) -> bool:
        session = self.agent_capabilities.session_capabilities
        return session is not None and session.resume not in (None, False)


class AcpChoice(AcpStruct, frozen=True):
    id: str = ""
    model_id: str = ""


class SessionModeState(AcpStruct, frozen=True):
    available_modes: list[AcpChoice] = []


class SessionModelState(AcpStruct, frozen=True):
    current_model_id: str = ""
    available_models: list[AcpChoice] = []


class ConfigValue(AcpStruct, frozen=True):
    value: Any = None
    options: list["ConfigValue"] = []  # of a group of them


class ConfigOption(AcpStruct, frozen=True):
    id: str = ""
    category: str | None = None
    current_value: Any = None
    options: list[ConfigValue] = []


class AcpSession(AcpStruct, frozen=True):
    """A session, new or known."""

    session_id: str = ""
    modes: SessionModeState | None = None
    models: SessionModelState | None = None
    config_options: list[ConfigOption] | None = None


class SessionSetter(msgspec.Struct, frozen=True):
    """How something of a session is chosen: the method, the parameter that is the value, the others, the values, and
    which of them holds now."""

    method: str
    key: str
    known: tuple[str, ...]
    also: Json = {}
    current: str = ""


# What it says.


class PlanEntry(AcpStruct, frozen=True):
    content: str = ""
    status: str = ""


class SessionUpdate(AcpStruct, frozen=True):
    session_update: str
    content: Any = None
    message_id: str | None = None
    tool_call_id: str = ""
    title: str | None = None
    status: str | None = None
    raw_input: Any = None
    raw_output: Any = None
    entries: list[PlanEntry] = []


class SessionNotification(AcpStruct, frozen=True):
    """session/update"""

    session_id: str
    update: SessionUpdate


class PermissionOption(AcpStruct, frozen=True):
    option_id: str
    kind: str = ""


class AcpPermissionRequest(AcpStruct, frozen=True):
    """session/request_permission"""

    session_id: str
    options: list[PermissionOption]
    tool_call: Json = {}


class PromptResponse(AcpStruct, frozen=True):
    """The answer to session/prompt."""

    stop_reason: str
    usage: Json | None = None


class AnswerRestart(msgspec.Struct, frozen=True):
    """The agent calls the model again, whose answer broke off. `ending`: what came last of that."""

    ending: str


class ContextOverflowed(msgspec.Struct, frozen=True):
    """The model refused the conversation as too large: the agent may sum it up now, by itself."""


def initialize(version: str) -> Json:
    return {
        "protocolVersion": VERSION,
        "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False},
        "clientInfo": {"name": "gatepost", "title": "Gatepost", "version": version},
    }


def mcp_servers(servers: Mapping[str, McpServerConfig]) -> list[Json]:
    return [
        {
            "name": name,
            "command": each.command,
            "args": each.args,
            "env": [{"name": variable, "value": value} for variable, value in each.env.items()],
        }
        for name, each in servers.items()
    ]


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def media_block(can: PromptCapabilities, kind: MediaKind, data: bytes) -> Json | None:
    """None: this agent does not take such a block."""
    if kind is MediaKind.AUDIO:
        return _media("audio", _audio_mime(data), data) if can.audio else None
    return _media("image", MIMES[kind], data) if can.image else None


def _media(type: str, mime: str, data: bytes) -> Json:
    return {"type": type, "mimeType": mime, "data": b64encode(data).decode()}


def _audio_mime(head: bytes) -> str:
    marks = {b"RIFF": "audio/wav", b"OggS": "audio/ogg", b"fLaC": "audio/flac"}
    return marks.get(head[:4]) or ("audio/mp4" if head[4:8] == b"ftyp" else "audio/mpeg")


def mode_setter(opened: AcpSession) -> SessionSetter | None:
    """None: the agent has no modes."""
    if opened.modes is not None and opened.modes.available_modes:
        known = tuple(mode.id for mode in opened.modes.available_modes)
        return SessionSetter("session/set_mode", "modeId", known)
    return _config_setter(opened, "mode")


def model_setter(opened: AcpSession) -> SessionSetter | None:
    """None: the agent leaves nobody the choice."""
    if opened.models is not None and opened.models.available_models:
        known = tuple(model.model_id for model in opened.models.available_models)
        return SessionSetter("session/set_model", "modelId", known, current=opened.models.current_model_id)
    return _config_setter(opened, "model")


def _config_setter(opened: AcpSession, category: str) -> SessionSetter | None:
    for option in opened.config_options or []:
        if category in (option.category, option.id):
            known, now = tuple(_values(option.options)), str(option.current_value or "")
            return SessionSetter("session/set_config_option", "value", known, {"configId": option.id}, now)
    return None


def _values(options: Iterable[ConfigValue]) -> Iterable[str]:
    for option in options:
        if option.options:
            yield from _values(option.options)
        else:
            yield str(option.value)


def key_of(tool_call: Json, taken: Container[str]) -> str:
    """Return what a request is called: as the call that it is about, or by a name that is given once."""
    key = str(tool_call.get("toolCallId") or "")
    return key if key and key not in taken else uuid4().hex


def input_of(tool_call: Json) -> Json:
    """Return what somebody is asked about: the call's input, or whatever else it says of itself."""
    given = tool_call.get("rawInput")
    if isinstance(given, dict) and given:
        return given
    return {name: tool_call[name] for name in ("rawInput", "content", "locations") if tool_call.get(name)}


def pick_option(options: Sequence[PermissionOption], *, allow: bool) -> str | None:
    """For this once, if that can be had. None: there is no such option."""
    order = ("allow_once", "allow_always") if allow else ("reject_once", "reject_always")
    return next((each.option_id for kind in order for each in options if each.kind == kind), None)


def render_outcome(option: str | None) -> Json:
    chosen = {"outcome": "selected", "optionId": option} if option is not None else {"outcome": "cancelled"}
    return {"outcome": chosen}


def text_of(content: object) -> str:
    """Return the text of one block; '' if it is no text."""
    found = content.get("text") if isinstance(content, dict) else None
    return found if isinstance(found, str) else ""


def result_of(update: SessionUpdate) -> str:
    """Return what a tool's end says came of it."""
    pieces = update.content if isinstance(update.content, list) else []
    found = [_piece(piece) for piece in pieces if isinstance(piece, dict)]
    text = "\n".join(each for each in found if each)
    if not text and update.raw_output is not None:
        output = update.raw_output
        text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
    return text[:LONGEST_RESULT]


def _piece(piece: Json) -> str:
    if piece.get("type") == "diff":
        return f"[changed {piece.get('path', '')}]"
    return text_of(piece.get("content"))


OURS = re.compile(rf"(?:mcp__{SERVER}__|mcp_{SERVER}_|{SERVER}_|{SERVER}[:/.]\s?)(?=\w)")


def clean_title(title: str) -> str:
    return " ".join(title.split())[:200] or "tool"


def tool_name(title: str) -> str:
    """The gateway's own by their names; agents put the server's before them, each in its way."""
    return OURS.sub("", " ".join(title.split()), count=1)[:200] if OURS.match(title.strip()) else clean_title(title)


def plan_line(entries: Sequence[PlanEntry]) -> str:
    """Return what it is at, of all that it plans; '' if nothing."""
    now = next((entry for entry in entries if entry.status == "in_progress"), None)
    if now is None or not now.content.strip():
        return ""
    done = sum(entry.status == "completed" for entry in entries)
    return f"{done + 1} of {len(entries)}: {' '.join(now.content.split())}"


def usage_of(stopped: PromptResponse) -> dict[str, int]:
    names = {
        "inputTokens": "input_tokens",
        "outputTokens": "output_tokens",
        "cachedReadTokens": "cache_read_tokens",
        "cachedWriteTokens": "cache_write_tokens",
    }
    given = stopped.usage or {}
    return {ours: given[theirs] for theirs, ours in names.items() if isinstance(given.get(theirs), int)}


def _details(data: object) -> str:
    """Return the details of an error for people, from the fields where agents put them; '' if there are none."""
    if isinstance(data, dict):
        data = next((data[key] for key in ("details", "message", "error") if isinstance(data.get(key), str)), "")
    return data if isinstance(data, str) else ""


_AUTH = re.compile(
    r"\b401\b|unauthori[sz]ed|authenticat|api[-_ ]?key|refuses the gateway's key|no key for|not logged in"
    r"|invalid.{0,20}token",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"\b402\b|quota|budget|billing|credit balance|payment", re.IGNORECASE)
_BUSY = re.compile(r"\b(?:429|503|529)\b|overload|rate.?limit|too many requests", re.IGNORECASE)
_AWAY = re.compile(r"time[ds]? ?out|connect|ECONN|broke off|terminated", re.IGNORECASE)
_AGAIN = re.compile(r"\b(?:408|409|425|5\d\d)\b|unavailable", re.IGNORECASE)


def make_provider_error(name: str, error: JsonRpcFailure) -> ProviderError:
    """An agent's error has a code that says nothing about the model; what there is to go by are its words."""
    details = _details(error.data)
    words = f"{error.message} {details} {msgspec.json.encode(error.data).decode()}"
    text = f"{name} could not go on: {' '.join(f'{error.message} {details}'.split())[:LONGEST]}"
    if budget := find_budget(words):
        return ProviderError(budget, TurnErrorClass.BUDGET)
    if (overflow := find_overflow(words)) is not None:
        return ProviderError(text, TurnErrorClass.OVERFLOW, overflow=overflow)
    if _QUOTA.search(words):
        return ProviderError(text, TurnErrorClass.QUOTA)
    if _AUTH.search(words):
        return ProviderError(text, TurnErrorClass.AUTH)
    if _BUSY.search(words):
        return ProviderError(text, TurnErrorClass.OVERLOAD)
    if _AWAY.search(words):
        return ProviderError(text, TurnErrorClass.NETWORK)
    return ProviderError(text, TurnErrorClass.RETRYABLE if _AGAIN.search(words) else TurnErrorClass.FATAL)


class AcpEventBuilder:
    """An agent's updates as our events, for one turn.

    Pieces of text become whole messages, reports on a tool its use and its result.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size, self._written = 0, GrowingText()
        self._message: str | None = None
        self._is_summing_up = False  # the next message may be the agent's summary, which is for itself
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

    def drop_broken(self, ending: str) -> None:
        """Forget the message that the agent is at, if it ends so: the model gives that answer once more."""
        if "".join(self._pieces).rstrip().endswith(ending):
            self.rest()

    def expect_summary(self) -> list[Event]:
        """Take the next message for a summary, if another message follows it directly."""
        before, self._is_summing_up = self.finish(), True
        return before

    def finish(self) -> list[Event]:
        self._is_summing_up = False
        text = self.rest()
        return [Text(text)] if text else []

    def _piece(self, update: SessionUpdate) -> list[Event]:
        another = update.message_id is not None and self._message not in (None, update.message_id)
        before: list[Event] = []
        if another and self._pieces:
            if self._is_summing_up:
                self.rest()
            before = self.finish()
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
