"""What the commands that only read tell, the API tells as well: the ledger, the audit log, policy and retention."""

import threading
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import DAY
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.sessions import groups
from gatepost.tools.contract import Tool
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.clock import FixedClock


@pytest.fixture
async def deps(store: SqliteStore, store_path: Path) -> OperationDeps:
    await store.write(fill)
    home = Home(store_path.parent)
    return OperationDeps(home=home, store=store, clock=FixedClock(), config=Config(), events=EventBus())


def fill(db: Db) -> None:
    """A group, a refused message, and a record of something."""
    groups.add(db, "acme", "acme", "", 1)
    message_id = add_arrival(
        db, 1_000_000, instance="web", address="web:home", sender="web:user/9", text="hi", at=1, platform_id="p1"
    )
    inbox.refuse(db, message_id, "acme", "guest", "no_route", 1_250_000)
    audit.append(db, audit.AuditRecord(1_000_000, "operator", "group.add", "done", {"folder": "acme"}))


async def run(deps: OperationDeps, name: str, /, **args: Any) -> Any:
    return await OPERATIONS[name](deps, args)


async def test_the_ledger_is_counted_and_listed(deps: OperationDeps) -> None:
    status = await run(deps, "ledger.check")
    assert (status["unaccounted"], status["in_flight"]) == (0, 0)

    [line] = await run(deps, "ledger.list", state="refused")
    assert (line["text"], line["reason"], line["at"]) == ("hi", "no_route", "1970-01-01T00:00:01.000Z")
    assert await run(deps, "ledger.list", state="queued") == []
    for wrong in ({"state": "lost"}, {"limit": 0}, {"limit": 100_001}):
        with pytest.raises(Invalid):
            await run(deps, "ledger.list", **wrong)


async def test_a_message_is_traced_by_its_number_or_its_id(deps: OperationDeps) -> None:
    life = await run(deps, "ledger.trace", message="p1")

    assert life == await run(deps, "ledger.trace", message=str(life["message"]["id"]))
    assert (life["message"]["text"], [entry["state"] for entry in life["entries"]]) == ("hi", ["refused"])
    assert [(each["what"], each["offset_ms"]) for each in life["moments"]] == [("accepted", 0.0), ("refused", 250.0)]
    with pytest.raises(NotFound, match="no message lost"):
        await run(deps, "ledger.trace", message="99")


@pytest.mark.parametrize("digits", ["9" * 5000, "\u00b2", "\u0663"])
async def test_a_number_that_none_is_so_large_or_so_written_is_refused_in_words(
    deps: OperationDeps, digits: str
) -> None:
    """Python makes no number of more than 4300 digits, nor of every sign that `isdigit` takes for one."""
    with pytest.raises(NotFound, match="ledger list"):
        await run(deps, "ledger.trace", message=digits)
    with pytest.raises(Invalid, match="SEQ:HASH"):
        await run(deps, "audit.verify", head=f"{digits}:{audit.START}")
    with pytest.raises(Invalid, match="20/8000") as refused:
        await run(deps, "route.add", match="", target="acme", window=f"{digits}/1")
    assert len(str(refused.value)) < 300


async def test_the_audit_log_is_listed_and_verified(deps: OperationDeps) -> None:
    [row] = await run(deps, "audit.list")
    assert (row["action"], row["details"]) == ("group.add", {"folder": "acme"})

    found = await run(deps, "audit.verify")
    assert (found["rows"], found["whole"]) == (1, True)
    assert (await run(deps, "audit.verify", head=found["head"]))["whole"] is True
    assert (await run(deps, "audit.verify", head="1:other"))["first_bad"] == 1
    for wrong in ("", "abc"):
        with pytest.raises(Invalid, match="SEQ:HASH"):
            await run(deps, "audit.verify", head=wrong)


@pytest.mark.parametrize(("value", "shown"), [("NULL", None), ("'no json'", "no json")])
async def test_details_that_are_gone_or_were_changed_are_listed_as_they_are(
    deps: OperationDeps, value: str, shown: str | None
) -> None:
    await deps.store.write(lambda db: db.run(f"UPDATE audit SET details = {value}"))
    assert (await run(deps, "audit.list"))[0]["details"] == shown


async def test_a_call_is_explained_by_the_tools_that_the_gateway_has(deps: OperationDeps) -> None:
    told = await run(deps, "policy.explain", folder="acme", tool="send", arguments={"chatJid": "web:home"})
    assert (told["folder"], told["tool"], told["allowed"]) == ("acme", "send", True)
    assert all(step.keys() == {"source", "text", "says"} for step in told["steps"])

    none: Registry[Tool] = Registry("tool")
    deps.extra["tools"] = none
    with pytest.raises(NotFound, match="no tool named 'send'"):
        await run(deps, "policy.explain", folder="acme", tool="send")
    with pytest.raises(NotFound, match="no group named 'other'"):
        await run(deps, "policy.explain", folder="other", tool="send")


@pytest.mark.parametrize(
    ("permission", "rule", "text"),
    [
        ("ask", "hold speak", "This would have asked 2 times in the last week."),
        ("no", "!speak", "This would have refused 2 calls of the last week."),
        ("yes", "no further rule", "2 calls of the last week would have asked nobody."),
    ],
)
async def test_an_answer_says_what_it_would_have_done_to_the_calls_of_the_last_week(
    deps: OperationDeps, permission: str, rule: str, text: str
) -> None:
    now = deps.clock.now()
    calls = [
        audit.AuditRecord(now - age * DAY, "agent:acme", "send", "allowed", {"call": f"c{age}"}) for age in (8, 3, 1)
    ]
    await deps.store.write(audit.append, *calls)
    found = await run(deps, "grant.preview", folder="acme", subject="speak", permission=permission)
    assert (found["calls"], found["exact"], found["text"]) == (2, rule, text)
    assert (await run(deps, "grant.list"))["rules"] == []


async def test_a_preview_of_a_group_or_room_that_is_none_is_refused(deps: OperationDeps) -> None:
    with pytest.raises(NotFound, match="no group named 'other'"):
        await run(deps, "grant.preview", folder="other", subject="speak", permission="ask")
    with pytest.raises(Invalid, match=r"^room"):
        await run(deps, "grant.preview", folder="acme", subject="reach", permission="ask", room="web:home")


async def test_what_is_kept_is_shown_by_the_settings_in_force(deps: OperationDeps) -> None:
    (deps.home.media / "web").mkdir(parents=True)
    (deps.home.media / "web" / "0").write_text("x" * 1000)

    told = await run(deps, "keep.show")

    rows = {each["what"]: (each["days"], each["rows"]) for each in told["rows"]}
    assert rows["steps"] == (30, 1) and rows["audit"][1] == 1
    assert [each["bytes"] for each in told["files"]] == [1000, 0]
    assert told["store"]["bytes"] > 0


class WatchedTools(Registry[Tool]):
    """Knows on which threads it was looked through."""

    def __init__(self) -> None:
        super().__init__("tool")
        self.threads: set[int] = set()

    def items(self) -> Any:
        self.threads.add(threading.get_ident())
        return super().items()


async def test_the_tools_of_a_group_with_many_rules_are_judged_beside_the_event_loop(
    store: SqliteStore, tmp_path: Path
) -> None:
    await store.write(groups.add, "acme", "acme", "", 1)
    deps = OperationDeps(home=Home(tmp_path), store=store, clock=FixedClock(), config=Config(), events=EventBus())
    deps.extra["tools"] = tools = WatchedTools()
    await OPERATIONS["policy.tools"](deps, {"folder": "acme"})
    assert tools.threads and threading.get_ident() not in tools.threads
