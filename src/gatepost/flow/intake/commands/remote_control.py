"""/remote-control: a one-time link to the live conversation on the web page, for the admin who asks.

The first to open the link is taken for that admin, so it is sent to them alone and is not in the ledger, which agents
can read. In a terminal or on the web page the gateway itself is the platform, and the ledger is what people see: the
link has no token there.
"""

from gatepost.core.clock import MINUTE
from gatepost.core.records import replace
from gatepost.flow.intake.accepted_message import IntakeResult
from gatepost.flow.intake.commands.contract import CommandCall, chat_command
from gatepost.flow.intake.slash_commands import CommandRight
from gatepost.flow.people.page_logins import ONCE, issue_for_person
from gatepost.messages.outbound import Op
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectOrigin, NewEffect
from gatepost.store.rights import audit
from gatepost.store.rooms import direct_rooms
from gatepost.store.rooms.direct_rooms import DirectRoom

NO_PAGE = "The web page is not served at an address here, so there is no link to it."
NO_CONVERSATION = "There is no conversation here yet. Say something to the agent first."
NO_DIRECT_ROOM = "I send such a link to you alone. Write to me in a direct chat first, then ask again."
SENT = "I have sent you the link in our direct chat."
HIDDEN = "(a one-time link to the conversation, which is not kept)"
PLACE = "{page}/session#{token}id={session}"


@chat_command(
    "remote-control",
    right=CommandRight.ADMIN,
    help="a link for you alone to this conversation on the web page: see what the agent does, stop it, type",
)
def give_link(call: CommandCall) -> IntakeResult:
    """Make a link that signs in exactly the person who asks, once, within ten minutes. Their rights are judged with
    each request."""
    page, here = call.facts.page, call.list_sessions()
    if not page:
        return call.refuse(NO_PAGE)
    if not here:
        return call.refuse(NO_CONVERSATION)
    case, session = call.context, here[0][1]
    if case.channels.is_local(case.arrival.instance):
        where = PLACE.format(page=page, token="", session=session.id)
        return call.answer(f"{where}\n`gatepost login` signs a browser in, if yours is not.")
    room = _find_direct_room(call)
    if room is None:
        return call.refuse(NO_DIRECT_ROOM)
    identity, token = issue_for_person(case.db, call.names[0], case.now)
    case.rules.renew(case.db)  # a new identity of theirs may have been written
    details = {"session": session.id, "folder": session.folder, "identity": identity}
    by = case.arrival.inbound.sender
    audit.append(case.db, audit.AuditRecord(case.now, by, "session.remote_control", "done", details))
    _send_link(call, room, PLACE.format(page=page, token=f"token={token}&", session=session.id))
    if room.address == case.arrival.inbound.address:
        return call.end(notified=True)
    return replace(call.answer(SENT), ring=((room.instance, room.address),))


def _find_direct_room(call: CommandCall) -> DirectRoom | None:
    """Return this room if nobody else is in it; else the one where the person last wrote alone, on this channel before
    others."""
    arrival, person = call.context.arrival, call.names[0]
    if arrival.inbound.direct:
        return DirectRoom(person, arrival.instance, arrival.inbound.address, call.context.now)
    known = direct_rooms.list_for_people(call.context.db, (person,))
    usable = [each for each in known if not call.context.channels.is_local(each.instance)]
    return next((each for each in usable if each.instance == arrival.instance), next(iter(usable), None))


def _send_link(call: CommandCall, room: DirectRoom, link: str) -> None:
    case = call.context
    text = f"Open this within {ONCE // MINUTE} minutes; it works once, and signs its opener in as you:\n{link}"
    same = room.address == case.arrival.inbound.address
    new = NewEffect(
        key=f"command/remote-control/{case.id}",
        op=Op.SEND,
        origin=EffectOrigin.NOTICE,
        instance=room.instance,
        address=room.address,
        thread=case.thread if same else "",
        text=HIDDEN,
        payload={"text": HIDDEN, "files": []},
        hidden={"text": text},
        target_id=case.id if same else None,
    )
    outbox.add(case.db, new, case.now)
