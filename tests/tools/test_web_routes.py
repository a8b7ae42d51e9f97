"""The five web tools, through the gate."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.grants import parse
from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.flow import grant_changes, web_routes
from gatepost.flow.requests.held_calls import HeldCalls
from gatepost.flow.web_routes import RouteMaker
from gatepost.gate.dispatch import Dispatch
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.serve.control.answers import from_json, to_json
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.sessions import groups
from gatepost.store.web import web_routes as rows
from gatepost.tools.contract import TOOLS
from gatepost_testing.gate_agent import GateAgent

load_package("gatepost.tools")
PERSON = RouteMaker(folder="", name="operator", now=1, reaches=lambda folder: True)
GRANTED = tuple(map(parse, ("set_web_route", "del_web_route", "list_web_routes", "set_web_host", "get_web_host")))


def read(answer: ToolAnswer) -> Any:
    assert not answer.failed and not answer.code, answer.text
    return json.loads(answer.text)


def check_ok(answer: ToolAnswer) -> None:
    assert (answer.failed, answer.text) == (False, "ok"), answer.text


async def start(path: Path, store: SqliteStore, folder: str = "acme", **given: Any) -> GateAgent:
    agent = await GateAgent.create(path, store, folder, **given)
    for each in ("acme", "acme/eng", "acme/eng/sre", "other", "root"):
        await store.write(groups.add, each, each, "", 1)
    return agent


async def test_a_route_is_set_changed_listed_and_removed(tmp_path: Path, store: SqliteStore) -> None:
    agent = await start(tmp_path, store)
    check_ok(await agent.call("set_web_route", path="/pub/acme/docs/", access="auth"))
    check_ok(await agent.call("set_web_route", path="/pub/acme/docs", access="public"))
    check_ok(
        await agent.call("set_web_route", path="/pub/acme/eng", access="redirect", redirect_to="/priv/acme/eng/x/")
    )
    found = read(await agent.call("list_web_routes"))
    assert [(each["path_prefix"], each["access"], each["redirect_to"], each["folder"]) for each in found["routes"]] == [
        ("/pub/acme/docs", "public", "", "acme"),
        ("/pub/acme/eng", "redirect", "/priv/acme/eng/x/", "acme/eng"),
    ]
    assert found["more"] is False and found["routes"][0]["created_at"]
    check_ok(await agent.call("del_web_route", path="/pub//acme/docs/"))
    rest = read(await agent.call("list_web_routes", after="/pub/acme/docs"))
    assert [each["path_prefix"] for each in rest["routes"]] == ["/pub/acme/eng"]
    assert ("set_web_route", "allowed") in await agent.audited()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"path": "pub/acme", "access": "public"}, "does not begin with a slash"),
        ({"path": "/static/acme", "access": "public"}, "no page of a group"),
        ({"path": "/pub/acme", "access": "open"}, "access"),
        ({"path": "/pub/acme", "access": "redirect"}, "redirect_to"),
        ({"path": "/pub/acme", "access": "public", "redirect_to": "/pub/acme/x"}, "redirect_to"),
        ({"path": "/pub/acme", "access": "redirect", "redirect_to": "https://evil.example"}, "redirect_to"),
        ({"path": "/pub/acme/a", "access": "redirect", "redirect_to": "/pub/other/x"}, "redirect_to"),
        ({"path": "/priv/acme", "access": "public"}, "never public"),
        ({"path": "/pub/other", "access": "public"}, "may not set_web_route"),
        ({"path": "/pub/acme/../other", "access": "public"}, "leads upwards"),
        ({"path": "/pub/acme%2f..%2fother", "access": "public"}, "path"),
        ({"path": "/pub/ACME", "access": "public"}, "may not set_web_route"),
        ({"path": "/pub/acme.", "access": "public"}, "may not set_web_route"),
        ({"path": "/pub/root/x", "access": "public"}, "may not set_web_route"),
        ({"path": "/pub/none", "access": "public"}, "may not set_web_route"),
    ],
)
async def test_arizuko_36_what_is_wrong_or_somebody_elses_is_refused(
    given: dict[str, str], words: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await start(tmp_path, store)
    answer = await agent.call("set_web_route", **given)
    assert (answer.failed or answer.code) and words in answer.text
    assert await store.read(rows.list_routes, "", 10) == []


async def test_a_group_with_a_grant_changes_its_own_part_and_no_more(tmp_path: Path, store: SqliteStore) -> None:
    agent = await start(tmp_path, store, "acme/eng", rules=GRANTED)
    await store.write(
        web_routes.set_route, web_routes.NewWebRoute(path="/pub/acme/eng/a", access=rows.WebAccess.DENY), PERSON
    )
    check_ok(await agent.call("set_web_route", path="/pub/acme/eng/sre/x", access="deny"))
    for path in ("/pub/acme", "/pub/acme/other", "/pub/acme/engine", "/priv/acme"):
        assert "may not set_web_route" in (await agent.call("set_web_route", path=path, access="public")).text
    assert "a person made it" in (await agent.call("set_web_route", path="/pub/acme/eng/a", access="public")).text
    gone = await agent.call("del_web_route", path="/pub/acme/eng/a")
    assert gone.failed and "not there, or not this group's" in gone.text
    assert len(await store.read(rows.list_routes, "", 10)) == 2


async def test_what_becomes_public_waits_for_a_person_where_a_rule_holds_it(tmp_path: Path, store: SqliteStore) -> None:
    agent = await start(tmp_path, store)
    await store.write(grant_changes.add_rule, "acme", "hold set_web_route(access=public)", "test", 1)
    deps = agent.deps
    holder = HeldCalls(store, deps.clock, deps.config, deps.events, deps.channels, "", deps.home.media)  # type: ignore[arg-type]
    agent.dispatch = Dispatch(TOOLS, replace(deps, holder=holder))
    answer = await agent.call("set_web_route", path="/pub/acme", access="public")
    assert "waits for a person's decision" in answer.text
    check_ok(await agent.call("set_web_route", path="/pub/acme/x", access="deny"))
    assert [each.path for each in await store.read(rows.list_routes, "", 10)] == ["/pub/acme/x"]


async def test_a_route_that_is_not_there_is_named(tmp_path: Path, store: SqliteStore) -> None:
    agent = await start(tmp_path, store, "acme")
    answer = await agent.call("del_web_route", path="/pub/acme/none")
    assert answer.failed and "no web route named '/pub/acme/none'" in answer.text


async def test_root_gives_host_names_and_worlds_see_theirs(tmp_path: Path, store: SqliteStore) -> None:
    root = await start(tmp_path, store, "root", config=Config({"web.hosts": ("gate.example",)}))
    assert read(await root.call("set_web_host", hostname="ACME.example.com.", folder="acme")) == {
        "hosts": {"acme.example.com": "acme"}
    }
    assert len(read(await root.call("set_web_host", hostname="o.example.com", folder="other"))["hosts"]) == 2
    for wrong in ("gate.example", "x.gate.example", "10.0.0.1", "localhost", "a.example:80", "bücher.example"):
        answer = await root.call("set_web_host", hostname=wrong, folder="acme")
        assert answer.failed and "hostname" in answer.text, wrong
    assert "no group named" in (await root.call("set_web_host", hostname="n.example.com", folder="acme/none")).text
    assert read(await root.call("get_web_host", folder="acme")) == {"hostname": "acme.example.com", "folder": "acme"}


async def test_a_world_asks_for_its_own_names_and_takes_over_none(tmp_path: Path, store: SqliteStore) -> None:
    agent = await start(tmp_path, store, "acme", rules=GRANTED)
    await store.write(web_routes.bind_host, "o.example.com", "other", PERSON)
    await store.write(web_routes.bind_host, "acme.example.com", "acme", PERSON)
    assert read(await agent.call("get_web_host")) == {"hostname": "acme.example.com", "folder": "acme"}
    assert read(await agent.call("get_web_host", folder="acme/eng"))["hostname"] == ""
    assert (await agent.call("get_web_host", folder="other")).failed
    for name, folder in (("o.example.com", "acme"), ("acme.example.com", "acme/eng"), ("new.example.com", "other")):
        answer = await agent.call("set_web_host", hostname=name, folder=folder)
        assert answer.failed and "may not" in answer.text
    made = read(await agent.call("set_web_host", hostname="new.example.com", folder="acme/eng"))
    assert made == {"hosts": {"acme.example.com": "acme", "new.example.com": "acme/eng"}}


async def test_a_redirect_of_an_agent_never_breaks_the_operators_list(tmp_path: Path, store: SqliteStore) -> None:
    """It is kept encoded, so it is longer than it was written; commands read the list by the bounds of its fields."""
    agent = await start(tmp_path, store)
    target = f"/pub/acme/{'é' * 200}"
    await agent.call("set_web_route", path="/pub/acme/a", access="redirect", redirect_to=target)  # or it is refused
    from_json(list[rows.WebRoute], to_json(await store.read(rows.list_routes, "", 10)))
