"""Two gateways on one database, one of them stopped for longer than its lease, and then continued. The platform's own
record is the judge: nothing is said twice, and nothing that the stopped one's agents still had in hand comes out."""

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest
from msgspec import Struct

from gatepost.core.keeper_process import read_start_time
from gatepost.flow.gateways.duties import channel_duty
from gatepost.testing.cluster import Cluster
from gatepost.testing.daemon import DaemonProcess
from gatepost.testing.platforms.telegram import TelegramPlatform
from gatepost.testing.postgres import PACKAGE, find_programs
from gatepost.testing.provider import ScriptBuilder
from gatepost.testing.waiting import PATIENCE_S, block_until

from .channel_desk import SETTINGS
from .test_gateways_killed import ECHO, list_answers, prepare, render_settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
]

ROOMS = 12
STOPPED, OTHER = "a", "b"
SOON, GO, AFTER = "soon", "go", "after"  # files in the group's folder
LATE = "too late"
HELD = ScriptBuilder().otherwise().wait_for(SOON).say(LATE).wait_for(GO).write_file(AFTER, "x").say("echo: {text}")
REFUSED = "a write was refused"

# Nothing of what keeps a stopped gateway from acting: no fence, no clock of its own, no keeper, no end of connections.
UNGUARDED = """
from gatepost.flow.gateways.keeper import Keeper
from gatepost.store.postgres.gateway_lease import GatewayLease
from gatepost.store.postgres.unit_worker import NUMBER
GatewayLease.render_opening = lambda self: NUMBER
GatewayLease.in_contact = property(lambda self: True)
GatewayLease.end_connections = lambda self, name: None
Keeper.add = lambda self, sandbox, freezer: None
Keeper.set_time = lambda self, until, epoch: None
from gatepost.cli.main import main
main()
"""


class UnguardedDaemon(DaemonProcess):
    def _spawn(self, stdout: IO[bytes], stderr: IO[bytes]) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", UNGUARDED, "up"]
        return subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)


class Aftermath(Struct, kw_only=True):
    """What was seen when the stopped gateway had gone on for a while."""

    sent: list[str]
    wrote_after: bool
    frozen_s: float | None
    refused: int
    epochs: tuple[int, int]


def list_inside(daemon: int) -> dict[int, str]:
    """The processes of a daemon's sandboxes, with the times at which they began: those of other pid namespaces."""
    found, inside = [daemon], {}
    own = Path(f"/proc/{daemon}/ns/pid").readlink()
    for pid in found:
        with suppress(OSError):
            found += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            if Path(f"/proc/{pid}/ns/pid").readlink() != own:
                inside[pid] = read_start_time(pid)
    return inside


def is_frozen(pid: int) -> bool:
    """By a signal, or by its cgroup."""
    try:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] == "T":
            return True
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return True
    for _, controllers, path in (line.split(":", 2) for line in lines):
        for state in (Path(f"/sys/fs/cgroup/freezer{path}/freezer.state"), Path(f"/sys/fs/cgroup{path}/cgroup.freeze")):
            if controllers in ("", "freezer") and state.exists() and state.read_text().strip() in ("FROZEN", "1"):
                return True
    return False


def read_epoch(cluster: Cluster, name: str) -> int:
    """0 while it is gone."""
    rows = cluster.query(f"SELECT epoch FROM gateways WHERE name = '{name}' AND state = 'running'")
    return int(rows[0][0]) if rows else 0


def start_with_open_turns(cluster: Cluster, platform: TelegramPlatform, sent: list[str]) -> None:
    """One gateway listens, and its agents wait in the middle of their turns; another one is beside it."""
    prepare(cluster, platform)
    stopped, other = cluster[STOPPED].start(), cluster[OTHER]
    HELD.write(stopped.home / "groups" / "home").chmod(0o644)
    block_until(lambda: cluster.find_holder(channel_duty("telegram")) == STOPPED, "a gateway to listen")
    for number in range(ROOMS):
        done = stopped.gatepost("room", "policy", platform.get_address(f"direct:p{number}"), "public")
        assert done.returncode == 0, done.stderr
        platform.send(sent[number], room=f"direct:p{number}", sender=f"p{number}")
    block_until(lambda: len(list_conversations(stopped)) == ROOMS, "turns to be open")
    other.start()
    ECHO.write(other.home / "groups" / "home").chmod(0o644)


def list_conversations(daemon: DaemonProcess) -> list[Path]:
    return [each for each in daemon.home.glob("sessions/*/state/scripted/c-*.jsonl") if each.stat().st_size]


def copy_conversations(cluster: Cluster) -> None:
    """What the agents know, as if it lay on a file system of both gateways."""
    for path in list_conversations(cluster[STOPPED]):
        session = path.parents[2]
        copied = cluster[OTHER].home / "sessions" / session.name
        copied.mkdir()
        copied.chmod(session.stat().st_mode & 0o777)
        subprocess.run(["cp", "-a", session / "state", copied], check=True)


def add_file(path: Path) -> None:
    path.touch()
    path.chmod(0o644)


def count_late(platform: TelegramPlatform) -> int:
    with platform.changed:
        return sum(LATE in each.text for each in platform.record)


def wait_for_answers(platform: TelegramPlatform, sent: list[str]) -> None:
    everything = platform.wait_for(lambda: set(list_answers(platform)) >= set(sent), PATIENCE_S)
    assert everything, sorted(set(sent) - set(list_answers(platform)))


def run_zombie(cluster: Cluster, platform: TelegramPlatform, *, guarded: bool) -> Aftermath:
    stopped, folder = cluster[STOPPED], cluster[STOPPED].home / "groups" / "home"
    sent = [f"m{number}" for number in range(ROOMS)]
    start_with_open_turns(cluster, platform, sent)
    epoch, inside = read_epoch(cluster, STOPPED), list_inside(stopped.pid)
    stopped.pause()
    begun, frozen_s = time.monotonic(), None
    copy_conversations(cluster)
    add_file(folder / SOON)  # before they are frozen they say something, which their gateway reads when it goes on
    if guarded:
        block_until(lambda: all(map(is_frozen, inside)), "its sandboxes to be frozen")
        frozen_s = time.monotonic() - begun
    add_file(folder / GO)
    wait_for_answers(platform, sent)
    stopped.resume()
    if guarded:
        block_until(lambda: read_epoch(cluster, STOPPED) > epoch, "it to begin anew")
        block_until(
            lambda: not any(read_start_time(pid) == began for pid, began in inside.items()), "its sandboxes to end"
        )
        wrote_after = (folder / AFTER).exists()
    else:
        block_until((folder / AFTER).exists, "an agent to go on")
        wrote_after = True
    (folder / SOON).unlink()
    ECHO.write(folder).chmod(0o644)
    later = [f"n{number}" for number in range(ROOMS)]
    for number, text in enumerate(later):
        platform.send(text, room=f"direct:p{number}", sender=f"p{number}")
    wait_for_answers(platform, sent + later)
    return Aftermath(
        sent=sent + later,
        wrote_after=wrote_after,
        frozen_s=frozen_s,
        refused=len(re.findall(REFUSED, stopped.stderr())),
        epochs=(epoch, read_epoch(cluster, STOPPED)),
    )


def make_cluster(folder: Path, platform: TelegramPlatform) -> Cluster:
    return Cluster(folder, (STOPPED, OTHER), render_settings(platform), **{**SETTINGS, "sessions_most_awake": "14"})


def test_a_gateway_that_was_stopped_and_goes_on_says_nothing_twice(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    with TelegramPlatform() as platform, make_cluster(tmp_path, platform) as cluster:
        seen = run_zombie(cluster, platform, guarded=True)
        left = next(iter(cluster.daemons.values()))
        block_until(lambda: left.json("ledger", "check")["in_flight"] == 0, "everything to be settled")

        assert Counter(list_answers(platform)) == Counter(seen.sent)
        assert count_late(platform) == 0
        assert not seen.wrote_after
        assert seen.refused > 0
        assert seen.epochs[1] > seen.epochs[0]
        assert left.json("ledger", "check")["unaccounted"] == 0
        figures(f"stopped with {ROOMS} turns open: frozen after {seen.frozen_s:.1f} s, {seen.refused} writes refused")


def test_without_its_guards_a_gateway_that_goes_on_is_noticed(tmp_path: Path, figures: Callable[[str], None]) -> None:
    """The way of the test above with its guards taken away, so that it is known to notice."""
    with TelegramPlatform() as platform, make_cluster(tmp_path, platform) as cluster:
        for name, daemon in cluster.daemons.items():
            unguarded = UnguardedDaemon(daemon.home)
            unguarded.env = daemon.env
            cluster.daemons[name] = unguarded
        seen = run_zombie(cluster, platform, guarded=False)

        twice = len(list_answers(platform)) - len(seen.sent)
        figures(f"without guards: {twice} answers twice, {count_late(platform)} that came too late")
        assert seen.wrote_after and seen.refused == 0
