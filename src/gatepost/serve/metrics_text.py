"""The text that Prometheus reads. Importing this loads the library, which takes a while."""

from collections.abc import Iterable
from itertools import accumulate

from prometheus_client import ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.utils import floatToGoString

from gatepost.core.durations import BOUNDS_S, CountedDurations
from gatepost.serve.metric_table import (
    GATEWAY,
    GATEWAY_METRICS,
    PREFIX,
    STORE_METRICS,
    GatewayMetric,
    MetricKind,
    Samples,
    StoreMetric,
)
from gatepost.serve.metrics import GatewayMeasurements
from gatepost.store.money.ledger import StoreMeasurements

_BOUNDS = [*map(floatToGoString, BOUNDS_S), "+Inf"]


def render_metrics(store: StoreMeasurements | None, gateway: GatewayMeasurements) -> bytes:
    class Numbers(Collector):
        def collect(self) -> Iterable[Metric]:
            return list_metrics(store, gateway)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Numbers())
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def list_metrics(store: StoreMeasurements | None, gateway: GatewayMeasurements) -> list[Metric]:
    """Return the metrics that have samples. `store` None: it does not answer."""
    found = [_make(each, each.read(gateway), (GATEWAY, gateway.name)) for each in GATEWAY_METRICS]
    found += [_make(each, _read_store(each, store, gateway)) for each in STORE_METRICS]
    return [each for each in found if each.samples]


def _read_store(spec: StoreMetric, store: StoreMeasurements | None, gateway: GatewayMeasurements) -> Samples:
    if store is None:
        return {}
    if spec.read_facts is None:
        return spec.read(store)
    return spec.read_facts(gateway.facts) if gateway.facts is not None else {}


def _make(spec: GatewayMetric | StoreMetric, samples: Samples, own: tuple[str, str] | None = None) -> Metric:
    name = f"{PREFIX}{spec.name}"
    names, values = ((own[0], *spec.labels), (own[1],)) if own is not None else (spec.labels, ())
    if spec.kind is MetricKind.HISTOGRAM:
        histogram = HistogramMetricFamily(name, spec.help, labels=names)
        for labels, counted in samples.items():
            assert isinstance(counted, CountedDurations)
            buckets = list(zip(_BOUNDS, map(float, accumulate(counted.counts)), strict=True))
            histogram.add_metric([*values, *labels], buckets, counted.total_s)
        return histogram
    if spec.kind is MetricKind.INFO:
        return InfoMetricFamily(name, spec.help, value=dict(zip(names, (*values, *next(iter(samples))), strict=True)))
    family = CounterMetricFamily if spec.kind is MetricKind.COUNTER else GaugeMetricFamily
    made = family(name, spec.help, labels=names)
    for labels, value in samples.items():
        assert not isinstance(value, CountedDurations)
        made.add_metric([*values, *labels], value)
    return made
