"""The pages of managed agents, from what the operations answer, and the first steps."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from gatepost.core.records import replace
from gatepost.serve.control.arguments.agents import AgentSnapshot
from gatepost.serve.control.arguments.connect import ConnectableAgent, LocalModel
from gatepost.serve.web.dashboard.tables import make_facts, make_table
from gatepost.serve.web.dashboard.view import InputKind, Link
from gatepost.serve.web.pages.agents import (
    AGENT,
    AGENT_STEP,
    CHANNEL_STEP,
    DETAILS,
    NAME_STEP,
    NO_AGENTS,
    find_model,
    list_agent_actions,
    make_agent_form,
    make_agent_tile,
    make_connected,
    make_local_tiles,
    make_missing,
    make_progress,
    order_agents,
)
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rooms import routes
from gatepost.store.sessions import groups
from gatepost.store.sessions.sessions import SessionState

AT = "2026-01-01T00:00:00.000Z"


def make_answer(**more: Any) -> AgentSnapshot:
    given = {
        "agent_id": "s-1", "type": "claude", "folder": "home", "title": "Fix it", "cwd": "", "worktree": None,
        "setup_state": None, "status": SessionState.RUNNING, "model": "", "current_mode_id": "ask",
        "available_modes": [], "labels": {}, "parent_agent_id": None, "created_at": AT, "updated_at": AT,
        "archived_at": None, "last_error": None, "last_message": "done", "pending_permissions": [],
    }  # fmt: skip
    return AgentSnapshot(**{**given, **more})


def test_an_agent_is_shown_by_the_names_that_its_operation_answers_with() -> None:
    table = make_table([make_answer()], AGENT, NO_AGENTS, actions=list_agent_actions)
    assert table.rows[0].cells[1] == Link("Fix it", "/dashboard/agents/s-1")
    assert [each.label for each in table.rows[0].actions] == ["Stop", "Archive"]
    assert not list_agent_actions(make_answer(archived_at=AT))
    facts = {each.label: each.value for each in make_facts(make_answer(), DETAILS).items}
    assert facts["Mode"] == "ask"


def test_a_file_names_its_columns_as_the_api_does() -> None:
    names = [each.name for each in make_table([], AGENT, NO_AGENTS).columns]
    assert names == ["agentId", "title", "status", "type", "folder", "currentModeId", "updatedAt", "lastMessage"]


def make_agent(name: str, model: str = "", key: str = "", groups: tuple[str, ...] = ()) -> ConnectableAgent:
    return ConnectableAgent(
        agent=name,
        title=name.title(),
        model=model,
        vendor="",
        installed=True,
        needs_command=False,
        key=key,
        groups=groups,
    )


def test_an_agent_with_a_key_is_offered_first_and_bare_models_last() -> None:
    found = order_agents([make_agent("b", model="m"), make_agent("c"), make_agent("a", model="m", key="K")])
    assert [each.agent for each in found] == ["a", "c", "b"]
    tile, form = make_agent_tile(found[0]), make_agent_form(found[0])
    assert (tile.title, tile.text, tile.href) == ("A", "a key is stored", "/dashboard/welcome/agent?agent=a")
    assert [(each.kind, each.value) for each in form.inputs] == [(InputKind.SECRET, "")]
    assert [each.operation for each in form.steps] == ["connect.check", "connect.try", "connect.keep"]


def test_an_agent_that_is_missing_is_installed_first() -> None:
    missing = replace(make_agent("codex"), installed=False)
    assert "installed when" in make_agent_tile(missing).text
    assert next(each.operation for each in make_agent_form(missing).steps) == "connect.install"


def test_a_model_on_this_machine_needs_nothing_typed_and_no_link_names_another_server() -> None:
    here = LocalModel(
        model="small:8b", server="Ollama", base_url="http://127.0.0.1:11434/v1", size=4_700_000_000, context=8192
    )
    [block] = make_local_tiles([here])
    query = dict(parse_qsl(urlsplit(block.tiles[0].href).query))
    assert block.tiles[0].text == "Ollama, 4.7 GB" and find_model([here], query) is here
    form = make_agent_form(make_agent("openai"), here)
    assert form.inputs == form.further == []
    assert (form.fixed["price"], form.fixed["options.context"]) == ("0", "8192")
    assert find_model([here], {**query, "base_url": "http://elsewhere.example/v1"}) is None
    assert make_local_tiles([]) == []


def test_an_agent_that_is_any_program_is_named_at_a_terminal() -> None:
    [note] = make_missing([make_agent("acp")])
    assert "Acp (`gatepost connect acp`)" in note.text and make_missing([]) == []


def test_the_way_shows_what_is_done_and_where_one_is() -> None:
    steps = make_progress(AGENT_STEP, {NAME_STEP: True, AGENT_STEP: False, CHANNEL_STEP: False}).steps
    assert [(each.is_done, each.is_current) for each in steps[:2]] == [(True, False), (False, True)]
    assert steps[-1].href == "/"
    assert make_connected([make_agent("claude", groups=("home",))])[0].text == "The chat is answered by Claude."
    assert make_connected([make_agent("claude")]) == []


async def test_an_owner_is_led_while_the_demo_answers_and_nobody_else_is(site: Any) -> None:
    async with site.signed_in() as browser:
        await site.store.write(_add_routes)
        assert [await _shows_demo(browser, each) for each in ("web:home", "web:family")] == [True, False]
        page = await browser.get("/dashboard/welcome")
        assert "Your name" in page.text and 'href="/dashboard/welcome"' in page.text
        await site.store.write(_connect)
        assert not await _shows_demo(browser, "web:home")
        assert 'href="/dashboard/welcome"' not in (await browser.get("/dashboard/tasks")).text


async def _shows_demo(browser: Any, room: str) -> bool:
    return bool((await browser.get("/api/agents", params={"room": room})).json()["demo"])


def _add_routes(db: Db) -> None:
    groups.add(db, "home", "Home", "", 1)
    groups.add(db, "family", "Family", "scripted", 1)
    for seq, (match, folder) in enumerate([("chat_jid=web:family", "family"), ("", "home")]):
        routes.add(
            db, routes.Route(seq=seq, match=match, target=folder, folder=folder, created_by="test", created_at=1)
        )


def _connect(db: Db) -> None:
    if groups.get(db, "home") is None:
        groups.add(db, "home", "Home", "", 1)
    db.run("UPDATE groups SET provider = 'claude' WHERE folder = 'home'")


@pytest.mark.slow
async def test_a_name_is_kept_and_goes_with_what_one_writes(site: Any) -> None:
    async with site.signed_in() as browser:
        sent = {"id": "web:user/owner", "name": " Ada  Lovelace "}
        answer = await browser.post("/dashboard/do/user.rename", data=sent, headers={"accept": "application/json"})
        assert answer.json()["answer"]["name"] == "Ada Lovelace"
        known = await site.store.read(users.get, "web:user/owner")
        assert known is not None and known.name == "Ada Lovelace"
        nobody = await browser.post("/dashboard/do/user.rename", data={"id": "web:user/x", "name": "X"})
        assert nobody.status_code == 404


async def test_a_key_of_another_vendor_and_a_missing_one_are_said_before_a_trial(site: Any) -> None:
    await site.store.write(_connect)
    async with site.signed_in() as browser:
        headers = {"accept": "application/json"}
        sent = {"folder": "home", "provider": "anthropic"}
        none = (await browser.post("/dashboard/do/connect.check", data=sent, headers=headers)).json()["answer"]
        assert none["trouble"] in ("key", "sandbox")
        odd = await browser.post("/dashboard/do/connect.check", data={**sent, "provider": "nobody"}, headers=headers)
        assert odd.status_code == 400 and "nobody" in odd.json()["error"]
