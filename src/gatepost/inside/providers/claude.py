"""claude: Claude Code, driven by claude-agent-sdk with the program it brings, as one long-lived client.

Claude Code keeps the ids of prompts in its own transcript. A prompt that the transcript lacks is sent again when a turn
is continued.
"""

import asyncio
import importlib
import os
import warnings
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from gatepost.inside.agent_loop import CUT_ANSWER
from gatepost.inside.coding_agent import (
    DENIED,
    LONGEST_ERROR,
    LONGEST_RESULT,
    AttachedMedia,
    CodingAgent,
    RetryingAgentOptions,
    get_patience,
)
from gatepost.inside.drafts import add_piece
from gatepost.inside.mcp_client import McpClient
from gatepost.inside.mcp_json import OURS
from gatepost.inside.media import MediaKind
from gatepost.inside.prompts.sent_prompts import SentPrompt, SentPromptLog
from gatepost.inside.prompts.system_prompt import system_prompt
from gatepost.inside.provider_errors import ProviderError, parse_provider_error
from gatepost.inside.providers.contract import (
    Batch,
    DraftText,
    Event,
    Misconfigured,
    Mode,
    PermissionRequest,
    PermissionRequestKind,
    ProviderContext,
    StatusLine,
    Text,
    ToolResult,
    ToolUse,
    provider,
)
from gatepost.inside.question_forms import list_answers
from gatepost.mailbox.runner_frames import TurnErrorClass

SDK = "claude_agent_sdk"
MISSING = (
    "the provider claude needs claude-agent-sdk, which is not installed: `gatepost connect claude` where the"
    " gateway runs installs it; then start the gateway again"
)
PLAN, AFTER_PLAN = "plan", "acceptEdits"
PLACEHOLDER = "No response requested."
EXIT_PLAN = "ExitPlanMode"  # so it asks whether its plan is approved; it then goes on in the same turn
ASK = "AskUserQuestion"  # so it asks people; it takes their answers by the words of its questions
# What the gateway does itself, or what cannot work: its own way to pages asks the vendor about each host, which no
# sandbox reaches, and its search is run by the vendor.
NOT_OURS = ["CronCreate", "CronDelete", "CronList", "ScheduleWakeup", "SendMessage", "WebFetch", "WebSearch"]
KINDS = {EXIT_PLAN: PermissionRequestKind.PLAN, ASK: PermissionRequestKind.QUESTION}
USUAL = "default"  # said aloud: a conversation that goes on without a model keeps the one it had
LARGEST_LINE = 64 * 1024 * 1024  # of what the client says; a tool's result is one
_STATUS = {
    "authentication_failed": 401,
    "billing_error": 402,
    "rate_limit": 429,
    "overloaded": 529,
    "server_error": 500,
}
CUT = "output token maximum"  # in what it says when answers end at their length limit again and again
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 32.0  # seconds between its retries


class ClaudeClient:
    """The SDK's client, read as long as it lives. `receive` gets its messages, and an error when it has ended."""

    def __init__(self, sdk_client: Any, receive: Callable[[Any], None]) -> None:
        self.sdk_client, self._receive = sdk_client, receive
        self.is_alive = True
        self._reading = asyncio.create_task(self._read())

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.wait([self._reading])
        with suppress(Exception):  # it is to end, however
            await self.sdk_client.disconnect()

    def fail(self, why: str) -> None:
        self.is_alive = False
        self._receive(ProviderError(f"Claude Code ended: {why}"[:LONGEST_ERROR], TurnErrorClass.RETRYABLE))

    async def _read(self) -> None:
        try:
            async for message in self.sdk_client.receive_messages():
                self._receive(message)
        except Exception as error:  # noqa: BLE001  the SDK raises bare ones; whatever it was, the client is gone
            self.fail(str(error))
        else:
            self.fail("it ended")


@provider(
    "claude",
    title="Claude Code",
    modes=(
        Mode("bypassPermissions", "Bypass", "Never asks; the sandbox is the wall."),
        Mode("default", "Always ask", "Asks before it acts."),
        Mode("acceptEdits", "Accept edits", "Edits files by itself, asks for the rest."),
        Mode("plan", "Plan", "Plans first; once the plan is approved, carries it out in `acceptEdits`."),
    ),
    edits_input=True,
    media={"image": "block", "pdf": "block"},
    vendor="anthropic",
    subscription=True,
    library=SDK,
    compacts=True,
    mcp_client={"file": ".mcp.json of a project, or a file for `claude --mcp-config`", "entry": {"type": "stdio"}},
    options=("mode", "own_mcp", "outage", "retries"),
    trial={"retries": 1},
)
class Claude(CodingAgent[ClaudeClient, RetryingAgentOptions, Any]):
    def __init__(self, place: ProviderContext) -> None:
        log = SentPromptLog(place.state / "handed.json", place.state / "home" / ".claude" / "projects")
        super().__init__(place, RetryingAgentOptions, log)
        self._sdk = load_sdk()
        self._system, self._listed = "", b""  # what the client was started with
        self._tells_drafts = False  # whether the client tells what it writes
        self._written = ""  # of the block that the model is at
        self._last_text, self._written_plan = "", ("", "")  # of this turn; a plan with the id of its call

    async def set_mode(self, mode: str) -> None:
        await super().set_mode(mode)
        if self._client is not None:
            await self._client.sdk_client.set_permission_mode(mode)

    async def fork(self, conversation: str) -> str:
        """The SDK copies the transcript. It looks for it where this process has its home, which is not the client's."""
        with set_variable("CLAUDE_CONFIG_DIR", str(self._home / ".claude")):
            try:
                return str(self._sdk.fork_session(conversation).session_id)
            except (AttributeError, ValueError, FileNotFoundError) as error:
                raise NotImplementedError(f"that conversation cannot be copied: {error}") from None

    # The client.

    async def _open(self, batch: Batch, resume: str) -> None:
        """The client must know what the group's files and its tools are today."""
        self._last_text, self._written_plan, self._written = "", ("", ""), ""
        system, tools = system_prompt(self._place, reader="Read"), await self._tools()
        self._forget_messages()  # a background task's word between two turns
        knows = (resume, system, tools) == (self._conversation, self._system, self._listed)
        watched = self._place.is_watched()
        if self._client is not None and self._client.is_alive and knows and (self._tells_drafts or not watched):
            return
        await self.close()
        self._tells_drafts = watched  # it is told when it starts
        self._system, self._conversation, self._listed = system, resume or str(uuid4()), tools
        client = self._sdk.ClaudeSDKClient(self._client_options(known=self._log.path(resume) is not None))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that nobody is asked in some modes is what they are for
                await client.connect()
        except self._sdk.ClaudeSDKError as error:
            raise ProviderError(f"Claude Code does not start: {error}", TurnErrorClass.RETRYABLE) from None
        self._client = ClaudeClient(client, self._deliver)

    async def _tools(self) -> bytes:
        """The group's tools as they are listed now: driven like this, Claude Code never asks for them again."""
        try:
            tools = await McpClient.connect(self._place.router)
            try:
                return msgspec.json.encode(await tools.list_tools())
            finally:
                await tools.close()
        except (OSError, msgspec.ValidationError):
            return self._listed

    def _client_options(self, *, known: bool) -> Any:
        conversation = {"resume": self._conversation} if known else {"session_id": self._conversation}
        servers = self._mcp_servers()
        return self._sdk.ClaudeAgentOptions(
            **conversation,
            cwd=self._place.start,
            env=self._environment(),
            model=self._place.model or USUAL,
            # Not the one that the conversation began with: the group's files change.
            system_prompt={"type": "preset", "preset": "claude_code", "append": self._system, "snapshot": False},
            mcp_servers={name: {"type": "stdio", **msgspec.structs.asdict(each)} for name, each in servers.items()},
            strict_mcp_config=True,
            setting_sources=[],
            allowed_tools=[f"mcp__{OURS}"],  # the gate judges those
            disallowed_tools=NOT_OURS,
            permission_mode=self._mode,
            can_use_tool=self._judge,
            include_partial_messages=self._tells_drafts,
            max_buffer_size=LARGEST_LINE,
            extra_args={"replay-user-messages": None, "allow-dangerously-skip-permissions": None},
        )

    def _environment(self) -> dict[str, str]:
        return {
            **super()._environment(),
            "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": str(self._options.count_retries(FIRST_PAUSE, LONGEST_PAUSE)),
            "ENABLE_TOOL_SEARCH": "false",  # else the group's tools are hidden behind a search
        }

    async def _send(self, client: ClaudeClient, sent: SentPrompt) -> None:
        """It echoes the id when it takes the prompt up."""

        async def one() -> AsyncIterator[dict[str, Any]]:
            message = {"role": "user", "content": self._content(sent)}
            yield {"type": "user", "message": message, "parent_tool_use_id": None, "uuid": sent.id}

        try:
            await client.sdk_client.query(one())
        except self._sdk.ClaudeSDKError as error:
            client.fail(str(error))

    def _content(self, sent: SentPrompt) -> str | list[dict[str, Any]]:
        """A command is one only if it is all that the client hears."""
        shown = [] if sent.text.startswith("/") else [render_block(each) for each in self._list_media(sent)]
        return [*shown, {"type": "text", "text": sent.text}] if shown else sent.text

    async def _cancel(self, client: ClaudeClient) -> None:
        try:
            await client.sdk_client.interrupt()
        except Exception as error:  # noqa: BLE001  the SDK raises bare ones; a client that cannot be asked is ended
            client.fail(str(error))

    async def _forget_media(self, client: ClaudeClient, sent: SentPrompt) -> None:
        conversation = self._conversation
        await self.close()
        self._log.remove_media(conversation, sent.turn)

    async def _judge(self, tool: str, input: dict[str, Any], context: Any) -> Any:
        if tool.startswith(f"mcp__{OURS}__"):  # no other server has a name that begins with ours; it asks if it plans
            return self._sdk.PermissionResultAllow(updated_input=input)
        after = AFTER_PLAN if tool == EXIT_PLAN and self._mode == PLAN else ""
        kind = KINDS.get(tool, PermissionRequestKind.TOOL)
        key = str(context.tool_use_id or uuid4().hex)
        verdict = await self._ask(PermissionRequest(key, tool, input, kind, next_mode=after))
        if verdict is None:
            return self._sdk.PermissionResultDeny(message=DENIED, interrupt=True)
        if not verdict.allow:
            return self._sdk.PermissionResultDeny(message=verdict.reason)
        if tool == ASK:
            return self._sdk.PermissionResultAllow(updated_input=fill_answers(input, verdict.input))
        self._mode = after or self._mode
        change = self._sdk.PermissionUpdate(type="setMode", mode=after, destination="session") if after else None
        allow = self._sdk.PermissionResultAllow
        return allow(updated_input=verdict.input or input, updated_permissions=[change] if change else None)

    # What it says.

    async def _events(self, client: ClaudeClient) -> AsyncIterator[Event]:
        sdk, fault = self._sdk, ""
        while True:
            message = await self._receive()
            if isinstance(message, PermissionRequest):
                yield self._fill_plan(message)
            elif isinstance(message, StatusLine):
                yield message
            elif isinstance(message, sdk.UserMessage):
                self._waiting.pop(message.uuid or "", None)
                for event in self._tool_results(message):
                    yield event
            elif isinstance(message, sdk.StreamEvent):
                for event in self._read_partial(message):
                    yield event
            elif isinstance(message, sdk.AssistantMessage):
                fault = message.error or ""
                for event in self._read_assistant(message):
                    yield event
            elif isinstance(message, sdk.ResultMessage):
                self._spent.update(_usage(message))
                cut = message.is_error and CUT in str(message.result) and not self._stop.is_set()
                if not cut and (trouble := self._trouble(message, fault)) is not None:
                    raise trouble
                if self._prompt is not None:
                    self._waiting.pop(self._prompt.id, None)  # a command is answered without an echo
                if not self._waiting:
                    break
                if message.result:
                    yield Text(message.result)
        self._answer, self._running = CUT_ANSWER if cut else message.result or "", False

    def _fill_plan(self, asked: PermissionRequest) -> PermissionRequest:
        """Claude Code tells a plan's text only if it lies in the file that it plans in. Otherwise it is what the model
        wrote into its call, or said last before."""
        if asked.kind != PermissionRequestKind.PLAN or asked.input.get("plan"):
            return asked
        key, written = self._written_plan
        text = (written if key == asked.id else "").strip() or self._last_text.strip()
        return replace(asked, input={**asked.input, "plan": text}) if text else asked

    def _read_partial(self, message: Any) -> list[Event]:
        """A block of text grows. A message that begins anew after an error takes back what was written of it."""
        if message.parent_tool_use_id is not None:
            return []
        about, before = message.event, self._written
        match about.get("type"):
            case "message_start" | "content_block_start":
                self._written = ""
                return [DraftText("")] if before else []
            case "content_block_delta" if text := (about.get("delta") or {}).get("text"):
                self._written = add_piece(self._written, text)
                return [DraftText(self._written)] if self._place.is_watched() else []
        return []

    def _read_assistant(self, message: Any) -> list[Event]:
        found: list[Event] = []
        ours = message.parent_tool_use_id is None and not message.error and not _is_placeholder(message)
        for block in message.content:
            if isinstance(block, self._sdk.TextBlock) and ours and block.text.strip():
                self._last_text = block.text
                found.append(Text(block.text))
            elif isinstance(block, self._sdk.ToolUseBlock):
                if block.name == EXIT_PLAN:
                    plan = block.input.get("plan")
                    self._written_plan = block.id, plan if isinstance(plan, str) else ""
                name = block.name.removeprefix(f"mcp__{OURS}__")
                found.append(ToolUse(block.id, name, block.input, get_patience(block.input)))
        return found

    def _tool_results(self, message: Any) -> list[Event]:
        blocks = message.content if isinstance(message.content, list) else []
        return [
            ToolResult(block.tool_use_id, _text(block.content)[:LONGEST_RESULT], bool(block.is_error))
            for block in blocks
            if isinstance(block, self._sdk.ToolResultBlock)
        ]

    def _trouble(self, message: Any, fault: str) -> ProviderError | None:
        if self._stop.is_set() or str(message.terminal_reason or "").startswith("aborted"):
            return ProviderError("interrupted")
        if not message.is_error:
            return None
        reason = message.result or "; ".join(message.errors or ()) or message.subtype
        if message.stop_reason == "refusal":
            return ProviderError(reason, TurnErrorClass.REFUSAL)
        status = message.api_error_status or _STATUS.get(fault)
        if status:
            return parse_provider_error(status, reason.encode())
        # "success" with an error: the endpoint could not be reached.
        kind = TurnErrorClass.RETRYABLE if message.subtype == "success" else TurnErrorClass.FATAL
        return ProviderError(f"Claude Code could not go on: {reason}"[:LONGEST_ERROR], kind)


@contextmanager
def set_variable(name: str, value: str) -> Iterator[None]:
    """In the environment of this process, for the length of the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def load_sdk() -> Any:
    """Not before it is needed: it takes a second, and most installations have none."""
    try:
        return importlib.import_module(SDK)
    except ModuleNotFoundError as error:
        if error.name != SDK:
            raise
        raise Misconfigured(MISSING) from None


def fill_answers(asked: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Its own question with people's answers."""
    listed = asked.get("questions")
    questions = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    answers = zip(questions, list_answers(questions, given), strict=True)
    return {**asked, "answers": {str(each.get("question")): answer for each, answer in answers if answer}}


def render_block(shown: AttachedMedia) -> dict[str, Any]:
    """As the Messages API has it."""
    source = {"type": "base64", "media_type": shown.mime, "data": b64encode(shown.data).decode()}
    return {"type": "document" if shown.kind is MediaKind.PDF else "image", "source": source}


def _usage(message: Any) -> dict[str, Any]:
    numbers = {name: value for name, value in (message.usage or {}).items() if isinstance(value, int)}
    return {**numbers, "requests": message.num_turns}


def _is_placeholder(message: Any) -> bool:
    """Return True for what the program writes in the place of a model that was not asked."""
    return getattr(message, "model", "") == "<synthetic>" and all(
        getattr(block, "text", PLACEHOLDER).strip() == PLACEHOLDER for block in message.content
    )


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
