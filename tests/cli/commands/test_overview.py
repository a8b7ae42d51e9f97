"""`gatepost overview`: what it prints of an answer, and what it says without a gateway."""

from collections.abc import Callable
from typing import Any

import pytest

from gatepost.cli.commands.overview import print_health
from gatepost.core.clock import SECOND
from gatepost.serve.control.arguments.overview import GatewayOverview, OverviewExtent, PanicState
from gatepost.serve.health.findings import Finding


def test_without_a_gateway_it_says_how_to_start_one(run: Callable[..., Any]) -> None:
    done = run("overview")
    assert done.code == 1 and "`gatepost up` starts it" in done.err and "Traceback" not in done.err


def test_what_is_not_well_has_its_way_out_and_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    finding = Finding(level="warn", subject="channels", text="tg is deaf\x1b[2J", remedy="restart it")
    found = GatewayOverview(
        extent=OverviewExtent.ALL,
        panic=PanicState(since_at=1_800_000_000 * SECOND, reason="smoke"),
        findings=[finding],
        counts={},
        total=0,
        homeless=2,
        alerts=1,
        agents=[],
    )
    print_health(found)
    said = capsys.readouterr().out
    assert "everything is stopped since 2027-01-15T08:00:00.000Z: smoke\n  → gatepost panic --off" in said
    assert "channels: tg is deaf␛[2J\n  → restart it" in said
    assert "\n1 alert is open; `gatepost alert list`" in said
    assert "2 requests that are about no group wait" in said


def test_a_part_that_is_none_is_refused_by_name(run: Callable[..., Any]) -> None:
    done = run("overview", "--part", "broken")
    assert done.code == 2 and "attention" in done.err
