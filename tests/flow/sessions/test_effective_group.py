"""A child runs on what its parent runs on: provider, model and endpoint come from the nearest group above."""

from pathlib import Path

import pytest

from gatepost.core.settings import Config
from gatepost.flow.sessions.effective_group import find_lender, is_affected_by, load_effective_group
from gatepost.flow.sessions.session_deps import PROVIDER
from gatepost.store import groups, routes
from gatepost.store.groups import Group
from gatepost.store.port import Db
from gatepost.store.routes import Route
from gatepost.testing.channel import FakeChannel
from gatepost.testing.gateway import open_room, running_gateway

NOON = 1_700_000_000_000_000
CONFIG = Config({"agents.folder": "agents", PROVIDER.name: "demo"})


def add(db: Db, folder: str, provider: str = "", model: str = "", **options: str) -> None:
    groups.add(db, folder, folder, provider, NOON)
    groups.update(db, folder, {"model": model, **options})


def load(db: Db, folder: str, provider: str = "") -> Group:
    found = load_effective_group(db, CONFIG, folder, provider)
    assert found is not None
    return found


@pytest.mark.parametrize("folder", ["acme/eng", "acme/eng/tools"])
def test_a_group_that_names_no_provider_runs_on_that_of_the_nearest_above(db: Db, folder: str) -> None:
    add(db, "acme", "acp", "m-1", command="my-agent --fast")
    add(db, "acme/eng")
    add(db, "acme/eng/tools")
    run = load(db, folder)
    assert (run.provider, run.model, run.options) == ("acp", "m-1", {"command": "my-agent --fast"})
    lender = find_lender(db, CONFIG, run)
    assert lender is None  # what it runs on is said; nothing is lent to that


def test_the_nearest_that_has_one_lends_and_the_own_model_stays(db: Db) -> None:
    add(db, "acme", "anthropic", "m-1")
    add(db, "acme/eng", "openai", "m-2")
    add(db, "acme/eng/tools", "", "m-3")
    run = load(db, "acme/eng/tools")
    own = groups.get(db, "acme/eng/tools")
    assert (run.provider, run.model) == ("openai", "m-3") and own is not None
    lender = find_lender(db, CONFIG, own)
    assert lender is not None and lender.folder == "acme/eng"


def test_what_an_agent_may_do_without_asking_is_not_lent(db: Db) -> None:
    add(db, "acme", "claude", "", mode="bypassPermissions", permissions="all", own_mcp="on", agent="x")
    add(db, "acme/eng")
    assert load(db, "acme/eng").options == {"agent": "x"}


def test_an_agent_of_another_provider_gets_neither_model_nor_options(db: Db) -> None:
    add(db, "acme", "anthropic", "m-1", agent="x")
    add(db, "acme/eng")
    run = load(db, "acme/eng", "openai")
    assert (run.provider, run.model, run.options) == ("openai", "", {})


def test_a_world_goes_by_the_setting_and_the_agents_group_by_home(db: Db) -> None:
    add(db, "home", "anthropic", "m-1")
    add(db, "acme")
    add(db, "agents")
    assert load(db, "acme").provider == "demo"
    assert (load(db, "agents").provider, load(db, "agents").model) == ("anthropic", "m-1")


@pytest.mark.parametrize(
    ("folder", "changed", "affected"),
    [("acme", "acme", True), ("acme/eng", "acme", True), ("acme-2", "acme", False), ("agents", "home", True)],
)
def test_a_change_reaches_the_agents_of_the_groups_below(folder: str, changed: str, affected: bool) -> None:
    assert is_affected_by(CONFIG, folder, changed) is affected


async def test_a_group_that_was_made_on_the_way_answers_with_its_parents_agent(tmp_path: Path) -> None:
    """Before, it was the demo, and a working agent lost its room to that."""
    channel = FakeChannel()
    given = {"sessions__provider": "demo"}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", "fake:room/7")

        def make_child(db: Db) -> None:
            groups.update(db, "home", {"provider": "scripted"})
            groups.add(db, "home/kid", "kid", "", NOON)
            match = 'chat_jid="fake:room/7"'
            routes.add(
                db, Route(seq=1, match=match, target="home/kid", folder="home/kid", created_by="test", created_at=NOON)
            )

        await gateway.store.write(make_child)
        await channel.say("hello", address="fake:room/7")
        await channel.wait_for(1)
        assert channel.texts() == ["echo: hello"]
