"""A provider: how a model or coding agent is driven, inside the sandbox.

One provider object serves one session for as long as its sandbox is awake. The runner calls `query` for a turn and
reads events until `result` or `error`; `push` gives it a follow-up meanwhile. A provider's own modes and permissions
are courtesy: the walls are the sandbox and the gate.

Imports the standard library, msgspec and the frames, like everything that runs inside.
"""

from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from gatepost.inside.provider_spec import Mode as Mode
from gatepost.inside.provider_spec import ProviderSpec, make_spec
from gatepost.inside.sandbox_needs import Need as Need
from gatepost.mailbox.runner_frames import SkillLine, TurnErrorClass


class ItemKind(StrEnum):
    """The role of a message for the agent, in the order of a prompt."""

    CHAT = "chat"
    TASK = "task"
    WEBHOOK = "webhook"
    SYSTEM = "system"


class PermissionRequestKind(StrEnum):
    """The kind of thing that a provider asks for. The host has the same set for its rows (`RequestKind`)."""

    TOOL = "tool"
    PLAN = "plan"
    QUESTION = "question"
    MODE = "mode"
    OTHER = "other"


class Item(Struct, frozen=True, kw_only=True):
    """One message of a batch, as the provider may want to see it on its own."""

    row: int
    seq: int
    kind: ItemKind
    sender: str
    text: str
    content: dict[str, Any] = field(default_factory=dict)


class Batch(Struct, frozen=True, kw_only=True):
    """The beginning of a turn: the rendered prompt, and the messages it was rendered from."""

    turn: str
    prompt: str
    items: tuple[Item, ...]
    continued: bool = False


# Events. They also make the timeline.


class ConversationStarted(Struct, frozen=True):
    """The provider has a conversation that will hold this turn; its id lets a later process resume it."""

    conversation: str


class Text(Struct, frozen=True):
    """A whole message for people, before the turn ends. `in_reply_to` is the seq it answers, if it answers one."""

    text: str
    in_reply_to: int | None = None


class StatusLine(Struct, frozen=True):
    """An interim line."""

    text: str


class DraftText(Struct, frozen=True):
    """The text of the next message so far, from its beginning. Shown to whoever watches, and kept by nobody: the whole
    follows as Text or TurnResult. Worth making only while `ProviderContext.is_watched()`; the runner sends them at
    intervals."""

    text: str


class ToolUse(Struct, frozen=True):
    id: str
    tool: str
    input: dict[str, Any]
    timeout: float = 0.0  # how long it said it may be silent, seconds


class ToolResult(Struct, frozen=True):
    id: str
    text: str
    error: bool = False


class PermissionRequest(Struct, frozen=True):
    """The provider wants to know whether it may; answered by `answer(id, …)`. Asked again in a turn that was continued,
    a request of the same id that says the very same gets the answer that it had.

    A plan that cannot be carried out in the turn that made it names the prompt of the turn that will (`follow_up`), and
    the mode from there on. Both come about with the approval, whatever becomes of this process."""

    id: str
    tool: str
    input: dict[str, Any]
    kind: PermissionRequestKind = PermissionRequestKind.TOOL  # a plan's text is `plan` in its input
    follow_up: str = ""
    next_mode: str = ""


class Question(Struct, frozen=True):
    """The provider wants a person to tell it something; answered by `answer(id, "allow", {"answers": {text: …}})`, or
    by "deny" with a `reason`."""

    id: str
    text: str
    options: tuple[str, ...] = ()


class UsageReport(Struct, frozen=True):
    """Usage as the provider reports it, for information. The gateway books only what the proxy measured."""

    numbers: dict[str, Any]


class TurnResult(Struct, frozen=True):
    """The turn ended well. `text` may be empty; "" with nothing said before is a chosen silence."""

    text: str = ""
    in_reply_to: int | None = None


class TurnFailed(Struct, frozen=True):
    """The turn ended badly."""

    message: str
    kind: TurnErrorClass = TurnErrorClass.FATAL
    retry_after: float | None = None


Event = (
    ConversationStarted
    | Text
    | StatusLine
    | DraftText
    | ToolUse
    | ToolResult
    | PermissionRequest
    | Question
    | UsageReport
    | TurnResult
    | TurnFailed
)


class ProviderContext(Struct, frozen=True, kw_only=True):
    """The surroundings of a provider."""

    workspace: Path  # /workspace
    agent: Path  # /workspace/agent: the group's folder, with its instructions and memory
    start: Path  # where the agent starts: there, or in what it was given to work in (/workspace/project/…)
    state: Path  # /workspace/state/<provider>: its own files, kept between sandboxes
    router: Path  # router.sock
    folder: str
    name: str
    model: str
    timezone: str
    options: dict[str, Any] = field(default_factory=dict)
    rules: str = ""  # pinned: the agent must have them whatever its conversation forgets; in the system prompt
    managed: bool = False  # somebody made this agent to work for them, and sees it in a list
    skills: Path = Path("/workspace/skills")  # those that a person agreed to, one folder each; read-only
    skill_lines: tuple[SkillLine, ...] = ()  # what a prompt says of them
    more_skills: int = 0  # that it does not list
    is_watched: Callable[[], bool] = lambda: False  # whether somebody sees drafts of this turn


class Misconfigured(Exception):
    """It cannot work as it is set up: an operator must act, and trying again cannot help."""


class Provider(Protocol):
    """A model or an agent that works on turns. `query` yields ToolUse before the tool's call is made, or soon after if
    the agent is a process of its own. So earlier messages go out before the tool's effect. A provider that cannot do so
    sets `announces_calls = False`."""

    takes_pushes: bool  # False: follow-ups wait for the next turn

    def __init__(self, place: ProviderContext) -> None: ...

    def query(self, batch: Batch, resume: str) -> AsyncIterator[Event]:
        """Run a turn. `resume` is the conversation to go on with, '' to start one. If `batch.continued`, the turn broke
        off earlier: the conversation may hold its prompt already, and the batch's system item says what was done."""
        ...

    async def push(self, batch: Batch) -> None:
        """Give the running turn a follow-up; returns when the provider has it. Raise NotImplementedError if it can
        take none: the runner then keeps it for the next turn."""
        ...

    async def interrupt(self) -> None:
        """End the running turn; `query` then ends with Failed or Result."""
        ...

    async def answer(self, request: str, verdict: str, input: dict[str, Any]) -> None: ...

    async def set_mode(self, mode: str) -> None: ...

    async def fork(self, conversation: str) -> str:
        """A copy of a conversation under a new id. Asked before the first turn of a forked session, whose state is a
        copy of its parent's. Raise NotImplementedError if there is no such thing: the turn then goes on as it is."""
        ...

    async def close(self) -> None: ...


PROVIDERS: dict[str, Callable[[ProviderContext], Provider]] = {}
SPECS: dict[str, ProviderSpec] = {}  # what each of them declares


def provider(name: str, **declared: object) -> Callable[[type], type]:
    """Register a provider class. A second one of the same name stops the start.

    `declared` are the fields of ProviderSpec, written out as literals: the host reads them from the file, which it
    never runs.
    """

    def register(cls: type) -> type:
        if name in PROVIDERS:
            raise RuntimeError(f"two providers are named {name!r}: {PROVIDERS[name]} and {cls}")
        cls.takes_pushes = getattr(cls, "takes_pushes", False)  # type: ignore[attr-defined]
        cls.spec = SPECS[name] = make_spec(name, declared)  # type: ignore[attr-defined]
        PROVIDERS[name] = cls
        return cls

    return register
