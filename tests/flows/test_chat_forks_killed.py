"""Somebody asks for a fork in a chat, and the gateway is killed at each step. There is one fork and one answer, or
the reason why there is none."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gatepost.flow.intake.chat_forks import BROKE_OFF, FAILED, MOST_TRIES
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.port import Db
from gatepost.store.sessions.forks import FORKS, Fork
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.platform import Platform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.storms.faults import FaultPoint

from .test_errands_killed import kill_at
from .test_kills import a_place, no_more_in_flight, unaccounted

MEMBER = "lossy:user/1"
FORKING, CHAT = "gatepost.flow.sessions.forking", "gatepost.flow.intake.chat_forks"
STEPS = [
    FaultPoint("gatepost.store.sessions.forks:add_wanted", "after"),  # not committed: the message comes again
    FaultPoint(f"{CHAT}:ChatForks._begin", "before"),
    FaultPoint(f"{FORKING}:copy_state", "after"),
    FaultPoint(f"{FORKING}:SessionForker._record", "after"),
    FaultPoint(f"{CHAT}:ChatForks._record", "after"),
]


def list_forks(db: Db) -> list[Fork]:
    return FORKS.list(db, "ORDER BY created_at")


@contextmanager
def a_conversation(tmp_path: Path) -> Iterator[tuple[Platform, DaemonProcess]]:
    """A member has spoken to the agent."""
    with a_place(tmp_path, ScriptBuilder().turn("").say("a plum")) as (platform, daemon):
        with daemon:
            assert daemon.gatepost("user", "add", MEMBER).returncode == 0
            assert daemon.gatepost("user", "member", MEMBER, "home").returncode == 0
            platform.say("room/1", "what is it")
            assert platform.wait_for(lambda record: bool(record)), daemon.stderr()[-3000:]
            no_more_in_flight(daemon)
        yield platform, daemon


def start_without_faults(daemon: DaemonProcess) -> None:
    (daemon.home / "plugins" / "tools" / "fault.py").unlink()
    daemon.start()
    no_more_in_flight(daemon)


@pytest.mark.slow
def test_a_fork_is_made_and_answered_once_although_the_gateway_is_killed_at_each_step(tmp_path: Path) -> None:
    with a_conversation(tmp_path) as (platform, daemon):
        platform.say("room/1", "/fork side")
        for fault in STEPS:
            kill_at(daemon, fault)
        start_without_faults(daemon)
        assert platform.wait_for(lambda record: len(record) == 2), daemon.stderr()[-3000:]
        assert platform.texts() == [
            "a plum",
            "Forked. What is said in the topic side goes on from here. Write #side … to speak there.",
        ]
        (made,) = read_snapshot(daemon.home / "gatepost.db", list_forks)
        assert (daemon.home / "sessions" / made.child_id / "state").is_dir()
        assert unaccounted(daemon) == 0


@pytest.mark.slow
def test_a_fork_at_which_the_gateway_breaks_off_each_time_is_given_up_with_the_reason(tmp_path: Path) -> None:
    with a_conversation(tmp_path) as (platform, daemon):
        platform.say("room/1", "/fork side")
        for _ in range(MOST_TRIES):
            kill_at(daemon, FaultPoint(f"{FORKING}:copy_state", "before"))
        start_without_faults(daemon)
        assert platform.wait_for(lambda record: len(record) == 2), daemon.stderr()[-3000:]
        assert platform.texts() == ["a plum", FAILED.format(BROKE_OFF)]
        assert read_snapshot(daemon.home / "gatepost.db", list_forks) == []
        assert unaccounted(daemon) == 0
