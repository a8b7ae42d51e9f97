"""Messages that somebody wrote before they were let in go before what they write now. An invitation, a pairing, a role
or a route came while people were still asked about them or their room."""

from collections.abc import Sequence

from gatepost.flow.intake.accepted_message import MessageContext, TargetAccess, make_seen_room
from gatepost.flow.requests import unknown_rooms
from gatepost.flow.requests.held_messages import release_admitted
from gatepost.store import inbox, requests, waiting_requests
from gatepost.store.requests import RequestKind

LET_IN = "who wrote there was let in meanwhile"


def release_earlier(case: MessageContext, admitted: Sequence[TargetAccess]) -> tuple[str, ...]:
    """The sessions that have something to work on. A request for which nothing is held any more is withdrawn. It costs
    nothing if nobody is asked about this sender or room."""
    waiting = case.rules.read(case.db, waiting_requests.list_names_of_people)
    if not waiting or case.arrival.command is not None:
        return ()
    sender, nobodys = case.arrival.inbound.sender, unknown_rooms.NOBODYS
    concerned = [(RequestKind.SENDER, target.folder, sender) for target in admitted if not target.chosen.observe]
    if concerned:
        concerned.append((RequestKind.ROOM, nobodys, unknown_rooms.make_name(make_seen_room(case.arrival))))
    woken: list[str] = []
    for kind, folder, name in dict.fromkeys(concerned):
        if (kind, folder, name) in waiting:
            woken += _release(case, kind, folder, name)
    if woken:
        case.rules.renew(case.db)  # rooms were written: nothing that is read behind this may be kept if it is undone
    return tuple(dict.fromkeys(woken))


def _release(case: MessageContext, kind: RequestKind, folder: str, name: str) -> tuple[str, ...]:
    request = requests.find_last(case.db, kind, folder, name)
    if request is None:
        return ()
    held = inbox.list_held_for_request(case.db, folder, request.id)
    woken, left = release_admitted(case.db, case.reach, held, case.now)
    if held and not left:
        requests.withdraw(case.db, request.id, LET_IN, case.now)
    return woken
