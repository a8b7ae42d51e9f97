"""Groups: made by their parent, within its bounds; watched by those who may."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.tiers import may_watch
from gatepost.core.registry import load_package
from gatepost.flow.groups import LARGEST_PROTOTYPE
from gatepost.flow.schedule.firing import has_way
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rooms import routes
from gatepost.store.schedule import tasks
from gatepost.store.sessions import groups, sessions
from gatepost_testing.gate_agent import GateAgent, is_invalid

load_package("gatepost.tools")
ROOM = "telegram:group/-100"


def told(answer: ToolAnswer) -> dict[str, Any]:
    assert not answer.failed and not answer.code, answer.text
    assert answer.structured is not None and json.loads(answer.structured) == json.loads(answer.text)
    found: dict[str, Any] = json.loads(answer.structured)
    return found


async def world(path: Path, store: SqliteStore, folder: str = "acme", *others: str) -> GateAgent:
    agent = await GateAgent.create(path, store, folder)
    await store.write(sessions.find_or_add, "per-thread", folder, "telegram", ROOM, "", 1)  # it reaches the caller
    for other in others:
        await store.write(groups.add, other, other.rpartition("/")[2], "", 1)
    return agent


async def test_a_child_is_made_with_a_folder_and_gets_its_room(tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store)
    made = told(await agent.call("register_group", jid=ROOM, folder="acme/eng", name="Engineers"))

    assert made == {"registered": True, "folder": "acme/eng", "jid": ROOM, "name": "Engineers", "parent": "acme"}
    (route,) = await store.read(routes.list_all)
    assert (route.match, route.target, route.seq, route.created_by) == (
        f'chat_jid="{ROOM}"',
        "acme/eng",
        0,
        "agent:acme",
    )
    assert "Engineers" in (agent.deps.home.group("acme/eng") / "AGENTS.md").read_text()
    assert ("register_group", "allowed") in await agent.audited()


@pytest.mark.parametrize("folder", ["other", "other/x", "acme", "acme/eng/sre", "root"])
async def test_arizuko_15_a_world_makes_direct_children_and_nothing_else(
    folder: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await world(tmp_path, store)
    answer = await agent.call("register_group", jid=ROOM, folder=folder)
    assert answer.failed and "a direct child of acme" in answer.text
    assert [each.folder for each in await store.read(groups.list_all)] == ["acme"]


async def test_root_makes_groups_in_every_world_and_no_world(tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store, "root", "acme")
    assert told(await agent.call("register_group", jid=ROOM, folder="acme/eng"))["parent"] == "acme"
    assert "would be a world" in (await agent.call("register_group", jid=ROOM, folder="beta")).text
    assert "no group named 'ghost'" in (await agent.call("register_group", jid=ROOM, folder="ghost/x")).text


async def test_a_quota_bounds_the_direct_children(tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store, "acme", "acme/one")
    await store.write(groups.update, "acme", {"options": {"max_children": 1}})
    answer = await agent.call("register_group", jid=ROOM, folder="acme/two")
    assert answer.failed and "it has 1 children, and 1 are allowed" in answer.text

    await store.write(groups.update, "acme", {"options": {"max_children": -1}})
    assert told(await agent.call("register_group", jid=ROOM, folder="acme/two"))["registered"]


async def test_a_prototype_is_copied_without_its_links_and_names_the_child_after_the_room(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await world(tmp_path, store)
    prototype = agent.deps.home.group("acme") / "prototype"
    (prototype / "skills" / "greet").mkdir(parents=True)
    (prototype / "AGENTS.md").write_text("You greet.")
    (prototype / "skills" / "greet" / "SKILL.md").write_text("Say hello.")
    (prototype / "passwd").symlink_to("/etc/passwd")
    made = told(await agent.call("register_group", jid=ROOM, fromPrototype=True))

    assert made["folder"] == "acme/telegram-group--100"
    child = agent.deps.home.group(made["folder"])
    assert (child / "AGENTS.md").read_text() == "You greet."
    assert (child / "skills" / "greet" / "SKILL.md").read_text() == "Say hello."
    assert not (child / "passwd").exists() and not (child / "passwd").is_symlink()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"jid": ROOM}, "folder: is missing"),
        ({"jid": "nowhere", "folder": "acme/x"}, "is not an address"),
        ({"jid": ROOM, "folder": "acme/x y"}, "is not a name"),
        ({"jid": ROOM, "folder": "acme/x", "parent": "other"}, "the parent of acme/x is acme"),
        ({"jid": ROOM, "fromPrototype": True}, "no folder named 'prototype'"),
    ],
)
async def test_a_bad_child_is_named_and_nothing_is_made(
    given: dict[str, Any], said: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await world(tmp_path, store)
    answer = await agent.call("register_group", **given)
    assert answer.failed and said in answer.text
    assert await store.read(routes.list_all) == []


async def test_a_group_that_is_there_is_not_made_again(tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store, "acme", "acme/eng")
    assert (
        "there is a group 'acme/eng' already" in (await agent.call("register_group", jid=ROOM, folder="acme/eng")).text
    )


async def test_only_groups_of_the_own_world_are_told(tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store, "acme/eng", "acme", "other", "other/x", "root")
    found = told(await agent.call("refresh_groups"))["groups"]
    assert [each["folder"] for each in found] == ["acme", "acme/eng"]
    assert found[1] == {"folder": "acme/eng", "name": "eng", "parent": "acme"}


async def test_root_is_told_all_groups(tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store, "root", "acme", "other")
    assert len(told(await agent.call("refresh_groups"))["groups"]) == 3


async def test_a_group_is_opened_and_sealed(tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store, "acme", "acme/eng", "other")
    assert told(await agent.call("set_group_open", open=True, folder="acme/eng")) == {
        "ok": True,
        "folder": "acme/eng",
        "open": True,
    }
    group = await store.read(groups.get, "acme/eng")
    assert group is not None and group.open
    assert (await agent.call("set_group_open", open=True, folder="other")).failed
    assert is_invalid(await agent.call("set_group_open"))
    assert "no group named 'acme/ghost'" in (await agent.call("set_group_open", open=True, folder="acme/ghost")).text


async def test_a_window_is_set_kept_and_cleared(tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store)
    assert told(await agent.call("set_observe_window", messages=5, chars=900))["chars"] == 900
    assert told(await agent.call("set_observe_window", messages=-1)) == {
        "ok": True,
        "folder": "acme",
        "messages": None,
        "chars": 900,
    }
    assert "say messages, chars or both" in (await agent.call("set_observe_window")).text
    assert is_invalid(await agent.call("set_observe_window", messages=-2))


@pytest.mark.parametrize(
    ("observer", "source", "open", "may"),
    [
        ("w/a/b", "w/a", False, True),
        ("w/a/b", "w/a/c", False, False),
        ("w/a/b", "w/a/c", True, True),
        ("w", "w/a/c", False, True),
        ("w", "x", True, False),
        ("w/a", "x/a", True, False),
        ("root", "x/a", False, True),
    ],
)
def test_arizuko_18_who_may_watch_whom(observer: str, source: str, open: bool, may: bool) -> None:
    assert may_watch(observer, source, open=open) is may


async def test_a_group_watches_below_itself_and_stops(tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store, "acme", "acme/eng", "other")
    for _ in range(2):
        assert told(await agent.call("observe_group", source="acme/eng"))["source"] == "acme/eng"
    assert await store.read(groups.list_observers, "acme/eng") == ["acme"]
    assert told(await agent.call("unobserve_group", source="acme/eng"))["ok"]
    assert await store.read(groups.list_observers, "acme/eng") == []


@pytest.mark.parametrize("source", ["other", "acme", "acme/ghost", "root"])
async def test_another_world_oneself_and_a_ghost_are_not_watched(
    source: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await world(tmp_path, store, "acme", "other", "root")
    assert (await agent.call("observe_group", source=source)).failed
    assert await store.read(groups.list_observers, source) == []


async def test_an_agent_watches_a_sibling_that_is_open_and_nobody_else_beside_or_above_it(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await world(tmp_path, store, "acme/ops", "acme", "acme/eng", "acme/sealed")
    await store.write(groups.update, "acme/eng", {"open": 1})

    assert told(await agent.call("observe_group", source="acme/eng"))["observer"] == "acme/ops"
    for source, why in (("acme/sealed", "it is not open"), ("acme", "it is above you")):
        answer = await agent.call("observe_group", source=source)
        assert answer.failed and why in answer.text
        assert await store.read(groups.list_observers, source) == []
    assert told(await agent.call("unobserve_group", source="acme/eng"))["ok"]


async def test_a_world_has_no_siblings_to_be_opened_to(tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store)
    answer = await agent.call("set_group_open", open=True)
    assert answer.failed and "worlds have no siblings" in answer.text
    assert told(await agent.call("set_group_open", open=False))["open"] is False


async def untouched(agent: GateAgent, store: SqliteStore) -> bool:
    folders = [each.folder for each in await store.read(groups.list_all)]
    place = agent.deps.home.group("acme/eng")
    return folders == ["acme"] and not await store.read(routes.list_all) and not place.exists()


@pytest.mark.parametrize("name", ["large", "work.md/x", "CLAUDE.md/x", "skills"])
async def test_a_prototype_that_cannot_be_copied_makes_no_group(name: str, tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store)
    file = agent.deps.home.group("acme") / "prototype" / name
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x" * (LARGEST_PROTOTYPE + 1 if name == "large" else 1))
    answer = await agent.call("register_group", jid=ROOM, folder="acme/eng", fromPrototype=True)
    assert answer.failed and "internal" not in answer.text
    assert await untouched(agent, store)


async def test_a_prototype_may_have_a_file_of_every_name_that_a_group_begins_with(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await world(tmp_path, store)
    prototype = agent.deps.home.group("acme") / "prototype"
    prototype.mkdir()
    for name in ("AGENTS.md", "CLAUDE.md", "work.md"):
        (prototype / name).write_text(name)
    told(await agent.call("register_group", jid=ROOM, folder="acme/eng", fromPrototype=True))
    child = agent.deps.home.group("acme/eng")
    assert {name: (child / name).read_text() for name in ("CLAUDE.md", "work.md")} == {
        "CLAUDE.md": "CLAUDE.md",
        "work.md": "work.md",
    }


@pytest.mark.sqlite(reason="a trigger of SQLite refuses the row")
async def test_what_cannot_be_committed_leaves_no_folder(tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store)
    refuse = "CREATE TRIGGER full BEFORE INSERT ON routes BEGIN SELECT RAISE(ABORT, 'no room'); END"
    await store.write(lambda db: db.run(refuse))
    assert (await agent.call("register_group", jid=ROOM, folder="acme/eng")).failed
    assert await untouched(agent, store)


@pytest.mark.parametrize("steps", range(1, 30))
async def test_a_child_is_made_whole_or_not_at_all_whenever_its_call_is_cancelled(
    steps: int, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await world(tmp_path, store)
    calling = asyncio.create_task(agent.call("register_group", jid=ROOM, folder="acme/eng"))
    for _ in range(steps):
        await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait((calling,))
    await agent.dispatch.audit.flush()
    rows = [verdict for action, verdict in await agent.audited() if action == "register_group"]
    if await untouched(agent, store):
        assert rows in (["cancelled"], [])  # none: it had not begun
    else:
        assert rows == ["allowed"] and len(await store.read(routes.list_all)) == 1
        assert (agent.deps.home.group("acme/eng") / "skills").is_dir()


async def test_a_name_is_bounded(tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store)
    answer = await agent.call("register_group", jid=ROOM, folder="acme/eng", name="N" * 101)
    assert is_invalid(answer) and await untouched(agent, store)


async def test_stranger_new_a_room_that_does_not_reach_the_caller_is_not_given_to_a_child(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await world(tmp_path, store)
    answer = await agent.call("register_group", jid="terminal:main", folder="acme/eng")

    assert answer.failed and "nothing that is written there reaches your part of the tree" in answer.text
    assert await store.read(routes.list_all) == [] and await store.read(groups.get, "acme/eng") is None
    assert not agent.deps.home.group("acme/eng").exists()

    route = routes.Route(
        seq=1, match="platform=terminal", target="acme", folder="acme", created_by="operator", created_at=1
    )
    await store.write(routes.add, route)
    assert told(await agent.call("register_group", jid="terminal:main", folder="acme/eng"))["registered"]


@pytest.mark.slow
async def test_stranger_new_a_long_list_of_groups_comes_in_pages(tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store)

    def many(db: Db) -> None:
        for number in range(3000):
            groups.add(db, f"acme/{number:04d}", "N" * 100, "", 1)

    await store.write(many)
    first = told(await agent.call("refresh_groups"))
    rest = told(await agent.call("refresh_groups", after=first["groups"][-1]["folder"]))
    found = [each["folder"] for each in first["groups"] + rest["groups"]]
    assert found == ["acme", *(f"acme/{number:04d}" for number in range(3000))]
    assert first["more"] and not rest["more"]


SEED = """
[settings]
window_messages = 7

[[task]]
prompt = "Sum up what happened."
cron = "0 8 * * 1-5"
tz = "Europe/Berlin"

[[task]]
prompt = "Look whether the build is green."
every = "2h"
context = "isolated"
missed = "skip"
max_runs = 10
"""


def write_seed(agent: GateAgent, text: str) -> None:
    prototype = agent.deps.home.group("acme") / "prototype"
    prototype.mkdir(parents=True)
    (prototype / "tasks.toml").write_text(text)


async def test_a_child_gets_the_tasks_and_settings_of_the_prototype(tmp_path: Path, store: SqliteStore) -> None:
    agent = await world(tmp_path, store)
    write_seed(agent, SEED)
    told(await agent.call("register_group", jid=ROOM, folder="acme/eng", fromPrototype=True))

    group = await store.read(groups.get, "acme/eng")
    assert group is not None and group.window_messages == 7
    found = {each.prompt: each for each in await store.read(tasks.list_page, "acme/eng", "", 10)}
    brief, look = found["Sum up what happened."], found["Look whether the build is green."]
    assert (brief.instance, brief.address, brief.zone, brief.created_by) == (
        "telegram",
        ROOM,
        "Europe/Berlin",
        "agent:acme",
    )
    assert (look.kind, look.context, look.missed, look.max_runs) == ("every", "isolated", "skip", 10)
    assert not (agent.deps.home.group("acme/eng") / "tasks.toml").exists()
    assert await store.read(has_way, "acme/eng", "telegram", ROOM)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[task]]\nprompt = ", "cannot be read"),
        ("[[task]]\ncron = '@daily'\n", "prompt"),
        ("[[task]]\nprompt = 'x'\ncron = 'often'\n", "task 1 of your prototype/: cron: invalid cron 'often'"),
        ("[[task]]\nprompt = 'x'\n", "exactly one of when, at, cron and every"),
        ("[[task]]\nprompt = 'x'\ntext = 'y'\nevery = '2h'\n", "text"),
        ("[[task]]\nprompt = 'x'\nevery = '1s'\n", "schedule.least_interval_s"),
        ("[settings]\nsandbox = 'none'\n", "sandbox"),
        ("[settings]\nwindow_messages = -5\n", "window_messages"),
        ("a = " + "[" * 30_000, "cannot be read"),
        ("[[task]]\nprompt = 'x'\nevery = '2h'\n" * 21, "the most is 20"),
        ("#" * 70_000, "the most is 65536"),
    ],
)
async def test_a_prototype_whose_tasks_cannot_be_makes_nothing(
    text: str, said: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await world(tmp_path, store)
    write_seed(agent, text)
    answer = await agent.call("register_group", jid=ROOM, folder="acme/eng", fromPrototype=True)
    assert answer.failed and said in answer.text
    assert await untouched(agent, store)
    assert await store.read(tasks.list_page, None, "", 10) == []


@pytest.mark.parametrize("rule", ["!schedule_task", f"!schedule_task(targetJid={ROOM})"])
async def test_who_may_schedule_nothing_makes_no_group_from_a_prototype(
    rule: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await world(tmp_path, store)
    write_seed(agent, SEED)
    await store.write(acl.add_rule, "acme", rule, "operator", 1)
    answer = await agent.call("register_group", jid=ROOM, folder="acme/eng", fromPrototype=True)
    assert answer.failed and "forbids schedule_task" in answer.text
    assert await untouched(agent, store)
    told(await agent.call("register_group", jid=ROOM, folder="acme/eng"))
