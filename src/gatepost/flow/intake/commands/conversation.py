"""Commands about the conversation of a chat: /new and /clear begin it anew, /stop ends what the agent does, /compact
makes it shorter, and /fork gives it a second topic. The ledger keeps what was said.

A person who is no owner or admin ends only what is done for themselves.
"""

from msgspec import Struct

from gatepost.access.budgets import render_notice
from gatepost.core.errors import Invalid
from gatepost.core.records import replace
from gatepost.flow.intake.accepted_message import IntakeResult, TargetAccess
from gatepost.flow.intake.commands.contract import CommandCall, chat_command
from gatepost.flow.intake.slash_commands import CommandRight
from gatepost.flow.notices import STOPPED
from gatepost.flow.sessions import compaction
from gatepost.flow.sessions.forking import parse_topic
from gatepost.flow.sessions.session_stop import KILL_TIME, stop_own_work, stop_session, works_for
from gatepost.store.messages.outbox import OutboxEffect
from gatepost.store.money import costs, reservations
from gatepost.store.money.budgets import STOP, BudgetNotice
from gatepost.store.rights import requests, waiting_requests
from gatepost.store.rooms.origins import Origin
from gatepost.store.sessions import forks, sessions, turns
from gatepost.store.sessions.sessions import Session

CLEARED = "Cleared. The next message starts a new conversation."
OVER = "the conversation has ended"
BEGUN = "This is a new conversation. What was said before is not known in it."
BUSY = (
    "The agent is working for somebody else here. Say /new again when it has answered; an owner or an admin can use"
    " /clear."
)
SEVERAL_AGENTS = "Several agents are in this chat. Ask the one that you mean to fork its conversation."
NOTHING_TO_FORK = "There is no conversation here that could be forked."
COMPACTING = "The conversation is being made shorter."
NOTHING_TO_COMPACT = "There is no conversation to make shorter."
NOT_RUNNING = "Nothing is running here."
FOR_OTHERS = "The agent is working for somebody else here, and goes on. An owner or an admin can stop that."


@chat_command(
    "new",
    right=CommandRight.MEMBER,
    help="start a new conversation, with these words if there are any",
    usage="[TEXT]",
)
def start_new(call: CommandCall) -> IntakeResult:
    """End the sender's own work and begin anew. Messages of others wait for the new conversation; a turn for somebody
    else is not ended for it."""
    case, by, names, here = call.context, call.context.arrival.inbound.sender, call.names, call.list_sessions()
    for _, session in here:
        turn = turns.find_open(case.db, session.id)
        if turn is not None and not works_for(case.db, turn, names):
            return call.refuse(BUSY)
    done = [stop_own_work(case.db, case.channels, each.id, names, by, case.now, hold=KILL_TIME) for _, each in here]
    for _, session in here:
        _withdraw_own(call, session.id)
        sessions.remove_conversations(case.db, session.id, case.now)
    result = call.pass_on(BEGUN) if call.command.rest else call.answer(BEGUN)
    notices = tuple(each.notice for each in done if each.notice is not None)
    return replace(result, end=tuple(session.id for _, session in here), notices=notices)


def _withdraw_own(call: CommandCall, session_id: str) -> None:
    """Withdraw what agents asked while they worked for the sender, and what still waits after their turns."""
    person, db = call.names[0], call.context.db
    for request in waiting_requests.list_pending(db, session_id):
        if costs.find_payer(db, request.turn_id) == person:
            requests.withdraw(db, request.id, OVER, call.context.now)


@chat_command("clear", right=CommandRight.ADMIN, help="stop everything here, and forget the conversation")
def clear(call: CommandCall) -> IntakeResult:
    case, by = call.context, call.context.arrival.inbound.sender
    concerned = tuple(session.id for _, session in call.list_sessions())
    stopped = [
        stop_session(case.db, case.channels, session_id, by, case.now, hold=KILL_TIME, drop_decisions=True)
        for session_id in concerned
    ]
    for session_id in concerned:
        requests.withdraw_for_session(case.db, session_id, OVER, case.now)
        sessions.remove_conversations(case.db, session_id, case.now)
    notices = tuple(notice for notice in stopped if notice is not None)
    return replace(call.answer(CLEARED), clear=concerned, notices=notices)


@chat_command(
    "fork",
    right=CommandRight.MEMBER,
    help="fork this conversation: the topic (thread) that you name goes on with what was said here",
    usage="TOPIC",
)
def fork(call: CommandCall) -> IntakeResult:
    """The files are copied once this is committed, and the answer comes with the new conversation."""
    if len(call.targets) != 1:
        return call.refuse(SEVERAL_AGENTS)
    try:
        topic = parse_topic(call.command.rest.removeprefix("#"))
    except Invalid as error:
        return call.refuse(f"`/fork TOPIC`: {error.why}.")
    found = call.list_sessions()
    if not found:
        return call.refuse(NOTHING_TO_FORK)
    forks.add_wanted(call.context.db, call.context.id, found[0][1].id, topic)
    return replace(call.end(notified=False), forks=True)


@chat_command(
    "compact",
    right=CommandRight.ADMIN,
    help="make the conversation shorter; the words say what must be kept",
    usage="[WORDS]",
    needs_choices=True,
)
def compact(call: CommandCall) -> IntakeResult:
    """In a turn of its own, behind what runs and waits now."""
    db, now = call.context.db, call.context.now
    here = [(target, session) for target, session in call.list_sessions() if _has_conversation(call, session)]
    if not here:
        return call.answer(NOTHING_TO_COMPACT)
    for target, session in here:
        denied = reservations.find_spent_budget(db, target.folder, call.names[0], now, session.id)
        if denied is not None:
            return call.refuse(render_notice(BudgetNotice(STOP, denied.status)))
    for target, session in here:
        _add_compaction(call, target, session)
    return replace(call.answer(COMPACTING), wake=tuple(session.id for _, session in here))


def _has_conversation(call: CommandCall, session: Session) -> bool:
    provider = call.load_group(session.folder, session).provider
    return sessions.get_conversation(call.context.db, session.id, provider) != ""


def _add_compaction(call: CommandCall, target: TargetAccess, session: Session) -> None:
    case, spec = call.context, call.facts.choices.specs.get(call.load_group(target.folder, session).provider)
    who = Origin(case.arrival.inbound.sender, case.arrival.instance, case.arrival.inbound.address, case.thread)
    compaction.add_request(
        case.db,
        session,
        who,
        target.rights,
        f"compact/{case.id}/{session.id}",
        call.command.rest,
        case.now,
        native=spec is not None and spec.compacts,
    )


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
        call.context.add_notice(" ".join(texts))
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
    case, by, names = call.context, call.context.arrival.inbound.sender, call.names
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
