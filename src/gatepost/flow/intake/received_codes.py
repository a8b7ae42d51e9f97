"""Codes that people send: of a pairing, of an invitation; and the commands that ask for what a code would give. They
work before the sender is known. No agent gets the message, and the ledger has it without the code."""

from collections.abc import Callable

from gatepost.core.records import replace
from gatepost.flow import invitations, onboarding, pairing
from gatepost.flow.codes import INVITATION, LONGEST_CODE, PAIRING
from gatepost.flow.intake import slash_commands
from gatepost.flow.intake.accepted_message import CodeKind, IntakeResult, MessageContext, ReceivedCode
from gatepost.flow.intake.slash_commands import CommandAction, SlashCommand
from gatepost.flow.onboarding import JoinResult
from gatepost.flow.pairing import PairingResult
from gatepost.flow.requests import unknown_senders
from gatepost.store.messages.inbox import InboxState
from gatepost.store.people import newcomers
from gatepost.store.rooms import direct_rooms

START = "/start"  # the command by which some platforms hand in what stands in a link to a bot
MASKS = {CodeKind.PAIR: PAIRING.masked, CodeKind.INVITE: INVITATION.masked}


def find_code(
    text: str,
    command: SlashCommand | None,
    page: Callable[[], str],
    *,
    direct: bool,
    own_names: frozenset[str] = frozenset(),
) -> ReceivedCode | None:
    """Return the code that a message is, or the wish for what one would give; None if it is neither. `page`: the
    address of the web page, '' if there is none. `direct`: nobody else reads the answer. `own_names`: what we are
    called."""
    rest = command.text.removeprefix(command.head).strip() if command is not None else ""
    if command is not None and command.act is CommandAction.PAIR:
        base = page() if direct and not rest else ""
        if base:
            return ReceivedCode(CodeKind.PAIRING_LINK, base)
        return ReceivedCode(CodeKind.PAIR, PAIRING.parse(rest))
    if command is not None and command.act is CommandAction.JOIN:
        return ReceivedCode(CodeKind.INVITE, INVITATION.parse(rest)) if rest else ReceivedCode(CodeKind.JOIN)
    if len(text) > LONGEST_CODE:
        return None
    alone = rest if command is not None and command.head == START else slash_commands.strip_mention(text, own_names)
    if (code := PAIRING.find(alone)) is not None:
        return ReceivedCode(CodeKind.PAIR, code)
    code = INVITATION.find(alone)
    return ReceivedCode(CodeKind.INVITE, code) if code is not None else None


def redeem(context: MessageContext, code: ReceivedCode) -> IntakeResult:
    """Do what a code is for. A sender without a valid one counts as a stranger, known or not."""
    result = _redeem(context, code)
    context.rules.renew(context.db)  # nothing that is read behind this write may be kept
    if result.said:
        context.add_notice(result.said, secret=result.secret if isinstance(result, PairingResult) else "")
    accepted = result.paired if isinstance(result, PairingResult) else result.accepted
    state = InboxState.ANSWERED if accepted or result.reason == pairing.LINK_GIVEN else InboxState.REFUSED
    ended = context.end(state, result.reason, "guest", notified=bool(result.said))
    if accepted:
        hurried = unknown_senders.hurry(context.db, context.arrival.inbound.sender, context.now)
        ended = replace(ended, hurried=hurried)
    if isinstance(result, PairingResult):
        return replace(ended, paired=accepted, stranger=not accepted)
    woken = onboarding.notify_approver(context, result.waits_for) if result.waits_for else ()
    return replace(ended, joined=result.joined, woken=woken, stranger=not accepted)


def _redeem(context: MessageContext, code: ReceivedCode) -> PairingResult | JoinResult:
    db, inbound, now = context.db, context.arrival.inbound, context.now
    room = (context.arrival.instance, inbound.address)
    if code.kind is CodeKind.INVITE:
        return invitations.accept(db, code.text, onboarding.make_applicant(context.arrival), now)
    if code.kind is CodeKind.JOIN:
        entrances = context.rules.read(db, newcomers.list_entrances)
        return onboarding.ask(db, entrances, onboarding.make_applicant(context.arrival), now)
    if code.kind is CodeKind.PAIRING_LINK and context.channels.is_local(context.arrival.instance):
        return pairing.redeem_code(db, "", inbound.sender, now)  # what people see there is the ledger
    if code.kind is CodeKind.PAIRING_LINK:
        return pairing.answer_with_link(db, inbound.sender, code.text, room, now)
    result = pairing.redeem_code(db, code.text, inbound.sender, now)
    if result.paired and inbound.direct:
        direct_rooms.add(db, inbound.sender, *room, now)
    return result
