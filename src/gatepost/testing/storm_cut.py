"""A storm in which a gateway's link is down for longer than its lease, with turns open: it runs, and reaches neither
the database nor the platform. Another answers meanwhile; when the link is up again, it joins by itself."""

import subprocess
import threading
import time
from pathlib import Path

from msgspec import Struct

from gatepost.testing.cluster import Cluster
from gatepost.testing.network_link import NetworkLink
from gatepost.testing.platforms.base import EmulatedPlatform
from gatepost.testing.platforms.telegram import TelegramPlatform
from gatepost.testing.storm_zombie import (
    NONE_REFUSED,
    OTHER,
    SMALL_ZOMBIE,
    STOPPED,
    ZOMBIE,
    ZombieCounts,
    ZombieStorm,
    read_epoch,
)
from gatepost.testing.storms import MODE, QUICK, StormSize, StormTime, find_listener, render_settings, storm
from gatepost.testing.waiting import block_until

CUT_S = 12.0  # for which the link is down
REJOIN_S = 10.0  # within which a gateway serves again once its link is up
BACK = "back"  # what is written to it when it is alone
LATE = "telegram:user/424242"  # whom somebody adds at a gateway that is cut off
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
        """A gateway that runs knows that its life is over before it has something to write, most times: so commits that
        the fence refuses are counted here, and not asked for. A command that writes is, and must fail."""
        wrong = {
            "a command at the cut-off gateway claimed success": not self.late_code,
            "what the cut-off gateway was asked to write was written": self.late_written,
            f"the link was down for {self.cut_s:.1f} s only": self.cut_s < CUT_S,
            f"alone it answered {self.answers} times": self.answers != 1,
        }
        before = [each for each in self.of_zombie.list_faults() if each != NONE_REFUSED]
        return [*before, *(what for what, is_so in wrong.items() if is_so)]

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


def run_cut_storm(folder: Path, seed: int, *, size: StormSize = CUT) -> CutCounts:
    platform = TelegramPlatform()
    with NetworkLink() as link:
        platform.host = link.host  # which the other gateway reaches with the link down, too
        settings = {**QUICK, "sessions_most_awake": str(size.rooms + 2)}
        with platform:
            cluster = Cluster(folder, (STOPPED, OTHER), render_settings(platform), local=False, **settings)
            cluster.put_behind(STOPPED, link)
            with cluster:
                return CutStorm(cluster, platform, size, seed).run_cut()


storm(MODE, "cut")(run_cut_storm)
