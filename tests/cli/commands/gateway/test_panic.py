"""`gatepost panic` with the gateway down and up, and where it can be seen."""

from pathlib import Path

import pytest

from gatepost_testing.daemon import DaemonProcess


@pytest.mark.slow
def test_it_is_set_with_the_gateway_down_holds_when_it_comes_up_and_is_seen_everywhere(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "home", sandbox_kind="process")
    set_down = daemon.json("panic", "--reason", "a bad night")
    with daemon:
        waiting = daemon.gatepost("chat", "-m", "hello", "--wait", "--timeout", "1")
        told = [row["text"] for row in daemon.json("ledger", "list") if row["direction"] == "out"]
        status, shown = daemon.json("status"), daemon.gatepost("status").stdout
        doctor = daemon.gatepost("doctor").stdout
        again = daemon.gatepost("panic").stdout
        account = daemon.json("ledger", "check")
        off = daemon.gatepost("panic", "--off").stdout
        twice = daemon.gatepost("panic", "--off").stdout
        answered = daemon.gatepost("chat", "-m", "are you there", "--wait")

    assert (set_down["on"], set_down["changed"], set_down["ended"]) == (True, True, 0)
    assert waiting.returncode == 1 and "is queued" in waiting.stderr
    assert len(told) == 1 and "has stopped everything" in told[0]
    assert (status["awake"], status["store"]["panic"]["reason"]) == (0, "a bad night")
    assert "panic" in shown and "a bad night" in shown and "gatepost panic --off" in shown
    assert "panic" in doctor and "a bad night" in doctor
    assert "it was already, since" in again
    assert (account["unaccounted"], account["in_flight"]) == (0, 1)
    assert off.startswith("panic is off") and twice.startswith("panic was not on")
    assert answered.returncode == 0 and answered.stdout.strip()


def test_a_reason_for_turning_it_off_is_a_mistake(tmp_path: Path) -> None:
    done = DaemonProcess(tmp_path / "home").gatepost("panic", "--off", "--reason", "enough")

    assert done.returncode == 2 and "--reason" in done.stderr
