"""Common parts of storms of several gateways: people who write by a seed, gateways on one database, and the judge,
which is the record of the platform outside of them.

A storm is a function that `@storm` names: it gets a folder and a seed, and returns its counts. `make prove` runs all of
a mode, in whole size; tests run the same functions.
"""

import importlib
import pkgutil
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from gatepost.core.records import replace
from gatepost.flow.gateways.duties import channel_duty
from gatepost_testing import storms
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.waiting import PATIENCE_S, block_until

SEED = 7
MODE = "gateways"  # of those that several gateways on one database go through
LIMIT_S = 10.0  # in which whatever a dead gateway had is answered
PATIENT_S = 5 * PATIENCE_S
QUIET_S = 20.0  # without any answer, and with nothing under way, nobody answers any more
LOOK_S = 0.2
SHARE = 0.4  # of the messages that are answered when something happens
MAIN = "prove"  # the command, which imports this file

QUICK = {
    "sessions_provider": "scripted",
    "sandbox_least_free_mb": "0",
    "sessions_retry_s": "0.05",
    "sessions_look_s": "0.2",
    "delivery_retry_base_s": "0.05",
    "delivery_look_s": "0.2",
    "delivery_timeout_s": "30",  # a busy emulator takes its time; what it has not answered is uncertain
}
ANSWER = re.compile(r"echo: (\w+)")
ECHO = ScriptBuilder().otherwise().say("echo: {text}")
GO = "go"  # a file in the group's folder: agents end the turns that they keep open
HELD = ScriptBuilder().turn("^h").wait_for(GO).say("echo: {text}").otherwise().say("echo: {text}")


class StormSize(Struct, frozen=True, kw_only=True):
    rooms: int
    messages: int
    open_turns: int  # at least, of a gateway at the moment at which something happens to it
    places: int  # for sandboxes, of each gateway; with fewer than there are rooms, no gateway takes them all
    at_once: int = 3  # messages that a person writes at most before an answer comes; a room gets one answer a second
    read_s: float = 0.0  # for which people read an answer before they write again, on average


WHOLE = StormSize(rooms=50, messages=1000, open_turns=20, places=30, read_s=4.0)
SMALL = StormSize(rooms=8, messages=96, open_turns=2, places=6)  # no room is done when turns are kept open


class StormTime(Struct, frozen=True):
    """How long something took, beside its limit. `make prove` compares them; a test does not."""

    name: str
    seconds: float
    limit: float

    def render(self) -> str:
        return f"{self.name} {self.seconds:.1f} s (limit {self.limit:g} s)"


class StormVerdict(Struct, frozen=True, kw_only=True):
    """The outcome of the messages."""

    seed: int
    size: StormSize
    lost: int
    doubled: int
    disordered: int
    unaccounted: int
    audit_code: int  # the exit code of `gatepost audit verify`
    uncertain: int = 0  # effects of which nobody knows whether the platform has them

    def list_faults(self) -> list[str]:
        wrong = {
            f"{self.lost} lost": self.lost,
            f"{self.doubled} said twice": self.doubled,
            f"{self.disordered} out of order": self.disordered,
            f"{self.unaccounted} unaccounted": self.unaccounted,
            "the audit log does not verify": self.audit_code,
        }
        return list_true(wrong)

    def render(self) -> str:
        return (
            f"{self.size.messages} messages in {self.size.rooms} rooms, seed {self.seed}: lost {self.lost}, doubled"
            f" {self.doubled}, out of order {self.disordered}, unaccounted {self.unaccounted}, uncertain"
            f" {self.uncertain},"
            f" audit {'verifies' if not self.audit_code else 'BROKEN'}"
        )


def list_true(wrong: Mapping[str, object]) -> list[str]:
    return [what for what, is_so in wrong.items() if is_so]


class StormResult(Protocol):
    """The counts of a storm. `list_faults`: what went wrong; empty if nothing did."""

    def list_faults(self) -> list[str]: ...
    def list_times(self) -> list[StormTime]: ...
    def render(self) -> str: ...


def list_overtimes(result: StormResult) -> list[str]:
    return [f"too long: {each.render()}" for each in result.list_times() if each.seconds > each.limit]


Storm = Callable[[Path, int], StormResult]
STORMS: dict[str, dict[str, Storm]] = {}  # by mode, then by name, in the order in which they are run


def storm(mode: str, name: str) -> Callable[[Storm], Storm]:
    def add(run: Storm) -> Storm:
        STORMS.setdefault(mode, {})[name] = run
        return run

    return add


def load_storms() -> dict[str, dict[str, Storm]]:
    """Return those of every file of this folder."""
    for info in pkgutil.iter_modules(storms.__path__):
        if info.name != MAIN:
            importlib.import_module(f"{storms.__name__}.{info.name}")
    return STORMS


class StormPeople:
    """In each room a person writes a few messages, and the next ones when those are answered. So what a message waits
    is the gateways' doing, and not that of many messages before it."""

    def __init__(self, platform: EmulatedPlatform, size: StormSize, seed: int) -> None:
        self._platform, self.size, self.seed = platform, size, seed
        self._random = random.Random(seed)
        self._left = dict.fromkeys(range(size.rooms), size.messages // size.rooms)
        self._waiting: dict[int, set[str]] = {room: set() for room in range(size.rooms)}
        self._prefix, self._seen = "m", 0
        self._writes_at: dict[int, float] = {}  # people who read what they were answered
        self.sent_at: dict[str, float] = {}
        self.answered_at: dict[str, float] = {}
        self.answers: list[str] = []  # in the order in which people saw them

    def start(self) -> None:
        for room in self._random.sample(range(self.size.rooms), self.size.rooms):
            self._send(room)

    def hold(self) -> None:
        """From now on they write one message each, which an agent keeps open."""
        self._prefix = "h"

    @property
    def are_held(self) -> bool:
        """Return True if all that is unanswered is kept open. Turns that are open now do not end by themselves."""
        waiting = [(room, text) for room, texts in self._waiting.items() for text in texts]
        rooms = {room for room, _ in waiting} | {room for room, left in self._left.items() if not left}
        return len(rooms) == self.size.rooms and all(text.startswith("h") for _, text in waiting)

    def let_go(self) -> None:
        self._prefix = "m"

    def run_until(self, holds: Callable[[], bool], what: str) -> None:
        bound = time.monotonic() + PATIENT_S
        while not holds():
            assert time.monotonic() < bound, f"waited in vain for {what}; unanswered: {self.list_unanswered()[:20]}"
            self._platform.wait_for(self._has_news, LOOK_S)
            self._receive()
            self._write_on()

    def run_until_held(self, are_open: Callable[[], bool]) -> None:
        """They begin, and write until a part is answered; then until agents keep open what is left, as `HELD` does."""
        self.start()
        self.run_until(lambda: len(self.answers) >= SHARE * self.size.messages, "a part to be answered")
        self.hold()
        self.run_until(lambda: self.are_held, "all turns to be kept open")
        self.run_until(are_open, "turns to be open")

    def run_to_the_end(self) -> None:
        self.run_until(lambda: len(self.answered_at) == self.size.messages, "all to be answered")

    def list_unanswered(self) -> list[str]:
        return sorted(self.sent_at.keys() - self.answered_at.keys())

    @staticmethod
    def get_room(text: str) -> int:
        return int(text[1:].partition("x")[0])

    def find_longest_wait(self, since: float) -> float:
        """Return the longest wait of messages that were answered after a moment, counted from then or from when they
        were written."""
        waits = [at - max(since, self.sent_at[text]) for text, at in self.answered_at.items() if at > since]
        return max(waits, default=0.0)

    def judge(self) -> tuple[int, int, int]:
        """How many were lost, said twice, and said out of order in their room."""
        self._receive()
        lost = len(self.sent_at.keys() - set(self.answers))
        counts = Counter(self.answers)
        return lost, sum(count - 1 for count in counts.values()), self._count_disordered()

    def _count_disordered(self) -> int:
        first, last, found = dict.fromkeys(self.answers), dict[str, int](), 0
        for text in first:
            room, _, number = text[1:].partition("x")
            found += int(number) < last.get(room, -1)
            last[room] = max(last.get(room, -1), int(number))
        return found

    def _has_news(self) -> bool:
        return len(self._platform.record) > self._seen

    def _receive(self) -> None:
        with self._platform.changed:
            news = self._platform.record[self._seen :]
            self._seen += len(news)
        now = time.monotonic()
        for text in (found[1] for each in news if each.sender == "bot" and (found := ANSWER.search(each.text))):
            self.answers.append(text)
            self.answered_at.setdefault(text, now)
            room = self.get_room(text)
            self._waiting[room].discard(text)
            if not self._waiting[room]:
                self._writes_at[room] = now + self.size.read_s * self._random.uniform(0.5, 1.5)
        self._write_on()

    def _write_on(self) -> None:
        """Those who have read what they were answered."""
        now = time.monotonic()
        for room in [room for room, at in self._writes_at.items() if at <= now]:
            del self._writes_at[room]
            self._send(room)

    def _send(self, room: int) -> None:
        most = 1 if self._prefix == "h" else self._random.randint(1, self.size.at_once)
        for _ in range(min(most, self._left[room])):
            number = self.size.messages // self.size.rooms - self._left[room]
            self._left[room] -= 1
            text = f"{self._prefix}{room}x{number}"
            self._waiting[room].add(text)
            self.sent_at[text] = time.monotonic()
            self._platform.send(text, room=f"direct:p{room}", sender=f"p{room}")


def list_answers(platform: EmulatedPlatform) -> list[str]:
    """Return what was answered, in the order in which people saw it."""
    with platform.changed:
        shown = [each.text for each in platform.record if each.sender == "bot"]
    return [found[1] for text in shown if (found := ANSWER.search(text))]


# Gateways whose one channel is an emulated Telegram.


@contextmanager
def open_cluster(folder: Path, names: tuple[str, ...], places: int) -> Iterator[tuple[Cluster, EmulatedPlatform]]:
    """`places`: for sandboxes, of each."""
    settings = {**QUICK, "sessions_most_awake": str(places)}
    with (
        TelegramPlatform() as platform,
        Cluster(folder, names, render_settings(platform), local=False, **settings) as cluster,
    ):
        yield cluster, platform


def start_all(cluster: Cluster, platform: EmulatedPlatform, rooms: int, script: ScriptBuilder) -> str:
    """Return who listens to the platform. So many people may write to the bot."""
    prepare(cluster, platform)
    for daemon in cluster.daemons.values():
        daemon.start()
    script.write(cluster.group).chmod(0o644)
    listener = find_listener(cluster)
    open_rooms(cluster.first, platform, rooms)
    return listener


def open_gate(cluster: Cluster) -> None:
    gate = cluster.group / GO
    gate.touch()
    gate.chmod(0o644)


def render_settings(platform: EmulatedPlatform) -> str:
    lines = [f"[channels.{platform.kind}]", f'kind = "{platform.kind}"']
    lines += [
        f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}"
        for name, value in platform.get_settings().items()
    ]
    return "\n".join(lines) + "\n"


def prepare(cluster: Cluster, platform: EmulatedPlatform) -> None:
    """Before any of them starts."""
    first = cluster.first
    for name, value in platform.get_secrets().items():
        run_command(first, "secret", "set", f"CHANNEL_TELEGRAM_{name}".upper(), value)
    ann = platform.get_sender("ann")
    run_command(first, "user", "add", ann, "--name", "Ann")
    run_command(first, "user", "role", ann, "owner")
    cluster.share_keys()


def open_rooms(daemon: DaemonProcess, platform: EmulatedPlatform, count: int) -> None:
    """Everybody may write to the bot in private."""
    for room in range(count):
        run_command(daemon, "room", "policy", platform.get_address(f"direct:p{room}"), "public")


def plant_fault(folder: Path, daemons: Iterable[DaemonProcess], fault: str) -> None:
    """Before they start: each runs that text before anything else."""
    site = folder / "fault" / "sitecustomize.py"
    site.parent.mkdir()
    site.write_text(fault, encoding="utf-8")
    for daemon in daemons:
        daemon.anew = True
        daemon.env["PYTHONPATH"] = str(site.parent)


def run_command(daemon: DaemonProcess, *args: str) -> str:
    done = daemon.gatepost(*args)
    assert done.returncode == 0, f"gatepost {' '.join(args)}: {done.stdout}{done.stderr}"
    return done.stdout


def find_listener(cluster: Cluster) -> str:
    """Return who listens to the platform, once somebody does."""
    duty = channel_duty("telegram")
    block_until(lambda: bool(cluster.find_holder(duty)), "a gateway to listen")
    return cluster.find_holder(duty)


def count_unaccounted(daemon: DaemonProcess) -> int:
    """Once everything is settled."""
    block_until(lambda: daemon.json("ledger", "check")["in_flight"] == 0, "everything to be settled")
    return int(daemon.json("ledger", "check")["unaccounted"])


def run_until_over(people: StormPeople, left: DaemonProcess) -> None:
    """Until all are answered, or nothing is under way any more. `left`: a gateway that runs."""
    begun = time.monotonic()

    def is_over() -> bool:
        if len(people.answered_at) == people.size.messages:
            return True
        last = max(begun, *people.answered_at.values())
        return time.monotonic() - last > QUIET_S and left.json("ledger", "check")["in_flight"] == 0

    people.run_until(is_over, "all to be answered, or nothing to be under way")


def excuse_uncertain(verdict: StormVerdict, unanswered: int) -> StormVerdict:
    """A person whose answer is uncertain and did not arrive waits for it, and writes no more."""
    return replace(verdict, lost=verdict.lost - min(unanswered, verdict.lost, verdict.uncertain))


def get_verdict(people: StormPeople, cluster: Cluster, left: DaemonProcess) -> StormVerdict:
    """`left`: a gateway that runs."""
    unaccounted = count_unaccounted(left)
    lost, doubled, disordered = people.judge()
    return StormVerdict(
        seed=people.seed,
        size=people.size,
        lost=lost,
        doubled=doubled,
        disordered=disordered,
        unaccounted=unaccounted,
        audit_code=left.gatepost("audit", "verify").returncode,
        uncertain=int(cluster.query("SELECT COUNT(*) FROM outbox WHERE state = 'uncertain'")[0][0]),
    )
