"""claude: Claude Code, driven by claude-agent-sdk with the program it brings, as one long-lived client.

What was handed over in a turn is on the disk before the client has it, under an id that the client keeps in its own
transcript. So a turn that broke off is continued by another process without its prompt being said twice, and what the
transcript lacks is said again. The client asks the model through the session's way out; no key is inside.
"""

import asyncio
import importlib
import warnings
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import msgspec

from gatepost.inside import bridge, forwarder, media
from gatepost.inside.mcp_client import McpClient
from gatepost.inside.mcp_json import own_servers
from gatepost.inside.media import MediaKind
from gatepost.inside.plan_text import PlanTextFinder
from gatepost.inside.provider_errors import ProviderError, parse_provider_error
from gatepost.inside.providers.contract import (
    Batch,
    ConversationStarted,
    Event,
    Misconfigured,
    Mode,
    PermissionRequest,
    ProviderContext,
    Text,
    ToolResult,
    ToolUse,
    TurnFailed,
    TurnResult,
    UsageReport,
    provider,
)
from gatepost.inside.sent_prompts import SentPrompt, SentPromptLog
from gatepost.inside.system_prompt import system_prompt

SDK = "claude_agent_sdk"
MISSING = (
    "the provider claude needs claude-agent-sdk, which is not installed: `gatepost connect claude` where the"
    " gateway runs installs it; then start the gateway again"
)
MODES = ("default", "acceptEdits", "plan", "bypassPermissions")
PLAN, AFTER_PLAN = "plan", "acceptEdits"
EXIT_PLAN = "ExitPlanMode"  # so it asks whether its plan is approved; it then goes on in the same turn
SERVER = "gatepost"
# What the gateway does itself, and what asks somebody who is not there.
NOT_OURS = ["CronCreate", "CronDelete", "CronList", "ScheduleWakeup", "SendMessage", "AskUserQuestion"]
USUAL = "default"  # said aloud: a conversation that goes on without a model keeps the one it had
LARGEST_LINE = 64 * 1024 * 1024  # of what the client says; a tool's result is one
LONGEST_RESULT = 4000  # characters of a tool's result in the timeline
_STATUS = {
    "authentication_failed": 401,
    "billing_error": 402,
    "rate_limit": 429,
    "overloaded": 529,
    "server_error": 500,
}


class ClaudeOptions(msgspec.Struct, frozen=True):
    """`gatepost group set FOLDER options.KEY=VALUE`"""

    mode: str = "bypassPermissions"  # the walls are the sandbox's
    retries: int = 4  # of one request to the model
    own_mcp: bool = False  # the servers of the group's .mcp.json, too, inside


class ClaudeEnded(msgspec.Struct, frozen=True):
    """The client is gone."""

    why: str


@provider(
    "claude",
    title="Claude Code",
    modes=(
        Mode("bypassPermissions", "Bypass", "Never asks; the sandbox is the wall."),
        Mode("default", "Always ask", "Asks before it acts."),
        Mode("acceptEdits", "Accept edits", "Edits files by itself, asks for the rest."),
        Mode("plan", "Plan", "Plans first; once the plan is approved, carries it out in `acceptEdits`."),
    ),
    media={"image": "block", "pdf": "block"},
    vendor="anthropic",
    subscription=True,
    library=SDK,
    trial={"retries": 1},
)
class Claude:
    takes_pushes = True

    def __init__(self, place: ProviderContext) -> None:
        self._place = place
        self._options = read_options(place.options)
        self._mode = self._options.mode
        self._sdk = load_sdk()
        self._home = place.state / "home"
        self._handed = SentPromptLog(place.state / "handed.json", self._home / ".claude" / "projects")
        self._client: Any = None
        self._system, self._listed = "", b""  # what the client was started with
        self._conversation = ""
        self._port = 0
        self._reading: asyncio.Task[None] | None = None
        self._heard: asyncio.Queue[Any] = asyncio.Queue()
        self._asked: dict[str, asyncio.Future[tuple[str, dict[str, Any]]]] = {}
        self._waiting: set[str] = set()  # handed over, and not taken up by the client yet
        self._running = self._stopped = False
        self._planned = PlanTextFinder()

    async def query(self, batch: Batch, resume: str) -> AsyncIterator[Event]:
        self._stopped, well, self._planned = False, False, PlanTextFinder()
        try:
            await self._ready(resume)
            if self._stopped:
                raise ProviderError("interrupted")
            self._running = True
            handed = self._handed.begin(batch, self._conversation, self._place)
            yield ConversationStarted(self._conversation)
            await self._send_prompt(handed)
            async for event in self._events(handed.id):
                well = isinstance(event, TurnResult)
                if isinstance(event, TurnResult | TurnFailed):
                    self._running = False
                yield event
        except ProviderError as trouble:
            if trouble.about_input:
                await self.close()
                self._handed.remove_media(self._conversation, batch.turn)
            yield TurnFailed(trouble.message, trouble.kind, trouble.retry_after)
        finally:
            self._running = False
            if not well:
                await self.close()  # what it still says must not be taken for the next turn's

    async def push(self, batch: Batch) -> None:
        if not self._running:
            raise NotImplementedError("no turn is running")
        await self._send_prompt(self._handed.follow(batch))

    async def interrupt(self) -> None:
        self._stopped = True
        if self._client is None:
            return
        try:
            await self._client.interrupt()
        except Exception as error:  # noqa: BLE001  the SDK raises bare ones; a client that cannot be asked is ended
            self._heard.put_nowait(ClaudeEnded(str(error)))

    async def answer(self, request: str, verdict: str, input: dict[str, Any]) -> None:
        asked = self._asked.pop(request, None)
        if asked is None or asked.done():
            raise LookupError(f"claude waits for no answer to {request}")
        asked.set_result((verdict, input))

    async def set_mode(self, mode: str) -> None:
        if mode not in MODES:
            raise NotImplementedError(f"claude has no mode {mode!r}, only {', '.join(MODES)}")
        self._mode = mode
        if self._client is not None:
            await self._client.set_permission_mode(mode)

    async def fork(self, conversation: str) -> str:
        raise NotImplementedError("claude's conversations are not copied")

    async def close(self) -> None:
        client, self._client = self._client, None
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait([reading])
        if client is not None:
            with suppress(Exception):  # it is to end, however
                await client.disconnect()
        self._heard = asyncio.Queue()
        self._waiting.clear()
        self._asked.clear()

    # The client.

    async def _ready(self, resume: str) -> None:
        """A client in that conversation, which knows what the group's files and its tools are today."""
        place = self._place
        system, tools = system_prompt(place, reader="Read"), await self._tools()
        knows = (resume, system, tools) == (self._conversation, self._system, self._listed)
        if self._client is not None and knows:
            while not self._heard.empty():  # a background task's word between two turns
                if isinstance(self._heard.get_nowait(), ClaudeEnded):
                    await self.close()
        if self._client is not None and knows:
            return
        await self.close()
        self._system, self._conversation, self._listed = system, resume or str(uuid4()), tools
        client = self._sdk.ClaudeSDKClient(self._client_options(known=self._handed.path(resume) is not None))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that nobody is asked in some modes is what they are for
                await client.connect()
        except self._sdk.ClaudeSDKError as error:
            raise ProviderError(f"Claude Code does not start: {error}", "retryable") from None
        self._client = client
        self._reading = asyncio.create_task(self._read(client))

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
        return self._sdk.ClaudeAgentOptions(
            **conversation,
            cwd=self._place.start,
            env=self._environment(),
            model=self._place.model or USUAL,
            # Not the one that the conversation began with: the group's files change.
            system_prompt={"type": "preset", "preset": "claude_code", "append": self._system, "snapshot": False},
            mcp_servers={**self._own_servers(), SERVER: self._server()},
            strict_mcp_config=True,
            setting_sources=[],
            allowed_tools=[f"mcp__{SERVER}"],  # the gate judges those
            disallowed_tools=NOT_OURS,
            permission_mode=self._mode,
            can_use_tool=self._ask,
            max_buffer_size=LARGEST_LINE,
            extra_args={"replay-user-messages": None, "allow-dangerously-skip-permissions": None},
        )

    def _environment(self) -> dict[str, str]:
        run = self._place.router.parent
        if not (run / forwarder.SOCKET).exists():
            raise Misconfigured("claude has no endpoint: this sandbox has no way out")
        self._port = self._port or forwarder.start(run)
        self._home.mkdir(parents=True, exist_ok=True)
        return {
            **forwarder.environment(self._port),
            "HOME": str(self._home),
            "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": str(self._options.retries),
            "ENABLE_TOOL_SEARCH": "false",  # else the group's tools are hidden behind a search
        }

    def _server(self) -> dict[str, Any]:
        program, *arguments = bridge.command(str(self._place.router))
        return {"type": "stdio", "command": program, "args": arguments}

    def _own_servers(self) -> dict[str, Any]:
        own = own_servers(self._place.agent, self._options.own_mcp)
        return {name: {"type": "stdio", **msgspec.structs.asdict(server)} for name, server in own.items()}

    async def _read(self, client: Any) -> None:
        try:
            async for message in client.receive_messages():
                self._heard.put_nowait(message)
        except Exception as error:  # noqa: BLE001  the SDK raises bare ones; whatever it was, the client is gone
            self._heard.put_nowait(ClaudeEnded(str(error)))
        else:
            self._heard.put_nowait(ClaudeEnded("it ended"))

    async def _send_prompt(self, handed: SentPrompt) -> None:
        """Give the client something to work on. It echoes the id when it takes that up."""
        self._waiting.add(handed.id)

        async def one() -> AsyncIterator[dict[str, Any]]:
            message = {"role": "user", "content": self._content(handed)}
            yield {"type": "user", "message": message, "parent_tool_use_id": None, "uuid": handed.id}

        try:
            await self._client.query(one())
        except self._sdk.ClaudeSDKError as error:
            self._heard.put_nowait(ClaudeEnded(str(error)))

    def _content(self, handed: SentPrompt) -> str | list[dict[str, Any]]:
        """A command is one only if it is all that the client hears."""
        if handed.text.startswith("/"):
            return handed.text
        folder = media.get_attachment_folder(self._place)
        read = [media.read_block("claude", folder / name) for name in handed.files]
        blocks = [render_block(*each) for each in read if each is not None]
        return [*blocks, {"type": "text", "text": handed.text}] if blocks else handed.text

    async def _ask(self, tool: str, input: dict[str, Any], context: Any) -> Any:
        if tool.startswith(f"mcp__{SERVER}__"):  # no other server has a name that begins with ours; it asks if it plans
            return self._sdk.PermissionResultAllow(updated_input=input)
        key = str(context.tool_use_id or uuid4().hex)
        self._asked[key] = asyncio.get_running_loop().create_future()
        after = AFTER_PLAN if tool == EXIT_PLAN and self._mode == PLAN else ""
        kind = "plan" if tool == EXIT_PLAN else "tool"
        self._heard.put_nowait(PermissionRequest(key, tool, input, kind, next_mode=after))
        verdict, changed = await self._asked[key]
        if verdict == "allow":
            self._mode = after or self._mode
            change = self._sdk.PermissionUpdate(type="setMode", mode=after, destination="session") if after else None
            allow = self._sdk.PermissionResultAllow
            return allow(updated_input=changed or input, updated_permissions=[change] if change else None)
        return self._sdk.PermissionResultDeny(message=str(changed.get("reason") or "This was not permitted."))

    # What it says.

    async def _events(self, first: str) -> AsyncIterator[Event]:
        """Until it has answered everything that was handed over."""
        sdk, fault = self._sdk, ""
        while True:
            heard = await self._heard.get()
            if isinstance(heard, PermissionRequest):
                yield self._planned.fill(heard)
            elif isinstance(heard, ClaudeEnded):
                raise ProviderError(
                    "interrupted" if self._stopped else f"Claude Code ended: {heard.why}"[:500], "retryable"
                )
            elif isinstance(heard, sdk.UserMessage):
                self._waiting.discard(heard.uuid or "")
                for event in self._tool_results(heard):
                    yield event
            elif isinstance(heard, sdk.AssistantMessage):
                fault = heard.error or ""
                for event in self._said(heard):
                    yield event
            elif isinstance(heard, sdk.ResultMessage):
                yield UsageReport(_usage(heard))
                if (trouble := self._trouble(heard, fault)) is not None:
                    raise trouble
                self._waiting.discard(first)  # a command is answered without an echo
                if not self._waiting:
                    yield TurnResult(heard.result or "")
                    return
                if heard.result:
                    yield Text(heard.result)

    def _said(self, message: Any) -> list[Event]:
        found: list[Event] = []
        ours = message.parent_tool_use_id is None and not message.error
        for block in message.content:
            if isinstance(block, self._sdk.TextBlock) and ours and block.text.strip():
                self._planned.say(block.text)
                found.append(Text(block.text))
            elif isinstance(block, self._sdk.ToolUseBlock):
                if block.name == EXIT_PLAN:
                    self._planned.call(block.id, block.input)
                patience = block.input.get("timeout")  # of a shell command, in milliseconds
                seconds = patience / 1000 if isinstance(patience, int | float) else 0.0
                found.append(ToolUse(block.id, block.name.removeprefix(f"mcp__{SERVER}__"), block.input, seconds))
        return found

    def _tool_results(self, message: Any) -> list[Event]:
        blocks = message.content if isinstance(message.content, list) else []
        return [
            ToolResult(block.tool_use_id, _text(block.content)[:LONGEST_RESULT], bool(block.is_error))
            for block in blocks
            if isinstance(block, self._sdk.ToolResultBlock)
        ]

    def _trouble(self, message: Any, fault: str) -> ProviderError | None:
        if self._stopped or str(message.terminal_reason or "").startswith("aborted"):
            return ProviderError("interrupted")
        if not message.is_error:
            return None
        said = message.result or "; ".join(message.errors or ()) or message.subtype
        status = message.api_error_status or _STATUS.get(fault)
        if status:
            return parse_provider_error(status, said.encode())
        kind = "retryable" if message.subtype == "success" else "fatal"  # the endpoint could not be reached
        return ProviderError(f"Claude Code could not go on: {said}"[:500], kind)


def load_sdk() -> Any:
    """Not before it is needed: it takes a second, and most installations have none."""
    try:
        return importlib.import_module(SDK)
    except ModuleNotFoundError as error:
        if error.name != SDK:
            raise
        raise Misconfigured(MISSING) from None


def render_block(kind: MediaKind, data: bytes) -> dict[str, Any]:
    """As the Messages API has it."""
    source = {"type": "base64", "media_type": media.MIMES[kind], "data": b64encode(data).decode()}
    return {"type": "document" if kind is MediaKind.PDF else "image", "source": source}


def read_options(given: dict[str, Any]) -> ClaudeOptions:
    try:
        options = msgspec.convert(given, ClaudeOptions, strict=False)
    except msgspec.ValidationError as error:
        raise Misconfigured(f"the group's options are not as they should be: {error}") from None
    if options.mode not in MODES:
        raise Misconfigured(f"claude has no mode {options.mode!r}, only {', '.join(MODES)}")
    return options


def _usage(message: Any) -> dict[str, Any]:
    numbers = {name: value for name, value in (message.usage or {}).items() if isinstance(value, int)}
    return {**numbers, "requests": message.num_turns}


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
