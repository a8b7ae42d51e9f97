"""The begin of an incarnation: what a restored or copied store has in flight is held, and the owner gets one card.

Nothing goes out twice by itself: what may have been said, done or answered before waits until somebody decides.
"""

from collections.abc import Mapping

from msgspec import Struct

from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core.clock import iso
from gatepost.core.records import replace
from gatepost.core.settings import setting
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake.room_records import SeenRoom
from gatepost.flow.notices import add_owner_notices
from gatepost.flow.requests import unknown_rooms
from gatepost.flow.requests.ask_approver import AskedRequest, AskingRules, ask
from gatepost.flow.requests.card_delivery import mark_restored
from gatepost.flow.requests.held_messages import HeldMessages, release_admitted
from gatepost.flow.schedule.firing import schedule_of
from gatepost.flow.schedule.times import list_due
from gatepost.store.gateways import database_lives, incarnations
from gatepost.store.gateways.incarnations import Incarnation, IncarnationReason
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxEntry, InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.people import logins, pairing_codes
from gatepost.store.port import Db
from gatepost.store.rights import requests, tokens, waiting_requests
from gatepost.store.rights.requests import NewRequest, Request, RequestKind, RequestState
from gatepost.store.rooms import channel_cursors
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import FiringState
from gatepost.store.schedule.tasks import TaskState

NOW, KEEP = "now", "keep"
CURSORS = setting(
    "restore.cursors",
    NOW,
    help="From where channels receive after a restore or a copy: from now on, or (keep) from where the backup was,"
    " which brings again what was answered since.",
    choices=(NOW, KEEP),
)
_SHOW = (
    "`gatepost ledger list --state held` shows messages that wait, `--state uncertain` those that were perhaps said."
)
_BACK = (
    "Rights, tokens and links that were taken away since then are valid again, as are people who were forgotten or"
    " kept out. Everybody was signed out, and open invitations were withdrawn."
)
_TOLD = {
    IncarnationReason.RESTORED: "This gateway was restored from a backup",
    IncarnationReason.COPIED: "This gateway runs on a copy of a store",
    IncarnationReason.ROLLED_BACK: "This gateway was started from an older state of its store",
}


class BegunIncarnation(Struct, frozen=True):
    """`rooms`: to be woken once it is committed. `said`: in one line, for the start and the doctor."""

    incarnation: Incarnation
    rooms: tuple[tuple[str, str], ...]
    said: str


class _RowsInFlight(Struct, frozen=True):
    """The rows that one request decides about, all held. `waiting`: (row, message) of what is to be answered."""

    effects: list[int]
    waiting: list[tuple[int, int]]
    calls: list[str]
    due: list[str] = []

    @property
    def count(self) -> int:
        return len(self.effects) + len(self.waiting) + len(self.calls) + len(self.due)


def _ask_about(
    db: Db,
    channels: ChannelInstances,
    rules: AskingRules,
    rows: _RowsInFlight,
    now: int,
    *,
    name: str,
    why: str,
    about: Mapping[str, int],
) -> AskedRequest:
    """Show the owner one card about them. `about`: how many there are of each kind, in words."""
    new = NewRequest(
        kind=RequestKind.RESTORED,
        name=name,
        folder=ROOT_FOLDER,
        input={kind: str(count) for kind, count in about.items() if count},
        why=why,
        quorum=1,
    )
    asked = ask(db, channels, rules, new, now)
    incarnations.hold_waiting(db, rows.waiting, asked.request.id, asked.request.expires_at or now, now)
    incarnations.add_rows(db, asked.request.id, rows.effects, rows.calls, rows.due)
    return asked


def begin_incarnation(
    db: Db,
    channels: ChannelInstances,
    rules: AskingRules,
    reason: IncarnationReason,
    now: int,
    *,
    source: str = "",
    keep_cursors: bool = False,
) -> BegunIncarnation:
    """Before anything is delivered, received or woken. `source`: what the store was made from, for people."""
    last = incarnations.find_last_change(db)
    if reason is IncarnationReason.ROLLED_BACK and last is not None:
        source = "; ".join(filter(None, [f"its last change was at {iso(last)}", source]))
    effects = incarnations.hold_effects(db, channels.list_local(), now)
    ended = incarnations.end_turns(db, incarnations.REASON, now)
    waiting, calls = incarnations.list_waiting(db), incarnations.list_allowed_calls(db)
    incarnations.hold_calls(db, calls, now)
    rows = _RowsInFlight(effects, waiting, calls, incarnations.hold_tasks(db, incarnations.REASON, now))
    if not keep_cursors:
        channel_cursors.remove_positions(db)
    _end_ways_in(db, now)
    # What expired since the backup was decided, perhaps: no agent is told that nobody did.
    asked_before = waiting_requests.postpone(db, max(now - last, 0) if last is not None else 0)
    request_id, rooms = "", tuple[tuple[str, str], ...]()
    if rows.count:
        about = {
            "perhaps said before": len(effects),
            "not answered": len(waiting),
            "perhaps answered before": len(ended),
            "allowed, perhaps not done": len(calls),
            "tasks that perhaps ran": len(rows.due),
            "asked, perhaps decided before": asked_before,
        }
        why = f"{_describe(reason, source)}. Whatever was said since then is not known here. {_BACK} {_SHOW}"
        asked = _ask_about(db, channels, rules, rows, now, name=f"incarnation {now}", why=why, about=about)
        request_id, rooms = asked.request.id, asked.rooms
    begun = incarnations.add(db, reason, source, request_id, now)
    if not request_id:
        rooms = add_owner_notices(db, channels, f"incarnation:{now}", f"{render_incarnation(begun)}. {_BACK}", now)
    rooms = tuple(dict.fromkeys((*rooms, *mark_restored(db, channels, now))))
    return BegunIncarnation(begun, rooms, render_incarnation(begun, rows.count))


def hold_group(
    db: Db, channels: ChannelInstances, rules: AskingRules, folder: str, source: str, now: int
) -> tuple[tuple[str, str], ...]:
    """Hold what one group has in flight, before it is put back. The rooms to ring."""
    effects = incarnations.hold_effects(db, channels.list_local(), now, folder)
    ended = incarnations.end_turns(db, incarnations.REASON, now, folder)
    waiting, calls = incarnations.list_waiting(db, folder), incarnations.list_allowed_calls(db, folder)
    incarnations.hold_calls(db, calls, now)
    rows = _RowsInFlight(effects, waiting, calls)
    if not rows.count:
        return ()
    about = {
        "perhaps said before": len(effects),
        "not answered": len(waiting),
        "perhaps answered before": len(ended),
        "allowed, perhaps not done": len(calls),
    }
    why = f"{folder} was put back from a backup: {source}. {_SHOW}"
    return _ask_about(db, channels, rules, rows, now, name=f"group {folder} {now}", why=why, about=about).rooms


def _end_ways_in(db: Db, now: int) -> None:
    """End what may have been ended or used since: a browser that somebody signed out because it was stolen, and codes
    that let somebody in once. It is made anew in a moment."""
    logins.remove_every(db)
    pairing_codes.remove_unused(db)
    tokens.revoke_counted(db, now)


def ask_about_failover(db: Db, channels: ChannelInstances, rules: AskingRules, now: int) -> tuple[tuple[str, str], ...]:
    """Ask about what is held since the database failed over. The rooms to ring."""
    life = database_lives.find_unasked(db)
    if life is None:
        return ()
    effects, waiting = database_lives.list_held(db), database_lives.list_waiting(db)
    calls, due = incarnations.pop_failover_rows(db)
    rows = _RowsInFlight(effects, waiting, calls, due)
    about = {
        "perhaps said before": len(effects),
        "perhaps answered before": max(0, life.held - len(effects) - len(calls) - len(due)),
        "allowed, perhaps not done": len(calls),
        "tasks that perhaps ran": len(due),
    }
    why = f"The database failed over to a standby that may have forgotten the last moments. {_SHOW}"
    asked = _ask_about(db, channels, rules, rows, now, name=f"failover {life.name}", why=why, about=about)
    database_lives.set_request(db, life.name, asked.request.id)
    return asked.rooms


def _describe(reason: IncarnationReason, source: str) -> str:
    return f"{_TOLD.get(reason, 'This gateway begins anew')}{f' ({source})' if source else ''}"


def describe_incarnation(begun: Incarnation) -> str:
    return f"{_describe(begun.reason, begun.source)}, noticed at {iso(begun.begun_at)}"


def render_incarnation(begun: Incarnation, held: int | None = None) -> str:
    """In one line. `held`: how many things are; None: it is not known any more."""
    said = describe_incarnation(begun)
    if not begun.request_id:
        return f"{said}; nothing was under way"
    count = "what was under way is" if held is None else f"what was under way ({held}) is"
    return f"{said}; {count} held until you decide: `gatepost permit ls` ({begun.request_id})"


def follow(
    db: Db, channels: ChannelInstances, request: Request, now: int
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Do what was decided. The rooms to ring, and the sessions to wake. If nobody decided, nothing is sent: messages
    have failed, and can be given again one by one."""
    requests.settle(db, request.id, now)
    requests.record_notified(db, request.id, now)
    _go_on_with_tasks(db, request, now)
    if request.state is RequestState.ALLOWED:
        incarnations.release_calls(db, request.id)
        rooms = incarnations.release_effects(db, request.id, now)
        unrouted = [each for each in inbox.list_waiting_for(db, request.id) if each[0].session_id is None]
        woken = (*incarnations.release_waiting(db, request.id, now), *_release_unrouted(db, channels, unrouted, now))
        return tuple(sorted(rooms)), tuple(dict.fromkeys(woken))
    if request.state is RequestState.DENIED:
        incarnations.cancel_effects(db, request.id, now)
        incarnations.end_waiting(db, request.id, InboxState.CANCELLED, now)
    else:
        incarnations.end_waiting(db, request.id, InboxState.FAILED, now)
    return (), ()


def _release_unrouted(db: Db, channels: ChannelInstances, held: HeldMessages, now: int) -> tuple[str, ...]:
    """A message that waited for a word about its sender or room goes on waiting, unless it would be let in by now. The
    sessions to wake."""
    asked = {entry.id: _find_question(db, entry, message) for entry, message in held}
    named = [(replace(entry, reason=found.id) if (found := asked[entry.id]) else entry, each) for entry, each in held]
    woken, left = release_admitted(db, channels, named, now)
    for entry, message in left:
        found = asked[entry.id]
        if found is not None and found.state is RequestState.PENDING:
            incarnations.hold_waiting(db, [(entry.id, message.id)], found.id, found.expires_at or now, now)
        else:
            inbox.set_state(db, entry.id, InboxState.REFUSED, "no_route", None, now)
    return woken


def _find_question(db: Db, entry: InboxEntry, message: Message) -> Request | None:
    """Return the request by which somebody decides about the sender of a message, or about its room."""
    if entry.folder != unknown_rooms.NOBODYS:
        return requests.find_last(db, RequestKind.SENDER, entry.folder, message.sender)
    room = unknown_rooms.make_name(SeenRoom(message.instance, message.address))
    return requests.find_last(db, RequestKind.ROOM, unknown_rooms.NOBODYS, room)


def _go_on_with_tasks(db: Db, request: Request, now: int) -> None:
    """A task runs late by its own rule if that was allowed. Else the times that have come are skipped."""
    for task_id in incarnations.list_tasks(db, request.id):
        task = tasks.get(db, task_id)
        if task is None or task.state is not TaskState.PAUSED or task.reason not in incarnations.REASONS:
            continue  # somebody has decided about this one
        assert task.next_at is not None  # it was due
        if request.state is RequestState.ALLOWED:
            tasks.set_state(db, task_id, TaskState.ACTIVE, "", task.next_at, now)
            continue
        firings.add(db, task_id, task.next_at, now, FiringState.SKIPPED, task.reason)
        coming = list_due(schedule_of(task), task.next_at, now, 1).next
        state = TaskState.ACTIVE if coming is not None else TaskState.CANCELLED
        tasks.set_state(db, task_id, state, "" if coming is not None else task.reason, coming, now)
