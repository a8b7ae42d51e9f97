"""A platform that lets one client poll, and gateways of which the one that polls is killed or stopped again and again.

Each gateway asks under an address of its own, so the platform knows who polls. Nobody answers the messages: the judge
is what the gateways have written down, against what people sent.
"""

import time
from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from gatepost.flow.gateways.duties import channel_duty
from gatepost.testing.cluster import Cluster
from gatepost.testing.daemon import DaemonProcess
from gatepost.testing.platforms.base import Asgi
from gatepost.testing.platforms.telegram import TelegramPlatform
from gatepost.testing.storms import LIMIT_S, MODE, StormTime, storm
from gatepost.testing.waiting import PATIENCE_S, block_until

INSTANCE, ROOMS = "telegram", 10
NAMES = ("a", "b")
SETTINGS = {"sessions_provider": "scripted", "sandbox_least_free_mb": "0", "sessions_most_awake": "1"}
CONFLICT = 409


class PolledPlatform(TelegramPlatform):
    """Knows which gateway polls: its address is `<url>/gateways/<name>`."""

    def __init__(self) -> None:
        super().__init__()
        self.polls: list[str] = []  # by whom, as they began
        self.conflicts = 0

    def make_app(self) -> Asgi:
        served = Route("/bot{token}/{method}", self._serve_noted, methods=["GET", "POST"])
        return Starlette(routes=[Mount("/gateways/{gateway}", routes=[served]), served])

    async def _serve_noted(self, request: Request) -> Response:
        polls = request.path_params["method"].lower() == "getupdates"
        if polls:
            with self.changed:
                self.polls.append(request.path_params.get("gateway", ""))
        answer = await self._serve_method(request)
        self.conflicts += polls and answer.status_code == CONFLICT
        return answer

    def is_left_by(self, gateway: str) -> bool:
        """Whether another has polled last."""
        with self.changed:
            return self.polls[-1] != gateway

    def list_pollers(self) -> list[str]:
        """One after the other; who polls again after another did is there twice."""
        with self.changed:
            return [name for name, _ in groupby(self.polls)]


class PollerCounts(Struct, frozen=True, kw_only=True):
    seed: int
    updates: int
    kept: int  # messages that the gateways have
    different: int
    takeovers: int
    pollers: tuple[str, ...]  # one after the other
    conflicts: int  # polls that another's ended
    waits_s: tuple[float, ...]  # of each takeover, until another polled

    def list_faults(self) -> list[str]:
        """What went wrong; empty: nothing did."""
        wrong = {
            f"{self.updates - self.different} updates were lost": self.different != self.updates,
            f"{self.kept - self.different} updates were taken twice": self.kept != self.different,
            f"two polled at once, {self.conflicts} times": bool(self.conflicts),
            f"{self.pollers} polled, one after the other": len(self.pollers) <= self.takeovers,
        }
        return [what for what, is_so in wrong.items() if is_so]

    def list_times(self) -> list[StormTime]:
        return [StormTime("until another polled", each, LIMIT_S) for each in self.waits_s]

    def render(self) -> str:
        return (
            f"seed {self.seed}, {self.different} of {self.updates} updates, {self.takeovers} takeovers,"
            f" polled by {' '.join(self.pollers)}, {self.conflicts} polls ended by another's"
        )


def run_poller_storm(folder: Path, *, updates: int = 1000, seed: int = 7) -> PollerCounts:
    """Two gateways and three takeovers: the one that polls is killed, the next is stopped and goes on later, and the
    next is killed."""
    ends: list[Callable[[DaemonProcess], None]] = [DaemonProcess.kill, DaemonProcess.pause, DaemonProcess.kill]
    share, waits = updates // (len(ends) + 1), list[float]()
    platform = PolledPlatform()
    with platform, Cluster(folder, NAMES, "", local=False, **SETTINGS) as cluster:
        _prepare(cluster, platform)
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
        sent.send(updates - sent.count)
        block_until(lambda: _count(cluster, "DISTINCT platform_id") >= updates, "all updates", 2 * PATIENCE_S)
        return PollerCounts(
            seed=seed,
            updates=updates,
            kept=_count(cluster, "*"),
            different=_count(cluster, "DISTINCT platform_id"),
            takeovers=len(ends),
            pollers=tuple(platform.list_pollers()),
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


def _prepare(cluster: Cluster, platform: PolledPlatform) -> None:
    first = cluster.first
    for name, daemon in cluster.daemons.items():
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
    """Of what people said: the gateways add words of their own."""
    said = "direction = 'in' AND event = 'message' AND starts_with(sender, 'telegram:')"
    return int(cluster.query(f"SELECT COUNT({what}) FROM messages WHERE {said}")[0][0])


@storm(MODE, "poller")
def run_by_seed(folder: Path, seed: int) -> PollerCounts:
    return run_poller_storm(folder, seed=seed)
