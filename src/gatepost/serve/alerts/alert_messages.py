"""Messages about alerts: whom to tell, where, and the rows that say so. A message is written down in the
transaction that makes its message.

An owner reads it on the first of their channels that works, else another admin. E-mail and push notes come after the
chats, and the page last: it shows alerts anyway.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core.clock import MINUTE
from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config, setting, start_check
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, find_or_add
from gatepost.flow.requests.ask_approver import list_approvers
from gatepost.flow.sender_rights import read_operation_rights
from gatepost.messages import address as addresses
from gatepost.serve.alerts.alert_plan import AlertMessages, get_pause, is_undelivered
from gatepost.serve.alerts.conditions import render_alert, render_begin, render_over
from gatepost.store.gateways import alerts
from gatepost.store.gateways.alerts import Alert
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectOrigin, EffectState, OutboxEffect
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rooms import direct_rooms
from gatepost.store.rooms.direct_rooms import DirectRoom

LAST_ROOM = setting(
    "alerts.last_room",
    "",
    help="Where alerts are told if no owner or admin can be reached in a chat: an address such as"
    " ntfy:topic/alarms or email:mailbox/ann@example.com. Of a channel with another name: NAME=ADDRESS.",
)
READ = "alerts.read"
SLOW = frozenset({"email", "ntfy"})  # kinds that people look at later than at a chat
MOST_TOLD = 10  # people who are considered
MOST_NAMED = 3  # of those that share a message
FEW = 3  # messages that follow each other without a pause, each in another room
UNSENT = "it waited too long"
TEST = "This is a test: alerts of this gateway reach you here."
Room = tuple[str, str]  # instance and address


class AlertRoom(Struct, frozen=True):
    instance: str
    address: str


def read_last_room(config: Config) -> AlertRoom | None:
    """Raises SetupError."""
    said = config[LAST_ROOM].strip()
    if not said:
        return None
    name, equals, rest = said.partition("=")
    try:
        where = addresses.parse(rest if equals and ":" not in name else said, LAST_ROOM.name)
    except Invalid as error:
        raise SetupError(str(error)) from None
    return AlertRoom(name if equals and ":" not in name else where.platform, str(where))


@start_check
def check_last_room(home: Home, config: Config) -> None:
    read_last_room(config)


class WaysToPeople(Struct, frozen=True):
    """Through which messages go. `working`: the instances that work now."""

    channels: ChannelInstances
    working: Collection[str]
    last: AlertRoom | None = None


def list_rooms(db: Db, way: WaysToPeople) -> list[AlertRoom]:
    """Return where somebody can be told now, the best first."""
    owners = list_approvers(db, ROOT_FOLDER)[:MOST_TOLD]
    people = [*owners, *_list_admins(db, owners)][:MOST_TOLD]
    ranked = [(_rank(way, room, owners), people.index(room.user_id), -room.seen_at, room) for room in _find(db, people)]
    ranked.sort(key=lambda each: each[:3])
    every = [(rank, AlertRoom(room.instance, room.address)) for rank, _, _, room in ranked]
    if way.last is not None:
        every = sorted([*every, (_LAST, way.last)], key=lambda each: each[0])
    return [each for each in dict.fromkeys(room for _, room in every) if each.instance in way.working]


_OWNERS, _OTHERS, _SLOW, _LAST, _HERE = range(5)


def _rank(way: WaysToPeople, room: DirectRoom, owners: Collection[str]) -> int:
    if way.channels.is_local(room.instance):
        return _HERE
    if way.channels.get_kind(room.instance).name in SLOW:
        return _SLOW
    return _OWNERS if room.user_id in owners else _OTHERS


def _find(db: Db, people: Sequence[str]) -> list[DirectRoom]:
    return [each for each in direct_rooms.list_for_people(db, tuple(people)) if each.user_id in people]


def _list_admins(db: Db, owners: Collection[str]) -> list[str]:
    """Return the admins of the whole gateway who may see alerts."""
    holders = [each[0] for each in users.list_role_holders(db) if each[1] is UserRole.ADMIN and not each[2]]
    some = [each for each in dict.fromkeys(holders) if each not in owners][:MOST_TOLD]
    return [each for each in some if read_operation_rights(db, each).allows(f"op:{READ}", ROOT_FOLDER)]


def send(db: Db, way: WaysToPeople, planned: AlertMessages, now: int) -> tuple[Room, ...]:
    """Write down what is said, and to whom. The rooms to ring, once it is committed. An alert that nobody can be told
    waits."""
    alerts.forget(db, [each.id for each in planned.forgotten])
    alerts.end(db, [each.id for each in planned.ended], "", now)
    rooms = list_rooms(db, way)
    rung = list[Room]()
    for each in planned.begins:
        rung += _send_begin(db, way, rooms, [each], render_begin(each), now)
    if planned.begins_together:
        rung += _send_begin(db, way, rooms, planned.begins_together, _render_together(planned.begins_together), now)
    for each in planned.ends:
        rung += _send_end(db, way, rooms, [each], render_over(each), now)
    if planned.ends_together:
        count = len(planned.ends_together)
        text = f"{count} more alert{' is' if count == 1 else 's are'} over. Alerts below System has them all."
        rung += _send_end(db, way, rooms, planned.ends_together, text, now)
    return tuple(dict.fromkeys(rung))


def _render_together(some: Sequence[Alert]) -> str:
    named = [render_alert(each) for each in some[:MOST_NAMED]]
    rest = len(some) - len(named)
    more = [f"There are {rest} more."] if rest else []
    return " ".join([f"{len(some)} more things are not well.", *named, *more, "Alerts below System has them all."])


def _send_begin(
    db: Db, way: WaysToPeople, rooms: Sequence[AlertRoom], some: Sequence[Alert], text: str, now: int
) -> list[Room]:
    """A room in which the last message did not arrive comes after the others."""
    failed = _find_room(db, some[0].told_key) if some[0].told_key else None
    room = next((each for each in rooms if each != failed), rooms[0] if rooms else None)
    if room is None:
        return []
    key = f"notice:alert:{some[0].id}:{some[0].tries + 1}"
    _add(db, way, room, key, text, now)
    alerts.record_message(db, [each.id for each in some], key, room.instance, now)
    return [(room.instance, room.address)]


def _send_end(
    db: Db, way: WaysToPeople, rooms: Sequence[AlertRoom], some: Sequence[Alert], text: str, now: int
) -> list[Room]:
    """Return the chat where the begin was told, if that works. If the begin never went out, it is withdrawn, and
    nothing is said."""
    told = [each for each in some if not _withdraw(db, each, now)]
    alerts.end(db, [each.id for each in some if each not in told], "", now)
    if not told or not rooms:
        return []
    before = _find_room(db, told[0].told_key) if told[0].told_key else None
    room = before if before is not None and before in rooms else rooms[0]
    key = f"notice:alert:{told[0].id}:over"
    _add(db, way, room, key, text, now)
    alerts.end(db, [each.id for each in told], key, now)
    return [(room.instance, room.address)]


def _withdraw(db: Db, row: Alert, now: int) -> bool:
    """Only a message that tells of nothing else."""
    if row.told_key != f"notice:alert:{row.id}:{row.tries}":
        return False
    return bool(outbox.cancel_by_keys(db, [row.told_key], "it was over before", now))


def _find_room(db: Db, message_key: str) -> AlertRoom | None:
    found = outbox.find_by_key(db, message_key)
    return AlertRoom(found.instance, found.address) if found is not None else None


def _add(db: Db, way: WaysToPeople, room: AlertRoom, key: str, text: str, now: int) -> None:
    notice = OutgoingMessage(
        key=key, origin=EffectOrigin.NOTICE, instance=room.instance, address=room.address, text=text
    )
    find_or_add(db, way.channels, notice, now)


def list_undelivered(db: Db, way: WaysToPeople, rows: Sequence[Alert], now: int) -> list[tuple[OutboxEffect, int]]:
    """Return the messages that reached nobody, and how often it was tried. One that waits stays where it is if there is
    no other room."""
    tries = {each.told_key: each.tries for each in rows if each.told_at is not None}
    found = [(effect, count) for key, count in tries.items() if (effect := outbox.find_by_key(db, key)) is not None]
    missed = [each for each in found if _is_missed(way, each[0], now)]
    rooms = list_rooms(db, way) if missed else []
    return [each for each in missed if rooms or each[0].state is not EffectState.PENDING]


def _is_missed(way: WaysToPeople, effect: OutboxEffect, now: int) -> bool:
    return is_undelivered(effect.state, effect.created_at, effect.instance in way.working, now)


def withdraw_undelivered(db: Db, way: WaysToPeople, rows: Sequence[Alert], now: int) -> None:
    """Take back what reached nobody, so that it is told anew: elsewhere at once, in the same room after a pause."""
    for effect, tries in list_undelivered(db, way, rows, now):
        if effect.state is EffectState.PENDING and not outbox.cancel_by_keys(db, [effect.key], UNSENT, now):
            continue  # it is being sent now
        room = AlertRoom(effect.instance, effect.address)
        others = [each for each in list_rooms(db, way) if each != room]
        alerts.record_undelivered(db, effect.key, now if others and tries < FEW else now + get_pause(tries))


def send_test(db: Db, way: WaysToPeople, now: int) -> tuple[AlertRoom | None, tuple[Room, ...]]:
    """Send a message as an alert would be. Return where it goes, None if nobody can be reached. Once a minute."""
    room = next(iter(list_rooms(db, way)), None)
    if room is None:
        return None, ()
    _add(db, way, room, f"notice:alert:test:{now // MINUTE}", TEST, now)
    return room, ((room.instance, room.address),)
