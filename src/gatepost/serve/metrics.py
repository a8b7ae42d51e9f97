"""Numbers that Prometheus reads, at a bounded pace. `metrics_text` writes them."""

import asyncio
import time
from collections.abc import Callable

from msgspec import Struct

from gatepost.core.clock import Clock
from gatepost.flow.channel_health import ChannelReport
from gatepost.serve.telemetry.trace_export import ExportCounts
from gatepost.store.money.ledger import StoreMeasurements, measure
from gatepost.store.port import Store

KEPT_S = 5.0  # however many ask, the store is asked so often at most
WITHIN_S = 5.0
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class GatewayMeasurements(Struct, frozen=True, kw_only=True):
    """Numbers that only the process knows."""

    started_at: int
    sessions_awake: int
    sessions_waiting: int
    slow_steps: int
    refused_writes: int = 0
    channels: tuple[ChannelReport, ...]
    traces: ExportCounts | None = None  # None: they are off


class MetricsPage:
    """Renders the numbers, once for all who ask within a few seconds."""

    def __init__(self, store: Store, clock: Clock, measure_gateway: Callable[[], GatewayMeasurements]) -> None:
        self._store, self._clock, self._measure_gateway = store, clock, measure_gateway
        self._text, self._until = b"", 0.0
        self._lock = asyncio.Lock()

    async def get_text(self) -> bytes:
        async with self._lock:
            if time.monotonic() >= self._until:
                found = await self._store.read(measure, self._clock.now(), within=WITHIN_S)
                # In a thread: the library is imported with the first use, and reads /proc.
                self._text = await asyncio.to_thread(_render, found, self._measure_gateway())
                self._until = time.monotonic() + KEPT_S
        return self._text


def _render(store: StoreMeasurements, gateway: GatewayMeasurements) -> bytes:
    from gatepost.serve.metrics_text import render_metrics

    return render_metrics(store, gateway)
