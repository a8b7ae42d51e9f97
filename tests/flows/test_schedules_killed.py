"""The log of a task has the outcome of its turn, and the room its one answer, wherever the gateway is killed between
the firing and what comes after the turn's end: one kill after another in one run."""

from pathlib import Path

import pytest

from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.port import Db
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import FiringState, Run
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.storms.faults import FaultPoint

from .test_errands_killed import kill_at
from .test_kills import ROOM, TALK, TURNS, a_place, no_more_in_flight, unaccounted

FIRING = "gatepost.flow.schedule.firing"
SCRIPT = ScriptBuilder().turn("brief me").say("three mails").turn("hello").say("hi")
STEPS = [
    FaultPoint(f"{FIRING}:queue_prompts", "after"),
    FaultPoint("gatepost.flow.schedule.task_loop:TaskLoop._ring", "before"),
    FaultPoint(f"{TURNS}:begin", "after"),
    FaultPoint(f"{TALK}._record_results", "after", match="three mails"),
    FaultPoint(f"{TURNS}:finish", "before"),
    FaultPoint("gatepost.store.schedule.firings:record_end", "after"),
    FaultPoint(f"{TALK}._finish", "after"),
]


def read_log(db: Db) -> list[Run]:
    [task] = tasks.list_page(db, None, "", 10, ended=True)
    return firings.list_for_task(db, task.id, 10)


@pytest.mark.slow  # tests/store/schedule/test_firings.py has the same without processes
def test_the_log_of_a_task_has_the_outcome_of_the_turn_wherever_the_gateway_is_killed(tmp_path: Path) -> None:
    with a_place(tmp_path, SCRIPT) as (platform, daemon):
        daemon.start()
        platform.say(ROOM, "hello")
        platform.wait_for(lambda record: bool(record))
        no_more_in_flight(daemon)
        when = ("--at", "+2s", "--room", f"lossy:{ROOM}")
        added = daemon.gatepost("task", "add", "home", "--prompt", "brief me", *when)
        assert added.returncode == 0, added.stderr
        daemon.stop()
        for fault in STEPS:
            kill_at(daemon, fault)
        (daemon.home / "plugins" / "tools" / "fault.py").unlink()
        daemon.start()
        no_more_in_flight(daemon)
        [run] = read_snapshot(daemon.home / "gatepost.db", read_log)
        assert (run.firing.state, run.firing.reason) == (FiringState.ANSWERED, "")
        assert run.began_at is not None and run.firing.turn_id and run.firing.times == 1
        assert platform.texts() == ["hi", "three mails"]
        assert unaccounted(daemon) == 0
