"""The status of a running gateway: a record in the daemon, on pages and in commands, JSON between them."""

from enum import StrEnum

from msgspec import Struct

from gatepost.flow.channel_health import ChannelReport
from gatepost.serve.control.answers import read_sent
from gatepost.serve.control.client import ControlClient, get_result

TIMEOUT_S = 5.0


class Lack(StrEnum):
    AGENT = "agent"  # besides the demo
    CHANNEL = "channel"  # besides those that each gateway has


class DaemonStatus(Struct, frozen=True, kw_only=True):
    """The gateway's own report. Fields have defaults, because a gateway of an older version leaves some out.

    `gateway`: its name on a shared store. `refused_writes`: those that came after another gateway had taken over.
    `sandbox`: the kind that agents get, or "none"; `sandbox_note` says why, or that it does not isolate. `pressed`: why
    no further sandbox is woken. `lacks`: what a new gateway has not got yet. `slowest` is measured by the clock,
    `busiest` by the processor's time.
    """

    gateway: str = ""
    clock_off_ms: int = 0
    draining: bool = False
    refused_writes: int = 0
    pid: int = 0
    version: str = ""
    started_at: int = 0
    listen: str = ""
    control_listen: str = ""
    home: str = ""
    sandbox: str = ""
    sandbox_note: str = ""
    channels: list[str] = []
    channel_health: list[ChannelReport] = []
    sessions_awake: int = 0
    sessions_waiting: int = 0
    pressed: str = ""
    store_trouble: str = ""
    lacks: list[Lack] = []
    slow_steps: int = 0
    slowest: str = ""
    slowest_ms: int = 0
    busiest: str = ""
    busiest_ms: int = 0


def ask_daemon_status(control: ControlClient) -> DaemonStatus:
    """Return what a running gateway says of itself. Raises Unavailable if it does not answer, or in other terms."""
    found = get_result(control.get("/v1/status", timeout=TIMEOUT_S))
    status: DaemonStatus = read_sent(DaemonStatus, found, "status")
    return status
