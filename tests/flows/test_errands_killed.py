"""A question goes from root down three groups and back to the person, and the gateway is killed at each step of the
way, one kill after another in one run. The person gets one answer, and each agent was asked once. The conversations of
errands end likewise: once, with their files, whenever the gateway is killed."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.port import Db
from gatepost.store.sessions import sessions
from gatepost.store.sessions.errands import Errand, ErrandState
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.platform import Platform
from gatepost_testing.storms import faults
from gatepost_testing.storms.faults import FaultPoint
from gatepost_testing.waiting import block_until

from .test_errands import CHAIN, list_all, write_chain
from .test_kills import SETTINGS

OWNER = "lossy:user/1"
TOOLS, LOOP = "gatepost.tools.errands", "gatepost.flow.errand_loop"
DOWN = CHAIN[1:]


def given_to(folder: str, when: str) -> FaultPoint:
    """Before the call that gives work to a group is done, or after that is durable and before its caller knows."""
    return FaultPoint(f"{TOOLS}:_give", when, match=f"(folder='{folder}',")


def returned_from(folder: str, when: str) -> FaultPoint:
    """Before its result returns, or after that is written and before it is committed."""
    return FaultPoint(f"{LOOP}:return_result", when, match=f" folder='{folder}',")


STEPS = [
    *(given_to(folder, when) for folder in DOWN for when in ("before", "after")),
    FaultPoint("gatepost.flow.sessions.runner.runner_protocol:RunnerProtocol._record_results", "after", match="seven"),
    FaultPoint("gatepost.store.sessions.turns:finish", "after"),
    *(returned_from(folder, when) for folder in reversed(DOWN) for when in ("before", "after")),
    FaultPoint(f"{LOOP}:ErrandLoop._return", "after", match=" folder='acme',"),
]


@contextmanager
def a_place(tmp_path: Path, **more: str) -> Iterator[tuple[Platform, DaemonProcess]]:
    """The groups, and an owner who writes to root."""
    with Platform(tmp_path / "platform.sock") as platform:
        platform.plug_into(tmp_path / "h")
        daemon = DaemonProcess(tmp_path / "h", sessions_provider="scripted", **SETTINGS, **more)
        with daemon:
            for folder in DOWN:
                assert daemon.gatepost("group", "add", folder).returncode == 0
            assert daemon.gatepost("user", "add", OWNER).returncode == 0
            assert daemon.gatepost("user", "role", OWNER, "owner").returncode == 0
            route = ("--match", "chat_jid=lossy:room/1", "--target", "root", "--seq", "1")
            assert daemon.gatepost("route", "add", *route).returncode == 0
        write_chain(daemon.home / "groups")
        try:
            yield platform, daemon
        finally:
            daemon.stop()


def kill_at(daemon: DaemonProcess, fault: FaultPoint) -> None:
    """Start a daemon that kills itself at this step, and wait until it has."""
    happened = faults.into_daemon(daemon.home, fault)
    happened.unlink(missing_ok=True)
    with suppress(AssertionError):  # it may come to that step before it is ready
        daemon.start()
    assert faults.wait_for_fault(happened), f"it never came to this: {fault}\n{daemon.stderr()[-3000:]}"
    daemon.kill()


@pytest.mark.slow
def test_a_question_that_goes_down_three_groups_is_answered_once_although_the_gateway_is_killed_at_each_step(
    tmp_path: Path,
) -> None:
    with a_place(tmp_path) as (platform, daemon):
        platform.say("room/1", "how many servers do we have?")
        for fault in STEPS:
            kill_at(daemon, fault)
        (daemon.home / "plugins" / "tools" / "fault.py").unlink()
        daemon.start()
        assert platform.wait_for(lambda record: bool(record)), daemon.stderr()[-3000:]
        block_until(lambda: daemon.json("ledger", "check")["in_flight"] == 0, "the end of what is in flight")
        assert platform.texts() == ["root: acme: acme/eng: seven"]
        assert daemon.json("ledger", "check")["unaccounted"] == 0
        found = read_snapshot(daemon.home / "gatepost.db", list_all)
        assert [(each.folder, each.state) for each in found] == [(folder, ErrandState.DONE) for folder in DOWN]
        listed = daemon.json("errand", "list", "--folder", "acme/eng")
        assert [(each["caller_folder"], each["folder"], each["depth"]) for each in listed] == [
            ("acme/eng", "acme/eng/sre", 3),
            ("acme", "acme/eng", 2),
        ]
        shown = daemon.gatepost("errand", "show", found[0].id).stdout
        assert f"done by    acme in session {found[0].session_id}" in shown and "answer to  lossy:room/1" in shown


CLOSING = "gatepost.flow.errand_loop"
ENDS = [
    FaultPoint("gatepost.store.sessions.errands:close_idle_session", "before"),
    FaultPoint("gatepost.store.sessions.errands:close_idle_session", "after"),
    FaultPoint(f"{CLOSING}:ErrandSessionCloser._remove_files", "before"),
    FaultPoint(f"{CLOSING}:_remove_folder", "after"),
]


@pytest.mark.slow
def test_the_conversations_of_errands_are_closed_with_their_files_although_the_gateway_is_killed(
    tmp_path: Path,
) -> None:
    """Each kill meets another of the three conversations, or the same at a later step."""
    with a_place(tmp_path, errands_close_after_s="0.2", sessions_idle_s="0.2") as (platform, daemon):
        platform.say("room/1", "how many servers do we have?")
        for fault in ENDS:
            kill_at(daemon, fault)
        (daemon.home / "plugins" / "tools" / "fault.py").unlink()
        daemon.start()
        assert platform.wait_for(lambda record: bool(record)), daemon.stderr()[-3000:]
        found = read_snapshot(daemon.home / "gatepost.db", list_all)
        block_until(lambda: not any(are_left(daemon, found)), "the end of the conversations")
        assert platform.texts() == ["root: acme: acme/eng: seven"]
        again = read_snapshot(daemon.home / "gatepost.db", list_all)
        assert [(each.folder, each.state) for each in again] == [(folder, ErrandState.DONE) for folder in DOWN]
        assert daemon.json("ledger", "check")["unaccounted"] == 0


def are_left(daemon: DaemonProcess, found: list[Errand]) -> list[bool]:
    """Return whether a conversation is open, or has files."""

    def is_open(db: Db, session_id: str) -> bool:
        session = sessions.get(db, session_id)
        return session is not None and session.closed_at is None

    return [
        read_snapshot(daemon.home / "gatepost.db", is_open, each.session_id)
        or (daemon.home / "sessions" / each.session_id).exists()
        for each in found
    ]
