"""Activity: everything that happened, in words, to each caller as far as their rights let them see.

Four tables are gone through at once, from the newest row back, in portions. A page ends where one of them was looked at
only so far, since something of it may lie in between. A rare filter costs no more than none: a look has an end.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from gatepost.access.operation_rights import OperationRights, includes
from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core.errors import Invalid
from gatepost.core.languages.catalogue import ENGLISH, current_language, speaking, translate_exact
from gatepost.core.records import replace
from gatepost.flow import activity_words as words
from gatepost.flow.pairing import ACTION as PAIRED
from gatepost.flow.sender_rights import read_operation_rights
from gatepost.messages.inbound import OPERATOR, Direction, MessageKind
from gatepost.serve.control.arguments.activity import ActivityEntry, ActivityKind, ActivityPage, ListActivityArgs
from gatepost.serve.control.arguments.ledger import LEDGER_READ
from gatepost.serve.control.arguments.logs import AUDIT_READ
from gatepost.serve.control.arguments.users import USERS_READ
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.serve.control.operations.ledger import parse_since
from gatepost.store import search
from gatepost.store.messages.inbox import WATCHED, InboxMode, InboxState
from gatepost.store.messages.outbox import EffectState
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.rights.requests import Request, RequestKind
from gatepost.store.schedule.firings import FiringState
from gatepost.store.search import SearchQuery, Subtree
from gatepost.store.sessions import groups
from gatepost.store.sessions.groups import Group
from gatepost.store.web import activity
from gatepost.store.web.activity import AuditRow, CostRow, FiringRow, MessageRow, MessageTarget

BUDGETS_READ, TASKS_READ = "budgets.read", "tasks.read"
PORTION, MOST_ROWS = 500, 5_000  # of one table: read at once, and in one look
MOST_AGENTS = 200  # that are named for a choice
MOST_HITS = 200  # messages that a search finds
READ_S = 5.0
NEWEST = 2**62
AGENT, PEER, DECIDED = "agent:", "peer:", "request.decide"
_CURSOR = re.compile(r"m(\d{1,19})\.a(\d{1,19})\.c(\d{1,19})\.f(\d{1,19})\Z", re.ASCII)
_TABLES = ("messages", "audit", "costs", "firings")  # in the order of a cursor
_RIGHTS = {"messages": LEDGER_READ, "audit": AUDIT_READ, "costs": BUDGETS_READ, "firings": TASKS_READ}
_OF_KIND = {
    ActivityKind.MESSAGE: {"messages"},
    ActivityKind.COST: {"costs"},
    ActivityKind.TASK: {"audit", "firings"},
    ActivityKind.TROUBLE: {"messages", "audit", "firings"},
}
# Tool calls that are told as the messages that they send.
_TOLD = frozenset({"send", "reply", "post", "send_file", "send_voice", "send_card"})
CALL_FAILED = "failed"  # in the audit log's own words
_INTERNAL = ("audit.", "gateway.takeover", "intake")
_PERSON_FIELDS = ("user", "person", "id", "sender", "member")
_NAME_FIELDS = ("host", "path", "title", "name", "label")
LONGEST_NAME = 80  # characters of it
_ROOM_FIELDS = ("chatJid", "targetJid", "jid", "toJid", "room", "address")


@operation
async def list_activity(deps: OperationDeps, args: ListActivityArgs) -> ActivityPage:
    lane = f"activity {deps.caller}"  # whoever asks again and again waits for themselves
    language = current_language.get()  # of the caller: a look has a thread of its own
    now = deps.clock.now()
    return await deps.store.read(read_activity, deps.caller, args, now, deps.scopes, language, within=READ_S, lane=lane)


class _Found(Struct, frozen=True, kw_only=True):
    """A row that fits, not yet in words. `order`: its time, but never younger than that of a row before it. `folders`:
    the groups that it is about and that the caller may see."""

    table: str
    id: int
    order: int
    kind: ActivityKind
    row: MessageRow | AuditRow | CostRow | FiringRow
    folders: tuple[str, ...]
    targets: tuple[MessageTarget, ...] = ()
    delivery: EffectState | None = None
    details: Mapping[str, Any] = {}
    models: tuple[str, ...] = ()
    is_trouble: bool = False


class _Look(Struct, frozen=True, kw_only=True):
    """The fields that are wanted of each row. `names`: all identities of the person."""

    args: ListActivityArgs
    since: int
    words: tuple[str, ...]
    names: frozenset[str]

    def has_words(self, *texts: str) -> bool:
        if not self.words:
            return True
        said = " ".join(texts).casefold()
        return all(word in said for word in self.words)

    def wants(self, kind: ActivityKind, *, is_trouble: bool) -> bool:
        wanted = self.args.kind
        return wanted is None or wanted is kind or (wanted is ActivityKind.TROUBLE and is_trouble)


class _Viewer:
    """The rights of the caller to see rows of a kind; each answer is kept."""

    def __init__(self, db: Db, caller: str, scopes: Sequence[str] | None) -> None:
        self._rights: OperationRights | None = read_operation_rights(db, caller) if caller != OPERATOR else None
        self._scopes, self._known = scopes, dict[tuple[str, str], bool]()

    @property
    def has_any(self) -> bool:
        return self._rights is None or self._rights.has_any

    def may(self, right: str, folder: str) -> bool:
        """'' as a folder: what is no group's. A program may no more than its token is good for."""
        if self._scopes is not None and not includes(self._scopes, right):
            return False
        if self._rights is None:
            return True
        key = right, folder or ROOT_FOLDER
        if key not in self._known:
            self._known[key] = self._rights.allows(f"op:{right}", key[1])
        return self._known[key]


def read_activity(
    db: Db,
    caller: str,
    args: ListActivityArgs,
    now: int,
    scopes: Sequence[str] | None = None,
    language: str = ENGLISH,
) -> ActivityPage:
    with speaking(language):
        return _read_activity(db, caller, args, now, scopes)


def _read_activity(db: Db, caller: str, args: ListActivityArgs, now: int, scopes: Sequence[str] | None) -> ActivityPage:
    viewer = _Viewer(db, caller, scopes)
    if not viewer.has_any:
        return ActivityPage(entries=[], more="", agents={})
    every = groups.list_all(db)
    look = _Look(
        args=args,
        since=parse_since(args.since, now) if args.since else 0,
        words=tuple(args.words.casefold().split()),
        names=_list_names(db, args.person, viewer),
    )
    places = [ROOT_FOLDER, *(group.folder for group in every)]
    seen = {name for name, right in _RIGHTS.items() if any(viewer.may(right, place) for place in places)}
    starts = {name: below if name in seen else 0 for name, below in _find_starts(db, args, now).items()}
    scans = [_Scan(db, name, below, look, viewer) for name, below in starts.items()]
    for scan in scans:
        scan.run()
    found = sorted((each for scan in scans for each in scan.found), key=lambda each: (-each.order, -each.id))
    horizon = max(scan.horizon for scan in scans)
    shown = [each for each in found if each.order >= horizon][: args.limit]
    return ActivityPage(
        entries=_Words(db, shown, viewer).make_entries(),
        more=_make_cursor({scan.table: scan.find_next(shown) for scan in scans}),
        agents=_list_agents(every, viewer),
    )


def _list_names(db: Db, person: str, viewer: _Viewer) -> frozenset[str]:
    """Return the names of a person. A viewer who may not look at people filters by the one name that they gave: others
    would tell whose it is."""
    if not person:
        return frozenset()
    return frozenset(identities.list_names(db, person) if viewer.may(USERS_READ, "") else [person])


def _find_starts(db: Db, args: ListActivityArgs, now: int) -> dict[str, int]:
    """Return below which id each table is looked at. One that the kind has no row of begins at its end."""
    wanted = _OF_KIND.get(args.kind, {"audit"}) if args.kind is not None else set(_TABLES)
    starts = dict.fromkeys(_TABLES, NEWEST)
    if args.before:
        read = _CURSOR.match(args.before)
        if read is None:
            raise Invalid("before", "it is no place where an earlier look ended; leave it out to begin with the newest")
        starts = {name: min(int(number), NEWEST) for name, number in zip(_TABLES, read.groups(), strict=True)}
    elif args.until:
        moment = parse_since(args.until, now)
        starts = {name: activity.find_first_after(db, name, moment) for name in _TABLES if name in wanted}
    return {name: starts.get(name, 0) if name in wanted else 0 for name in _TABLES}


def _make_cursor(nexts: Mapping[str, int]) -> str:
    return ".".join(f"{name[0]}{nexts[name]}" for name in _TABLES) if any(nexts.values()) else ""


def _list_agents(every: Sequence[Group], viewer: _Viewer) -> dict[str, str]:
    found: dict[str, str] = {}
    for group in every:
        if len(found) < MOST_AGENTS and any(viewer.may(right, group.folder) for right in _RIGHTS.values()):
            found[group.folder] = group.name or group.folder
    return found


class _Scan:
    """One table, from an id back. `horizon`: the time down to which nothing of it was missed; 0: it is at its end."""

    def __init__(self, db: Db, table: str, below: int, look: _Look, viewer: _Viewer) -> None:
        self.table, self._db, self._below, self._look, self._viewer = table, db, below, look, viewer
        self.found: list[_Found] = []
        self.horizon, self._order, self._rows = 0, NEWEST, 0
        self._read: Callable[[Db, int, int], Sequence[Any]] = {
            "messages": self._choose_messages(),
            "audit": activity.list_audit,
            "costs": activity.list_costs,
            "firings": activity.list_firings,
        }[table]

    def _choose_messages(self) -> Callable[[Db, int, int], Sequence[MessageRow]]:
        """Words are looked for in the index of all messages, not row by row."""
        if self.table != "messages" or not self._look.words:
            return activity.list_messages
        said = self._look.args.words.split()
        query = " ".join('"' + word.replace('"', '""') + '"*' for word in said)
        wanted = SearchQuery(query=query, part=Subtree("", everything=True), limit=MOST_HITS)
        hits = [*search.find_unindexed(self._db, said), *(each.id for each in search.find(self._db, wanted))]
        return partial(activity.list_messages_of, sorted(hits))

    def run(self) -> None:
        while self._below > 0 and self._rows < MOST_ROWS and len(self.found) < self._look.args.limit:
            portion = self._read(self._db, self._below, PORTION)
            self._rows += PORTION
            self._judge_portion(portion)
            if len(portion) < PORTION and not self._is_full:
                self._below, self.horizon = 0, 0
                return

    @property
    def _is_full(self) -> bool:
        return len(self.found) >= self._look.args.limit

    def _judge_portion(self, portion: Sequence[Any]) -> None:
        judge = self._prepare(portion)
        for row in portion:
            self._order = min(self._order, row.at)
            if self._look.since and row.at < self._look.since:
                self._below, self.horizon, self._rows = 0, 0, MOST_ROWS
                return
            if (found := judge(row)) is not None and not self._merge(found):
                self.found.append(found)
            self._below, self.horizon = row.id, self._order
            if self._is_full:
                return

    def _prepare(self, portion: Sequence[Any]) -> Callable[[Any], _Found | None]:
        match self.table:
            case "messages":
                ids = [row.id for row in portion if self._may_fit(row)]
                return partial(
                    self._judge_message, activity.list_targets(self._db, ids), activity.list_deliveries(self._db, ids)
                )
            case "audit":
                return self._judge_audit
            case "costs":
                return self._judge_cost
        return self._judge_firing

    def _merge(self, found: _Found) -> bool:
        """Calls of models in one turn are one cost."""
        last = self.found[-1] if self.found else None
        if last is None or not isinstance(last.row, CostRow) or not isinstance(found.row, CostRow):
            return False
        if not found.row.turn or last.row.turn != found.row.turn:
            return False
        models = tuple(dict.fromkeys((*last.models, found.row.model)))
        self.found[-1] = replace(last, row=replace(last.row, micro=last.row.micro + found.row.micro), models=models)
        return True

    def find_next(self, shown: Sequence[_Found]) -> int:
        """Return below which id the next look begins; 0: there is nothing more."""
        seen = {each.id for each in shown if each.table == self.table}
        left = [each.id for each in self.found if each.id not in seen]
        return max(left) + 1 if left else self._below

    # Whether a row is wanted, and may be seen.

    def _make(self, row: Any, kind: ActivityKind, folders: Iterable[str], **more: Any) -> _Found:
        return _Found(
            table=self.table, id=row.id, order=self._order, kind=kind, row=row, folders=tuple(folders), **more
        )

    def _may_fit(self, row: MessageRow) -> bool:
        """As far as the message itself says."""
        args, names = self._look.args, self._look.names
        if row.kind in (MessageKind.SYSTEM, MessageKind.TASK) or not row.text.strip():
            return False
        return (not args.room or row.address == args.room) and (not names or row.sender in names)

    def _judge_message(
        self,
        targets: Mapping[int, list[MessageTarget]],
        deliveries: Mapping[int, EffectState],
        row: MessageRow,
    ) -> _Found | None:
        args, viewer = self._look.args, self._viewer
        if not self._may_fit(row):
            return None
        got = [each for each in targets.get(row.id, []) if not each.reason.startswith(WATCHED)]
        places = list(dict.fromkeys(each.folder for each in got)) if row.direction is Direction.IN else [row.folder]
        folders = [each for each in places or [""] if viewer.may(LEDGER_READ, each)]
        if not folders or (args.agent and args.agent not in folders):
            return None
        seen = tuple(each for each in got if each.folder in folders)
        delivery = deliveries.get(row.id) if row.direction is Direction.OUT else None
        failed = any(each.state is InboxState.FAILED for each in seen)
        bad = failed or delivery in (EffectState.FAILED, EffectState.UNCERTAIN)
        if not self._look.wants(ActivityKind.MESSAGE, is_trouble=bad):
            return None
        return self._make(row, ActivityKind.MESSAGE, folders, targets=seen, delivery=delivery, is_trouble=bad)

    def _judge_audit(self, row: AuditRow) -> _Found | None:
        args = self._look.args
        kind, bad = _find_kind(row), row.verdict == CALL_FAILED
        own = row.actor.startswith(AGENT)
        if row.action.startswith(_INTERNAL) or not self._look.wants(kind, is_trouble=bad):
            return None
        if own and row.action in _TOLD and args.kind is not ActivityKind.CALL and not bad:
            return None
        if not self._look.has_words(row.action.replace("_", " "), row.actor, row.details):
            return None
        if args.room and args.room not in row.details:  # as mostly: what it says need not be read
            return None
        if self._look.names and not any(name in row.details or name == row.actor for name in self._look.names):
            return None
        if own and args.agent and row.actor != f"{AGENT}{args.agent}":
            return None
        details = _read_details(row.details)
        folder = row.actor.removeprefix(AGENT) if own else str(details.get("folder") or "")
        if not self._viewer.may(AUDIT_READ, folder) or (args.agent and folder != args.agent):
            return None
        if args.room and args.room not in {str(details.get(name)) for name in _ROOM_FIELDS}:
            return None
        named = {row.actor, *(str(details.get(name)) for name in _PERSON_FIELDS)}
        if self._look.names and not self._look.names & named:
            return None
        return self._make(row, kind, [folder] if folder else [], details=details, is_trouble=bad)

    def _judge_cost(self, row: CostRow) -> _Found | None:
        args = self._look.args
        hidden = not self._viewer.may(BUDGETS_READ, row.folder) or (args.agent and row.folder != args.agent)
        other = args.room or (self._look.names and row.user not in self._look.names)
        if hidden or other or not row.micro or not self._look.has_words(row.model, row.folder):
            return None
        return self._make(row, ActivityKind.COST, [row.folder], models=(row.model,))

    def _judge_firing(self, row: FiringRow) -> _Found | None:
        args, bad = self._look.args, row.state is FiringState.FAILED
        hidden = not self._viewer.may(TASKS_READ, row.folder) or (args.agent and row.folder != args.agent)
        if hidden or args.room or self._look.names or not self._look.wants(ActivityKind.TASK, is_trouble=bad):
            return None
        if not self._look.has_words(row.title, row.reason, row.folder):
            return None
        return self._make(row, ActivityKind.TASK, [row.folder], is_trouble=bad)


def _find_kind(row: AuditRow) -> ActivityKind:
    if row.action == DECIDED:
        return ActivityKind.DECISION
    if row.action.startswith("channel."):
        return ActivityKind.CHANNEL
    if row.action.startswith("task."):
        return ActivityKind.TASK
    return ActivityKind.CALL if row.actor.startswith(AGENT) else ActivityKind.CHANGE


def _read_details(text: str) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(text) if text else {}
    except msgspec.DecodeError:  # it is no JSON any more
        found = {}
    return found if isinstance(found, dict) else {}


class _Words:
    """The rows of a page in words. Names are read for all of them at once."""

    def __init__(self, db: Db, shown: Sequence[_Found], viewer: _Viewer) -> None:
        self._shown, self._viewer = shown, viewer
        self._requests: dict[str, Request] = {}
        asked = [str(each.details.get("request", "")) for each in shown if each.kind is ActivityKind.DECISION]
        self._requests = {each.id: each for each in requests.list_by_ids(db, [each for each in asked if each])}
        folders = {folder for each in shown for folder in each.folders}
        folders |= {str(each.details.get("folder", "")) for each in shown}
        self._agents = activity.list_names(db, "groups", sorted(folders - {""}))
        messages = [each.row for each in shown if isinstance(each.row, MessageRow)]
        self._rooms = activity.list_room_names(db, sorted({(row.instance, row.address) for row in messages}))
        people = {row.sender for row in messages} | {each.row.actor for each in shown if isinstance(each.row, AuditRow)}
        people |= {str(each.details.get(name, "")) for each in shown for name in _PERSON_FIELDS}
        people |= {each.name for each in self._requests.values() if each.kind is RequestKind.SENDER}
        self._people = activity.list_names(db, "users", sorted(people - {""}))

    def make_entries(self) -> list[ActivityEntry]:
        return [self._make(each) for each in self._shown]

    def _make(self, each: _Found) -> ActivityEntry:
        row = each.row
        if isinstance(row, MessageRow):
            return self._make_message(each, row)
        if isinstance(row, AuditRow):
            return self._make_audit(each, row)
        agent = self._name_agent(each.folders[0])
        if isinstance(row, CostRow):
            return _make_entry(each, words.render_cost(agent, row.micro, each.models))
        what = words.render_firing(agent, row.title, row.state)
        return _make_entry(each, what, said=row.reason if each.is_trouble else "", message=row.message_id)

    def _make_message(self, each: _Found, row: MessageRow) -> ActivityEntry:
        room = self._rooms.get((row.instance, row.address)) or _shorten(row.address)
        if row.direction is Direction.OUT:
            who = self._name_agent(row.folder) if row.folder else words.GATEPOST
            what = words.render_sent(who, room, each.delivery)
            return _make_entry(each, what, said=row.text, room=row.address, room_name=room, message=row.id)
        who = self._name_person(row.sender, row.sender_name)
        got = [target for target in each.targets if target.mode is not InboxMode.OBSERVE]
        agents = [self._name_agent(target.folder) for target in got if target.folder]
        ends = [words.render_outcome(self._name_agent(target.folder), target.state) for target in got]
        what = words.render_received(who, agents, "" if room == who else room) + next(filter(None, ends), "")
        return _make_entry(
            each,
            what,
            said=row.text,
            person=row.sender,
            person_name=who,
            room=row.address,
            room_name=room,
            message=row.id,
        )

    def _make_audit(self, each: _Found, row: AuditRow) -> ActivityEntry:
        if row.actor.startswith(AGENT):
            agent = self._name_agent(row.actor.removeprefix(AGENT))
            if each.kind is ActivityKind.CALL:
                return _make_entry(each, words.render_call(agent, row.action, row.verdict))
            return _make_entry(
                each, words.render_change(agent, row.action, row.verdict, "", name=_name_thing(each.details))
            )
        who = self._name_person(row.actor, "")
        person = row.actor if row.actor in self._people else ""
        about = self._name_about(each.details, row.actor)
        made = row.action == PAIRED and row.verdict not in words.DENIED and "person" not in each.details
        action = words.MADE_PAIRING if made else row.action
        what = words.render_change(who, action, row.verdict, about, name=_name_thing(each.details))
        if each.kind is ActivityKind.DECISION:
            what = self._render_decision(each, row, who)
        return _make_entry(each, what, person=person, person_name=who if person else "")

    def _render_decision(self, each: _Found, row: AuditRow, who: str) -> str:
        details, asked = each.details, self._requests.get(str(each.details.get("request", "")))
        agent = self._name_agent(each.folders[0]) if each.folders else ""
        about = ""
        if asked is not None and asked.kind is RequestKind.SENDER:
            about = self._name_person(asked.name, "")
        elif asked is not None and asked.kind is RequestKind.HOST:
            about = asked.name
        elif asked is not None and asked.kind is RequestKind.BUDGET:
            about = str(asked.input.get("more", ""))
        kind, tool = str(details.get("kind", "")), str(details.get("tool") or "")
        return words.render_decision(who, agent, kind, row.verdict, tool=tool, about=about)

    def _name_about(self, details: Mapping[str, Any], actor: str) -> str:
        """Return whom or what a change was about: a person whom we know, else the agent."""
        named = [str(details.get(name, "")) for name in _PERSON_FIELDS]
        known = next((self._people[each] or _shorten(each) for each in named if each in self._people), "")
        folder = str(details.get("folder") or "")
        return known or (self._name_agent(folder) if folder else "")

    def _name_agent(self, folder: str) -> str:
        return self._agents.get(folder) or folder or translate_exact("an agent")

    def _name_person(self, person: str, said: str) -> str:
        if person == OPERATOR:
            return translate_exact("The operator")
        if person.startswith(AGENT):
            return self._name_agent(person.removeprefix(AGENT))
        if person.startswith(PEER):
            return translate_exact("Somebody on the network")
        return self._people.get(person) or said or _shorten(person)


def _name_thing(details: Mapping[str, Any]) -> str:
    """Return how the thing of a change is called: a host, a file, a setting; '' where nothing says so."""
    named = (details.get(name) for name in _NAME_FIELDS)
    return next((each[:LONGEST_NAME] for each in named if isinstance(each, str) and each.strip()), "")


def _shorten(address: str) -> str:
    """Return how a person or a room without a name is called: the last part of its address."""
    return address.rpartition(":")[2].rpartition("/")[2] or words.GATEPOST


def _make_entry(
    each: _Found,
    what: str,
    *,
    said: str = "",
    person: str = "",
    person_name: str = "",
    room: str = "",
    room_name: str = "",
    message: int | None = None,
) -> ActivityEntry:
    return ActivityEntry(
        at=each.row.at,
        what=what,
        said=said,
        kind=each.kind,
        is_trouble=each.is_trouble,
        agent=each.folders[0] if each.folders else "",
        person=person,
        person_name=person_name,
        room=room,
        room_name=room_name,
        message=message,
    )
