"""The metrics: one table, from what was measured to the samples of each. `docs/monitoring.md` is printed from it.

Labels come from closed sets and from what the operator named: never a room or a person. What begins with `store_` is
about the whole store. Each gateway on it says the same, so it is never added up. All else has the gateway's name.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum

from msgspec import Struct

from gatepost import __version__
from gatepost.core.clock import DAY, SECOND
from gatepost.core.durations import NONE_COUNTED, CountedDurations, TimedStep
from gatepost.core.money import MICRO
from gatepost.serve.alerts.conditions import CONDITIONS, AlertFacts
from gatepost.serve.metrics import GatewayMeasurements, LeaseMeasurements
from gatepost.store.gateways.gateways import GatewayState
from gatepost.store.money.ledger import StoreMeasurements

PREFIX = "gatepost_"
OF_STORE = "store_"  # how the names of numbers begin that are about the whole store
GATEWAY = "gateway"  # the label of all others
DAY_S = DAY // SECOND

MetricValue = float | CountedDurations
Samples = Mapping[tuple[str, ...], MetricValue]  # by the values of the labels
Measured = GatewayMeasurements | StoreMeasurements
NOTHING: Samples = {}


class MetricKind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class GatewayMetric(Struct, frozen=True):
    """`name`: without what Prometheus adds to it. `labels`: besides that of the gateway. `read`: it returns no
    samples where nothing is known."""

    name: str
    kind: MetricKind
    help: str
    read: Callable[[GatewayMeasurements], Samples]
    labels: tuple[str, ...] = ()


class StoreMetric(Struct, frozen=True):
    """The same for a number of the whole store. `read_facts`: of the gateway that looks for all of them, where the
    store does not tell it."""

    name: str
    kind: MetricKind
    help: str
    read: Callable[[StoreMeasurements], Samples] = lambda measured: NOTHING
    labels: tuple[str, ...] = ()
    read_facts: Callable[[AlertFacts], Samples] | None = None


def one(value: MetricValue | None) -> Samples:
    return NOTHING if value is None else {(): value}


def _read_durations(step: TimedStep) -> Callable[[GatewayMeasurements], Samples]:
    return lambda measured: {(each.label,): each for each in measured.durations.list_counted(step)}


def _read_plain_durations(step: TimedStep) -> Callable[[GatewayMeasurements], Samples]:
    return lambda measured: one(next(measured.durations.list_counted(step), NONE_COUNTED))


def _read_durations_by_channel(step: TimedStep) -> Callable[[GatewayMeasurements], Samples]:
    """From the start with all channels: the first of a series that begins with it is seen in no rate."""

    def read(measured: GatewayMeasurements) -> Samples:
        none: Samples = {(each.instance,): NONE_COUNTED for each in measured.channels}
        return {**none, **_read_durations(step)(measured)}

    return read


def _read_lease(read: Callable[[LeaseMeasurements], float]) -> Callable[[GatewayMeasurements], Samples]:
    return lambda measured: NOTHING if measured.lease is None else one(read(measured.lease))


def _read_traces(name: str) -> Callable[[GatewayMeasurements], Samples]:
    return lambda measured: NOTHING if measured.traces is None else one(getattr(measured.traces, name))


def _read_walls(measured: GatewayMeasurements) -> Samples:
    facts = measured.facts
    return NOTHING if facts is None or facts.walls is None else one(facts.walls.isolated)


def _read_disk(measured: GatewayMeasurements) -> Samples:
    return NOTHING if measured.facts is None else one(measured.facts.free_bytes)


def _count_gateways(measured: StoreMeasurements) -> Samples:
    counts = Counter(each.state for each in measured.gateways)
    return {(state,): counts[state] for state in GatewayState} if measured.gateways else NOTHING


def _count(found: object) -> Samples:
    return one(len(found)) if isinstance(found, tuple) else NOTHING


GAUGE, COUNTER, HISTOGRAM = MetricKind.GAUGE, MetricKind.COUNTER, MetricKind.HISTOGRAM
OF_CHANNEL = ("channel", "kind")
GATEWAY_METRICS: tuple[GatewayMetric, ...] = (
    GatewayMetric("build", MetricKind.INFO, "The version that runs.", lambda each: {(__version__,): 1.0}, ("version",)),
    GatewayMetric(
        "start_time_seconds",
        GAUGE,
        "When the gateway started, as Unix time.",
        lambda each: one(each.started_at / SECOND),
    ),
    GatewayMetric(
        "answer_seconds",
        HISTOGRAM,
        "From a message's arrival until the first answer of its turn was sent. Of several in one turn, the first.",
        _read_durations_by_channel(TimedStep.ANSWER),
        ("channel",),
    ),
    GatewayMetric(
        "queue_seconds",
        HISTOGRAM,
        "From a message's arrival until an agent had it. Of several in one turn, the first.",
        _read_plain_durations(TimedStep.QUEUE),
    ),
    GatewayMetric(
        "delivery_seconds",
        HISTOGRAM,
        "From when a message was written down to be sent until it was sent.",
        _read_durations_by_channel(TimedStep.DELIVERY),
        ("channel",),
    ),
    GatewayMetric(
        "model_call_seconds",
        HISTOGRAM,
        "Calls of models from within sandboxes, until the end of the answer.",
        _read_durations(TimedStep.MODEL_CALL),
        ("vendor",),
    ),
    GatewayMetric(
        "tool_call_seconds",
        HISTOGRAM,
        "Calls of tools by agents that came as far as to be judged.",
        _read_plain_durations(TimedStep.TOOL_CALL),
    ),
    GatewayMetric("sessions_awake", GAUGE, "Conversations whose sandbox runs.", lambda each: one(each.sessions_awake)),
    GatewayMetric(
        "sessions_waiting", GAUGE, "Conversations that wait for a sandbox.", lambda each: one(each.sessions_waiting)
    ),
    GatewayMetric(
        "slow_steps",
        COUNTER,
        "Steps over 50 ms that held up all, of the event loop and of the store's writer.",
        lambda measured: {(each.where,): each.count for each in measured.slow_steps},
        ("where",),
    ),
    GatewayMetric(
        "slow_step_seconds",
        COUNTER,
        "How long those steps took together.",
        lambda measured: {(each.where,): each.seconds for each in measured.slow_steps},
        ("where",),
    ),
    GatewayMetric(
        "channel_up",
        GAUGE,
        "1 if a channel is well, on the gateway that has it.",
        lambda measured: {(each.instance, each.kind): each.is_well for each in measured.channels},
        OF_CHANNEL,
    ),
    GatewayMetric(
        "channel_restarts",
        COUNTER,
        "Restarts of a channel on this gateway.",
        lambda measured: {(each.instance, each.kind): each.restarts for each in measured.channels},
        OF_CHANNEL,
    ),
    GatewayMetric("disk_free_bytes", GAUGE, "Space where the home lies.", _read_disk),
    GatewayMetric("walls", GAUGE, "1 if agents are kept apart from this machine.", _read_walls),
    GatewayMetric(
        "refused_writes",
        COUNTER,
        "Writes that came after another gateway had taken over from this one.",
        lambda each: one(each.refused_writes),
    ),
    GatewayMetric(
        "contact",
        GAUGE,
        "1 while the gateway may act, because its lease holds. Only of several gateways, as are the next three.",
        _read_lease(lambda each: each.in_contact),
    ),
    GatewayMetric(
        "lease_seconds", GAUGE, "Until it stops by itself if it is not renewed.", _read_lease(lambda each: each.left_s)
    ),
    GatewayMetric(
        "takeovers", COUNTER, "Gateways that this one took over from.", _read_lease(lambda each: each.takeovers)
    ),
    GatewayMetric(
        "duties",
        GAUGE,
        "Channels and jobs that one gateway at a time has, and this one has.",
        _read_lease(lambda each: each.duties),
    ),
    GatewayMetric("trace_spans_sent", COUNTER, "Spans that were sent. Only where traces are on.", _read_traces("sent")),
    GatewayMetric("trace_spans_dropped", COUNTER, "Spans that were not taken.", _read_traces("dropped")),
    GatewayMetric(
        "trace_steps_skipped", COUNTER, "Steps of messages that no span was made of.", _read_traces("skipped")
    ),
)
STORE_METRICS: tuple[StoreMetric, ...] = (
    StoreMetric("store_messages", COUNTER, "Messages that were accepted or made.", lambda each: one(each.messages)),
    StoreMetric(
        "store_open_messages",
        GAUGE,
        "Messages on their way.",
        lambda each: {("in",): each.open_inbound, ("out",): each.open_outbound},
        ("direction",),
    ),
    StoreMetric(
        "store_oldest_open_message_seconds",
        GAUGE,
        "How long the oldest of them waits.",
        lambda each: one(each.oldest_open_s),
    ),
    StoreMetric(
        "store_failed_messages",
        GAUGE,
        "Messages that an agent could not answer.",
        lambda each: one(each.failed_inbound),
    ),
    StoreMetric(
        "store_unaccounted_messages",
        GAUGE,
        "Open messages that nobody has a time for, and new ones without a row. Never above 0.",
        lambda each: one(each.unaccounted),
    ),
    StoreMetric(
        "store_overdue_messages",
        GAUGE,
        "Messages that somebody should have looked at by now.",
        lambda each: one(each.overdue),
    ),
    StoreMetric(
        "store_uncertain_messages",
        GAUGE,
        "Messages of the last day that may not have arrived.",
        read_facts=lambda facts: one(facts.uncertain),
    ),
    StoreMetric(
        "store_pending_requests",
        GAUGE,
        "Requests that wait for a person.",
        lambda each: one(each.pending_requests),
    ),
    StoreMetric("store_active_tasks", GAUGE, "Tasks that have a next time.", lambda each: one(each.active_tasks)),
    StoreMetric(
        "store_cost_today_dollars",
        GAUGE,
        "Cost of models since midnight, UTC.",
        lambda each: one(each.cost_micro / MICRO),
    ),
    StoreMetric(
        "store_alerts",
        GAUGE,
        "Open alerts.",
        lambda measured: {(each,): measured.alerts.get(each, 0) for each in CONDITIONS},
        ("condition",),
    ),
    StoreMetric(
        "store_failing_agents",
        GAUGE,
        "Agents whose last message failed, and that answered nobody since.",
        read_facts=lambda facts: _count(facts.failing),
    ),
    StoreMetric(
        "store_spent_budgets",
        GAUGE,
        "Budgets of groups and of the gateway that are spent.",
        read_facts=lambda facts: _count(facts.spent),
    ),
    StoreMetric(
        "store_unproven_backup_seconds",
        GAUGE,
        "For how long there is no proven backup, in whole days.",
        read_facts=lambda facts: NOTHING if facts.unproven_days is None else one(facts.unproven_days * DAY_S),
    ),
    StoreMetric(
        "store_gateways",
        GAUGE,
        "Gateways on the store by state: running, draining or gone. Only of several, as are the next two.",
        _count_gateways,
        ("state",),
    ),
    StoreMetric(
        "store_lease_seconds",
        GAUGE,
        "How long the lease of each of them still lasts.",
        lambda measured: {(each.name,): each.left_s for each in measured.gateways},
        ("name",),
    ),
    StoreMetric(
        "store_free_duties",
        GAUGE,
        "Channels and jobs that no gateway has.",
        lambda each: one(each.free_duties) if each.gateways else NOTHING,
    ),
)


METRICS: tuple[GatewayMetric | StoreMetric, ...] = (*GATEWAY_METRICS, *STORE_METRICS)


def list_names() -> set[str]:
    """Return the names of all series, as Prometheus keeps them."""
    found = set[str]()
    for each in METRICS:
        found |= {f"{PREFIX}{each.name}{ending}" for ending in ENDINGS[each.kind]}
    return found


ENDINGS = {
    MetricKind.GAUGE: ("",),
    MetricKind.COUNTER: ("_total",),
    MetricKind.HISTOGRAM: ("_bucket", "_count", "_sum"),
    MetricKind.INFO: ("_info",),
}


def render_table() -> str:
    """Return the rows of the page in the docs."""
    out = ["| metric | kind | labels | tells |", "|---|---|---|---|"]
    for each in METRICS:
        labels = (GATEWAY, *each.labels) if isinstance(each, GatewayMetric) else each.labels
        ending = ENDINGS[each.kind][0] if each.kind is not MetricKind.HISTOGRAM else ""
        shown = ", ".join(f"`{label}`" for label in labels)
        out.append(f"| `{PREFIX}{each.name}{ending}` | {each.kind} | {shown} | {each.help} |")
    return "\n".join(out) + "\n"
