"""The page that Prometheus reads, and the table that it is made of."""

import re
import shutil
import subprocess
from collections import Counter
from typing import Any

import pytest

from gatepost.channels.contract import ChannelState
from gatepost.core.clock import DAY, SECOND, SystemClock
from gatepost.core.durations import Durations, TimedStep
from gatepost.core.process.watchdog import SlowStepTotal
from gatepost.core.records import replace
from gatepost.flow.channel_health import ChannelReport
from gatepost.flow.reports import SandboxIsolation
from gatepost.messages.inbound import Direction
from gatepost.serve.alerts.conditions import AlertFacts
from gatepost.serve.metric_table import GATEWAY_METRICS, METRICS, OF_STORE, STORE_METRICS, MetricKind, list_names
from gatepost.serve.metrics import GatewayMeasurements, LeaseMeasurements, MetricsPage
from gatepost.serve.metrics_text import render_metrics
from gatepost.serve.telemetry.trace_export import ExportCounts
from gatepost.store.gateways import gateways
from gatepost.store.gateways.gateways import GatewayIdentity
from gatepost.store.messages import messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.money.ledger import measure
from gatepost.store.port import Db

PROMTOOL = shutil.which("promtool")
NOON = 1_800_000_000_000_000
REPORT = ChannelReport(instance="tg", kind="telegram", state=ChannelState.ENDED, since_at=1, restarts=3)
FACTS = AlertFacts(
    now=1,
    free_bytes=5_000_000,
    walls=SandboxIsolation("bubblewrap", True),
    unproven_days=2,
    failing=("home", "work"),
    spent=(),
    uncertain=4,
)


def make_numbers(**given: Any) -> GatewayMeasurements:
    return replace(
        GatewayMeasurements(
            name="east",
            started_at=5_000_000,
            durations=Durations(),
            sessions_awake=2,
            sessions_waiting=1,
            slow_steps=(SlowStepTotal("loop", 4, 0.5), SlowStepTotal("writer", 0, 0.0)),
            refused_writes=7,
            channels=(REPORT,),
        ),
        **given,
    )


def render(db: Db | None, now: int = NOON, **given: Any) -> list[str]:
    store = measure(db, now) if db is not None else None
    return render_metrics(store, make_numbers(**given)).decode().splitlines()


def test_the_numbers_are_those_of_the_store_and_of_the_process(db: Db) -> None:
    lines = render(db)
    for line in (
        "gatepost_store_messages_total 0.0",
        'gatepost_store_open_messages{direction="in"} 0.0',
        "gatepost_store_unaccounted_messages 0.0",
        'gatepost_store_alerts{condition="backup"} 0.0',
        'gatepost_sessions_awake{gateway="east"} 2.0',
        'gatepost_slow_steps_total{gateway="east",where="loop"} 4.0',
        'gatepost_slow_step_seconds_total{gateway="east",where="loop"} 0.5',
        'gatepost_refused_writes_total{gateway="east"} 7.0',
        'gatepost_start_time_seconds{gateway="east"} 5.0',
        'gatepost_channel_up{channel="tg",gateway="east",kind="telegram"} 0.0',
        'gatepost_channel_restarts_total{channel="tg",gateway="east",kind="telegram"} 3.0',
    ):
        assert line in lines
    assert any(line.startswith("process_resident_memory_bytes") for line in lines)
    assert not any("trace" in line or "lease" in line or "free_duties" in line for line in lines)


def test_a_message_without_a_row_is_counted_as_unaccounted(db: Db) -> None:
    new = NewMessage(
        instance="web", address="web:home", direction=Direction.IN, sender="web:user/1", text="hi", at=NOON
    )
    messages.accept(db, new, NOON)
    assert "gatepost_store_unaccounted_messages 1.0" in render(db)


def test_traces_are_counted_if_they_are_on(db: Db) -> None:
    lines = render(db, traces=ExportCounts(sent=9, dropped=2, skipped=1))
    assert 'gatepost_trace_spans_sent_total{gateway="east"} 9.0' in lines
    assert 'gatepost_trace_spans_dropped_total{gateway="east"} 2.0' in lines
    assert 'gatepost_trace_steps_skipped_total{gateway="east"} 1.0' in lines


def test_the_facts_of_alerts_are_shown_as_far_as_they_were_looked_at(db: Db) -> None:
    lines = render(db, facts=FACTS)
    for line in (
        'gatepost_disk_free_bytes{gateway="east"} 5e+06',
        'gatepost_walls{gateway="east"} 1.0',
        "gatepost_store_unproven_backup_seconds 172800.0",
        "gatepost_store_failing_agents 2.0",
        "gatepost_store_spent_budgets 0.0",
        "gatepost_store_uncertain_messages 4.0",
    ):
        assert line in lines
    text = "\n".join(render(db, facts=AlertFacts(now=1)))
    assert "disk_free" not in text and "gatepost_walls" not in text and "failing_agents" not in text


def test_of_several_gateways_each_is_shown_with_its_lease(db: Db) -> None:
    for name, at in (("east", NOON), ("west", NOON - DAY)):
        new = GatewayIdentity(name=name, home=name, host="h", version="1", schema_number=75)
        gateways.register(db, new, 6 * SECOND, 1, at)
    gateways.claim_duties(db, ["alerts", "schedule"], "west", NOON)
    gateways.release_duties(db, "west", NOON)
    gateways.claim_duties(db, ["alerts"], "east", NOON)
    lines = render(db, lease=LeaseMeasurements(in_contact=True, left_s=4.5, takeovers=1, duties=1))
    for line in (
        'gatepost_contact{gateway="east"} 1.0',
        'gatepost_lease_seconds{gateway="east"} 4.5',
        'gatepost_takeovers_total{gateway="east"} 1.0',
        'gatepost_duties{gateway="east"} 1.0',
        'gatepost_store_gateways{state="running"} 1.0',
        'gatepost_store_gateways{state="draining"} 0.0',
        'gatepost_store_gateways{state="gone"} 1.0',
        'gatepost_store_lease_seconds{name="east"} 6.0',
        'gatepost_store_lease_seconds{name="west"} 0.0',
        "gatepost_store_free_duties 1.0",
    ):
        assert line in lines


def test_a_duration_is_counted_in_each_bound_that_it_keeps(db: Db) -> None:
    durations = Durations()
    for lasted in (-1, 5_000, 5_001, 3 * SECOND, 7200 * SECOND):
        durations.note((TimedStep.MODEL_CALL, "anthropic", lasted))
    lines = render(db, durations=durations)
    begin = 'gatepost_model_call_seconds_bucket{gateway="east",le="%s",vendor="anthropic"} %s'
    for bound, count in (("0.005", 2.0), ("0.01", 3.0), ("2.5", 3.0), ("5.0", 4.0), ("1800.0", 4.0), ("+Inf", 5.0)):
        assert begin % (bound, count) in lines
    assert 'gatepost_model_call_seconds_count{gateway="east",vendor="anthropic"} 5.0' in lines
    assert 'gatepost_model_call_seconds_sum{gateway="east",vendor="anthropic"} 7203.010001' in lines
    assert 'gatepost_tool_call_seconds_count{gateway="east"} 0.0' in lines
    assert 'gatepost_answer_seconds_count{channel="tg",gateway="east"} 0.0' in lines


async def test_a_store_that_does_not_answer_leaves_the_numbers_of_the_process(store: Any) -> None:
    page = MetricsPage(store, SystemClock(), lambda: make_numbers(facts=FACTS))
    store.close()
    lines = (await page.get_text()).decode().splitlines()
    assert 'gatepost_sessions_awake{gateway="east"} 2.0' in lines
    assert not any(line.startswith(f"gatepost_{OF_STORE}") for line in lines)


def test_what_is_about_the_whole_store_says_so_by_its_name_and_the_rest_names_its_gateway(db: Db) -> None:
    given = {"facts": FACTS, "traces": ExportCounts(sent=1, dropped=1, skipped=1)}
    shown = [line for line in render(db, **given) if line.startswith("gatepost_")]
    assert len(shown) > 100
    for line in shown:
        assert line.startswith(f"gatepost_{OF_STORE}") != ('gateway="east"' in line), line


def test_every_metric_is_declared_once_and_shown_under_its_name(db: Db) -> None:
    assert [name for name, count in Counter(each.name for each in METRICS).items() if count > 1] == []
    assert all(each.name.startswith(OF_STORE) == (each in STORE_METRICS) for each in METRICS)
    new = GatewayIdentity(name="east", home="east", host="h", version="1", schema_number=75)
    gateways.register(db, new, 6 * SECOND, 1, NOON)
    durations = Durations()
    for step in TimedStep:
        durations.note((step, "tg", SECOND))
    lease = LeaseMeasurements(in_contact=True, left_s=4.5, takeovers=1, duties=1)
    traces = ExportCounts(sent=1, dropped=1, skipped=1)
    lines = render(db, facts=FACTS, lease=lease, traces=traces, durations=durations)
    assert {re.split(r"[{ ]", line)[0] for line in lines if line.startswith("gatepost_")} == list_names()
    assert sum(each.kind is MetricKind.HISTOGRAM for each in GATEWAY_METRICS) == len(TimedStep)


@pytest.mark.skipif(PROMTOOL is None, reason="Prometheus is not installed: scripts/system_packages.py --all")
def test_prometheus_finds_nothing_to_mend_on_the_page(db: Db) -> None:
    text = render_metrics(measure(db, NOON), make_numbers(facts=FACTS))
    done = subprocess.run([str(PROMTOOL), "check", "metrics"], input=text, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout.decode() + done.stderr.decode()) == (0, "")
