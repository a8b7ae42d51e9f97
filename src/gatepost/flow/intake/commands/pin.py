"""/pin: pin the message that is answered, or keep a note that the agent sees with each turn of this conversation."""

from gatepost.core.records import replace
from gatepost.flow.intake.accepted_message import IntakeResult, find_or_add_session
from gatepost.flow.intake.commands.contract import CommandCall, chat_command
from gatepost.flow.intake.routed_message import find_quoted
from gatepost.flow.intake.slash_commands import CommandRight
from gatepost.messages.inbound import Direction
from gatepost.messages.outbound import Feature, Op
from gatepost.store.messages import messages, outbox
from gatepost.store.messages.outbox import EffectOrigin, NewEffect
from gatepost.store.rights import audit
from gatepost.store.sessions import sessions

LONGEST_NOTE = 2000  # characters
OFF = frozenset({"off", "none"})
NOTHING = "Nothing is pinned for the agent here. `/pin TEXT` pins a note that it sees with each turn."
NO_PINS = "Messages cannot be pinned in this chat. `/pin TEXT` keeps a note for the agent instead."
NOT_KNOWN = "I do not know the message that you answered, so I cannot pin it."


@chat_command(
    "pin",
    right=CommandRight.MEMBER,
    help="pin the message that you answer, or a note for the agent; alone it shows the note, `off` removes it",
    usage="[TEXT]",
)
def pin(call: CommandCall) -> IntakeResult:
    wanted = call.command.rest
    if call.context.arrival.inbound.reply_to is not None and not wanted:
        return _pin_message(call)
    if not wanted:
        return call.answer(_render_notes(call))
    if len(wanted) > LONGEST_NOTE:
        return call.refuse(f"A note has at most {LONGEST_NOTE} characters; this one has {len(wanted)}.")
    return _set_note(call, "" if wanted.lower() in OFF else wanted)


def _set_note(call: CommandCall, text: str) -> IntakeResult:
    db, by = call.context.db, call.context.arrival.inbound.sender
    if text:
        changed = [find_or_add_session(call.context, target.chosen) for target in call.targets]
    else:
        changed = [session for _, session in call.list_sessions()]
    for session in changed:
        sessions.set_pinned_note(db, session.id, text, by)
        details = {"session": session.id, "folder": session.folder, "characters": len(text)}
        audit.append(db, audit.AuditRecord(call.context.now, by, "session.pin", "done", details))
    said = "Pinned. The agent sees it with each turn from the next one on." if text else "Nothing is pinned any more."
    return replace(call.answer(said), renew=tuple(session.id for session in changed))


def _render_notes(call: CommandCall) -> str:
    found = [sessions.get_notes(call.context.db, session.id) for _, session in call.list_sessions()]
    texts = dict.fromkeys(f"Pinned by {each.pinned_by}:\n{each.pinned}" for each in found if each.pinned)
    return "\n\n".join(texts) or NOTHING


def _pin_message(call: CommandCall) -> IntakeResult:
    """On the platform, by an effect of the outbox like an agent's own."""
    case = call.context
    instance, address = case.arrival.instance, case.arrival.inbound.address
    if Feature.PIN not in case.channels.get_kind(instance).features:
        return call.refuse(NO_PINS)
    named = find_quoted(case.arrival.inbound)
    candidates = (messages.find(case.db, instance, address, way, named) for way in (Direction.OUT, Direction.IN))
    found = next((message for message in candidates if message is not None), None) if named else None
    if found is None:
        return call.refuse(NOT_KNOWN)
    new = NewEffect(
        key=f"command/pin/{case.id}",
        op=Op.PIN,
        origin=EffectOrigin.NOTICE,
        instance=instance,
        address=address,
        thread=found.thread,
        text="",
        payload={},
        folder=call.folder,
        target_id=found.id,
    )
    outbox.add(case.db, new, case.now)
    return call.end(notified=True)
