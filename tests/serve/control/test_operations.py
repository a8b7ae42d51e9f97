import re
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from gatepost.core.clock import HOUR, SystemClock
from gatepost.core.errors import GatepostError, Invalid, NotFound, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow.gateways.folder_check import FolderElsewhere
from gatepost.flow.groups import ensure_defaults
from gatepost.flow.intake.engagement import make_engagement
from gatepost.flow.people import personal_routes
from gatepost.flow.people.personal_routes import PersonalChat
from gatepost.serve.control import contract
from gatepost.serve.control.arguments.groups import LinkGroupArgs
from gatepost.serve.control.contract import OPERATIONS, SHORT_LIST, OperationDeps, make_json
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import destinations, inbox
from gatepost.store.money import ledger
from gatepost.store.port import Db
from gatepost.store.rights import audit, requests, waiting_requests
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost.store.rooms import engagements, routes
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.arrivals import add_arrival

ANN = "telegram:user/9"


class Desk:
    """An office, and what was stopped there."""

    def __init__(self, operation_deps: OperationDeps, stopped: list[str]) -> None:
        self.operation_deps, self.stopped = operation_deps, stopped

    async def do(self, name: str, /, **args: Any) -> Any:
        return await OPERATIONS[name](self.operation_deps, args)

    async def recorded(self) -> list[str]:
        rows = await self.operation_deps.store.read(audit.list_latest, 100)
        return [row[3] for row in reversed(rows)]


@pytest.fixture
async def desk(store: SqliteStore, tmp_path: Path) -> Desk:
    home, clock = Home(tmp_path / "home"), SystemClock()
    home.prepare()
    (home.plugins / "providers" / "mine.py").write_text("")
    await ensure_defaults(store, home, clock)
    stopped: list[str] = []

    async def stop(session_id: str, reason: str) -> bool:
        stopped.append(session_id)
        return True

    operation_deps = OperationDeps(
        home=home, store=store, clock=clock, config=Config(), events=EventBus(), stop_session=stop
    )
    return Desk(operation_deps, stopped)


def a_waiting_message(db: Db, folder: str) -> str:
    """A message that is queued for a group's session."""
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, folder, "web", "web:home", "", 1)
    message_id = add_arrival(
        db, 1, instance="web", address="web:home", sender="web:user/9", text="hi", platform_id="p1"
    )
    inbox.enqueue(db, message_id, session.id, folder, "guest", 1)
    return session.id


async def test_a_group_is_added_with_its_folder_and_recorded(desk: Desk) -> None:
    made = await desk.do("group.add", folder="acme/eng", name="Eng", provider="mine")

    assert (made["folder"], made["tier"], made["provider"]) == ("acme/eng", 2, "mine")
    assert (desk.operation_deps.home.group("acme/eng") / "AGENTS.md").is_file()
    assert await desk.recorded() == ["group.add"]


@pytest.mark.parametrize("folder", ["", "../etc", "a//b", "/abs", "root/x", "a b", "home"])
async def test_a_group_that_cannot_be_is_refused_and_leaves_nothing(desk: Desk, folder: str) -> None:
    with pytest.raises(Invalid):
        await desk.do("group.add", folder=folder)

    assert await desk.recorded() == []
    assert len(await desk.do("group.list")) == 2


async def test_an_unknown_provider_is_told_with_the_known_ones(desk: Desk) -> None:
    with pytest.raises(Invalid, match=r"no provider 'gpt'; there are: .*mine"):
        await desk.do("group.add", folder="acme", provider="gpt")


async def test_arguments_that_do_not_fit_are_refused_by_name(desk: Desk) -> None:
    with pytest.raises(Invalid, match="colour"):
        await desk.do("group.add", folder="acme", colour="red")
    with pytest.raises(Invalid, match="folder"):
        await desk.do("group.add")


@pytest.mark.parametrize("limit", [-5, 0, 100_001])
async def test_a_number_out_of_bounds_is_refused_also_over_the_api(desk: Desk, limit: int) -> None:
    with pytest.raises(Invalid, match="limit"):
        await desk.do("secret.log", limit=limit)


@pytest.mark.parametrize("match", ["room=a\udcff", "\ud800"])
async def test_a_text_that_is_none_is_refused_by_its_name_and_nothing_is_written(desk: Desk, match: str) -> None:
    with pytest.raises(Invalid, match=r"match.*not text"):
        await desk.do("route.add", match=match, target="home")
    with pytest.raises(Invalid, match=r"values.*not text"):
        await desk.do("group.set", folder="home", values={"options": {"x": match}})
    assert await desk.recorded() == []


async def test_a_group_is_changed_by_key_and_value(desk: Desk) -> None:
    values = {"name": "Hall", "window_messages": 5, "options": {"temperature": 0.5, "x": "y"}}

    changed = await desk.do("group.set", folder="home", values=values)

    assert (changed["name"], changed["window_messages"]) == ("Hall", 5)
    assert changed["options"] == {"temperature": 0.5, "x": "y"}
    changed = await desk.do("group.set", folder="home", values={"window_messages": None, "options": {"x": None}})
    assert (changed["window_messages"], changed["options"]) == (None, {"temperature": 0.5})


async def test_a_group_without_a_name_is_called_like_its_folder(desk: Desk) -> None:
    await desk.do("group.add", folder="acme/eng", name="Engineers")
    assert (await desk.do("group.set", folder="acme/eng", values={"name": " "}))["name"] == "eng"


async def test_a_group_is_sealed_until_somebody_opens_it(desk: Desk) -> None:
    await desk.do("group.add", folder="acme/eng")
    assert not (await desk.do("group.show", folder="acme/eng"))["open"]
    for said in (True, False, True):
        assert (await desk.do("group.set", folder="acme/eng", values={"open": said}))["open"] is said


@pytest.mark.parametrize(
    "values",
    [
        {"colour": "x"},
        {"open": "perhaps"},
        {"open": True},
        {"window_chars": -1},
        {"window_chars": "5"},
        {"limits": {"files": "many"}},
        {"provider": "?"},
        {"sandbox": "?"},
    ],
)
async def test_a_value_that_cannot_be_is_refused(desk: Desk, values: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        await desk.do("group.set", folder="home", values=values)


async def test_removing_a_group_keeps_its_files_and_an_account_of_its_messages(desk: Desk) -> None:
    await desk.do("group.add", folder="acme")
    session_id = await desk.operation_deps.store.write(a_waiting_message, "acme")
    await desk.do("route.add", match="platform=web", target="acme")

    gone = await desk.do("group.rm", folder="acme")

    assert gone == {
        "folder": "acme",
        "closed": 1,
        "kept": str(desk.operation_deps.home.group("acme")),
        "removed": {"sessions": 1, "media": 0, "worktrees": 0, "tasks": 0},
        "left": [],
    }
    assert desk.stopped == [session_id]
    assert (desk.operation_deps.home.group("acme") / "AGENTS.md").is_file()
    assert await desk.operation_deps.store.read(sessions.get, session_id) is None
    assert [route.target for route in await desk.operation_deps.store.read(routes.list_all)] == ["home"]
    assert (await desk.operation_deps.store.read(ledger.check, 10**17)).unaccounted == 0
    [line] = await desk.operation_deps.store.read(ledger.list_lines, None, 10)
    assert (line.state, line.reason) == ("cancelled", "its group was removed")


@pytest.mark.parametrize("folder", ["root", "home"])
async def test_the_default_groups_stay(desk: Desk, folder: str) -> None:
    with pytest.raises(Invalid, match="stays"):
        await desk.do("group.rm", folder=folder)


async def test_what_is_not_there_is_told(desk: Desk) -> None:
    for name, args in (
        ("group.rm", {"folder": "nope"}),
        ("group.show", {"folder": "nope"}),
        ("group.set", {"folder": "nope", "values": {"name": "x"}}),
        ("route.rm", {"id": 99}),
        ("session.close", {"id": "s-nope"}),
        ("user.show", {"id": "web:user/1"}),
    ):
        with pytest.raises(NotFound):
            await desk.do(name, **args)
    assert await desk.recorded() == []


async def test_a_route_is_added_in_its_place(desk: Desk) -> None:
    made = await desk.do("route.add", match="platform=web", target="home#observe", seq=5, also=True, window="20/8000")

    assert (made["folder"], made["also"], made["window_messages"], made["window_chars"]) == ("home", True, 20, 8000)
    assert [route["seq"] for route in await desk.do("route.list")] == [5, 1000]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"match": "colour=red", "target": "home"}, "unknown key 'colour'"),
        ({"match": "", "target": "ghost"}, "no group 'ghost'"),
        ({"match": "", "target": "home", "session": "mine"}, "not a session mode"),
        ({"match": "", "target": "home", "window": "many"}, "not N/C"),
        ({"match": "", "target": "home", "ttl": "soon"}, "is no time; write it like 10m"),
        ({"match": "", "target": "daemon:x"}, "daemon:"),
    ],
)
async def test_a_route_that_cannot_work_is_refused_when_written(desk: Desk, args: dict[str, Any], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        await desk.do("route.add", **args)
    assert len(await desk.do("route.list")) == 1


@pytest.mark.parametrize(("ttl", "seconds"), [("", None), ("10m", 600), ("0", 0), ("never", -1)])
async def test_a_route_says_how_long_its_group_stays(desk: Desk, ttl: str, seconds: int | None) -> None:
    assert (await desk.do("route.add", match="", target="home", ttl=ttl))["ttl_s"] == seconds


async def test_a_test_of_the_routes_says_who_is_in_the_conversation_and_that_this_decides(desk: Desk) -> None:
    await desk.do("group.add", folder="acme")
    route = await desk.do("route.add", match="verb=mention", target="acme", ttl="1h")
    now = desk.operation_deps.clock.now()
    place = ("web", "web:home", "t")
    await desk.operation_deps.store.write(engagements.put, make_engagement(place, "acme", route["id"], 3600, now))

    answer = await desk.do("route.test", address="web:home", thread="t")

    assert ([each["folder"] for each in answer["groups"]], answer["decided_by"]) == (["acme"], "engagement")
    (engaged,) = answer["engaged"]
    assert (engaged["folder"], engaged["route"]) == ("acme", route["id"]) and engaged["until"] > "20"
    elsewhere = await desk.do("route.test", address="web:home")
    assert (elsewhere["decided_by"], elsewhere["engaged"]) == ("route", [])
    assert [each["folder"] for each in elsewhere["groups"]] == ["home"]


async def test_a_test_of_the_routes_says_who_wins_and_why(desk: Desk) -> None:
    await desk.do("group.add", folder="acme")
    await desk.do("route.add", match="sender=web:user/9", target="acme")

    answer = await desk.do("route.test", address="web:home", sender="web:user/9")

    assert [each["folder"] for each in answer["groups"]] == ["acme"]
    assert [each["held"] for each in answer["routes"]] == [True, False]
    assert "not asked" in answer["routes"][1]["why"]
    answer = await desk.do("route.test", address="web:home", sender="web:user/1")
    assert [each["folder"] for each in answer["groups"]] == ["home"]
    assert "does not hold" in answer["routes"][0]["why"]


async def test_people_are_made_known_and_given_a_role(desk: Desk) -> None:
    await desk.do("user.add", id="telegram:user/9", name="Ada")
    await desk.do("user.role", id="telegram:user/9", role="admin", folder="home")

    shown = await desk.do("user.member", id="telegram:user/9", folder="root")

    assert (shown["name"], shown["roles"], shown["member_of"]) == ("Ada", (("admin", "home"),), ("root",))
    assert await desk.recorded() == ["user.add", "user.role", "user.member"]
    with pytest.raises(Invalid):
        await desk.do("user.role", id="telegram:user/9", role="king")
    with pytest.raises(NotFound):
        await desk.do("user.role", id="telegram:user/10", role="admin")


@pytest.mark.parametrize("way", ["allow", "block", "member", "role"])
async def test_whoever_is_let_in_or_shut_out_by_a_command_is_not_asked_about_any_longer(desk: Desk, way: str) -> None:
    store, later = desk.operation_deps.store, desk.operation_deps.clock.now() + HOUR
    for sender in (ANN, "telegram:user/10"):
        asked = NewRequest(kind=RequestKind.SENDER, name=sender, folder="home", input={}, next_at=later)
        await store.write(requests.add, asked, 1)
    await desk.do("user.add", id=ANN, name="Ann")
    given = {"member": {"id": ANN, "folder": "home"}, "role": {"id": ANN, "role": "admin", "folder": "home"}}

    await desk.do(f"user.{way}", **given.get(way, {"who": ANN}))

    due = await store.read(waiting_requests.list_due, desk.operation_deps.clock.now(), 9)
    assert [each.name for each in due] == [ANN]


async def test_a_member_who_writes_on_the_page_reaches_their_only_group(desk: Desk) -> None:
    await desk.do("group.add", folder="family")
    await desk.do("group.add", folder="kids")
    await desk.do("user.add", id="web:user/bob", name="Bob")
    await desk.do("user.member", id="web:user/bob", folder="family")
    await desk.do("user.member", id="web:user/bob", folder="kids")  # who is heard there stays with that group
    chat = PersonalChat("web", "web:people/bob", "web:user/bob")
    assert await desk.operation_deps.store.read(personal_routes.list_reached, chat) == ["family"]


async def test_a_route_that_drops_what_people_write_on_the_page_stays_the_last_word(desk: Desk) -> None:
    await desk.do("group.add", folder="family")
    await desk.do("route.add", match="chat_jid=web:people/*", target="drop")
    await desk.do("user.add", id="web:user/bob", name="Bob")
    await desk.do("user.member", id="web:user/bob", folder="family")
    chat = PersonalChat("web", "web:people/bob", "web:user/bob")
    assert await desk.operation_deps.store.read(personal_routes.list_reached, chat) == []


async def test_a_room_is_opened_to_the_public(desk: Desk) -> None:
    await desk.do("room.policy", address="web:home", policy="public")

    assert {room["address"]: room["policy"] for room in await desk.do("room.list")}["web:home"] == "public"


async def test_a_room_may_be_given_a_policy_before_anybody_spoke_there(desk: Desk) -> None:
    told = await desk.do("room.policy", address="spool:office", policy="public")

    assert (told["instance"], told["new"]) == ("spool", True)
    assert (await desk.do("room.policy", address="spool:office", policy="strict"))["new"] is False
    assert {room["address"]: room["policy"] for room in await desk.do("room.list")}["spool:office"] == "strict"


async def test_everybody_who_is_known_is_listed(desk: Desk) -> None:
    await desk.do("user.add", id="spool:user/ann", name="Ann")

    known = {user["id"]: user for user in await desk.do("user.list")}

    assert known["spool:user/ann"]["name"] == "Ann"
    assert known["terminal:owner"]["roles"] == (("owner", ""),)


@pytest.mark.parametrize("window", ["5", "a/b", "-1/5", "5/5/5"])
async def test_a_window_is_messages_and_characters(desk: Desk, window: str) -> None:
    with pytest.raises(Invalid, match=r"is not N/C \(messages/characters\)"):
        await desk.do("route.add", match="", target="home", window=window)


async def test_moments_are_told_as_rfc_3339(desk: Desk) -> None:
    [route] = await desk.do("route.list")

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", route["created_at"])


async def test_a_session_is_closed_and_what_waited_is_withdrawn(desk: Desk) -> None:
    session_id = await desk.operation_deps.store.write(a_waiting_message, "home")
    assert [each["id"] for each in await desk.do("session.list")] == [session_id]

    await desk.do("session.close", id=session_id)

    assert await desk.do("session.list", folder="home") == []
    assert desk.stopped == [session_id]
    assert (await desk.operation_deps.store.read(ledger.check, 10**17)).in_flight == 0


async def test_a_session_is_given_a_provider_and_a_model_and_they_are_taken_back(desk: Desk) -> None:
    renewed: list[str] = []
    desk.operation_deps = replace(desk.operation_deps, renew_session=renewed.append)
    session_id = await desk.operation_deps.store.write(a_waiting_message, "home")
    both = await desk.do("session.set", id=session_id, provider="mine", model="m-1")
    other = await desk.do("session.set", id=session_id, provider="demo")
    same = await desk.do("session.set", id=session_id, provider="demo", model="m-2")
    none = await desk.do("session.set", id=session_id, model="default", provider="default")

    assert [(each["provider"], each["model"]) for each in (both, other, same, none)] == [
        ("mine", "m-1"),
        ("demo", ""),  # a model belongs to its provider
        ("demo", "m-2"),
        ("", ""),
    ]
    assert renewed == [session_id] * 4
    assert await desk.recorded() == ["session.set"] * 4


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "--provider or --model"),
        ({"provider": "dmo"}, "there is no provider 'dmo'.*demo"),
        ({"model": "x" * 201}, "is longer than 200"),
    ],
)
async def test_what_a_session_cannot_be_given_is_refused(desk: Desk, given: dict[str, str], why: str) -> None:
    session_id = await desk.operation_deps.store.write(a_waiting_message, "home")
    with pytest.raises(Invalid, match=why):
        await desk.do("session.set", id=session_id, **given)
    assert await desk.recorded() == []


async def test_a_refused_write_leaves_neither_a_row_nor_a_record(desk: Desk) -> None:
    await desk.do("group.add", folder="acme")

    with pytest.raises(GatepostError):
        await desk.do("group.add", folder="acme", name="Again")

    group = await desk.operation_deps.store.read(groups.get, "acme")
    assert group is not None and group.name == "acme"
    assert await desk.recorded() == ["group.add"]
    assert (await desk.operation_deps.store.read(audit.verify))[1] is None


async def test_a_group_knows_another_by_a_name_until_that_is_taken_back_or_the_other_is_removed(desk: Desk) -> None:
    for folder in ("acme", "beta"):
        await desk.do("group.add", folder=folder)
    made = await desk.do("group.link", folder="acme", name="helpdesk", group="beta")
    assert made == {"folder": "acme", "name": "helpdesk", "group": "beta"}
    (known,) = (await desk.do("group.show", folder="acme"))["destinations"]
    assert (known["name"], known["kind"], known["target_folder"]) == ("helpdesk", "group", "beta")
    await desk.do("group.unlink", folder="acme", name="helpdesk")
    with pytest.raises(NotFound):
        await desk.do("group.unlink", folder="acme", name="helpdesk")

    await desk.do("group.link", folder="acme", name="helpdesk", group="beta")
    await desk.do("group.rm", folder="beta")
    assert (await desk.do("group.show", folder="acme"))["destinations"] == []


async def test_a_name_for_a_group_is_plain_and_free_and_its_group_is_there(desk: Desk) -> None:
    await desk.do("group.add", folder="acme")
    await desk.operation_deps.store.write(destinations.add_room, "acme", "lobby", "fake", "fake:room/1", "", 1)
    for name, group, fault in (
        ("Help Desk", "root", Invalid),
        ("lobby", "root", Invalid),
        ("helpdesk", "beta", NotFound),
    ):
        with pytest.raises(fault):
            await desk.do("group.link", folder="acme", name=name, group=group)
    with pytest.raises(NotFound):
        await desk.do("group.unlink", folder="acme", name="lobby")


def test_a_link_into_another_world_needs_the_right_at_the_root() -> None:
    assert LinkGroupArgs(folder="acme/eng", name="ops", group="acme/ops").get_scope() == "acme"
    assert LinkGroupArgs(folder="acme/eng", name="ops", group="beta").get_scope() == ""


async def test_a_pinned_rule_is_added_listed_and_removed_and_its_agents_start_anew(desk: Desk) -> None:
    woken: list[str] = []
    desk.operation_deps.events.on_group(woken.append)
    made = await desk.do("rule.add", folder="home", text=" Never merge. ", room="telegram:group/-1")
    other = await desk.do("rule.add", folder="home", text="Be brief.")

    assert (made["text"], made["address"]) == ("Never merge.", "telegram:group/-1")
    assert [each["id"] for each in await desk.do("rule.list")] == [made["id"], other["id"]]
    with pytest.raises(NotFound, match="pinned rule"):
        await desk.do("rule.rm", folder="root", id=made["id"])
    await desk.do("rule.rm", folder="home", id=made["id"])
    assert [each["text"] for each in await desk.do("rule.list", folder="home")] == ["Be brief."]
    assert woken == ["home"] * 3
    assert await desk.recorded() == ["rule.add", "rule.add", "rule.rm"]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"folder": "nowhere", "text": "x"}, "nowhere"),
        ({"folder": "home", "text": "  "}, "1 to 2000"),
        ({"folder": "home", "text": "x" * 2001}, "AGENTS.md"),
        ({"folder": "home", "text": "x", "room": "here"}, "not an address"),
    ],
)
async def test_a_pinned_rule_that_cannot_be_is_refused(desk: Desk, args: dict[str, str], why: str) -> None:
    with pytest.raises(GatepostError, match=why):
        await desk.do("rule.add", **args)


async def test_the_pinned_rules_of_a_group_are_bounded_together(desk: Desk) -> None:
    for letter in "abcd":
        await desk.do("rule.add", folder="home", text=letter * 2000)
    with pytest.raises(Invalid, match="remove one first"):
        await desk.do("rule.add", folder="home", text="y")


async def test_a_test_of_the_routes_says_that_the_sender_is_denied_or_unknown(desk: Desk) -> None:
    row = await desk.do("acl.add", principal="web:user/9", action="interact", scope="home", deny=True)
    answer = await desk.do("route.test", address="web:home", sender="web:user/9")
    (group,) = answer["groups"]
    assert (answer["outcome"], group["reason"], group["denied_by"]) == (
        "refused",
        "denied_by_the_access_list",
        row["id"],
    )
    assert answer["sender"] == {"id": "web:user/9", "person": "web:user/9", "known": False, "untrusted": False}
    await desk.do("room.policy", address="web:home", policy="request_approval")
    waiting = await desk.do("route.test", address="web:home", sender="web:user/8")
    assert [each["outcome"] for each in waiting["groups"]] == ["held"]
    claimed = await desk.do("route.test", address="web:home", sender="web:user/8", verb="untrusted")
    assert (claimed["groups"][0]["reason"], claimed["sender"]["untrusted"]) == ("untrusted_sender", True)
    public = await desk.do("route.test", address="terminal:x", sender="terminal:bob")
    assert (public["policy"], public["outcome"]) == ("public", "wakes")
    with pytest.raises(Invalid):
        await desk.do("route.test", address="web:home", sender="nobody")


async def answer_elsewhere(desk: Desk, name: str, answer: Any, **args: Any) -> Any:
    """Return what an operation answers that another gateway has run."""

    async def run(deps: OperationDeps, given: Any) -> Any:
        raise FolderElsewhere("acme", "far", "near")

    async def pass_on(deps: OperationDeps, gateway: str, name: str, given: dict[str, Any]) -> Any:
        return answer

    return await replace(OPERATIONS[name], run=run)(replace(desk.operation_deps, pass_on=pass_on), args)


@pytest.mark.parametrize("answer", [None, [], {"folder": "acme"}, {"created_at": "yesterday"}, "words"])
async def test_an_answer_of_a_gateway_of_another_version_names_it_and_may_have_been_done(
    desk: Desk, answer: object
) -> None:
    with pytest.raises(Unavailable, match=r"gateway far is unavailable: .*group\.add as another version") as refused:
        await answer_elsewhere(desk, "group.add", answer, folder="acme")
    assert refused.value.uncertain


async def test_a_long_list_of_another_gateway_comes_as_it_was_answered_there(desk: Desk) -> None:
    await desk.do("group.add", folder="acme")
    found = await desk.do("group.list")
    many = found * SHORT_LIST
    assert await answer_elsewhere(desk, "group.list", many) == many


class ManyLines(Struct, frozen=True):
    lines: list[str]


@pytest.mark.parametrize(("count", "here"), [(SHORT_LIST, True), (SHORT_LIST + 1, False)])
@pytest.mark.parametrize("kind", [list, ManyLines])
async def test_a_long_list_becomes_json_beside_the_event_loop_also_inside_a_record(
    kind: Any, count: int, here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    monkeypatch.setattr(contract, "to_json", lambda answer: threads.append(threading.get_ident()))
    await make_json(kind(["x"] * count))
    assert [each == threading.get_ident() for each in threads] == [here]


@pytest.mark.parametrize("setting", ["name", "model"])
async def test_a_text_of_a_group_that_is_far_too_long_is_refused(desk: Desk, setting: str) -> None:
    """Everybody reads it with each list of groups, and the audit log has it for good."""
    with pytest.raises(Invalid, match=setting):
        await desk.do("group.set", folder="home", values={setting: "x" * 3_000_000})
