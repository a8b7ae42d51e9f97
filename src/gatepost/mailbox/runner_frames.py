"""Frames between runner and host on `runner.sock`: one JSON object a line, at most 1 MiB, tagged by `type`.

The runner opens one connection before its provider starts; bell, claims, results, `submit_turn` and pings go only
there. Every request of the runner carries `id` and is answered by exactly one message with the same `id`. Content is
durable in a file before it is said here; authority comes from the socket.

This module is loaded on both sides of the wall: it imports msgspec and nothing else.
"""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

LARGEST = 1024 * 1024
PROTOCOL = 1
MOST_BEGUN = 1000  # rows that a runner may have announced and not handed over: those of one turn
LARGEST_EVENT = 384 * 1024  # bytes of a frame with free-form data: more than anybody is shown of it

# What a runner says is bounded before anybody looks at it, and the runner cuts or splits it to these bounds before.
LONGEST_RESULT = 160_000  # characters; six bytes each in the worst case, and a frame has 1 MiB. More is several results
LONGEST_STATUS = 2000
LONGEST_DRAFT = 20_000  # characters that are shown of a message while it is written
LONGEST_ERROR = 4000
LONGEST_TROUBLE = 2000
LONGEST_NAME = 255
LONGEST_WAIT_S = 604_800
MOST_NUMBERS = 50  # of a turn's usage
Number = Annotated[int, Meta(ge=0, le=2**53)]
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)]
TurnId = Annotated[str, Meta(max_length=64, pattern=r"^[a-z0-9-]*$")]
ResultText = Annotated[str, Meta(max_length=LONGEST_RESULT)]
DraftPiece = Annotated[str, Meta(max_length=LONGEST_DRAFT)]
StatusText = Annotated[str, Meta(max_length=LONGEST_STATUS)]
ErrorText = Annotated[str, Meta(max_length=LONGEST_ERROR)]
TroubleText = Annotated[str, Meta(max_length=LONGEST_TROUBLE)]
ShortText = Annotated[str, Meta(max_length=10_000)]
Name = Annotated[str, Meta(max_length=LONGEST_NAME)]
Usage = Annotated[
    dict[Name, Annotated[int, Meta(ge=-(2**53), le=2**53)] | float | bool | Name | None], Meta(max_length=MOST_NUMBERS)
]
FreeForm = Annotated[dict[Name, Any], Meta(max_length=1000)]
LONGEST_CONVERSATION = 1000  # it comes back in every Welcome and Claimed
ConversationId = Annotated[str, Meta(max_length=LONGEST_CONVERSATION)]
LongText = Annotated[str, Meta(max_length=500_000)]
MOST_LINES = 100  # of a transcript
# Values of the option `transcribe` that are no model: the endpoint of every group, and a program inside the sandbox.
TRANSCRIBE_BY_DEFAULT, TRANSCRIBE_BY_COMMAND = "default", "command"
TranscriptText = Annotated[str, Meta(max_length=100_000)]
Transcript = Annotated[
    list[Annotated[dict[Name, bool | TranscriptText], Meta(max_length=10)]], Meta(max_length=MOST_LINES)
]
MOST_SKILLS = 300  # that a prompt lists
MOST_ROWS = 1000  # of a session that wait, as far as a frame names them; a turn has no more
MOST_GIVEN = 2 * MOST_ROWS  # with one answer: a turn, and the notes of its interruptions
RowIds = Annotated[list[Number], Meta(max_length=MOST_ROWS)]


class EventKind(StrEnum):
    """The events that the host acts on. A runner may name others, which nobody looks at."""

    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"
    PERMISSION = "permission"
    QUESTION = "question"


class TurnErrorClass(StrEnum):
    """The party that can do something about a turn's failure. A runner may name others, which mean nothing in
    particular."""

    RETRYABLE = "retryable"
    OVERLOAD = "overload"  # the model has too much to do; retryable
    NETWORK = "network"  # the endpoint cannot be reached, or breaks off; retryable
    AUTH = "auth"
    QUOTA = "quota"
    BUDGET = "budget"
    REFUSAL = "refusal"  # the model declined to answer
    OVERFLOW = "overflow"  # the request is larger than the model's context
    FATAL = "fatal"

    @property
    def is_passing(self) -> bool:
        """Return True if the same try may do better later."""
        return self in (TurnErrorClass.RETRYABLE, TurnErrorClass.OVERLOAD, TurnErrorClass.NETWORK)


SUCCESS = "success"  # the status of a turn that ended well; every other is a failure


class Frame(msgspec.Struct, tag_field="type", kw_only=True, omit_defaults=True):
    """A message on `runner.sock`."""


# From the runner.


class HelloFrame(Frame, tag="hello"):
    protocol: Number
    pid: Number


class ClaimFrame(Frame, tag="claim"):
    """Give me work: a new batch, or with `turn` what may join the running one. `rows` are the first ids that the runner
    can read in its inbound.db; a row that the host would give and the runner does not see yet is projected again.

    `ready`: the provider is up and gets the batch as soon as it is ours. Unless a command is in it, the answer then
    stands for that of Begun as well. `wait`: if there is nothing, the answer may come when there is. `begun`: rows that
    an earlier runner announced and perhaps did not hand over to its provider. If a turn is continued, the answer holds
    those that the ledger has as given. The ledger alone decides: what it has not as given no provider has had."""

    id: Number
    rows: RowIds
    turn: TurnId = ""
    epoch: Number = 0
    ready: bool = False
    wait: bool = False
    begun: Annotated[list[Number], Meta(max_length=MOST_BEGUN)] = []


class RowsBegunFrame(Frame, tag="begun"):
    """The provider is about to have these rows. Answered when that is durable."""

    id: Number
    turn: TurnId
    epoch: Number
    rows: RowIds


class ConversationStartedFrame(Frame, tag="started"):
    """The provider has named its conversation. No answer."""

    turn: TurnId
    epoch: Number
    conversation: ConversationId


class ResultFrame(Frame, tag="result"):
    """One text (or file) for people, already committed to outbound.db. Answered when it is in the ledger."""

    id: Number
    turn: TurnId
    epoch: Number
    attempt: Number
    part: Number
    text: ResultText = ""
    to: Name = ""  # a destination's name; "" is the room of the turn
    in_reply_to: Number | None = None  # seq
    files: Annotated[list[Name], Meta(max_length=20)] = []  # names under out/files/<key>/


class StatusFrame(Frame, tag="status"):
    """An interim line, edited in place. No answer, may be lost."""

    turn: TurnId
    epoch: Number
    text: StatusText


class DraftFrame(Frame, tag="draft"):
    """The agent's next message so far, for whoever watches: `kept` characters of the draft before, then `text`. No
    answer, may be lost, and nobody keeps it. Sent only between Watch and its end."""

    turn: TurnId
    epoch: Number
    text: DraftPiece
    kept: Annotated[int, Meta(ge=0, le=LONGEST_DRAFT)] = 0


class EventFrame(Frame, tag="event"):
    """Something for the timeline: tool_use, tool_result, permission, question … No answer. `data` is free-form, so the
    frame as a whole has a bound of its own (LARGEST_EVENT)."""

    turn: TurnId
    kind: Name
    data: FreeForm = {}


class SubmitTurnFrame(Frame, tag="submit_turn"):
    """The turn ended. Answered when that is in the ledger; idempotent on the turn."""

    id: Number
    turn: TurnId
    epoch: Number
    status: Name  # SUCCESS | error
    error: ErrorText = ""
    error_class: Name = ""  # TurnErrorClass
    retry_after: Seconds | None = None
    conversation: ConversationId = ""
    usage: Usage = {}
    finished: RowIds = []  # of a turn that failed: the rows that the provider was done with before
    withheld: ErrorText = ""  # of a turn that said nothing: why


class SubmitTurnParams(msgspec.Struct, kw_only=True):
    """The parameters of `submit_turn` on router.sock, for agent loops of their own. More is not looked at."""

    turn_id: TurnId
    session_id: ConversationId | None = None
    status: Name | None = None
    result: LongText | None = None
    error: ErrorText | None = None


class PingFrame(Frame, tag="ping"):
    """I am alive. `turn` while one runs; a tool that announced how long it may be silent widens the patience."""

    turn: TurnId = ""
    epoch: Number = 0
    tool: Name = ""
    tool_timeout: Seconds = 0.0


class FlushReplyFrame(Frame, tag="flushed"):
    """The answer to Flush: everything that the agent said before that call is handed over. `seen`: the provider has
    announced the call, so this is sure."""

    id: Number
    seen: bool = False


class ErrorFrame(Frame, tag="trouble"):
    """Something is wrong on this side: `inbound` cannot be read, a `provider` cannot do what it was asked, the `runner`
    broke; `setup`: nothing can work before an operator has acted. `fatal`: these were its last words."""

    what: Name
    why: TroubleText
    fatal: bool = False


# From the host.


class SkillLine(msgspec.Struct, frozen=True, array_like=True):
    """A skill that a person agreed to, by its folder and what it is for."""

    name: Name
    about: ShortText = ""


class WelcomeFrame(Frame, tag="welcome"):
    """The identity of the runner that connected. Nothing here is secret."""

    session: ShortText
    folder: ShortText
    name: ShortText
    provider: ShortText
    model: ShortText = ""
    conversation: ConversationId = ""
    timezone: Name = "UTC"
    batch: Number = 20
    spans_rooms: bool = False
    options: FreeForm = {}
    pinned: LongText = ""  # a note that people want every turn to know
    rules: LongText = ""  # pinned for the group or the room: never to be lost from a conversation
    summary: LongText = ""  # of what was said before; for a conversation that begins
    managed: bool = False  # somebody made it to work for them, and sees it in a list
    transcript: Transcript = []  # of the session that this one was forked from; the same
    skills: Annotated[list[SkillLine], Meta(max_length=MOST_SKILLS)] = []  # as many as a prompt lists
    more_skills: Number = 0


class BellFrame(Frame, tag="bell"):
    """Look into inbound.db."""


class WatchFrame(Frame, tag="watch"):
    """Somebody watches the room of the turn, or nobody does any more: Draft is wanted, or not."""

    on: bool


class ClaimReplyFrame(Frame, tag="claimed"):
    """The answer to Claim. No rows: nothing for you now. `continued`: the turn broke off earlier; the system row among
    the rows lists what was already said and done. Without a `conversation` the prompt stands among the rows again.
    `fork`: the conversation is a copy of another session's; go on in a fork of it, if the provider can make one."""

    id: Number
    rows: Annotated[list[Number], Meta(max_length=MOST_GIVEN)] = []
    turn: TurnId = ""
    epoch: Number = 0
    attempt: Number = 1
    conversation: ConversationId = ""
    continued: bool = False
    begun: bool = False
    fork: bool = False


class AckFrame(Frame, tag="done"):
    """The answer to Begun, Result and Submit. `ok` false: not believed (an old epoch), stop working on that turn."""

    id: Number
    ok: bool = True
    seq: Number = 0
    error: ErrorText = ""


class FlushFrame(Frame, tag="flush"):
    """The agent calls this tool: hand over what it said before. Answered by FlushReply. `wait`: an agent that is a
    process of its own may call before we have read what it said; wait for its announcement of the call, in bounds."""

    id: Number
    tool: ShortText
    wait: bool = True


class InterruptFrame(Frame, tag="interrupt"):
    """End the running turn now."""

    reason: ShortText = ""


class PermissionAnswerFrame(Frame, tag="answer"):
    """The verdict on a permission request of the provider, allow or deny. `input`: what it may use instead of what it
    asked for; of a denial, the `reason`."""

    request: ShortText
    verdict: Name
    input: FreeForm = {}


class WrapUpFrame(Frame, tag="wrap_up"):
    """So long, and the running turn is ended."""

    seconds: float


class CloseFrame(Frame, tag="close"):
    """Finish and exit."""

    reason: ShortText = ""


FromRunner = (
    HelloFrame
    | ClaimFrame
    | RowsBegunFrame
    | ConversationStartedFrame
    | ResultFrame
    | StatusFrame
    | DraftFrame
    | EventFrame
    | SubmitTurnFrame
    | PingFrame
    | FlushReplyFrame
    | ErrorFrame
)
FromHost = (
    WelcomeFrame
    | BellFrame
    | WatchFrame
    | ClaimReplyFrame
    | AckFrame
    | FlushFrame
    | InterruptFrame
    | PermissionAnswerFrame
    | WrapUpFrame
    | CloseFrame
)

_encode = msgspec.json.Encoder().encode
_read_from_runner = msgspec.json.Decoder(FromRunner).decode
read_from_host = msgspec.json.Decoder(FromHost).decode


def bound_conversation(conversation: str) -> str:
    """Forget a conversation that an older version let in and no frame can hold; the agent begins another."""
    return conversation if len(conversation) <= LONGEST_CONVERSATION else ""


def encode_frame(frame: Frame) -> bytes:
    return _encode(frame) + b"\n"


def read_from_runner(raw: bytes) -> FromRunner:
    """One frame. Raises msgspec.DecodeError for everything that is none, or is beyond its bounds."""
    try:
        frame: FromRunner = _read_from_runner(raw)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
    if isinstance(frame, EventFrame) and len(raw) > LARGEST_EVENT:
        raise msgspec.ValidationError(f"an event of more than {LARGEST_EVENT} bytes")
    return frame
