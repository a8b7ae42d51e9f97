"""The storm: thousands of messages over a lossy platform while the daemon and its sandboxes are killed again and again.
Judged by the platform's own record. `STORM_SEEDS=10` runs ten seeds, `STORM_SEED=7` begins with that one.

Spaced, what one kill has hit is answered before the next, so every message must be answered. Unspaced, kills come at
random times and one turn may meet several: a message may then fail, but only if its sender is told."""

import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.platform import LOSSY, Platform, PlatformMessage
from gatepost_testing.provider import ScriptBuilder

MESSAGES, ROOMS, DAEMON_KILLS, SANDBOX_KILLS = 3000, 40, 25, 40
AT_ONCE = 6  # rooms that are written to between two kills of the daemon
LONGEST_PAUSE_S = 0.2  # before a kill of the unspaced storm
FIRST, COUNT = int(os.environ.get("STORM_SEED", "1")), int(os.environ.get("STORM_SEEDS", "1"))
SETTINGS = {
    "sandbox_kind": "process",
    "sandbox_least_free_mb": "0",
    "sessions_provider": "scripted",
    "sessions_most_awake": "12",
    "sessions_retry_s": "0.05",
    "sessions_look_s": "0.2",
    "delivery_retry_base_s": "0.05",
    "delivery_look_s": "0.2",
}
STEP_S = 0.04  # of an agent in the unspaced storm: its turns last long enough to be hit again


def script(step: float = 0.0) -> ScriptBuilder:
    both = ScriptBuilder().turn(r"^both (\d+)$").say("A{1}").wait(step).call("send", text="M{1}").wait(step).say("Z{1}")
    return both.otherwise().wait(step).say("echo: {text}")


@dataclass(slots=True)
class Storm:
    platform: Platform
    daemon: DaemonProcess
    chance: random.Random
    sent: dict[int, tuple[str, bool]] = field(default_factory=dict)  # number: room, and whether a tool is used
    daemon_kills: int = 0
    sandbox_kills: int = 0
    unaccounted: list[int] = field(default_factory=list)

    def rage(self) -> None:
        """A turn is continued once, so no turn meets two kills here: what one has hit is answered before the next."""
        rooms = [f"room/{number}" for number in range(ROOMS)]
        phases = DAEMON_KILLS + 1
        for phase in range(phases):
            here = [rooms[(phase * AT_ONCE + each) % ROOMS] for each in range(AT_ONCE)]
            count = MESSAGES * (phase + 1) // phases - len(self.sent)
            kills = SANDBOX_KILLS * (phase + 1) // phases - self.sandbox_kills
            self._drain()
            self._blow(here, count // 2, kills)
            self._drain()
            self._blow(here, count - count // 2, 0)
            if phase < DAEMON_KILLS:
                self._progress()
                self._kill_daemon()
        self._calm()

    def rage_unspaced(self) -> None:
        """Kills at random times: whatever one has hit may be hit again before it has recovered."""
        kills = ["daemon"] * DAEMON_KILLS + ["sandbox"] * SANDBOX_KILLS
        self.chance.shuffle(kills)
        at = sorted(self.chance.randrange(MESSAGES) for _ in kills)
        for number in range(MESSAGES):
            self._say(f"room/{self.chance.randrange(ROOMS)}")
            while at and at[0] == number:
                at.pop(0)
                self._progress()
                self.platform.wait_for(lambda record: False, self.chance.uniform(0, LONGEST_PAUSE_S))
                if kills.pop() == "daemon":
                    self._kill_daemon()
                else:
                    self._kill_sandbox(set())
        self._calm()
        self.unaccounted.append(self._account("unaccounted"))

    def _blow(self, rooms: list[str], count: int, kills: int) -> None:
        """Some messages, with kills of sandboxes among them, each another one."""
        at = sorted(self.chance.randrange(count) for _ in range(kills))
        spared: set[str] = set()
        for number in range(count):
            self._say(self.chance.choice(rooms))
            while at and at[0] == number:
                at.pop(0)
                self._progress()
                self._kill_sandbox(spared)

    def _drain(self) -> None:
        """Until everything that was said so far is answered, or nothing more comes of it."""
        wanted = {(room, text) for number, (room, tool) in self.sent.items() for text in expected_of(number, tool)}
        self.platform.wait_for(lambda record: wanted <= {(shown.room, shown.text) for shown in record}, 20.0)

    def _say(self, room: str) -> None:
        number = len(self.sent)
        tool = self.chance.random() < 0.3
        self.sent[number] = room, tool
        self.platform.say(room, f"both {number}" if tool else f"e{number}")

    def _progress(self) -> None:
        """Until a few more messages were answered, or none is for a while: kills meet the gateway at any step."""
        wanted = len(self.platform.record) + self.chance.randrange(60)
        self.platform.wait_for(lambda record: len(record) >= wanted, 2.0)

    def _kill_daemon(self) -> None:
        self.daemon.kill()
        self.daemon_kills += 1
        self.daemon.start()
        self.unaccounted.append(self._account("unaccounted"))

    def _kill_sandbox(self, spared: set[str]) -> None:
        """One of those that are awake, by its session."""
        until = time.monotonic() + 10
        while time.monotonic() < until:
            awake = {session: pid for pid in self._children() if (session := session_of(pid)) not in {"", *spared}}
            if awake:
                session = self.chance.choice(sorted(awake))
                try:
                    os.kill(awake[session], signal.SIGKILL)
                except ProcessLookupError:
                    continue  # it has just ended by itself
                spared.add(session)
                self.sandbox_kills += 1
                return
            self.platform.wait_for(lambda record: False, 0.02)

    def _children(self) -> list[int]:
        pid = self.daemon.pid
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def _calm(self) -> None:
        """Until nothing is in flight any more."""
        until = time.monotonic() + 180
        while time.monotonic() < until:
            if not self.platform.waiting() and self._account("in_flight") == 0:
                return
            self.platform.wait_for(lambda record: False, 0.2)
        raise AssertionError(f"the storm does not calm down: {self.daemon.stderr()[-3000:]}")

    def _account(self, name: str) -> int:
        return int(self.daemon.json("ledger", "check")[name])


@dataclass(frozen=True, slots=True)
class Verdict:
    lost: list[int]
    doubled: dict[str, int]
    disordered: list[int]
    given_up: list[int]  # their senders were told
    untold: dict[str, int]  # rooms, and how many more messages failed there than people were told of
    in_vain: list[int]  # their senders were told although they had the whole answer


def session_of(pid: int) -> str:
    """The session of a runner, by its environment; '' if it is none, or gone."""
    try:
        found = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    spaces = [each for each in found if each.startswith(b"GATEPOST_WORKSPACE=")]
    return spaces[0].rpartition(b"/")[2].decode() if spaces else ""


def expected_of(number: int, tool: bool) -> list[str]:
    return [f"{letter}{number}" for letter in "AMZ"] if tool else [f"echo: e{number}"]


def judge(sent: dict[int, tuple[str, bool]], record: list[PlatformMessage], failed: set[str]) -> Verdict:
    """Return what the platform has on record against what it was told. `failed`: messages that the ledger has given
    up."""
    counts = Counter((shown.room, shown.text) for shown in record)
    places = {(shown.room, shown.text): place for place, shown in enumerate(record)}
    untold = Counter[str]()
    lost, disordered, given_up, in_vain = [], [], [], []
    for number, (room, tool) in sent.items():
        wanted = [(room, text) for text in expected_of(number, tool)]
        order = [places[each] for each in wanted if each in places]
        if order != sorted(order):
            disordered.append(number)
        if (f"both {number}" if tool else f"e{number}") in failed:
            (in_vain if len(order) == len(wanted) else given_up).append(number)
            untold[room] += 1
        elif len(order) < len(wanted):
            lost.append(number)
    for shown in record:
        untold[shown.room] -= apologies_in(shown.text)
    own = {(room, text) for number, (room, tool) in sent.items() for text in expected_of(number, tool)}
    doubled = {f"{room} {text}": count for (room, text), count in counts.items() if count > 1 and (room, text) in own}
    return Verdict(lost, doubled, disordered, given_up, {room: by for room, by in untold.items() if by}, in_vain)


def apologies_in(text: str) -> int:
    """For how many messages this is an apology."""
    found = re.match(r"Sorry, I could not answer (?:your message|(\d+) messages): ", text)
    return 0 if found is None else int(found.group(1) or 1)


def failed_of(daemon: DaemonProcess) -> set[str]:
    """All of them: the command shows the newest, and a storm can leave thousands."""
    rows = daemon.json("ledger", "list", "--state", "failed", "--limit", "100000")
    return {str(row["text"]) for row in rows if row["direction"] == "in"}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
@pytest.mark.parametrize("spaced", [True, False], ids=["spaced", "unspaced"])
def test_stranger_storm_nothing_is_lost_doubled_or_out_of_order(
    tmp_path: Path, seed: int, spaced: bool, figures: Callable[[str], None]
) -> None:
    home, began = tmp_path / "h", time.monotonic()
    script(0.0 if spaced else STEP_S).write(home / "groups" / "home").chmod(0o644)
    with Platform(tmp_path / "platform.sock", seed=seed, losses=LOSSY) as platform:
        platform.plug_into(home)
        daemon = DaemonProcess(home, **SETTINGS).start()
        storm = Storm(platform, daemon, random.Random(seed))
        try:
            (storm.rage if spaced else storm.rage_unspaced)()
            failed = failed_of(daemon)
        finally:
            daemon.stop()
        verdict = judge(storm.sent, platform.record, failed)
    apologies = sum(apologies_in(shown.text) > 0 for shown in platform.record)
    figures(
        f"{'storm' if spaced else 'unspaced storm'}, seed {seed}: {len(storm.sent)} messages in {ROOMS} rooms,"
        f" {storm.daemon_kills} daemon and {storm.sandbox_kills} sandbox kills, {len(platform.record)} messages shown;"
        f" lost {len(verdict.lost)}, doubled {len(verdict.doubled)}, out of order {len(verdict.disordered)}, given up"
        f" {len(verdict.given_up)} and {len(verdict.in_vain)} in vain with {apologies} apologies, unaccounted"
        f" {sum(storm.unaccounted)} in {len(storm.unaccounted)} checks; {time.monotonic() - began:.0f} s"
    )
    assert (len(storm.sent), storm.daemon_kills, storm.sandbox_kills) == (MESSAGES, DAEMON_KILLS, SANDBOX_KILLS)
    assert (verdict.lost, verdict.doubled, verdict.disordered, verdict.untold) == ([], {}, [], {})
    assert sum(storm.unaccounted) == 0
    if spaced:
        assert (verdict.given_up, verdict.in_vain) == ([], [])
