"""What an operator does to a running gateway takes effect at once, and what it says back can be used again."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.sessions import turns
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import PATIENCE_S

from .test_walls import ORDINARY, opened_for

# A kind of sandbox that never comes up. It holds the gateway's loop for nothing.
NEVER = """
import asyncio
from gatepost.sandboxes.contract import sandbox

@sandbox("never")
class Never:
    isolated = False

    def __init__(self, config):
        pass

    def trouble(self):
        return None

    async def start(self, plan):
        await asyncio.Event().wait()

    def sweep(self, prefix):
        return 0
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    running = DaemonProcess(
        tmp_path / "h", sandbox_kind="process", sessions_provider="scripted", sessions_retry_s="0.05"
    )
    plugin = running.home / "plugins" / "sandboxes" / "never.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(NEVER)
    with running:
        yield running


def done(daemon: DaemonProcess, *args: str) -> str:
    ran = daemon.gatepost(*args)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.slow
def test_nanoclaw_d5_a_group_and_a_route_made_by_the_command_line_work_at_once(daemon: DaemonProcess) -> None:
    assert done(daemon, "chat", "-m", "before", "--room", "desk", "--wait").strip() == "echo: before"

    done(daemon, "group", "add", "acme")
    done(daemon, "route", "add", "--match", "room=desk", "--target", "acme", "--seq", "5")
    ScriptBuilder().otherwise().say("acme says {text}").write(daemon.home / "groups" / "acme")

    assert done(daemon, "chat", "-m", "hello", "--room", "desk", "--wait").strip() == "acme says hello"
    assert done(daemon, "chat", "-m", "hello", "--room", "main", "--wait").strip() == "echo: hello"


@pytest.mark.slow
def test_nanoclaw_d5_a_group_with_messages_sessions_and_routes_can_be_removed(daemon: DaemonProcess) -> None:
    done(daemon, "group", "add", "acme")
    done(daemon, "route", "add", "--match", "room=desk", "--target", "acme", "--seq", "5")
    assert done(daemon, "chat", "-m", "hello", "--room", "desk", "--wait").strip() == "echo: hello"

    done(daemon, "group", "rm", "acme", "--yes")

    assert done(daemon, "chat", "-m", "again", "--room", "desk", "--wait").strip() == "echo: again"
    assert daemon.json("ledger", "check")["unaccounted"] == 0


@pytest.mark.slow
def test_nanoclaw_d21_a_sandbox_that_does_not_come_up_holds_up_nobody_else(daemon: DaemonProcess) -> None:
    done(daemon, "group", "add", "acme")
    done(daemon, "group", "set", "acme", "sandbox=never")
    done(daemon, "route", "add", "--match", "room=desk", "--target", "acme", "--seq", "5")
    done(daemon, "chat", "-m", "hello", "--room", "desk")

    assert done(daemon, "chat", "-m", "and I?", "--wait").strip() == "echo: and I?"
    assert daemon.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("key", ["in-1m7e-qt-je", "a--b-", "-100-200"])
def test_nanoclaw_d22_an_id_with_dashes_is_taken_where_an_id_stands(daemon: DaemonProcess, key: str) -> None:
    sent = json.loads(done(daemon, "chat", "-m", "hello", "--id", key, "--wait", "--json"))

    traced = daemon.gatepost("trace", key, "--json") if not key.startswith("-") else None
    traced = traced or daemon.gatepost("trace", "--json", "--", key)

    assert traced.returncode == 0, traced.stderr
    assert json.loads(traced.stdout)["message"]["text"] == "hello"
    assert sent["state"] == "answered"


@pytest.mark.slow
def test_a_trace_of_an_answered_message_shows_every_step_with_its_time(daemon: DaemonProcess) -> None:
    sent = json.loads(done(daemon, "chat", "-m", "hello", "--wait", "--json"))

    life = daemon.json("trace", str(sent["message"]))
    shown = done(daemon, "trace", str(sent["message"]))

    steps = [moment["what"] for moment in life["moments"]]
    expected = ["accepted", "queued", "working", "given", "send pending", "send sending", "send sent", "answered"]
    assert [step for step in steps if step in expected] == expected
    offsets = [moment["offset_ms"] for moment in life["moments"]]
    assert offsets == sorted(offsets) and offsets[0] == 0
    assert all(step in shown for step in expected) and "echo: hello" in shown and "ms" in shown
    assert daemon.json("ledger", "check")["unaccounted"] == 0


@pytest.mark.slow
def test_nanoclaw_d20_what_the_last_run_left_open_is_corrected_at_the_next_start(tmp_path: Path) -> None:
    daemon = DaemonProcess(
        tmp_path / "h", sandbox_kind="process", sessions_provider="scripted", sessions_retry_s="0.05"
    )
    ScriptBuilder().turn("slow").say("starting").hang().write(daemon.home / "groups" / "home")
    daemon.start()
    done(daemon, "chat", "-m", "slow")
    deadline = time.monotonic() + 30
    while not daemon.json("ledger", "list", "--state", "sent"):
        assert time.monotonic() < deadline, "nothing was said"
    daemon.kill()
    assert [turn.state for turn in read_snapshot(daemon.home / "gatepost.db", turns.list_open)] == ["begun"]
    ScriptBuilder().turn("slow").say("starting").say("and done").write(daemon.home / "groups" / "home")

    with daemon:
        assert done(daemon, "chat", "-m", "are you there?", "--wait")
        assert read_snapshot(daemon.home / "gatepost.db", turns.list_open) == []
        rows = daemon.json("ledger", "list", "--state", "sent")
        assert [row["text"] for row in rows] == ["starting", "and done", "echo: are you there?"]
        assert daemon.json("ledger", "check") | {"oldest_s": 0} == {
            "unaccounted": 0,
            "in_flight": 0,
            "overdue": 0,
            "oldest_s": 0,
        }


@pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed: apt install bubblewrap")
def test_the_gateway_of_an_ordinary_user_answers_from_within_bubblewrap() -> None:
    uid = os.geteuid() or ORDINARY
    prefix = opened_for(uid) if os.geteuid() == 0 else []
    place = Path(tempfile.mkdtemp(prefix="gp-"))
    os.chown(place, uid, uid)
    env = {"PATH": os.environ["PATH"], "HOME": str(place), "GATEPOST_HOME": str(place / "h")}
    env |= {"GATEPOST_LISTEN": "127.0.0.1:0", "GATEPOST_SESSIONS_PROVIDER": "scripted"}
    command = [*prefix, sys.executable, "-m", "gatepost"]
    up = subprocess.Popen([*command, "up"], env=env, cwd="/", stdout=subprocess.PIPE, text=True)
    try:
        assert up.stdout is not None
        assert up.stdout.readline().startswith("gatepost is ready at ")
        told, status = (
            subprocess.run([*command, *args], env=env, cwd="/", capture_output=True, text=True, timeout=60)
            for args in (("chat", "-m", "hello", "--wait"), ("status", "--json"))
        )
        assert told.stdout.strip() == "echo: hello", told.stderr
        shown = json.loads(status.stdout)
        assert (shown["sandbox"]["kind"], shown["awake"]) == ("bubblewrap", 1)
        assert Path(f"/proc/{shown['pid']}").stat().st_uid == uid
    finally:
        up.terminate()
        up.communicate(timeout=PATIENCE_S)
        shutil.rmtree(place)


@pytest.mark.slow
def test_settings_changed_in_the_file_are_not_in_use_before_a_restart(daemon: DaemonProcess) -> None:
    before = done(daemon, "settings")
    (daemon.home / "gatepost.toml").write_text("[sessions]\nwindow = 7\n")
    after = done(daemon, "settings")
    told = {each["name"]: each for each in daemon.json("settings")}

    assert "sessions.window: the running" not in before and "take changes of the file up" in before
    assert "sessions.window: the running gateway uses 10, not 7\n" in after
    assert (told["sessions.window"]["value"], told["sessions.window"]["in_use"]) == (7, 10)


@pytest.mark.slow
def test_stranger_14_a_removed_group_leaves_no_session_folder_socket_or_media(daemon: DaemonProcess) -> None:
    def below(*parts: str) -> set[str]:
        place = daemon.home.joinpath(*parts)
        return {str(each.relative_to(place)) for each in place.iterdir()} if place.is_dir() else set()

    places = (("sessions",), ("run", "s"), ("media", "in"), ("media", "web"), ("logs",))
    before = {each: below(*each) for each in places}
    done(daemon, "group", "add", "acme")
    done(daemon, "route", "add", "--match", "room=desk", "--target", "acme", "--seq", "5")
    ScriptBuilder().otherwise().say("acme says {text}").write(daemon.home / "groups" / "acme")
    done(daemon, "chat", "-m", "hello", "--room", "desk", "--wait")
    assert below("sessions") != before[("sessions",)]

    told = done(daemon, "group", "rm", "acme", "--yes")

    assert "1 session folders" in told
    assert {each: below(*each) for each in places} == before
    assert (daemon.home / "groups" / "acme" / "AGENTS.md").is_file()


@pytest.mark.slow
def test_stranger_14_a_backup_of_a_running_gateway_goes_on_elsewhere(daemon: DaemonProcess, tmp_path: Path) -> None:
    assert done(daemon, "chat", "-m", "before", "--wait").strip() == "echo: before"
    done(daemon, "backup", "create", str(tmp_path / "b.tar.gz"))

    (tmp_path / "other").mkdir(mode=0o700)
    subprocess.run(["tar", "-xpzf", str(tmp_path / "b.tar.gz"), "-C", str(tmp_path / "other")], check=True)
    with DaemonProcess(tmp_path / "other", sandbox_kind="process", sessions_provider="scripted") as other:
        assert done(other, "chat", "-m", "after", "--wait").strip() == "echo: after"
        assert other.json("ledger", "check")["unaccounted"] == 0
        assert "before" in other.gatepost("ledger", "list", "--json").stdout
