"""/compact: make the conversation shorter, so that the agent has room again."""

from gatepost.access.budgets import render_notice
from gatepost.core.records import replace
from gatepost.flow.intake.accepted_message import IntakeResult, TargetAccess
from gatepost.flow.intake.commands.contract import CommandCall, chat_command
from gatepost.flow.intake.slash_commands import CommandRight
from gatepost.flow.sessions import compaction
from gatepost.store.money import reservations
from gatepost.store.money.budgets import STOP, BudgetNotice
from gatepost.store.rooms.origins import Origin
from gatepost.store.sessions import sessions
from gatepost.store.sessions.sessions import Session

ASKED = "The conversation is being made shorter."
NOTHING = "There is no conversation to make shorter."


@chat_command(
    "compact",
    right=CommandRight.ADMIN,
    help="make the conversation shorter; the words say what must be kept",
    usage="[WORDS]",
    needs_choices=True,
)
def compact(call: CommandCall) -> IntakeResult:
    """In a turn of its own, behind what runs and waits now."""
    db, now = call.case.db, call.case.now
    here = [(target, session) for target, session in call.list_sessions() if _has_conversation(call, session)]
    if not here:
        return call.answer(NOTHING)
    for target, _ in here:
        denied = reservations.find_spent_budget(db, target.folder, call.names[0], now)
        if denied is not None:
            return call.refuse(render_notice(BudgetNotice(STOP, denied.status)))
    for target, session in here:
        _add_request(call, target, session)
    return replace(call.answer(ASKED), wake=tuple(session.id for _, session in here))


def _has_conversation(call: CommandCall, session: Session) -> bool:
    provider = call.load_group(session.folder, session).provider
    return sessions.get_conversation(call.case.db, session.id, provider) != ""


def _add_request(call: CommandCall, target: TargetAccess, session: Session) -> None:
    case, spec = call.case, call.facts.choices.specs.get(call.load_group(target.folder, session).provider)
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
