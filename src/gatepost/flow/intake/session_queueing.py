"""The ways of an accepted message: an inbox row for each session that it is for, and what these need to answer it."""

from collections.abc import Sequence

from gatepost.access.senders import Rights, is_person
from gatepost.access.tree_scope import is_sibling, may_watch
from gatepost.flow import panic_notice
from gatepost.flow.intake.accepted_message import IntakeResult, MessageContext, TargetAccess, make_seen_room, place_of
from gatepost.flow.intake.room_records import add_destination
from gatepost.flow.intake.routing import RouteChoice
from gatepost.messages.inbound import Receipt
from gatepost.store import direct_rooms, groups, inbox, messages, rooms, sessions, switches, watchers
from gatepost.store.inbox import InboxState
from gatepost.store.rooms import Room
from gatepost.store.sessions import Session, SessionMode

MOST_WATCHING = 5  # conversations of one group that are shown what it watches: the busiest


def deliver(case: MessageContext, targets: Sequence[TargetAccess], room: Room | None) -> IntakeResult:
    """One inbox row per session; of two routes to the same one, that which wakes it counts."""
    arrival, db = case.arrival, case.db
    if room is None:
        _add_room(case)
    if arrival.inbound.direct and is_person(arrival.inbound.sender):
        _record_direct_room(case)
    if topic := next((each.chosen.topic for each in targets if each.chosen.topic), ""):
        messages.set_topic(db, case.id, topic)
    queued: dict[str, bool] = {}  # by session: whether it is woken
    keys: set[str] = set()
    for target in sorted(targets, key=lambda each: each.chosen.observe):
        chosen = target.chosen
        place = (chosen.mode, chosen.folder, arrival.instance, *place_of(case, chosen))
        if (key := sessions.key_of(*place)) in keys:
            continue
        keys.add(key)
        claimed = sessions.claim_seq_by_key(db, key, case.now)
        if claimed is None:
            sessions.find_or_add(db, *place, case.now)
            claimed = sessions.claim_seq_by_key(db, key, case.now)
            assert claimed is not None
        queued[claimed.session_id] = not chosen.observe
        if claimed.created_at == case.now or chosen.mode == SessionMode.AGENT_SHARED:
            _add_destination(case, chosen)
        window = chosen.route.window_messages, chosen.route.window_chars
        speaks_of_it = chosen.observe or window != (None, None)
        if speaks_of_it and window != claimed.window:
            sessions.set_window(db, claimed.session_id, *window)
        record = inbox.observe if chosen.observe else inbox.enqueue
        record(db, case.id, claimed.session_id, chosen.folder, target.rights, case.now, seq=claimed.seq)
    for session, rights, source in _find_watchers(case, targets):
        if session.id not in queued:
            queued[session.id] = False
            inbox.observe(db, case.id, session.id, session.folder, rights, case.now, watched=source)
    wake = tuple(session_id for session_id, triggers in queued.items() if triggers)
    state = InboxState.QUEUED if wake else InboxState.OBSERVED
    halted = case.rules.read(db, switches.get, switches.PANIC) if wake else None
    if halted is not None:
        address = arrival.inbound.address
        panic_notice.add_panic_notice(db, case.reach, halted, arrival.instance, address, case.thread, case.now)
    receipt = Receipt(message_id=case.id, new=True, state=state)
    return IntakeResult(receipt=receipt, delivered=True, wake=wake, told=halted is not None)


def find_or_add_session(case: MessageContext, chosen: RouteChoice) -> Session:
    """The conversation that a message here would go to, made as such a message would make it."""
    arrival, db = case.arrival, case.db
    if case.rules.read(db, rooms.get, arrival.instance, arrival.inbound.address) is None:
        _add_room(case)
    place = (chosen.mode, chosen.folder, arrival.instance, *place_of(case, chosen))
    session = sessions.find_or_add(db, *place, case.now)
    if session.created_at == case.now:
        _add_destination(case, chosen)
    return session


def _add_room(case: MessageContext) -> None:
    arrival = case.arrival
    name, direct, policy = arrival.inbound.room_name, arrival.inbound.direct, case.reach.policy(arrival.instance)
    rooms.add(case.db, arrival.instance, arrival.inbound.address, name, direct, policy, case.now)
    case.rules.renew(case.db)  # nothing that is read behind this write may be kept if it is undone


def _find_watchers(case: MessageContext, targets: Sequence[TargetAccess]) -> list[tuple[Session, Rights, str]]:
    """The conversations of groups that watch one of these: it is context for each that is going on. A group that was
    sealed since is watched no more. What a group only observes is shown to siblings alone, to whom it opened itself."""
    found = []
    for target in targets:
        for observer in case.rules.read(case.db, watchers.list_observers, target.folder):
            source = case.rules.read(case.db, groups.get, target.folder)
            if source is None or not may_watch(observer, target.folder, open=source.open):
                continue
            if not target.chosen.observe or is_sibling(observer, target.folder):
                open_ones = sessions.list_open(case.db, observer, MOST_WATCHING)
                found += [(each, target.rights, target.folder) for each in open_ones]
    return found


def _add_destination(case: MessageContext, chosen: RouteChoice) -> None:
    add_destination(case.db, chosen.folder, chosen.mode, make_seen_room(case.arrival), case.thread, case.now)


def _record_direct_room(case: MessageContext) -> None:
    """Where the sender can be reached alone: the room of the channel in which they wrote last."""
    sender, instance, address = case.arrival.inbound.sender, case.arrival.instance, case.arrival.inbound.address
    if case.rules.read(case.db, direct_rooms.find_address, sender, instance) != address:
        direct_rooms.add(case.db, sender, instance, address, case.now)
        case.rules.renew(case.db)
