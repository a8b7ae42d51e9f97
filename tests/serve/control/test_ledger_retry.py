"""What failed is sent or given again once, however often somebody asks, and by the rights of now."""

import asyncio
from typing import Any

import pytest
from tests.serve.control.test_session_control import ADA, NOON, seed

from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.messages.outbound import Op
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store import search
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox, message_steps, outbox
from gatepost.store.messages.inbox import InboxMode, InboxState
from gatepost.store.messages.outbox import EffectOrigin, EffectState, NewEffect, OutboxEffect
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.sessions import sessions

ROOM = ("tg", "tg:group/7")


@pytest.fixture
def deps(store: SqliteStore, home: Home) -> OperationDeps:
    return OperationDeps(home=home, store=store, clock=SystemClock(), config=Config(), events=EventBus())


async def run(deps: OperationDeps, name: str, **args: Any) -> Any:
    return await OPERATIONS[name](deps, args)


def add_effect(db: Db, state: EffectState, files: tuple[str, ...] = (), origin: str = "result") -> OutboxEffect:
    payload = {"text": "hello", "files": [{"path": path} for path in files]}
    new = NewEffect(
        key=f"k-{state}",
        op=Op.SEND,
        origin=EffectOrigin(origin),
        instance=ROOM[0],
        address=ROOM[1],
        text="hello",
        payload=payload,
    )
    made = outbox.add(db, new, NOON)
    outbox.record_outcome(db, made.id, state, "it is gone", NOON)
    return made


@pytest.mark.parametrize("state", [EffectState.FAILED, EffectState.UNCERTAIN])
async def test_a_delivery_goes_out_again_once_however_often_it_is_asked_for(
    deps: OperationDeps, state: EffectState
) -> None:
    woken: list[tuple[str, str]] = []
    deps.events.on_room(lambda *room: woken.append(room))
    made = await deps.store.write(add_effect, state)

    asked = [run(deps, "ledger.retry", message=made.message_id) for _ in range(5)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    [done] = [each for each in answers if isinstance(each, dict)]
    assert len([each for each in answers if isinstance(each, Invalid)]) == 4
    assert (done["sent"], done["doubtful"]) == (1, state is EffectState.UNCERTAIN) and woken == [ROOM]
    row = await deps.store.read(outbox.get, made.id)
    assert row is not None and (row.state, row.tries, row.reason) == (EffectState.PENDING, 0, "")
    assert row.created_at > NOON  # else it would be too old to be sent
    steps = await deps.store.read(message_steps.list_for_message, made.message_id)
    assert [each.detail for each in steps].count("sent again") == 1
    assert [each[3] for each in await deps.store.read(audit.list_latest, 10)] == ["ledger.retry"]


@pytest.mark.parametrize("state", [EffectState.SENT, EffectState.CANCELLED, EffectState.SUPERSEDED])
async def test_what_did_not_fail_is_not_sent_again(deps: OperationDeps, state: EffectState) -> None:
    made = await deps.store.write(add_effect, state)
    with pytest.raises(Invalid, match="neither failed nor is uncertain"):
        await run(deps, "ledger.retry", message=made.message_id)
    with pytest.raises(NotFound):
        await run(deps, "ledger.retry", message=made.message_id + 1000)


async def test_a_delivery_whose_files_are_gone_and_an_interim_line_are_refused(deps: OperationDeps, home: Home) -> None:
    made = await deps.store.write(add_effect, EffectState.FAILED, (str(home.media / "gone.png"),))
    with pytest.raises(Invalid, match="files, which were removed"):
        await run(deps, "ledger.retry", message=made.message_id)
    line = await deps.store.write(add_effect, EffectState.UNCERTAIN, (), "status")
    with pytest.raises(Invalid, match="interim line"):
        await run(deps, "ledger.retry", message=line.message_id)


def fail(db: Db, session: str, mode: InboxMode = InboxMode.TRIGGER, at: int = NOON) -> int:
    [(entry, message)] = inbox.list_open(db, session)
    inbox.set_state(db, entry.id, InboxState.FAILED, "it broke", None, at)
    db.run("UPDATE inbox SET mode = ?, given = 1, tries = 3 WHERE id = ?", (mode, entry.id))
    return message.id


async def test_what_a_person_wrote_is_given_again_by_the_rights_of_now(deps: OperationDeps) -> None:
    session = await deps.store.write(seed)
    message = await deps.store.write(fail, session)
    await deps.store.write(lambda db: users.add_role(db, ADA, UserRole.ADMIN, "acme", "test", NOON))
    woken: list[str] = []
    deps.events.on_session(woken.append)

    done = await run(deps, "ledger.retry", message=message)
    assert (done["given"], done["sent"], woken) == ([session], 0, [session])
    [(entry, _)] = await deps.store.read(inbox.list_open, session)
    assert (entry.state, entry.rights, entry.given, entry.tries) == (InboxState.QUEUED, "admin", 0, 0)
    with pytest.raises(Invalid, match="neither failed"):
        await run(deps, "ledger.retry", message=message)


async def test_a_second_click_does_not_repeat_a_failure_that_came_after_the_first(deps: OperationDeps) -> None:
    session = await deps.store.write(seed)
    message = await deps.store.write(fail, session)
    [line] = await run(deps, "ledger.list", state="failed")
    seen = {"message": message, "changed_at": line["changed_at"]}
    await run(deps, "ledger.retry", **seen)
    await deps.store.write(fail, session, InboxMode.TRIGGER, NOON + 5_000_000)
    with pytest.raises(Invalid, match="failed again"):
        await run(deps, "ledger.retry", **seen)
    assert (await run(deps, "ledger.retry", message=message))["given"] == [session]


@pytest.mark.parametrize("case", ["shut out", "closed", "task"])
async def test_what_would_not_be_let_in_now_is_not_given_again(deps: OperationDeps, case: str) -> None:
    session = await deps.store.write(seed)
    mode = InboxMode.TASK if case == "task" else InboxMode.TRIGGER
    message = await deps.store.write(fail, session, mode)
    if case == "shut out":
        await deps.store.write(lambda db: db.run("DELETE FROM group_members WHERE user_id = ?", (ADA,)))
    if case == "closed":
        await deps.store.write(sessions.close, session, NOON)
    kind: type[GatepostError] = Refused if case == "shut out" else Invalid
    with pytest.raises(kind, match={"shut out": "speak there", "closed": "said anew", "task": "task run"}[case]):
        await run(deps, "ledger.retry", message=message)
    [entry] = await deps.store.read(inbox.list_for_message, message)
    assert entry.state is InboxState.FAILED


@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "said a moment ago"])
async def test_the_ledger_is_paged_by_number_and_searched_by_words(deps: OperationDeps, indexed: bool) -> None:
    session = await deps.store.write(seed)
    for text in ("the red fox", "the blue fox", 'a "quoted" NEAR( thing'):
        await run_as_owner(deps, session, text)
    if indexed:
        await deps.store.write(search.index)
    found = await run(deps, "ledger.list", limit=2)
    assert [each["text"] for each in found] == ["the blue fox", 'a "quoted" NEAR( thing']
    older = await run(deps, "ledger.list", limit=10, before=found[0]["id"])
    assert [each["text"] for each in older] == ["<b>hello</b>", "the red fox"]
    assert [each["text"] for each in await run(deps, "ledger.list", words="FOX blu")] == ["the blue fox"]
    assert [each["text"] for each in await run(deps, "ledger.list", words='"quoted" NEAR(')] == [found[1]["text"]]
    assert await run(deps, "ledger.list", words="fox", state="failed") == []
    assert await run(deps, "ledger.list", words="nowhere") == []


async def run_as_owner(deps: OperationDeps, session: str, text: str) -> None:
    from gatepost.core.records import replace

    await deps.store.write(lambda db: users.add_role(db, ADA, UserRole.ADMIN, "acme", "test", NOON))
    await OPERATIONS["session.send"](replace(deps, caller=ADA), {"id": session, "text": text})
