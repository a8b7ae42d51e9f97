"""Numbers that Prometheus reads, at a bounded pace. `metric_table` declares them, `metrics_text` writes them."""

import asyncio
import time
from collections.abc import Callable

from msgspec import Struct

from gatepost.core.clock import Clock
from gatepost.core.durations import Durations
from gatepost.core.errors import Unavailable
from gatepost.core.process.watchdog import SlowStepTotal
from gatepost.flow.channel_health import ChannelReport
from gatepost.serve.alerts.conditions import AlertFacts
from gatepost.serve.telemetry.trace_export import ExportCounts
from gatepost.store.money.ledger import StoreMeasurements, list_arrivals, measure
from gatepost.store.port import Store

KEPT_S = 5.0  # however many ask, the store is asked so often at most
WITHIN_S = 5.0
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class LeaseMeasurements(Struct, frozen=True, kw_only=True):
    """The standing of a gateway among several. `left_s`: until it stops by itself."""

    in_contact: bool
    left_s: float
    takeovers: int
    duties: int


class GatewayMeasurements(Struct, frozen=True, kw_only=True):
    """Numbers that only the process knows. `facts`: of its last look for alerts."""

    name: str
    started_at: int
    durations: Durations
    sessions_awake: int
    sessions_waiting: int
    slow_steps: tuple[SlowStepTotal, ...]
    refused_writes: int = 0
    channels: tuple[ChannelReport, ...]
    traces: ExportCounts | None = None  # None: they are off
    facts: AlertFacts | None = None
    lease: LeaseMeasurements | None = None  # None: no other gateway shares the store


class MetricsPage:
    """Renders the numbers, once for all who ask within a few seconds. While the store does not answer they are those of
    the process alone."""

    def __init__(self, store: Store, clock: Clock, measure_gateway: Callable[[], GatewayMeasurements]) -> None:
        self._store, self._clock, self._measure_gateway = store, clock, measure_gateway
        self._text, self._until = b"", 0.0
        self._lock = asyncio.Lock()

    async def get_text(self) -> bytes:
        async with self._lock:
            if time.monotonic() >= self._until:
                measured = self._measure_gateway()
                answered = tuple(measured.durations.answered)
                try:
                    found = await self._store.read(measure, self._clock.now(), within=WITHIN_S)
                    arrivals = await self._store.read(list_arrivals, [each.turn_id for each in answered])
                    measured.durations.record_arrivals(answered, arrivals)
                except Unavailable:
                    found = None
                # In a thread: the library is imported with the first use, and reads /proc.
                self._text = await asyncio.to_thread(_render, found, measured)
                self._until = time.monotonic() + KEPT_S
        return self._text


def _render(store: StoreMeasurements | None, gateway: GatewayMeasurements) -> bytes:
    from gatepost.serve.metrics_text import render_metrics

    return render_metrics(store, gateway)
