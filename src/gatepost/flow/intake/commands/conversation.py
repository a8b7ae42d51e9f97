"""/new and /clear: a conversation from the beginning. The ledger keeps what was said."""

from gatepost.core.records import replace
from gatepost.flow.intake.accepted_message import IntakeResult
from gatepost.flow.intake.commands.contract import CommandCall, chat_command
from gatepost.flow.intake.slash_commands import CommandRight
from gatepost.flow.sessions.session_stop import KILL_TIME, stop_own_work, stop_session, works_for
from gatepost.store.money import costs
from gatepost.store.rights import requests, waiting_requests
from gatepost.store.sessions import sessions, turns

CLEARED = "Cleared. The next message starts a new conversation."
OVER = "the conversation has ended"
BEGUN = "This is a new conversation. What was said before is not known in it."
BUSY = (
    "The agent is working for somebody else here. Say /new again when it has answered; an owner or an admin can use"
    " /clear."
)


@chat_command(
    "new",
    right=CommandRight.MEMBER,
    help="start a new conversation, with these words if there are any",
    usage="[TEXT]",
)
def start_new(call: CommandCall) -> IntakeResult:
    """End the sender's own work and begin anew. Messages of others wait for the new conversation; a turn for somebody
    else is not ended for it."""
    case, by, names, here = call.case, call.case.arrival.inbound.sender, call.names, call.list_sessions()
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
    person, db = call.names[0], call.case.db
    for request in waiting_requests.list_pending(db, session_id):
        if costs.find_payer(db, request.turn_id) == person:
            requests.withdraw(db, request.id, OVER, call.case.now)


@chat_command("clear", right=CommandRight.ADMIN, help="stop everything here, and forget the conversation")
def clear(call: CommandCall) -> IntakeResult:
    case, by = call.case, call.case.arrival.inbound.sender
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
