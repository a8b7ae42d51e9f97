"""/stop: end what the agent is doing. Who is no owner or admin ends only what it does for herself."""

from msgspec import Struct

from gatepost.core.records import replace
from gatepost.flow.intake.accepted_message import IntakeResult
from gatepost.flow.intake.commands.contract import CommandCall, chat_command, is_commanding
from gatepost.flow.intake.slash_commands import CommandRight
from gatepost.flow.sessions.session_stop import KILL_TIME, stop_own_work, stop_session
from gatepost.store.outbox import OutboxEffect

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
    done = stop_conversations(call)
    if done.busy:
        call.case.add_notice(FOR_OTHERS)
    elif not done.notices:
        call.case.add_notice(NOT_RUNNING)
    ended = call.end(told=done.busy or not done.notices or bool(done.free))
    return replace(ended, stop=done.stop, end=done.end, notices=done.held)


class StoppedConversations(Struct, frozen=True, kw_only=True):
    """What was ended in the conversations of a chat. `stop`: all that they did and had waiting; `end`: what they did
    for the sender; `busy`: one of them works for somebody else."""

    stop: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    held: tuple[OutboxEffect, ...] = ()  # notices that wait for the end of a sandbox
    free: tuple[OutboxEffect, ...] = ()  # and those that need not
    busy: bool = False

    @property
    def notices(self) -> tuple[OutboxEffect, ...]:
        return self.held + self.free


def stop_conversations(call: CommandCall) -> StoppedConversations:
    case, by, names = call.case, call.case.arrival.inbound.sender, call.names
    stop: list[str] = []
    end: list[str] = []
    held: list[OutboxEffect] = []
    free: list[OutboxEffect] = []
    busy = False
    for target, session in call.list_sessions():
        if is_commanding(target):
            stop.append(session.id)
            notice = stop_session(case.db, case.reach, session.id, by, case.now, hold=KILL_TIME)
            held += [notice] if notice is not None else []
            continue
        done = stop_own_work(case.db, case.reach, session.id, names, by, case.now, hold=KILL_TIME)
        busy = busy or done.busy
        end += [session.id] if done.ended else []
        if done.notice is not None:
            (held if done.ended else free).append(done.notice)
    return StoppedConversations(stop=tuple(stop), end=tuple(end), held=tuple(held), free=tuple(free), busy=busy)
