"""Adding a tool is one function in one file: the example of docs/extend/tool.md, dropped into the home of a real
daemon, is listed, gated, documented and audited."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from gatepost.core.registry import load_folder
from gatepost.serve.control.client import ControlClient
from gatepost.tools.contract import TOOLS
from gatepost_testing.daemon import DaemonProcess

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "extend" / "tool.md"
EXAMPLE = ROOT / "docs" / "extend" / "examples" / "dice.py"
SCRIPT = {"default": [{"call": "roll_dice", "with": {"dice": 2, "sides": 2}}, {"say": "{result}"}]}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    running = DaemonProcess(
        tmp_path_factory.mktemp("plugin") / "h",
        sandbox_kind="process",
        sandbox_least_free_mb="0",
        sessions_provider="scripted",
    )
    folder = running.home / "plugins" / "tools"
    folder.mkdir(parents=True)
    (folder / "dice.py").write_bytes(EXAMPLE.read_bytes())
    # The same again for fewer: the tier is one word of the declaration.
    narrow = EXAMPLE.read_text(encoding="utf-8").replace("Tier.WORKER", "Tier.WORLD").replace("roll_dice", "roll_few")
    (folder / "few.py").write_text(narrow, encoding="utf-8")
    with running:
        for name in ("acme", "acme/eng", "acme/eng/ci"):
            done(running, "group", "add", name)
        yield running


def done(daemon: DaemonProcess, *args: str) -> str:
    ran = daemon.gatepost(*args)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def names(daemon: DaemonProcess, folder: str) -> set[str]:
    return {each["name"] for each in daemon.json("tools", "--folder", folder)}


def say(daemon: DaemonProcess, script: object) -> str:
    done(daemon, "group", "set", "home", f"options.script={json.dumps(script)}")
    return done(daemon, "chat", "-m", "roll", "--wait").strip()


def test_the_page_shows_the_file_that_is_used_here() -> None:
    assert EXAMPLE.read_text(encoding="utf-8") in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_it_is_listed_with_the_schema_of_its_parameters(daemon: DaemonProcess) -> None:
    (listed,) = [each for each in daemon.json("tools", "--folder", "acme") if each["name"] == "roll_dice"]

    assert listed["inputSchema"]["properties"]["dice"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 100,
        "description": "How many dice.",
        "default": 1,
    }
    assert set(listed["outputSchema"]["properties"]) == {"faces", "total"}
    assert listed["annotations"]["readOnlyHint"] is True


@pytest.mark.parametrize(("folder", "few"), [("acme", True), ("acme/eng", False), ("acme/eng/ci", False)])
def test_it_is_there_for_its_tiers_and_for_no_other(daemon: DaemonProcess, folder: str, few: bool) -> None:
    seen = names(daemon, folder)
    verdict = daemon.gatepost("policy", "explain", folder, "roll_few").stdout
    control = ControlClient(daemon.home / "run" / "control.sock")
    told = control.post("/v1/ops/policy.explain", {"folder": folder, "tool": "roll_few"})["result"]

    assert "roll_dice" in seen and ("roll_few" in seen) == few
    assert (f"{folder} may call roll_few" in verdict) == few, verdict
    assert told["allowed"] == few  # the gateway tells the same


@pytest.mark.slow
def test_it_is_called_and_audited_and_a_rule_hides_it_from_the_next_call(daemon: DaemonProcess) -> None:
    rolled = json.loads(say(daemon, SCRIPT))
    done(daemon, "grant", "add", "home", "!roll_dice")
    refused = say(daemon, SCRIPT)
    bad = say(daemon, {"default": [{"call": "roll_few", "with": {"dice": 0}}, {"say": "{result}"}]})

    assert len(rolled["faces"]) == 2 and rolled["total"] == sum(rolled["faces"])
    assert "Unknown tool: roll_dice" in refused and "roll_dice" not in names(daemon, "home")
    assert "Invalid arguments for roll_few" in bad and "$.dice" in bad
    rows = daemon.read_audit("roll_", 3)
    assert [(row["actor"], row["action"], row["verdict"]) for row in rows] == [
        ("agent:home", "roll_dice", "allowed"),
        ("agent:home", "roll_dice", "refused"),
        ("agent:home", "roll_few", "invalid"),
    ]
    assert rows[0]["details"]["args"] == {"dice": 2, "sides": 2} and rows[0]["details"]["turn"]
    assert "holds" in done(daemon, "audit", "verify")


def printer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")  # where it finds what it imports
    spec = importlib.util.spec_from_file_location("print_docs", ROOT / "scripts" / "print_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_documented_by_its_declaration(daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    table = done(daemon, "tools", "--folder", "acme")
    load_folder(daemon.home / "plugins" / "tools", "tools")
    try:
        page = printer(monkeypatch).tools()
    finally:
        for name in ("roll_dice", "roll_few"):
            TOOLS.drop(name)
            sys.modules.pop(f"gatepost_plugins.tools.{name}", None)

    assert "roll_dice" in table and "games" in table and "worker" in table and "Roll dice and tell the faces" in table
    section = page.partition("### roll_dice")[2].partition("### ")[0]
    assert "Down to tier 3 (worker) · only reads." in section
    assert "| `dice` (optional) | integer, from 1, to 100, default 1 | How many dice. |" in section
