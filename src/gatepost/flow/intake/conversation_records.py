"""Choices of a sender by a message for those that follow it in its room and thread. Written in the transaction of the
message."""

from collections.abc import Sequence

from gatepost.core.records import replace
from gatepost.flow.intake.accepted_message import IntakeResult, MessageContext, TargetAccess
from gatepost.flow.intake.target_decision import ChoiceChange
from gatepost.store import sticky_choices
from gatepost.store.inbox import InboxState
from gatepost.store.sticky_choices import StickyChoice

CHOSEN = "chosen"


def record_choice(
    case: MessageContext, change: ChoiceChange, choice: StickyChoice | None, admitted: Sequence[TargetAccess]
) -> IntakeResult:
    """What the sender chose is kept and confirmed; no agent gets the message."""
    inbound, first = case.arrival.inbound, admitted[0]
    old = choice or StickyChoice(case.arrival.instance, inbound.address, case.thread, inbound.sender)
    folder = old.folder if change.folder is None else change.folder
    topic = old.topic if change.topic is None else change.topic
    sticky_choices.put(case.db, replace(old, folder=folder, topic=topic, chosen_at=case.now))
    case.rules.renew(case.db)
    case.add_notice(render_choice(change))
    return case.end(InboxState.ANSWERED, CHOSEN, first.rights, first.folder, told=True)


def render_choice(change: ChoiceChange) -> str:
    """As its sender is told."""
    lines = []
    if change.folder is not None:
        to = f"From now on {change.folder} gets what you write here. Send @ alone to end that."
        lines.append(to if change.folder else "What you write here goes to the usual agent again.")
    if change.topic is not None:
        on = f"From now on what you write here belongs to the topic {change.topic}. Send # alone to end that."
        lines.append(on if change.topic else "What you write here belongs to no topic of its own any more.")
    return "\n".join(lines)
