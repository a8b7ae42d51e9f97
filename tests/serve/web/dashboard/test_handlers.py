"""The dashboard over HTTP: who sees what, what a button may do, and what never reaches a browser."""

import asyncio
import hashlib
from typing import Any

import pytest
from tests.serve.web.test_people import ANN, add_ann, signed_in_as

from gatepost.core.event_bus import EventBus
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.control.declaration import list_fields
from gatepost.serve.web.dashboard import live, tables
from gatepost.serve.web.dashboard.handlers import SHOWN_ROWS, cut_tables, find_words
from gatepost.serve.web.dashboard.operation_form import is_question
from gatepost.serve.web.dashboard.tables import make_table
from gatepost.serve.web.dashboard.view import Column, EmptyState, PageView, Row, TableBlock
from gatepost.serve.web.static_pages import STATIC
from gatepost.store.port import Db
from gatepost.store.schedule import tasks
from gatepost.store.sessions import groups
from gatepost_testing.waiting import PATIENCE_S

HTMX_SHA256 = "e484d9171a9db30a39c8f16e3d709d4137f3211c659f8e6125816635033d593f"  # of htmx.org 4.0.0, dist/htmx.min.js
COUNT = SHOWN_ROWS * 2 + 1


def test_the_vendored_library_is_the_one_that_was_published() -> None:
    vendor = STATIC / "vendor"
    assert hashlib.sha256((vendor / "htmx-4.0.0.min.js").read_bytes()).hexdigest() == HTMX_SHA256
    assert "Zero-Clause BSD" in (vendor / "htmx.LICENSE").read_text()


async def test_who_is_not_signed_in_sees_the_sign_in_page_and_nothing_else(site: Any) -> None:
    async with site.browser() as browser:
        answer = await browser.get("/dashboard/tasks")
        assert answer.status_code == 401 and "gatepost login" in answer.text and "Tasks" not in answer.text
        assert (await browser.post("/dashboard/do/group.add", data={"folder": "x"})).status_code == 401
        assert (await browser.get("/dashboard/live")).status_code == 401


async def test_a_page_of_somebody_else_cannot_press_a_button(site: Any) -> None:
    async with site.signed_in() as browser:
        for headers in ({"origin": "http://evil.example"}, {"x-gatepost": ""}):
            answer = await browser.post("/dashboard/do/group.add", data={"folder": "planted"}, headers=headers)
            assert answer.status_code == 403
        assert await site.store.read(groups.get, "planted") is None


async def test_who_has_no_right_reads_words_and_not_the_name_of_an_operation(site: Any) -> None:
    await site.store.write(add_ann)
    async with signed_in_as(site, ANN) as browser:
        for answer in (
            await browser.get("/dashboard/settings"),
            await browser.post("/dashboard/do/group.add", data={"folder": "acme"}),
        ):
            assert answer.status_code == 403 and "You may not see or do this: it needs op:" in answer.text
            assert "web:user/ann may not" not in answer.text


async def test_every_operation_that_answers_a_question_shows_its_answer(site: Any) -> None:
    names = [
        name
        for name, each in OPERATIONS.items()
        if is_question(each.info) and not any(field.required for field in list_fields(each.args))
    ]
    assert len(names) > 50
    async with site.signed_in() as browser:
        answers = {name: await browser.post(f"/dashboard/do/{name}", data={}) for name in names}
    assert [name for name, each in answers.items() if each.status_code == 500] == []


async def test_an_operation_runs_as_the_person_and_shows_its_answer(site: Any) -> None:
    async with site.signed_in() as browser:
        answer = await browser.post("/dashboard/do/group.add", data={"folder": "acme", "name": "<b>Acme</b>"})
        assert answer.status_code == 200 and "The agent acme is made." in answer.text
        assert answer.headers["hx-trigger"] == "gatepost:changed"
        file = {"folder": "acme", "path": "<b>x.md", "content": "x"}
        answer = await browser.post("/dashboard/do/group.write_file", data=file)
        assert answer.status_code == 200 and "&lt;b&gt;x.md" in answer.text and "<b>x" not in answer.text
        wrong = await browser.post("/dashboard/do/group.add", data={"folder": "../x"})
        assert wrong.status_code == 400 and 'role="alert"' in wrong.text
        assert (await browser.post("/dashboard/do/no.such", data={})).status_code == 404


@pytest.mark.slow
async def test_an_address_without_a_page_has_the_navigation_and_says_so(site: Any) -> None:
    async with site.signed_in() as browser:
        for path in ("nothing-is-here", "a/<b>b</b>"):
            answer = await browser.get(f"/dashboard/{path}", headers={"accept": "text/html"})
            assert (answer.status_code, "There is nothing at this address" in answer.text) == (404, True)
            assert 'href="/dashboard/people"' in answer.text and "<b>b</b>" not in answer.text


async def test_a_table_is_searched_and_exported_and_no_cell_is_a_formula(site: Any) -> None:
    async with site.signed_in() as browser:
        said = {"text": "hi", "id": "key-00001"}
        assert (await browser.post("/api/messages", data=said, files=[("none", ("", b""))])).status_code == 200
        for text in ("=HYPERLINK(1)", "<script>alert(1)</script>"):
            added = await browser.post("/dashboard/do/task.add", data={"folder": "home", "text": text, "every": "1h"})
            assert added.status_code == 200, added.text
        page = await browser.get("/dashboard/tasks")
        assert "<script>alert" not in page.text and "&lt;script&gt;alert" in page.text
        found = await browser.get("/dashboard/tasks?q=hyperlink", headers={"hx-request": "true"})
        assert "=HYPERLINK(1)" in found.text and "alert" not in found.text and "<html" not in found.text
        assert "'=HYPERLINK(1)" in (await browser.get("/dashboard/tasks?format=csv")).text
        rows = (await browser.get("/dashboard/tasks?format=json")).json()
        assert {row["what"] for row in rows} == {"=HYPERLINK(1)", "<script>alert(1)</script>"}


async def test_a_change_is_told_to_open_pages(site: Any, operation_deps: Any) -> None:
    async with site.signed_in() as browser:
        async with browser.stream("GET", "/dashboard/live") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "retry: 2000"
            site.events.tasks()
            async with asyncio.timeout(PATIENCE_S):
                while await anext(lines) != "event: changed":
                    pass


async def test_what_somebody_else_does_is_told_to_open_pages(site: Any, operation_deps: Any) -> None:
    async with site.signed_in() as browser:
        async with browser.stream("GET", "/dashboard/live") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "retry: 2000"
            assert (await browser.post("/dashboard/do/group.add", data={"folder": "acme"})).status_code == 200
            async with asyncio.timeout(PATIENCE_S):
                while await anext(lines) != "event: changed":
                    pass


async def is_signed_in() -> bool:
    return True


async def test_a_page_that_is_quiet_for_long_asks_again_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "QUIET_S", 0.001)
    stopping = asyncio.Event()
    lines = live.ChangeStreams(EventBus(), stopping).follow(is_signed_in)
    async with asyncio.timeout(PATIENCE_S):
        said = [await anext(lines) for _ in range(1 + live.STALE_QUIETS)]
    assert said[1:-1] == [b": still here\n\n"] * (live.STALE_QUIETS - 1)
    assert said[-1] == b"event: changed\ndata: \n\n"
    await lines.aclose()  # type: ignore[attr-defined]


async def test_a_stop_of_the_gateway_is_not_held_up_by_an_open_page(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "QUIET_S", 3600.0)
    async with site.signed_in() as browser:
        async with browser.stream("GET", "/dashboard/live") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "retry: 2000"
            site.stopping.set()
            async with asyncio.timeout(PATIENCE_S):
                assert [line async for line in lines if line] == []


def _count_tasks(db: Db) -> int:
    return len(tasks.list_page(db, None, "", 10, ended=True))


async def test_a_form_that_is_too_large_is_refused(site: Any) -> None:
    async with site.signed_in() as browser:
        answer = await browser.post("/dashboard/do/task.add", data={"folder": "x", "text": "y" * 300_000})
        assert answer.status_code == 400 and "larger than" in answer.text
        assert await site.store.read(_count_tasks) == 0


@pytest.mark.parametrize("path", ["/dashboard/tasks/task-none", "/dashboard/do/no.such"])
async def test_what_is_not_there_says_so_in_words(site: Any, path: str) -> None:
    async with site.signed_in() as browser:
        answer = await browser.get(path)
        assert answer.status_code == 404 and "Traceback" not in answer.text


async def test_a_page_is_found_by_an_id_with_slashes(site: Any) -> None:
    async with site.signed_in() as browser:
        for folder in ("acme", "acme/eng"):
            added = await browser.post("/dashboard/do/group.add", data={"folder": folder, "name": f"Group {folder}"})
            assert added.status_code == 200, added.text
        for address in ("/dashboard/groups/acme%2Feng", "/dashboard/groups/acme/eng"):
            answer = await browser.get(address)
            assert answer.status_code == 200 and "<h1>Group acme/eng</h1>" in answer.text


HTML = {"accept": "text/html,application/xhtml+xml"}


@pytest.mark.parametrize("path", ["/dashboard/no/such", "/dashboard/do/no.such", "/no-such-page", "/dashboardish"])
async def test_a_wrong_path_is_a_page_with_the_way_back_for_whoever_is_signed_in(site: Any, path: str) -> None:
    async with site.signed_in() as browser:
        page = await browser.get(path, headers=HTML)
        assert page.status_code == 404 and "There is nothing at this address" in page.text
        assert 'href="/dashboard/"' in page.text and 'id="palette"' in page.text and 'aria-label="Pages"' in page.text
        part = await browser.get(path, headers={**HTML, "hx-request": "true"})
        assert part.status_code == 404 and "There is nothing" in part.text and "<html" not in part.text
    async with site.browser() as stranger:
        seen = await stranger.get(path, headers=HTML)
        assert seen.status_code in (401, 404) and "palette" not in seen.text


async def test_a_program_that_asks_for_a_wrong_path_gets_no_page(site: Any) -> None:
    async with site.signed_in() as browser:
        told = await browser.get("/dashboard/no/such", headers={"accept": "application/json"})
        assert told.status_code == 404 and told.json()["error"]["kind"] == "not_found"
        for path in ("/api/no-such", "/static/no-such.js", "/hook/x/y", "/pub/no/such", "/v1/ops/no.such"):
            answer = await browser.get(path, headers=HTML)
            assert answer.status_code in (404, 405, 401) and "palette" not in answer.text, path
        assert (await browser.post("/no-such-page", headers=HTML)).text == "There is nothing here.\n"


async def test_something_that_is_not_there_leads_back(site: Any) -> None:
    async with site.signed_in() as browser:
        page = await browser.get("/dashboard/tasks/no-such")
        assert page.status_code == 404 and "Back to the agents" in page.text


def make_view(count: int) -> PageView:
    rows = [Row(cells=(f"row {number}",)) for number in range(count)]
    return PageView(blocks=[TableBlock(columns=(Column("name", "Name"),), rows=rows, empty=EmptyState(text="none"))])


def show(view: PageView, **query: str) -> TableBlock:
    (table,) = cut_tables(view, query).blocks
    assert isinstance(table, TableBlock)
    return table


def test_a_long_table_is_shown_in_parts_that_together_are_all_of_it() -> None:
    view, seen, query = make_view(COUNT), list[object](), {"state": "all"}
    for _ in range(3):
        table = show(view, **query)
        seen += [row.cells[0] for row in table.rows]
        query = dict(each.split("=") for each in table.more.removeprefix("?").split("&")) if table.more else {}
        assert not query or query["state"] == "all"
    assert seen == [f"row {number}" for number in range(COUNT)] and not query


def test_a_table_that_fits_has_no_further_part() -> None:
    assert show(make_view(SHOWN_ROWS)).more == ""
    assert len(show(make_view(SHOWN_ROWS), **{"from": "50"}).rows) == SHOWN_ROWS


@pytest.mark.parametrize("given", ["-1", "x", "9" * 40, "٣", str(COUNT)])
def test_a_number_that_is_none_or_too_large_shows_the_beginning(given: str) -> None:
    table = show(make_view(COUNT), **{"from": given})
    assert table.rows[0].cells == ("row 0",) and table.more.endswith(f"from={SHOWN_ROWS}")


def test_words_are_looked_for_in_all_rows_before_they_are_cut() -> None:
    found = find_words(make_view(COUNT), f"row {COUNT - 1}")
    assert [row.cells[0] for row in show(found).rows] == [f"row {COUNT - 1}"]


def test_only_the_rows_that_are_shown_are_made() -> None:
    made: list[int] = []

    def name(number: int) -> str:
        made.append(number)
        return f"row {number}"

    table = make_table(range(20_000), (tables.made("name", "Name", name),), EmptyState(text="none"))
    shown = show(PageView(blocks=[table]), **{"from": "400"})
    assert [row.cells[0] for row in shown.rows] == [f"row {number}" for number in range(400, 400 + SHOWN_ROWS)]
    assert made == list(range(400, 400 + SHOWN_ROWS))
