"""activity.list: who sees what, what each filter leaves, and that a look has an end."""

from collections.abc import Sequence
from typing import Any

import pytest

from gatepost.core.clock import MINUTE, SystemClock
from gatepost.core.errors import Invalid
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.messages.inbound import OPERATOR, Direction
from gatepost.serve.control.arguments.activity import ActivityKind, ListActivityArgs
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.serve.control.operations import activity
from gatepost.serve.control.operations.activity import PORTION, read_activity
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.money import costs
from gatepost.store.money.costs import NewCost
from gatepost.store.people import identities, users
from gatepost.store.port import Db, Row
from gatepost.store.rights import acl, audit, requests
from gatepost.store.rights.acl import AclRow
from gatepost.store.rights.audit import AuditRecord
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.counting import CountingDb

pytestmark = pytest.mark.anyio

OWNER, ADA, BOB = "web:user/owner", "telegram:user/9", "telegram:user/10"
NOON = 1_800_000_000_000_000
ROOM = "fake:room/1"


def hear(db: Db, number: int, sender: str = ADA, folder: str = "acme", text: str = "do it", at: int = NOON) -> int:
    new = NewMessage(
        instance="fake",
        address=ROOM,
        direction=Direction.IN,
        platform_id=f"p{number}",
        sender=sender,
        text=text,
        at=at,
    )
    message = messages.accept(db, new, at)
    assert message is not None
    session = sessions.find_or_add(db, SessionMode.SHARED, folder, "fake", ROOM, "", at)
    inbox.enqueue(db, message, session.id, folder, "member", at)
    return message


def fill(db: Db) -> None:
    for person, name in ((OWNER, "Max"), (ADA, "Ada"), (BOB, "Bob")):
        users.add(db, person, name, NOON)
    users.add_role(db, OWNER, users.UserRole.OWNER, "", "test", NOON)
    for folder in ("acme", "beta"):
        groups.add(db, folder, folder.title(), "claude", NOON)
    rooms.add(db, "fake", ROOM, "General", False, RoomPolicy.STRICT, NOON)
    hear(db, 1)
    hear(db, 2, BOB, "beta", "a secret plan", NOON + MINUTE)
    asked = NewRequest(kind=RequestKind.SENDER, name=ADA, folder="acme", input={})
    request = requests.add(db, asked, NOON)[0].id
    decided = {"request": request, "kind": "sender", "folder": "acme"}
    records = [
        AuditRecord(NOON + 2 * MINUTE, "agent:acme", "find_messages", "allowed", {"turn": "t"}),
        AuditRecord(NOON + 3 * MINUTE, "agent:acme", "send", "allowed", {"turn": "t"}),
        AuditRecord(NOON + 4 * MINUTE, OWNER, "request.decide", "allowed", decided),
        AuditRecord(NOON + 5 * MINUTE, OWNER, "channel.set", "done", {"name": "telegram"}),
        AuditRecord(NOON + 6 * MINUTE, OWNER, "group.rest", "done", {"folder": "beta"}),
        AuditRecord(NOON + 7 * MINUTE, "agent:beta", "fetch", "failed", {}),
    ]
    audit.append(db, *records)
    for key, micro in (("a", 10_000), ("b", 20_000)):
        new = NewCost(key=key, at=NOON, folder="acme", model="opus", micro=micro, user=ADA, turn_id="t-1")
        costs.add_external(db, new, NOON + 8 * MINUTE)


@pytest.fixture
async def deps(store: SqliteStore, home: Home) -> OperationDeps:
    await store.write(fill)
    return OperationDeps(home=home, store=store, clock=SystemClock(), config=Config(), events=EventBus())


async def look(deps: OperationDeps, caller: str = OPERATOR, **args: Any) -> dict[str, Any]:
    found: dict[str, Any] = await OPERATIONS["activity.list"](replace(deps, caller=caller), args)
    return found


def list_said(found: dict[str, Any]) -> list[str]:
    return [each["what"] for each in found["entries"]]


ALL = [
    "Acme spent $0.03 on opus",
    "Beta could not use fetch",
    "Max put an agent to rest (Beta)",
    "Max changed a channel (telegram)",
    "Ada was let in to Acme by Max",
    "Acme searched messages",
    "Bob wrote to Beta in General, and it waits",
    "Ada wrote to Acme in General, and it waits",
]


async def test_everything_is_told_the_newest_first_and_a_message_is_not_told_twice(deps: OperationDeps) -> None:
    found = await look(deps)
    assert (list_said(found), found["more"]) == (ALL, "")
    assert list_said(await look(deps, OWNER)) == ALL
    assert found["agents"] == {"acme": "Acme", "beta": "Beta"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"kind": "message"}, ALL[6:]),
        ({"kind": "call"}, ["Beta could not use fetch", "Acme sent a message", "Acme searched messages"]),
        ({"kind": "decision"}, ALL[4:5]),
        ({"kind": "cost"}, ALL[:1]),
        ({"kind": "channel"}, ALL[3:4]),
        ({"kind": "change"}, ALL[2:3]),
        ({"kind": "task"}, []),
        ({"kind": "trouble"}, ALL[1:2]),
        ({"agent": "beta"}, [ALL[1], ALL[2], ALL[6]]),
        ({"person": ADA}, [ALL[0], ALL[7]]),
        ({"person": OWNER}, ALL[2:5]),
        ({"room": ROOM}, ALL[6:]),
        ({"words": "SECRET plan"}, ALL[6:7]),
        ({"words": "find messages"}, ALL[5:6]),
        ({"words": "opus"}, ALL[:1]),
        ({"since": "2027-01-15T08:05:30Z"}, ALL[:3]),
        ({"until": "2027-01-15T08:00:30Z"}, ALL[7:]),
        ({"agent": "nobody"}, []),
    ],
    ids=str,
)
async def test_a_filter_leaves_what_fits(deps: OperationDeps, given: dict[str, str], expected: list[str]) -> None:
    assert list_said(await look(deps, **given)) == expected


async def test_a_code_for_an_identity_pairs_nobody_until_somebody_sends_it(deps: OperationDeps) -> None:
    made = AuditRecord(NOON + 9 * MINUTE, "operator", "user.pair", "done", {"id": ADA})
    sent = AuditRecord(NOON + 10 * MINUTE, BOB, "user.pair", "done", {"person": ADA})
    await deps.store.write(audit.append, made, sent)
    assert list_said(await look(deps, limit=2)) == [
        "Bob joined two identities of a person (Ada)",
        "The operator made a code or a link for one more identity of a person (Ada)",
    ]


async def test_pages_follow_each_other_without_a_gap_or_a_double(deps: OperationDeps) -> None:
    for size in (1, 2, 3, 5):
        said, before = list[str](), ""
        for _ in range(len(ALL) + 2):
            found = await look(deps, limit=size, before=before)
            said, before = said + list_said(found), found["more"]
            if not before:
                break
        costs_told = len(said) - len(ALL) + 1  # of one turn, on two pages if there is no room for both
        assert said[costs_told:] == ALL[1:] and costs_told in (1, 2)


async def test_each_sees_what_their_rights_are_about_and_elsewhere_nothing(deps: OperationDeps) -> None:
    nothing = await look(deps, ADA)
    assert (nothing["entries"], nothing["agents"], nothing["more"]) == ([], {}, "")
    for right, expected in (
        ("ledger.read", ALL[7:]),
        ("audit.read", [ALL[4], ALL[5]]),
        ("budgets.read", ALL[:1]),
        ("tasks.read", []),
    ):
        row = AclRow(id=0, principal=ADA, action=f"op:{right}", scope="acme")
        await deps.store.write(acl.put, row, 1)
        found = await look(deps, ADA)
        assert (list_said(found), found["agents"]) == (expected, {"acme": "Acme"})
        assert list_said(await look(deps, ADA, words="secret")) == []
        assert "beta" not in str(found).casefold()
        await deps.store.write(lambda db: db.run("DELETE FROM acl WHERE principal = ?", (ADA,)))


async def test_a_filter_by_a_name_does_not_tell_whose_it_is(deps: OperationDeps) -> None:
    """Bob's messages come up for another name of his: whoever may not look at people learns that it is Bob's."""
    other = "matrix:user/somebody"
    await deps.store.write(identities.add, other, BOB, "test", NOON)
    row = AclRow(id=0, principal=ADA, action="op:ledger.read", scope="beta")
    await deps.store.write(acl.put, row, 1)
    assert list_said(await look(deps, ADA, person=BOB))
    assert list_said(await look(deps, ADA, person=other)) == []
    await deps.store.write(acl.put, AclRow(id=0, principal=ADA, action="op:users.read", scope="root"), 1)
    assert list_said(await look(deps, ADA, person=other)) == list_said(await look(deps, ADA, person=BOB))


async def test_a_programs_token_sees_no_more_than_it_is_good_for(deps: OperationDeps) -> None:
    """The operator made it for the audit log alone. Their own rights would show every message, cost and task."""
    every = await look(replace(deps, scopes=("*",)))
    assert list_said(every) == ALL
    some = await look(replace(deps, scopes=("audit.read",)))
    assert {each["kind"] for each in every["entries"]} > {"message", "cost"}
    assert not {"message", "cost"} & {each["kind"] for each in some["entries"]}
    assert "secret plan" not in str(some)


@pytest.mark.parametrize("before", ["x", "m1.a1.c1", "m1.a1.c1.f-1", "m1.a1.c1.f1\n", "m²1.a1.c1.f1"])
async def test_a_cursor_that_is_none_is_refused(deps: OperationDeps, before: str) -> None:
    with pytest.raises(Invalid):
        await look(deps, before=before)
    assert (await look(deps, before="m9999999999999999999.a1.c1.f1"))["entries"]


async def test_a_look_ends_however_rare_the_filter_is_and_says_where_to_go_on(
    deps: OperationDeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "MOST_ROWS", PORTION)

    def add_many(db: Db) -> None:
        for number in range(3, PORTION * 2 + 10):
            hear(db, number, BOB, "beta", f"text {number}", NOON + MINUTE + number)

    await deps.store.write(add_many)
    first = await look(deps, person=ADA, kind="message")
    assert first["entries"] == [] and first["more"]
    second = await look(deps, person=ADA, kind="message", before=first["more"])
    third = await look(deps, person=ADA, kind="message", before=second["more"])
    assert list_said(second) + list_said(third) == ALL[7:] and third["more"] == ""
    assert list_said(await look(deps, words="text 700")) == ["Bob wrote to Beta in General, and it waits"]


async def test_no_filter_walks_through_a_whole_table(deps: OperationDeps) -> None:
    """By the plan of the engine, and by the number of rows that one look may read."""
    plans: list[str] = []

    class ExplainingDb(CountingDb):
        def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
            plans.extend(f"{row[3]} | {sql[:60]}" for row in self._db.rows(f"EXPLAIN QUERY PLAN {sql}", params))
            return super().rows(sql, params)

    def explain(db: Db) -> None:
        wanted = [{"kind": kind} for kind in ActivityKind]
        more: list[dict[str, Any]] = [
            {"agent": "acme"},
            {"person": ADA},
            {"room": ROOM},
            {"words": "plan"},
            {"since": "7d"},
        ]
        for given in [*wanted, *more, {"until": "1h"}, {"before": "m5.a5.c5.f5"}]:
            read_activity(ExplainingDb(db), OPERATOR, ListActivityArgs(**given), NOON + 60 * MINUTE)

    await deps.store.read(explain)
    large = ("messages", "inbox", "outbox", "audit", "costs", "firings", "m", "i")
    walked = [each for each in plans if any(each.startswith(f"SCAN {table} |") for table in large)]
    assert plans and walked == []
