"""/stop: end what the agent is doing. A person who is no owner or admin ends only what it does for themselves."""

from msgspec import Struct

from gatepost.core.records import replace
from gatepost.flow.intake.accepted_message import IntakeResult
from gatepost.flow.intake.commands.contract import CommandCall, chat_command
from gatepost.flow.intake.slash_commands import CommandRight
from gatepost.flow.notices import STOPPED
from gatepost.flow.sessions.session_stop import KILL_TIME, stop_own_work, stop_session
from gatepost.store.messages.outbox import OutboxEffect

NOT_RUNNING = "Nothing is running here."
FOR_OTHERS = "The agent is working for somebody else here, and goes on. An owner or an admin can stop that."


@chat_command(
    "stop",
    right=CommandRight.EVERYBODY,
    help="end what the agent is doing for you; owners and admins end whatever it does",
    urgent=True,
    as_word=True,
)
def stop(call: CommandCall) -> IntakeResult:
    """Here and not afterwards: a stop that was accepted is carried out, whatever happens to this process."""
    stopped = _stop_conversations(call)
    texts = [STOPPED] if stopped.withdrawn and not stopped.notices else []
    texts += [FOR_OTHERS] if stopped.busy else []
    if not texts and not stopped.notices:
        texts = [NOT_RUNNING]
    if texts:
        call.case.add_notice(" ".join(texts))
    return replace(call.end(notified=bool(texts)), stop=stopped.stop, end=stopped.end, notices=stopped.notices)


class StoppedConversations(Struct, frozen=True, kw_only=True):
    """The conversations of a chat that were ended. `stop`: all that they did and had waiting; `end`: what they did for
    the sender; `busy`: one of them works for somebody else."""

    stop: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    notices: tuple[OutboxEffect, ...] = ()  # they wait for the end of a sandbox
    withdrawn: int = 0  # messages of the sender's that waited
    busy: bool = False


def _stop_conversations(call: CommandCall) -> StoppedConversations:
    case, by, names = call.case, call.case.arrival.inbound.sender, call.names
    stop: list[str] = []
    end: list[str] = []
    notices: list[OutboxEffect | None] = []
    withdrawn, busy = 0, False
    for target, session in call.list_sessions():
        if target.may_end_all:
            stop.append(session.id)
            notices.append(stop_session(case.db, case.channels, session.id, by, case.now, hold=KILL_TIME))
            continue
        done = stop_own_work(case.db, case.channels, session.id, names, by, case.now, hold=KILL_TIME)
        withdrawn, busy = withdrawn + done.withdrawn, busy or done.busy
        end += [session.id] if done.notice is not None else []
        notices.append(done.notice)
    sent = tuple(each for each in notices if each is not None)
    return StoppedConversations(stop=tuple(stop), end=tuple(end), notices=sent, withdrawn=withdrawn, busy=busy)
