"""A storm in which gateways are killed at random moments, also while agents speak and messages are on their way to the
platform, and are started again. `FAULTS` are planted ones, which turn it red: they show that the judge sees them."""

import random
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from gatepost.flow.gateways.duties import channel_duty
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.storms.storm import (
    ECHO,
    MODE,
    StormPeople,
    StormSize,
    StormTime,
    StormVerdict,
    excuse_uncertain,
    get_verdict,
    list_true,
    open_cluster,
    plant_fault,
    run_until_over,
    start_all,
    storm,
)

NAMES = ("a", "b")
RANDOM = StormSize(rooms=30, messages=1200, open_turns=0, places=20, at_once=5)
SMALL_RANDOM = StormSize(rooms=10, messages=300, open_turns=0, places=8, at_once=5)
KILLS = 8
ANSWER_S = 0.5  # for which the platform keeps back its answer to what it has taken
COMMIT_US = 50_000  # for which the database keeps back its answer to a commit
# By name, what every gateway runs before anything else.
FAULTS: Mapping[str, str] = {
    # What was being sent when a gateway died is sent again, where the platform cannot be asked for it.
    "sent_twice": """
from gatepost.flow.delivery.channel_sender import ChannelSender

async def look_up(self, channel, job):
    return self._now(job.effect, "planted")

ChannelSender._look_up_effect = look_up
""",
    # What the platform tells a second time is taken for new: the key of a message is not looked at.
    "skipped_key": """
from gatepost.core import ids
from gatepost.core.records import replace
from gatepost.store.messages import messages

_accept = messages.accept

def accept(db, new, now):
    return _accept(db, replace(new, event=f"{new.event}~{ids.token(6)}"), now)

messages.accept = accept
""",
}


class RandomCounts(Struct, frozen=True, kw_only=True):
    verdict: StormVerdict
    kills: int
    unanswered: int  # of which the answer is uncertain, and did not arrive

    def list_faults(self) -> list[str]:
        return [
            *self.verdict.list_faults(),
            *list_true({"more is unanswered than uncertain": self.unanswered > self.verdict.uncertain}),
        ]

    def list_times(self) -> list[StormTime]:
        return []

    def render(self) -> str:
        return (
            f"{self.verdict.render()}; {self.kills} kills at random moments, {self.unanswered} uncertain and not there"
        )


def run_random_storm(
    folder: Path, seed: int, *, size: StormSize = RANDOM, kills: int = KILLS, fault: str = ""
) -> RandomCounts:
    """`fault`: one that is planted, by its name."""
    with open_cluster(folder, NAMES, size.places) as (cluster, platform):
        if fault:
            plant_fault(folder, cluster.daemons.values(), FAULTS[fault])
        start_all(cluster, platform, size.rooms, ECHO)
        _slow_down(cluster)
        platform.answer_s = ANSWER_S
        people, chance = StormPeople(platform, size, seed), random.Random(seed)
        people.start()
        made = 0
        while made < kills and len(people.answered_at) < people.size.messages:
            _wait(people, chance.uniform(0.5, 2.5))
            made += 1
            sender = cluster.find_holder(channel_duty("telegram")) or NAMES[0]
            victim = cluster[chance.choice((*NAMES, sender))]
            victim.kill()
            _wait(people, chance.choice((0.0, 0.0, 1.0, 8.0)))  # also for longer than a lease
            victim.start()
        run_until_over(people, cluster.first)
        verdict = get_verdict(people, cluster, cluster.first)
        unanswered = len(people.list_unanswered())
        return RandomCounts(verdict=excuse_uncertain(verdict, unanswered), kills=made, unanswered=unanswered)


def _slow_down(cluster: Cluster) -> None:
    """The database waits before each commit is on its disk, so some are made whose gateway does not live to see it."""
    for setting in ("fsync = on", f"commit_delay = {COMMIT_US}", "commit_siblings = 0"):
        cluster.server.execute(f"ALTER SYSTEM SET {setting}")
    cluster.server.execute("SELECT pg_reload_conf()")


def _wait(people: StormPeople, seconds: float) -> None:
    """People write meanwhile."""
    end = time.monotonic() + seconds
    people.run_until(lambda: time.monotonic() >= end, "a moment")


storm(MODE, "random")(run_random_storm)
