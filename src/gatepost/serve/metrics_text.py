"""The text that Prometheus reads. Labels come from closed sets and from what the operator named: never a room or a
person.

Importing this loads the library, which takes a while.
"""

from collections.abc import Iterable

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from gatepost import __version__
from gatepost.core.clock import SECOND
from gatepost.core.money import MICRO
from gatepost.serve.alerts.conditions import CONDITIONS
from gatepost.serve.metrics import GatewayMeasurements
from gatepost.serve.telemetry.trace_export import ExportCounts
from gatepost.store.money.ledger import StoreMeasurements


def render_metrics(store: StoreMeasurements, gateway: GatewayMeasurements) -> bytes:
    class Numbers(Collector):
        def collect(self) -> Iterable[Metric]:
            return list_metrics(store, gateway)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Numbers())
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def list_metrics(store: StoreMeasurements, gateway: GatewayMeasurements) -> list[Metric]:
    def gauge(name: str, help: str, value: float) -> Metric:
        return GaugeMetricFamily(f"gatepost_{name}", help, value=value)

    waiting = GaugeMetricFamily("gatepost_open_messages", "Messages on their way.", labels=["direction"])
    waiting.add_metric(["in"], store.open_inbound)
    waiting.add_metric(["out"], store.open_outbound)
    up = GaugeMetricFamily("gatepost_channel_up", "1 if a channel is well.", labels=["channel", "kind"])
    restarts = CounterMetricFamily("gatepost_channel_restarts", "Restarts of a channel.", labels=["channel", "kind"])
    for each in gateway.channels:
        up.add_metric([each.instance, each.kind], each.is_well)
        restarts.add_metric([each.instance, each.kind], each.restarts)
    alerts = GaugeMetricFamily("gatepost_alerts", "Open alerts, of all gateways together.", labels=["condition"])
    for condition in CONDITIONS:
        alerts.add_metric([condition], store.alerts.get(condition, 0))
    return [
        InfoMetricFamily("gatepost_build", "The version that runs.", value={"version": __version__}),
        gauge("start_time_seconds", "When the gateway started, as Unix time.", gateway.started_at / SECOND),
        CounterMetricFamily("gatepost_messages", "Messages that were accepted or made.", value=store.messages),
        waiting,
        gauge("oldest_open_message_seconds", "How long the oldest of them waits.", store.oldest_open_s),
        gauge("failed_messages", "Messages that an agent could not answer.", store.failed_inbound),
        gauge("pending_requests", "Requests that wait for a person.", store.pending_requests),
        gauge("active_tasks", "Tasks that have a next time.", store.active_tasks),
        gauge("cost_today_dollars", "Cost of models since midnight, UTC.", store.cost_micro / MICRO),
        gauge("sessions_awake", "Conversations whose sandbox runs.", gateway.sessions_awake),
        gauge("sessions_waiting", "Conversations that wait for a sandbox.", gateway.sessions_waiting),
        CounterMetricFamily("gatepost_slow_steps", "Steps over 50 ms that held up all.", value=gateway.slow_steps),
        CounterMetricFamily(
            "gatepost_refused_writes",
            "Writes that came after another gateway had taken over from this one.",
            value=gateway.refused_writes,
        ),
        up,
        restarts,
        alerts,
        *_list_trace_metrics(gateway.traces),
    ]


def _list_trace_metrics(counts: ExportCounts | None) -> list[Metric]:
    if counts is None:
        return []
    return [
        CounterMetricFamily("gatepost_trace_spans_sent", "Spans that were sent.", value=counts.sent),
        CounterMetricFamily("gatepost_trace_spans_dropped", "Spans that were not taken.", value=counts.dropped),
        CounterMetricFamily(
            "gatepost_trace_steps_skipped", "Steps of messages that no span was made of.", value=counts.skipped
        ),
    ]
