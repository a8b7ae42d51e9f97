"""Storms in which the machine lacks something for a while: room on the disk, or descriptors. People write all the time.
All is answered in the end; a full disk is told to the owner."""

import os
import random
import re
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from gatepost_testing.platforms.base import ShownMessage
from gatepost_testing.storms.edges import MODE, OWNERS_ROOM, EdgeGateway, count_apologies, list_exchanges, open_edge
from gatepost_testing.storms.storm import StormTime, list_true, storm

ROUNDS, ROOMS = 8, 12
DISK_MB = 48
CHUNK = 64 * 1024
FULL = re.compile("disk is (nearly )?full")


class ShortageCounts(Struct, frozen=True, kw_only=True):
    name: str
    seed: int
    messages: int
    lost: int  # neither answered, nor told of
    doubled: int
    told: int  # messages of which people were told that they are not answered: a shortage passes, so none is
    notices: int  # to the owner
    rounds: int
    tells_owner: bool  # somebody must
    unaccounted: int
    audit_code: int

    def list_faults(self) -> list[str]:
        wrong = {
            f"{self.lost} lost": self.lost,
            f"{self.doubled} said twice": self.doubled,
            f"{self.told} senders told that it failed": self.told,
            f"{self.unaccounted} unaccounted": self.unaccounted,
            "the audit log does not verify": self.audit_code,
            "the owner was not told": self.tells_owner and not self.notices,
        }
        return list_true(wrong)

    def list_times(self) -> list[StormTime]:
        return []

    def render(self) -> str:
        return (
            f"{self.rounds} times, {self.messages} messages, seed {self.seed}: lost {self.lost}, doubled"
            f" {self.doubled}, unaccounted {self.unaccounted}, {self.told} senders told that it failed, {self.notices}"
            f" notices to the owner, audit {'verifies' if not self.audit_code else 'BROKEN'}"
        )


def judge(record: Sequence[ShownMessage]) -> tuple[int, int]:
    """Return how many messages were lost, and how many answered twice. One that was answered by an apology is not
    lost."""
    lost = doubled = 0
    told = count_apologies(record)
    for each in list_exchanges(record):
        doubled += max(0, len(each.answers) - 1)
        if not each.answers and told[each.room]:
            told[each.room] -= 1
        elif not each.answers:
            lost += 1
    return lost, doubled


def count_notices(record: Sequence[ShownMessage]) -> int:
    return sum(each.sender == "bot" and each.room == OWNERS_ROOM and bool(FULL.search(each.text)) for each in record)


def run_full_disk_storm(folder: Path, seed: int, *, rounds: int = ROUNDS, rooms: int = ROOMS) -> ShortageCounts:
    disk = folder / "d"  # the path of a home may not be long
    with _open_small_disk(disk), open_edge(disk, seed, rooms) as edge:
        return _run_shortage(edge, "full disk", seed, rounds, partial(_write_until_full, disk), tells_owner=True)


def run_descriptor_storm(folder: Path, seed: int, *, rounds: int = ROUNDS, rooms: int = ROOMS) -> ShortageCounts:
    with open_edge(folder, seed, rooms) as edge:
        return _run_shortage(edge, "descriptors", seed, rounds, partial(_limit_descriptors, edge), tells_owner=False)


def _run_shortage(
    edge: EdgeGateway, name: str, seed: int, rounds: int, act: Callable[[float], object], *, tells_owner: bool
) -> ShortageCounts:
    """`act`: takes something away for so many seconds."""
    chance = random.Random(seed)
    for _ in range(rounds):
        edge.people.write_for(chance.uniform(0.5, 2.0))
        lasts = chance.uniform(1.0, 8.0)
        edge.write_during(partial(act, lasts))
    edge.people.write_for(1.0)
    edge.wait_until_settled()
    lost, doubled = judge(edge.record)
    return ShortageCounts(
        name=name,
        seed=seed,
        messages=len(list_exchanges(edge.record)),
        lost=lost,
        doubled=doubled,
        told=count_apologies(edge.record).total(),
        notices=count_notices(edge.record),
        rounds=rounds,
        tells_owner=tells_owner,
        unaccounted=edge.count_unaccounted(),
        audit_code=edge.daemon.gatepost("audit", "verify").returncode,
    )


@contextmanager
def _open_small_disk(disk: Path) -> Iterator[None]:
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=0711", "tmpfs", str(disk)]
    done = subprocess.run(mount, capture_output=True, text=True)
    assert done.returncode == 0, f"this user may not mount anything, so no disk can be filled: {done.stderr}"
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def _write_until_full(disk: Path, lasts: float) -> None:
    """Keep the disk full: space that becomes free meanwhile is taken, too."""
    ends, path = time.monotonic() + lasts, disk / "filled"
    with path.open("wb", buffering=0) as file:
        while time.monotonic() < ends:
            for size in (CHUNK, 4096, 1):
                with suppress(OSError):
                    while time.monotonic() < ends and file.write(bytes(size)) == size:
                        pass
            time.sleep(0.05)
    path.unlink()


def _limit_descriptors(edge: EdgeGateway, lasts: float) -> None:
    """It keeps those that it has, and gets no other."""
    pid = edge.daemon.pid
    known = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), known[1]))
    time.sleep(lasts)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, known)


storm(MODE, "full disk")(run_full_disk_storm)
storm(MODE, "descriptors")(run_descriptor_storm)
