"""One gateway on SQLite and one emulated platform: what storms at the edges share.

People write by a seed, whatever they are answered. A place is a number of messages in the platform's record, so that
before and after are told by the platform alone.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from gatepost.channels.contract import ChannelState
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.platforms.base import EmulatedPlatform, ShownMessage
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.storms.storm import ANSWER, PATIENT_S, QUICK, plant_fault, render_settings, run_command
from gatepost_testing.waiting import block_until

MODE = "edges"
SETTINGS = {**QUICK, "sandbox_kind": "process", "sessions_most_awake": "16"}
SLOW_ECHO = ScriptBuilder().otherwise().wait(0.3).say("echo: {text}")
ANSWER_S = 0.2  # for which the platform keeps back its answer to what it has taken
QUESTION = re.compile(r"m\d+x\d+")
APOLOGY = "Sorry, I could not answer"
OWNER = "ann"
OWNERS_ROOM = f"direct:{OWNER}"
T = TypeVar("T")


class Exchange(Struct, kw_only=True):
    """A message of a person, and the places of its answers."""

    text: str
    room: str
    written: int
    answers: list[int] = []

    def count(self, since: int, until: int) -> int:
        return sum(since <= place < until for place in self.answers)


def list_exchanges(record: Sequence[ShownMessage]) -> list[Exchange]:
    """Return all that people asked, with its answers, by the platform's record alone."""
    found: dict[str, Exchange] = {}
    for place, each in enumerate(record):
        if each.sender != "bot" and QUESTION.fullmatch(each.text):
            found[each.text] = Exchange(text=each.text, room=each.room, written=place, answers=[])
        elif each.sender == "bot" and (answer := ANSWER.search(each.text)) and answer[1] in found:
            found[answer[1]].answers.append(place)
    return list(found.values())


def count_apologies(record: Sequence[ShownMessage]) -> Counter[str]:
    """Count in each room the messages of which people were told that nobody answers them."""
    told = Counter[str]()
    for each in record:
        if each.sender == "bot" and each.text.startswith(APOLOGY):
            several = re.match(rf"{APOLOGY} (\d+) messages", each.text)
            told[each.room] += int(several[1]) if several else 1
    return told


class EdgePeople:
    def __init__(self, platform: EmulatedPlatform, rooms: int, seed: int) -> None:
        self._platform, self._rooms = platform, rooms
        self._random = random.Random(f"people {seed}")
        self._numbers = Counter[int]()

    def write(self) -> None:
        room = self._random.randrange(self._rooms)
        self._platform.send(f"m{room}x{self._numbers[room]}", room=f"direct:p{room}", sender=f"p{room}")
        self._numbers[room] += 1

    def write_for(self, seconds: float) -> None:
        """Everybody writes less than a room is answered, so that nothing piles up."""
        ends = time.monotonic() + seconds
        self.write_while(lambda: time.monotonic() < ends)

    def write_while(self, holds: Callable[[], bool]) -> None:
        while holds():
            self.write()
            self._platform.wait_for(bool, self._random.uniform(0.0, 4.0 / self._rooms))


class EdgeGateway:
    """`daemon`: runs in `folder`/home, unless it was stopped."""

    def __init__(self, folder: Path, platform: EmulatedPlatform, daemon: DaemonProcess, people: EdgePeople) -> None:
        self.folder, self.platform, self.daemon, self.people = folder, platform, daemon, people

    @property
    def place(self) -> int:
        with self.platform.changed:
            return len(self.platform.record)

    @property
    def record(self) -> list[ShownMessage]:
        with self.platform.changed:
            return list(self.platform.record)

    def write_during(self, act: Callable[[], T]) -> T:
        """People write until something is done."""
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(act)
            self.people.write_while(lambda: not done.done())
            return done.result()

    def start(self) -> None:
        self.daemon.start()
        block_until(self._is_up, f"{self.platform.kind} to be up")

    def _is_up(self) -> bool:
        return any(
            each["state"] == ChannelState.UP
            for each in self.daemon.json("channel", "list")
            if each["instance"] == self.platform.kind
        )

    def wait_until_settled(self) -> None:
        block_until(self._is_settled, "everything to be settled", PATIENT_S)

    def _is_settled(self) -> bool:
        with self.platform.changed:
            unread = len(getattr(self.platform, "updates", ()))
        return not unread and self.daemon.json("ledger", "check")["in_flight"] == 0

    def count_unaccounted(self) -> int:
        return int(self.daemon.json("ledger", "check")["unaccounted"])


@contextmanager
def open_edge(
    folder: Path,
    seed: int,
    rooms: int,
    *,
    platform: Callable[[], EmulatedPlatform] = TelegramPlatform,
    fault: str = "",
    script: ScriptBuilder = SLOW_ECHO,
) -> Iterator[EdgeGateway]:
    """`fault`: what the gateway runs before anything else."""
    with platform() as made:
        daemon = DaemonProcess(folder / "home", **SETTINGS)
        daemon.home.mkdir(parents=True)
        (daemon.home / "gatepost.toml").write_text(render_settings(made), encoding="utf-8")
        if fault:
            plant_fault(folder, [daemon], fault)
        for name, value in made.get_secrets().items():
            run_command(daemon, "secret", "set", f"CHANNEL_{made.kind}_{name}".upper(), value)
        owner = made.get_sender(OWNER)
        run_command(daemon, "user", "add", owner, "--name", "Ann")
        run_command(daemon, "user", "role", owner, "owner")
        edge = EdgeGateway(folder, made, daemon, EdgePeople(made, rooms, seed))
        try:
            edge.start()
            script.write(daemon.home / "groups" / "home").chmod(0o644)
            for room in range(rooms):
                run_command(daemon, "room", "policy", made.get_address(f"direct:p{room}"), "public")
            made.send("hello", room=OWNERS_ROOM, sender=OWNER)
            block_until(lambda: "echo: hello" in made.texts(OWNERS_ROOM), "the owner to be answered")
            made.answer_s = ANSWER_S
            yield edge
        finally:
            if daemon.is_running:
                daemon.kill()
