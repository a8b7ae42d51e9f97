"""The settings that Codex is started with, and the meaning of its app-server's words. Pure."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from gatepost.inside.coding_agent import LONGEST_RESULT
from gatepost.inside.mcp_json import OURS, McpServerConfig
from gatepost.inside.provider_errors import ProviderError, parse_provider_error
from gatepost.inside.providers.codex.app_server import AppServerRequest
from gatepost.inside.providers.contract import (
    Event,
    PermissionRequest,
    PermissionRequestKind,
    StatusLine,
    Text,
    ToolResult,
    ToolUse,
)
from gatepost.inside.question_forms import list_answers, render_questions
from gatepost.mailbox.runner_frames import TurnErrorClass

TOOL_SECONDS = 3600  # how long one of the group's tools may take
# What would reach for the vendor, or do what the gateway does. All are Codex's names.
NOT_OURS = (
    *("apps", "browser_use", "computer_use", "goals", "hooks", "image_generation", "in_app_browser", "memories"),
    *("plugins", "remote_plugin", "skill_search", "tool_suggest"),
)
# So that it can ask people whenever it works, not only while it plans.
ASKS = "default_mode_request_user_input"
# The newest models are told to wrap every call into a program, which takes an executable of its own, to look for tools
# before they use one, and to talk with sub-agents in what only the vendor can read. Here tools are seen, and called.
PLAIN = {
    "tool_mode": "direct",
    "use_responses_lite": False,
    "supports_search_tool": False,
    "multi_agent_version": "v1",
}
_STATUS = {
    "unauthorized": 401,
    "usageLimitExceeded": 402,
    "sessionBudgetExceeded": 402,
    "rateLimitExceeded": 429,
    "flexUnavailable": 429,
    "serverOverloaded": 529,
    "internalServerError": 500,
    "badRequest": 400,
}
_APPROVALS = {
    "item/commandExecution/requestApproval": "exec_command",
    "item/fileChange/requestApproval": "apply_patch",
}

_QUESTION = "item/tool/requestUserInput"
_TOOL_CALL = "mcpServer/elicitation/request"  # so it asks whether a tool of somebody else's server may be used
_NAMED = re.compile(r'tool "([^"]+)"')  # and says only there which one
_INCOMPLETE = "Incomplete response returned, reason: "
_DRESSED = re.compile(r"unexpected status \d+ [^:]*: (.*), url: \S+", re.DOTALL)  # what Codex makes of an answer

Json = dict[str, Any]


def render_config(
    *,
    endpoint: str,
    command: Sequence[str],
    folder: str,
    retries: int,
    effort: str = "",
    catalog: str = "",
    own: Mapping[str, McpServerConfig] = MappingProxyType({}),
) -> str:
    """config.toml. `command`: of the group's MCP server; `folder`: where Codex works."""
    top: Json = {
        "model_provider": OURS,
        "sandbox_mode": "danger-full-access",  # its own cannot be made inside ours
        "web_search": "disabled",
        "check_for_update_on_startup": False,
        "project_doc_max_bytes": 0,  # the group's AGENTS.md is in ours
        **({"model_reasoning_effort": effort} if effort else {}),
        **({"model_catalog_json": catalog} if catalog else {}),
    }
    model: Json = {
        "name": OURS,
        "base_url": endpoint,
        "wire_api": "responses",
        "env_key": "OPENAI_API_KEY",
        "request_max_retries": retries,
        "stream_max_retries": retries,
    }
    tools: Json = {
        "command": command[0],
        "args": list(command[1:]),
        "required": True,  # else the first turn may begin without them
        "default_tools_approval_mode": "approve",  # the gate judges those
        "tool_timeout_sec": TOOL_SECONDS,
    }
    tables: dict[str, Json] = {
        "analytics": {"enabled": False},
        "feedback": {"enabled": False},
        "history": {"persistence": "none"},
        "skills": {"include_instructions": False},  # ours are in AGENTS.md
        "skills.bundled": {"enabled": False},
        "features": {**dict.fromkeys(NOT_OURS, False), ASKS: True},
        f"projects.{json.dumps(folder, ensure_ascii=False)}": {"trust_level": "untrusted"},
        f"model_providers.{OURS}": model,
        f"mcp_servers.{OURS}": tools,
        **{f"mcp_servers.{name}": {"command": each.command, "args": each.args} for name, each in own.items()},
        **{f"mcp_servers.{name}.env": dict(each.env) for name, each in own.items()},
    }
    return _table(top) + "".join(f"\n[{name}]\n{_table(table)}" for name, table in tables.items())


def _table(values: Json) -> str:
    """Render values as TOML. Strings, numbers, booleans and arrays are written the same way in JSON."""
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())


def simplify_models(catalog: bytes) -> bytes:
    """Return what Codex knows about models, with their tools in the open; b"" if that is not what it said."""
    try:
        known = msgspec.json.decode(catalog)
        models = [{**model, **PLAIN} for model in known["models"]]
    except (msgspec.MsgspecError, KeyError, TypeError):
        return b""
    return msgspec.json.encode({**known, "models": models}) if models else b""


def read_item(item: Json, *, ended: bool) -> list[Event]:
    """One step of a turn, as it begins and as it ends."""
    kind, key = item.get("type"), str(item.get("id"))
    if kind == "agentMessage":
        text = str(item.get("text") or "")
        if not ended or not text.strip():
            return []
        return [StatusLine(text)] if item.get("phase") == "commentary" else [Text(text)]
    if (use := _use(item)) is None:
        return []
    if not ended:
        return [ToolUse(key, *use)]
    return [ToolResult(key, _outcome(item)[:LONGEST_RESULT], item.get("status") in ("failed", "declined"))]


def _use(item: Json) -> tuple[str, Json] | None:
    """The tool of a step, and its input."""
    match item.get("type"):
        case "commandExecution":
            return "exec_command", {"command": item.get("command"), "cwd": item.get("cwd")}
        case "fileChange":
            return "apply_patch", {"paths": [change.get("path") for change in item.get("changes") or ()]}
        case "mcpToolCall":
            server, tool, given = item.get("server"), str(item.get("tool")), item.get("arguments")
            return tool if server == OURS else f"{server}/{tool}", given if isinstance(given, dict) else {}
        case "imageView":
            return "view_image", {"path": item.get("path")}
        case "collabAgentToolCall":
            return str(item.get("tool")), {"prompt": item.get("prompt")}
        case _:
            return None


def _outcome(item: Json) -> str:
    if item.get("type") == "mcpToolCall":
        if error := item.get("error"):
            return str(error.get("message", ""))
        parts = (item.get("result") or {}).get("content") or ()
        return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
    return str(item.get("aggregatedOutput") or item.get("status") or "")


def read_usage(params: Json, key: str = "last") -> Counter[str]:
    """Return the usage of one request to the model. Tokens read from a cache do not count as input, as everywhere in
    the gateway."""
    usage = (params.get("tokenUsage") or {}).get(key) or {}
    cached = int(usage.get("cachedInputTokens") or 0)
    return Counter(
        input_tokens=int(usage.get("inputTokens") or 0) - cached,
        output_tokens=int(usage.get("outputTokens") or 0),
        cache_read_tokens=cached,
    )


def read_permission(asked: AppServerRequest, process: str) -> PermissionRequest | None:
    """None: it is nothing that people can answer. `process`: Codex numbers its requests from 0 whenever it
    starts, so a name is one only together with that."""
    name = f"{process}-{asked.id}"
    if asked.method == _TOOL_CALL:
        return _read_tool_call(asked, name)
    if asked.method == _QUESTION:
        return _read_question(asked, name)
    if (tool := _APPROVALS.get(asked.method)) is None:
        return None
    # A command says what it is; of a change of files only the step does that was told before.
    names = ("command", "cwd", "reason", "grantRoot", *(() if asked.params.get("command") else ("itemId",)))
    given = {name: asked.params.get(name) for name in names}
    return PermissionRequest(name, tool, {name: value for name, value in given.items() if value is not None})


def _read_tool_call(asked: AppServerRequest, name: str) -> PermissionRequest | None:
    about = asked.params.get("_meta")
    if not isinstance(about, Mapping) or about.get("codex_approval_kind") != "mcp_tool_call":
        return None  # the server itself wants to know something
    named, given = _NAMED.search(str(asked.params.get("message"))), about.get("tool_params")
    tool = f"{asked.params.get('serverName')}/{named[1] if named else ''}"
    return PermissionRequest(name, tool, given if isinstance(given, dict) else {})


def _read_question(asked: AppServerRequest, name: str) -> PermissionRequest | None:
    """Secrets are not asked for: they would stand in the chat, and in the transcript."""
    listed = _list_questions(asked)
    form = render_questions(listed, many="multiSelect", own_words="isOther")
    if not form or any(each.get("isSecret") is True for each in listed):
        return None
    return PermissionRequest(name, "request_user_input", form, PermissionRequestKind.QUESTION)


def _list_questions(asked: AppServerRequest) -> list[Json]:
    listed = asked.params.get("questions")
    known = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return [each for each in known if isinstance(each.get("question"), str)]


def _render_answers(asked: AppServerRequest, given: Mapping[str, Any], reason: str) -> Json:
    """By the ids of its questions. It has no word for a refusal, so that is the answer."""
    listed = _list_questions(asked)
    answers = zip(listed, list_answers(listed, given), strict=True)
    return {"answers": {str(each.get("id")): {"answers": [answer or reason]} for each, answer in answers}}


def render_answer(
    asked: AppServerRequest, *, allow: bool, given: Mapping[str, Any] = MappingProxyType({}), reason: str = ""
) -> Json:
    if asked.method == _QUESTION:
        return _render_answers(asked, given if allow else {}, f"There is no answer. {reason}")
    if asked.method == _TOOL_CALL:
        return {"action": "accept", "content": {}} if allow else {"action": "decline", "content": None}
    return {"decision": "accept" if allow else "decline"}


def render_collaboration(*, plan: bool, model: str, effort: str) -> Json:
    """Return whether it plans or works; the instructions to that are its own."""
    settings = {"model": model, "reasoning_effort": effort or None, "developer_instructions": None}
    return {"mode": "plan" if plan else "default", "settings": settings}


def is_cut(turn: Json) -> bool:
    """Return True if the turn ended because an answer reached its length limit."""
    return f"{_INCOMPLETE}max_output_tokens" in str((turn.get("error") or {}).get("message"))


def is_refused(error: Json) -> bool:
    """Return True if the model declined to answer. Codex asks it again and again."""
    return f"{_INCOMPLETE}content_filter" in f"{error.get('message')} {error.get('additionalDetails')}"


def read_turn_error(turn: Json, stopped: bool) -> ProviderError | None:
    """Why a turn ended before its time; None: it did not."""
    status, error = turn.get("status"), turn.get("error") or {}
    if stopped or status == "interrupted":
        return ProviderError("interrupted")
    if status == "completed":
        return None
    reason, info = str(error.get("message") or "it did not say why"), error.get("codexErrorInfo")
    if is_refused(error):
        return ProviderError("the model declined to answer", TurnErrorClass.REFUSAL)
    if info == "contextWindowExceeded":
        return ProviderError(reason, TurnErrorClass.OVERFLOW)
    if reason.startswith("{"):  # a request that was wrong: the endpoint's own words
        return parse_provider_error(400, reason.encode())
    if code := _status(info):
        return parse_provider_error(code, _DRESSED.sub(r"\1", reason).encode())
    broke_off = isinstance(info, Mapping) or reason.startswith("stream disconnected")
    return ProviderError(
        f"Codex could not go on: {reason}"[:500], TurnErrorClass.RETRYABLE if broke_off else TurnErrorClass.FATAL
    )


def _status(info: object) -> int:
    if isinstance(info, Mapping):
        inner = next(iter(info.values()), None)
        found = inner.get("httpStatusCode") if isinstance(inner, Mapping) else None
        return found if isinstance(found, int) else 0
    return _STATUS.get(str(info), 0)
