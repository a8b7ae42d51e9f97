"""Finding tools by words that people would use."""

import json
from pathlib import Path

import pytest

from gatepost.core.registry import load_package
from gatepost.gate.tool_search import LONGEST_QUERY, MOST_FOUND, ToolIndex, read_words
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.sessions import groups
from gatepost.tools.call import CatalogEntry
from gatepost.tools.contract import TOOLS
from gatepost_testing.agreed_skills import agree_to_skill
from gatepost_testing.gate_agent import GateAgent

load_package("gatepost.tools")


def find(query: str, entries: list[CatalogEntry] | None = None) -> list[str]:
    known = entries or [
        CatalogEntry(each.name, each.group, each.description, each.listed["inputSchema"], each.core)
        for each in (TOOLS[name] for name in TOOLS)
    ]
    return [each.name for each in ToolIndex(known).find(read_words(query))]


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("pin a message", "pin_message"),
        ("pin_message", "pin_message"),
        ("react with an emoji", "like"),
        ("edit what I said", "edit"),
        ("delete my message", "delete"),
        ("hold a reminder for a while", "pause_task"),
        ("change a recurring task", "update_task"),
        ("why did the task not run", "inspect_tasks"),
        ("read the history of this room", "inspect_messages"),
        ("give work to another agent", "send_to_agent"),
        ("make a new agent", "register_group"),
        ("allow a host on the network", "network_allow"),
        ("publish a web page", "set_web_route"),
        ("who may do what: permissions", "list_acl"),
        ("send an audio message", "send_voice"),
        ("teach a skill", "write_skill"),
        ("invite somebody", "invite_create"),
        ("forward to another room", "forward"),
        ("which routes are there", "list_routes"),
        ("forget this conversation", "reset_session"),
    ],
)
def test_a_tool_is_found_by_what_somebody_would_ask(query: str, tool: str) -> None:
    assert tool in find(query)


def test_a_name_is_found_first_and_few_at_most() -> None:
    assert find("list_tasks")[0] == "list_tasks"
    assert len(find("message room group task")) <= MOST_FOUND


@pytest.mark.parametrize("query", ["", "  ", "!?", "the"])
async def test_without_words_all_subjects_are_listed(query: str, tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    found = json.loads((await agent.call("find_tools", query=query)).text)
    assert "pin_message" in found["subjects"]["messages"]


async def test_words_that_fit_nothing_list_all_subjects_too(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    found = json.loads((await agent.call("find_tools", query="xylophone quartz")).text)
    assert "tools" not in found and "scheduling" in found["subjects"]


async def test_a_long_query_is_cut_and_its_words_stay_out_of_the_audit(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    assert len(read_words("pin " * LONGEST_QUERY)) == 1
    assert not (await agent.call("find_tools", query="pin " * 100_000)).failed
    assert TOOLS["find_tools"].bodies == {"query"}
    assert TOOLS["call_tool"].bodies == {"arguments"}


def test_a_tool_of_a_connector_is_found_by_its_words() -> None:
    entries = [
        CatalogEntry("hub_create-issue", "hub", "Open an issue in a repository.", {}, False),
        CatalogEntry("hub_list-branches", "hub", "List the branches of a repository.", {}, False),
    ]
    assert find("open a bug issue", entries)[0] == "hub_create-issue"


async def test_skills_that_a_prompt_has_no_room_for_are_found_by_their_words(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await store.write(groups.add, "other", "other", "", 1)
    for number in range(120):
        text = f"---\ndescription: About thing number {number}.\n---\n"
        await agree_to_skill(store, "acme" if number % 2 else "", f"thing-{number}", text, below=True)
    await agree_to_skill(store, "acme", "bread", "---\ndescription: Bake sourdough.\n---\n", below=True)
    await agree_to_skill(store, "other", "rye", "---\ndescription: Bake sourdough of others.\n---\n")
    found = json.loads((await agent.call("find_tools", query="sourdough")).text)
    assert [each["name"] for each in found["skills"]] == ["bread"] and "SKILL.md" in found["note"]
    assert "skills" not in json.loads((await agent.call("find_tools", query="pin a message")).text)
