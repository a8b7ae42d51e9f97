"""A real daemon whose writer one agent tries to stop: panic, stop and down work all the same."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.daemon import STUCK
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import block_until

HUGE = {"target": "home", "match": "text=/(?:){4000000000}/"}
HEAVY = [{"target": "home", "match": f"room={n}" + "|".join(["**/?a?*[!b-z]*/**"] * 20)} for n in range(190)]
TOOLS = '''
import time
from pathlib import Path

from gatepost.access.tiers import Tier
from gatepost.store.port import Db
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool


@tool(tier=Tier.WORLD, group="tests", effects=())
async def compute_for_ever(call: ToolCall, marker: str) -> str:
    """Keep the writer at work."""

    def compute(db: Db) -> None:
        Path(marker).touch()
        while True:
            pass

    await call.write(compute)
    return "done"


@tool(tier=Tier.WORLD, group="tests", effects=())
async def sleep_for_ever(call: ToolCall, marker: str) -> str:
    """Keep the writer where nothing can interrupt it."""

    def sleep(db: Db) -> None:
        Path(marker).touch()
        time.sleep(600)

    await call.write(sleep)
    return "done"
'''


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    settings = {"sandbox_least_free_mb": "0", "sessions_provider": "scripted"}
    running = DaemonProcess(tmp_path / "h", watchdog_every_s="0.01", store_unit_s="2", **settings)
    folder = running.home / "plugins" / "tools"
    folder.mkdir(parents=True)
    (folder / "stuck.py").write_text(TOOLS, encoding="utf-8")
    with running:
        yield running


def play(daemon: DaemonProcess, *steps: dict[str, object]) -> None:
    """The agent of `home` does this with every message."""
    done = daemon.gatepost("group", "set", "home", f"options.script={json.dumps({'default': list(steps)})}")
    assert done.returncode == 0, done.stderr


def test_stranger_01_hostile_routes_from_inside_a_sandbox_hold_nobody_up(daemon: DaemonProcess) -> None:
    fits = 20_000 // len(HEAVY[-1]["match"])
    play(
        daemon,
        {"call": "add_route", "with": {"route": HUGE}},
        {"say": "{result}"},
        {"call": "set_routes", "with": {"routes": HEAVY}},
        {"say": "{result}"},
        {"call": "set_routes", "with": {"routes": HEAVY[-fits:]}},
        {"say": "{result}"},
    )
    said = daemon.gatepost("chat", "-m", "go", "--wait").stdout
    assert "is not a repetition" in said and "at most 20000 are possible" in said and '"updated":true' in said
    assert "pong" in daemon.gatepost("chat", "-m", "/ping", "--wait").stdout
    status = daemon.json("status")
    assert status["busiest_ms"] <= 50 or not status["busiest"].startswith("writer"), status["busiest"]


@pytest.mark.slow
def test_stranger_01_a_panic_and_a_stop_end_a_sandbox_whose_call_keeps_the_writer(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    marker = tmp_path / "begun"
    play(daemon, {"call": "compute_for_ever", "with": {"marker": str(marker)}}, {"say": "{result}"})
    assert daemon.gatepost("chat", "-m", "go").returncode == 0
    block_until(marker.exists, "the call")
    panic = daemon.json("panic")
    assert (panic["on"], panic["ended"]) == (True, 1)
    block_until(
        lambda: daemon.json("status")["store"]["panic"] is not None, "the switch, once the unit was interrupted"
    )
    block_until(lambda: "a write computes beyond its time" in daemon.stderr() + logs(daemon), "its line in the log")
    assert daemon.stop() == 0


@pytest.mark.slow
def test_stranger_01_a_writer_that_cannot_be_interrupted_does_not_keep_the_daemon(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    marker = tmp_path / "begun"
    play(daemon, {"call": "sleep_for_ever", "with": {"marker": str(marker)}}, {"say": "{result}"})
    assert daemon.gatepost("chat", "-m", "go").returncode == 0
    block_until(marker.exists, "the call")
    stopped = daemon.json("stop", "--all")
    assert [each["stopped"] for each in stopped] == [True]
    assert daemon.json("panic")["durable"] is False
    assert daemon.stop() == STUCK
    assert "stopped without the store's writer is still at" in daemon.stderr()


def logs(daemon: DaemonProcess) -> str:
    return "".join(path.read_text(errors="replace") for path in (daemon.home / "logs").iterdir() if path.is_file())
