"""A platform that lets one client poll, and gateways of which the one that polls is killed or stopped again and again.

Each gateway asks under an address of its own, so the platform knows who polls, and when. Nobody answers the messages:
the judge is what the gateways have written down, against what people sent, and the times of the platform's record.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import combinations, permutations
from pathlib import Path

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from gatepost.flow.gateways.duties import channel_duty
from gatepost.store.postgres.gateway_lease import LEASE_S
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.platforms.base import Asgi
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.storms.storm import LIMIT_S, MODE, StormTime, storm
from gatepost_testing.waiting import PATIENCE_S, block_until

INSTANCE, ROOMS = "telegram", 10
NAMES = ("a", "b")
SETTINGS = {"sessions_provider": "scripted", "sandbox_least_free_mb": "0", "sessions_most_awake": "1"}
CONFLICT = 409
APART_S = 3.0  # without a poll for so long, a gateway has stopped: polls last for one second, and follow each other
BESIDE_S = LEASE_S + 1.0  # that two gateways run beside each other after each takeover


class PlatformPoll(Struct):
    """One request, by the platform's clock."""

    gateway: str
    begun: float
    ended: float = float("inf")  # while it is open


class PollerTerm(Struct, frozen=True):
    """Polls of one gateway that followed each other, from the first to the last."""

    gateway: str
    begun: float
    ended: float


def list_terms(polls: Iterable[PlatformPoll]) -> list[PollerTerm]:
    """In the order in which they began. Those of two gateways may overlap."""
    terms = dict[str, list[PollerTerm]]()
    for poll in polls:
        own = terms.setdefault(poll.gateway, [])
        if own and poll.begun - own[-1].ended < APART_S:
            own[-1] = PollerTerm(poll.gateway, own[-1].begun, max(own[-1].ended, poll.ended))
        else:
            own.append(PollerTerm(poll.gateway, poll.begun, poll.ended))
    return sorted((each for own in terms.values() for each in own), key=lambda each: each.begun)


def find_longest_overlap(terms: Iterable[PollerTerm]) -> float:
    """Seconds in which two gateways polled beside each other."""
    pairs = ((one, two) for one, two in combinations(terms, 2) if one.gateway != two.gateway)
    return max((min(one.ended, two.ended) - max(one.begun, two.begun) for one, two in pairs), default=0.0)


def count_strays(terms: Iterable[PollerTerm]) -> int:
    """Terms within another gateway's: somebody polled who was not to, however shortly."""
    pairs = list(permutations(terms, 2))
    inner = [one for one, two in pairs if one.gateway != two.gateway and two.begun < one.begun <= one.ended < two.ended]
    return len(set(inner))


class PolledPlatform(TelegramPlatform):
    """Knows which gateway polls: its address is `<url>/gateways/<name>`."""

    def __init__(self) -> None:
        super().__init__()
        self.polls: list[PlatformPoll] = []  # as they began
        self.conflicts = 0

    def make_app(self) -> Asgi:
        served = Route("/bot{token}/{method}", self._serve_noted, methods=["GET", "POST"])
        return Starlette(routes=[Mount("/gateways/{gateway}", routes=[served]), served])

    async def _serve_noted(self, request: Request) -> Response:
        if request.path_params["method"].lower() != "getupdates":
            return await self._serve_method(request)
        poll = PlatformPoll(request.path_params.get("gateway", ""), time.monotonic())
        with self.changed:
            self.polls.append(poll)
        try:
            answer = await self._serve_method(request)
        finally:
            poll.ended = time.monotonic()
        self.conflicts += answer.status_code == CONFLICT
        return answer

    def is_left_by(self, gateway: str) -> bool:
        """Return True if another has polled last."""
        with self.changed:
            return self.polls[-1].gateway != gateway

    def is_polled_after(self, moment: float) -> bool:
        with self.changed:
            return self.polls[-1].begun > moment

    def list_terms(self) -> list[PollerTerm]:
        """In seconds since the first poll."""
        now = time.monotonic()
        with self.changed:
            polls = [PlatformPoll(each.gateway, each.begun, min(each.ended, now)) for each in self.polls]
        first = polls[0].begun if polls else 0.0
        return [PollerTerm(each.gateway, each.begun - first, each.ended - first) for each in list_terms(polls)]


class PollerCounts(Struct, frozen=True, kw_only=True):
    seed: int
    updates: int
    kept: int  # messages that the gateways have
    different: int
    takeovers: int
    terms: tuple[PollerTerm, ...]  # who polled, and from when to when
    conflicts: int  # polls that another's ended
    waits_s: tuple[float, ...]  # of each takeover, until another polled

    @property
    def overlap_s(self) -> float:
        return max(0.0, find_longest_overlap(self.terms))

    @property
    def strays(self) -> int:
        return count_strays(self.terms)

    def list_faults(self) -> list[str]:
        """Return what went wrong; empty: nothing did."""
        wrong = {
            f"{self.updates - self.different} updates were lost": self.different != self.updates,
            f"{self.kept - self.different} updates were taken twice": self.kept != self.different,
            f"two polled at once, {self.conflicts} times": bool(self.conflicts),
            f"two polled beside each other for {self.overlap_s:.1f} s": self.overlap_s > LEASE_S,
            f"{self.strays} times one polled while another did": bool(self.strays),
            f"polled for {len(self.terms)} terms alone": len(self.terms) <= self.takeovers,
        }
        return [what for what, is_so in wrong.items() if is_so]

    def list_times(self) -> list[StormTime]:
        return [StormTime("until another polled", each, LIMIT_S) for each in self.waits_s]

    def render(self) -> str:
        terms = ", ".join(f"{each.gateway} {each.begun:.1f}–{each.ended:.1f} s" for each in self.terms)
        return (
            f"seed {self.seed}, {self.different} of {self.updates} updates, {self.takeovers} takeovers,"
            f" polled by {terms}, {self.conflicts} polls ended by another's, {self.overlap_s:.1f} s beside each other,"
            f" {self.strays} strays"
        )


def run_poller_storm(
    folder: Path, *, updates: int = 1000, seed: int = 7, env: Mapping[str, str] | None = None
) -> PollerCounts:
    """Two gateways and three takeovers: the one that polls is killed, the next is stopped and goes on later, and the
    next is killed. Each is back for longer than a lease before the next. `env`: of the gateways, which then start in
    interpreters of their own."""
    ends: list[Callable[[DaemonProcess], None]] = [DaemonProcess.kill, DaemonProcess.pause, DaemonProcess.kill]
    share, waits = updates // (len(ends) + 1), list[float]()
    platform = PolledPlatform()
    with platform, Cluster(folder, NAMES, "", local=False, **SETTINGS) as cluster:
        _prepare(cluster, platform, env)
        sent = _Sender(platform, seed)
        for end in ends:
            holder = _find_poller(cluster)
            sent.send(share // 2)
            end(cluster[holder])
            begun = time.monotonic()
            sent.send(share // 2)
            block_until(partial(platform.is_left_by, holder), "another to poll", 2 * PATIENCE_S)
            waits.append(time.monotonic() - begun)
            _begin_again(cluster[holder])
            beside = time.monotonic() + BESIDE_S
            block_until(partial(platform.is_polled_after, beside), "a lease to pass", 2 * PATIENCE_S)
        sent.send(updates - sent.count)
        block_until(lambda: _count(cluster, "DISTINCT platform_id") >= updates, "all updates", 2 * PATIENCE_S)
        return PollerCounts(
            seed=seed,
            updates=updates,
            kept=_count(cluster, "*"),
            different=_count(cluster, "DISTINCT platform_id"),
            takeovers=len(ends),
            terms=tuple(platform.list_terms()),
            conflicts=platform.conflicts,
            waits_s=tuple(waits),
        )


class _Sender:
    def __init__(self, platform: PolledPlatform, seed: int) -> None:
        self._platform, self._seed, self.count = platform, seed, 0

    def send(self, count: int) -> None:
        for _ in range(count):
            person = f"p{(self._seed + self.count) % ROOMS}"
            self._platform.send(f"m{self.count}", room=f"direct:{person}", sender=person)
            self.count += 1


def _begin_again(daemon: DaemonProcess) -> None:
    if daemon.is_running:
        daemon.resume()
    else:
        daemon.start()


def _prepare(cluster: Cluster, platform: PolledPlatform, env: Mapping[str, str] | None) -> None:
    first = cluster.first
    for name, daemon in cluster.daemons.items():
        daemon.anew = env is not None
        daemon.env |= env or {}
        lines = [
            "[channels.telegram]",
            'kind = "telegram"',
            f'api_url = "{platform.url}/gateways/{name}"',
            "poll_s = 1",
        ]
        (daemon.home / "gatepost.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, value in platform.get_secrets().items():
        _check(first, "secret", "set", f"CHANNEL_TELEGRAM_{name}".upper(), value)
    cluster.share_keys()
    for number in range(ROOMS):
        _check(first, "room", "policy", platform.get_address(f"direct:p{number}"), "public")
    for daemon in cluster.daemons.values():
        daemon.start()


def _check(daemon: DaemonProcess, *command: str) -> None:
    done = daemon.gatepost(*command)
    assert done.returncode == 0, done.stderr


def _find_poller(cluster: Cluster) -> str:
    block_until(lambda: bool(cluster.find_holder(channel_duty(INSTANCE))), "a gateway to listen", 2 * PATIENCE_S)
    return cluster.find_holder(channel_duty(INSTANCE))


def _count(cluster: Cluster, what: str) -> int:
    """Count the messages of people: the gateways add messages of their own."""
    said = "direction = 'in' AND event = 'message' AND starts_with(sender, 'telegram:')"
    return int(cluster.query(f"SELECT COUNT({what}) FROM messages WHERE {said}")[0][0])


@storm(MODE, "poller")
def run_by_seed(folder: Path, seed: int) -> PollerCounts:
    return run_poller_storm(folder, seed=seed)
