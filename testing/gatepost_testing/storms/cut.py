"""A storm in which a gateway's link is down for longer than its lease, with turns open: it runs, and reaches neither
the database nor the platform. Another answers meanwhile; when the link is up again, it joins by itself."""

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.storms.network_link import NetworkLink
from gatepost_testing.storms.storm import (
    ECHO,
    MODE,
    QUICK,
    WHOLE,
    StormPeople,
    StormSize,
    StormTime,
    StormVerdict,
    excuse_uncertain,
    find_listener,
    get_verdict,
    list_true,
    open_rooms,
    prepare,
    render_settings,
    run_until_over,
    storm,
)
from gatepost_testing.storms.zombie import (
    NONE_REFUSED,
    OTHER,
    SMALL_ZOMBIE,
    STOPPED,
    ZOMBIE,
    ZombieCounts,
    ZombieStorm,
    read_epoch,
)
from gatepost_testing.waiting import block_until

CUT_S = 12.0  # for which the link is down
REJOIN_S = 10.0  # within which a gateway serves again once its link is up
BACK = "back"  # what is written to it when it is alone
LATE = "telegram:user/424242"  # whom somebody adds at a gateway that is cut off
SHARE = 0.3  # of the messages that are answered when a busy one is cut off
CUT, SMALL_CUT = ZOMBIE, SMALL_ZOMBIE


class CutCounts(Struct, frozen=True, kw_only=True):
    of_zombie: ZombieCounts  # as if it had been stopped
    cut_s: float
    answered_s: float  # from the cut to the last answer to what was open then
    rejoined_s: float
    late_code: int  # the exit code of a command that writes at the gateway that is cut off
    late_written: bool
    answers: int  # to what was written when the other one had left

    def list_faults(self) -> list[str]:
        """List the faults of the run.

        Mostly a cut-off gateway knows that its lease is over before it writes. So refused commits are counted, but not
        required. A command that writes there is required to fail.
        """
        wrong = {
            "a command at the cut-off gateway claimed success": not self.late_code,
            "what the cut-off gateway was asked to write was written": self.late_written,
            f"the link was down for {self.cut_s:.1f} s only": self.cut_s < CUT_S,
            f"alone it answered {self.answers} times": self.answers != 1,
        }
        before = [each for each in self.of_zombie.list_faults() if each != NONE_REFUSED]
        return [*before, *list_true(wrong)]

    def list_times(self) -> list[StormTime]:
        return [*self.of_zombie.list_times(), StormTime("rejoined after", self.rejoined_s, REJOIN_S)]

    def render(self) -> str:
        late = "failed" if self.late_code and not self.late_written else "LANDED"
        return (
            f"{self.of_zombie.render()}, link down for {self.cut_s:.1f} s, the open ones answered after"
            f" {self.answered_s:.1f} s, a write there {late},"
            f" {self.list_times()[-1].render()}, alone it answered {self.answers} of 1"
        )


class CutStorm(ZombieStorm):
    def __init__(self, cluster: Cluster, platform: EmulatedPlatform, size: StormSize, seed: int) -> None:
        super().__init__(cluster, platform, size, seed)
        self._cut_at = self._answered_at = self._joined_at = self._rejoined_at = 0.0
        self._epoch = 0
        self._late: subprocess.CompletedProcess[str] | None = None
        self._writing = threading.Thread(target=self._write_late, name="late-write")

    def run_cut(self) -> CutCounts:
        counts = self.run(guarded=True)
        return CutCounts(
            of_zombie=counts,
            cut_s=self._joined_at - self._cut_at,
            answered_s=self._answered_at - self._cut_at,
            rejoined_s=self._rejoined_at - self._joined_at,
            late_code=self._late.returncode if self._late is not None else 0,
            late_written=LATE in self._cluster[OTHER].gatepost("user", "list", "--json").stdout,
            answers=self._count_answers_alone(),
        )

    def _stop(self) -> None:
        self._epoch = read_epoch(self._cluster, STOPPED)
        self._cut_at = time.monotonic()
        self._cluster.cut(STOPPED)
        self._writing.start()

    def _write_late(self) -> None:
        self._late = self._stopped.gatepost("user", "add", LATE, "--name", "Late")

    def _go_on(self) -> None:
        self._answered_at = time.monotonic()
        self._people.run_until(lambda: time.monotonic() >= self._cut_at + CUT_S, "the time to be over")
        self._writing.join()  # it has failed, or will not: what is tried after the link is up is another matter
        self._joined_at = time.monotonic()
        self._cluster.join(STOPPED)
        block_until(lambda: read_epoch(self._cluster, STOPPED) > self._epoch, "it to begin anew")
        self._rejoined_at = time.monotonic()

    def _count_answers_alone(self) -> int:
        """The other one leaves: whoever was cut off listens, and answers."""
        self._cluster[OTHER].stop()
        block_until(lambda: find_listener(self._cluster) == STOPPED, "it to listen")
        seen = len(self._platform.texts())
        self._platform.send(BACK, room="direct:p0", sender="p0")
        self._platform.wait_for(lambda: len(self._platform.texts()) > seen)
        return sum(BACK in text for text in self._platform.texts())


@contextmanager
def open_cut_cluster(folder: Path, most_awake: int) -> Iterator[tuple[Cluster, EmulatedPlatform]]:
    """Two gateways, of which the first is behind a link."""
    platform = TelegramPlatform()
    with NetworkLink() as link:
        platform.host = link.host  # which the other gateway reaches with the link down, too
        settings = {**QUICK, "sessions_most_awake": str(most_awake)}
        with platform:
            cluster = Cluster(folder, (STOPPED, OTHER), render_settings(platform), local=False, **settings)
            cluster.put_behind(STOPPED, link)
            with cluster:
                yield cluster, platform


def run_cut_storm(folder: Path, seed: int, *, size: StormSize = CUT) -> CutCounts:
    with open_cut_cluster(folder, size.rooms + 2) as (cluster, platform):
        return CutStorm(cluster, platform, size, seed).run_cut()


class BusyCutCounts(Struct, frozen=True, kw_only=True):
    verdict: StormVerdict
    unanswered: int  # of which the answer is uncertain, since the cut swallowed it, and did not arrive
    refused: int
    epochs: tuple[int, int]
    longest_s: float  # that somebody waited for an answer, from the cut on

    def list_faults(self) -> list[str]:
        wrong = {
            "the cut-off gateway has no new life": self.epochs[1] <= self.epochs[0],
            "more is unanswered than uncertain": self.unanswered > self.verdict.uncertain,
        }
        return [*self.verdict.list_faults(), *list_true(wrong)]

    def list_times(self) -> list[StormTime]:
        return []

    def render(self) -> str:
        return (
            f"{self.verdict.render()}; the listener's link down for {CUT_S:g} s, {self.unanswered} uncertain and not"
            f" there, {self.refused} late writes refused, epoch {self.epochs[0]} to {self.epochs[1]};"
            f" longest wait {self.longest_s:.1f} s"
        )


def run_busy_cut_storm(folder: Path, seed: int, *, size: StormSize = WHOLE) -> BusyCutCounts:
    """People write all the time, and what happens to be under way is cut: claims, sends, commits."""
    with open_cut_cluster(folder, size.rooms) as (cluster, platform):
        prepare(cluster, platform)
        cluster[STOPPED].start()
        ECHO.write(cluster.group).chmod(0o644)
        block_until(lambda: find_listener(cluster) == STOPPED, "it to listen")
        open_rooms(cluster[STOPPED], platform, size.rooms)
        cluster[OTHER].start()
        people = StormPeople(platform, size, seed)
        people.start()
        people.run_until(lambda: len(people.answers) >= SHARE * size.messages, "a part to be answered")
        epoch, cut_at = read_epoch(cluster, STOPPED), time.monotonic()
        cluster.cut(STOPPED)
        people.run_until(lambda: time.monotonic() >= cut_at + CUT_S, "the time to be over")
        cluster.join(STOPPED)
        people.run_until(lambda: read_epoch(cluster, STOPPED) > epoch, "it to begin anew")
        run_until_over(people, cluster[OTHER])
        verdict, unanswered = get_verdict(people, cluster, cluster[OTHER]), len(people.list_unanswered())
        return BusyCutCounts(
            verdict=excuse_uncertain(verdict, unanswered),
            unanswered=unanswered,
            refused=cluster[STOPPED].json("status")["refused_writes"],
            epochs=(epoch, read_epoch(cluster, STOPPED)),
            longest_s=people.find_longest_wait(cut_at),
        )


storm(MODE, "cut")(run_cut_storm)
storm(MODE, "cut busy")(run_busy_cut_storm)
