"""Logs, retention, connectors and the panic switch, as an owner sees them."""

import json
from typing import Any

from gatepost.core.files.log_tail import LogLine
from gatepost.core.records import replace
from gatepost.serve.control.arguments.ledger import KeptRows, StoreSize
from gatepost.serve.web.dashboard.tables import make_table
from gatepost.serve.web.dashboard.view import Link
from gatepost.serve.web.pages.ledger import KEPT_ROWS, NOTHING_KEPT, make_store
from gatepost.serve.web.pages.logs import list_traces
from gatepost.store.rights import switches
from gatepost.store.rights.switches import PANIC


async def test_the_log_is_shown_by_level_and_words_and_as_text(site: Any) -> None:
    site.home.logs.mkdir(parents=True, exist_ok=True)
    facts = {"timestamp": "2026-01-01T00:00:00Z", "level": "error", "logger": "app", "event": "<b>broke</b>"}
    quiet = {**facts, "level": "debug", "event": "a detail"}
    lines = [json.dumps(each) for each in (facts, quiet)]
    (site.home.logs / "gatepost.log").write_text("\n".join(lines) + "\n")
    async with site.signed_in() as browser:
        page = (await browser.get("/dashboard/logs")).text
        assert "&lt;b&gt;broke" in page and "<b>broke" not in page and "a detail" not in page
        assert "a detail" in (await browser.get("/dashboard/logs?level=debug&q=detail")).text
        assert (await browser.get("/dashboard/logs?level=loud")).status_code == 400


def test_tracebacks_stand_below_the_lines() -> None:
    at = "2026-01-01T00:00:00Z"
    line = LogLine(at=at, level="error", logger="app", event="it broke", facts="", exception="Traceback")
    [trace] = list_traces([replace(line, exception=""), line])
    assert trace.text == "Traceback" and "it broke" in trace.title


async def test_connectors_show_names_and_no_values(site: Any) -> None:
    (site.home.path / "gatepost.toml").write_text(
        '[connectors.files]\ncommand = ["files-server", "--key=k-1"]\n'
        'env = ["KEY=very-secret"]\nenv_secrets = ["TOKEN"]\n'
    )
    async with site.signed_in() as browser:
        page = (await browser.get("/dashboard/connectors")).text
        assert "files-server" in page and "TOKEN" in page and "very-secret" not in page and "k-1" not in page
        missing = await browser.post("/dashboard/do/connector.check", data={"name": "nobody"})
        assert missing.status_code == 404
        found = await browser.post("/dashboard/do/connector.check", data={"name": "files"})
        assert found.status_code == 200 and "files-server" in found.text


def test_retention_names_its_settings_and_sizes() -> None:
    row = KeptRows("steps", "keep.steps_days", days=30, rows=4, over_age=1, oldest="")
    table = make_table([row, replace(row, days=0)], KEPT_ROWS, NOTHING_KEPT)
    assert table.rows[0].cells[1] == Link("keep.steps_days", "/dashboard/settings/keep.steps_days")
    assert [each.cells[2] for each in table.rows] == ["30 days", "ever"]
    facts = {each.label: each.value for each in make_store(StoreSize(3 * 1024 * 1024, shrinks=False)).items}
    assert facts["Size"] == "3.0 MB" and "does not shrink" in str(facts["Freed space"])


async def test_everything_is_stopped_and_goes_on_from_every_page(site: Any) -> None:
    async with site.signed_in() as browser:
        assert "/dashboard/do/panic.on" in (await browser.get("/dashboard/tasks")).text
        await browser.post("/dashboard/do/panic.on", data={"reason": "<i>smoke</i>"})
        assert await site.store.read(switches.get, PANIC) is not None
        part = await browser.get("/dashboard/tasks", headers={"hx-request": "true"})
        assert 'hx-swap-oob="true"' in part.text and "&lt;i&gt;smoke" in part.text and "panic.off" in part.text
        await browser.post("/dashboard/do/panic.off", data={})
        assert await site.store.read(switches.get, PANIC) is None
