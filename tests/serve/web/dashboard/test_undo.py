"""What undoes an operation brings back exactly what was there before, by the same right."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.groups import ensure_defaults
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.serve.web.dashboard.operation_form import parse_form
from gatepost.serve.web.dashboard.undo import FINAL, INVERSES, make_undo
from gatepost.serve.web.dashboard.view import Action
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.sessions import groups
from gatepost_testing.clock import FixedClock

NOW = 1_800_000_000_000_000
ROUTE = {"match": "verb=mention", "target": "acme", "seq": 7, "also": True, "session": "shared", "window": "20/"}


class UndoDesk:
    def __init__(self, deps: OperationDeps) -> None:
        self._deps = deps

    async def do(self, name: str, /, **args: Any) -> Any:
        return await OPERATIONS[name](self._deps, args)

    async def undo(self, name: str, args: dict[str, Any], answer: Any) -> Any:
        """Press the button, which sends its arguments as a form does."""
        action = make_undo(name, args, answer)
        assert action is not None
        return await self.press(action)

    async def press(self, action: Action) -> Any:
        operation = OPERATIONS[action.operation]
        return await self.do(action.operation, **parse_form(operation, {key: str(v) for key, v in action.args.items()}))


@pytest.fixture
async def desk(store: SqliteStore, tmp_path: Path) -> UndoDesk:
    home, clock = Home(tmp_path / "home"), FixedClock(NOW)
    home.prepare()
    await ensure_defaults(store, home, clock)

    def settle(db: Db) -> None:
        groups.add(db, "acme", "Acme", "", NOW)
        groups.add(db, "acme/eng", "Eng", "", NOW)

    await store.write(settle)
    return UndoDesk(OperationDeps(home=home, store=store, clock=clock, config=Config(), events=EventBus()))


def strip(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what a new row has of its own."""
    return [{name: value for name, value in row.items() if name not in ("id", "granted_by")} for row in rows]


@pytest.mark.parametrize(
    ("made", "given", "removed", "listed"),
    [
        ("route.add", ROUTE, "route.rm", "route.list"),
        ("route.add", {"match": "", "target": "drop", "ttl": "1h30m"}, "route.rm", "route.list"),
        ("egress.allow", {"host": "example.com:8443", "folder": "acme"}, "egress.rm", "egress.list"),
        ("egress.deny", {"host": "*.example.com"}, "egress.rm", "egress.list"),
    ],
)
async def test_what_was_removed_is_there_again(
    desk: UndoDesk, made: str, given: dict[str, Any], removed: str, listed: str
) -> None:
    row = await desk.do(made, **given)
    before = await desk.do(listed)
    answer = await desk.do(removed, id=row["id"])
    assert await desk.do(listed) != before
    await desk.undo(removed, {"id": row["id"]}, answer)
    assert strip(await desk.do(listed)) == strip(before)


async def test_an_access_that_was_taken_is_given_again_and_a_new_one_is_taken_back(desk: UndoDesk) -> None:
    given = {"principal": "telegram:user/9", "action": "mcp:send", "scope": "acme", "deny": True, "params": "!topic"}
    row = await desk.do("acl.add", **given)
    before = (await desk.do("grant.list"))["rows"]
    answer = await desk.do("acl.rm", id=row["id"])
    again = await desk.undo("acl.rm", {"id": row["id"]}, answer)
    assert strip((await desk.do("grant.list"))["rows"]) == strip(before)
    await desk.undo("acl.add", given, again)
    assert (await desk.do("grant.list"))["rows"] == []


async def test_a_rule_is_brought_back_only_to_its_own_place(desk: UndoDesk) -> None:
    for rule in ("!send", "send", "hold publish"):
        await desk.do("grant.add", folder="acme", rule=rule)
    first, last = {"folder": "acme", "rule": "!send"}, {"folder": "acme", "rule": "hold publish"}
    await desk.undo("grant.rm", last, await desk.do("grant.rm", **last))
    assert [each["text"] for each in (await desk.do("grant.list"))["rules"]] == ["!send", "send", "hold publish"]
    assert make_undo("grant.rm", first, await desk.do("grant.rm", **first)) is None


async def test_a_rest_a_pinned_rule_a_role_and_a_link_are_taken_back(desk: UndoDesk) -> None:
    rested = await desk.do("group.rest", folder="acme")
    await desk.undo("group.rest", {"folder": "acme"}, rested)
    assert (await desk.do("group.show", folder="acme"))["rest"] is None
    again = await desk.do("group.wake", folder="acme")
    assert make_undo("group.rest", {"folder": "acme"}, again) is None  # nothing had changed

    pinned = await desk.do("rule.add", folder="acme", text="Be kind.")
    assert make_undo("rule.add", {}, await desk.do("rule.add", folder="acme", text="Be kind.")) is None
    await desk.undo("rule.add", {}, pinned)
    assert await desk.do("rule.list") == []

    member = {"child": "telegram:user/9", "role": "role:ops"}
    await desk.undo("role.add", member, await desk.do("role.add", **member))
    assert member not in (await desk.do("grant.list"))["members"]

    link = {"folder": "acme", "name": "help", "group": "acme/eng"}
    await desk.do("group.link", **link)
    gone = await desk.do("group.unlink", folder="acme", name="help")
    linked = await desk.undo("group.unlink", {"folder": "acme", "name": "help"}, gone)
    await desk.undo("group.link", link, linked)


async def test_a_block_and_what_was_forgotten_are_taken_back(desk: UndoDesk) -> None:
    who = {"who": "telegram:user/9"}
    await desk.undo("user.block", who, await desk.do("user.block", **who))
    assert (await desk.do("grant.list"))["rows"] == []
    kept = await desk.do("memory.add", folder="acme", text="The door code is on the fridge.")
    forgotten = await desk.undo("memory.add", {}, kept)
    await desk.undo("memory.forget", {}, forgotten)
    assert [each["text"] for each in await desk.do("memory.list", folder="acme")] == [kept["text"]]


def test_the_way_back_needs_the_same_right() -> None:
    answers: dict[str, Any] = {"egress.rm": {"allow": True}}
    for name, inverse in INVERSES.items():
        back = inverse(answers[name])[0] if callable(inverse) else inverse[0]
        assert OPERATIONS[back].info.right == OPERATIONS[name].info.right, name


def test_nothing_is_both_final_and_undone() -> None:
    assert not {*FINAL} & {*INVERSES}
    assert {*FINAL} <= {*OPERATIONS}
    assert make_undo("group.rm", {"folder": "acme"}, {}) is None
