"""Tasks on their pages."""

from typing import Any

from gatepost.serve.control.arguments.tasks import TaskLogEntry
from gatepost.serve.web.dashboard.tables import make_table
from gatepost.serve.web.dashboard.view import EmptyState
from gatepost.serve.web.pages.tasks import RUN
from gatepost.store.schedule.firings import FiringState


async def test_a_task_shows_its_title_its_script_when_it_ends_and_how_often_it_ran(site: Any) -> None:
    given = {
        "folder": "home",
        "prompt": "Sum up.",
        "title": "<b>Mails</b>",
        "cron": "@daily",
        "script": "test -s new-mails",
        "max_runs": "5",
        "context": "isolated",
        "max_cost": "0.50",
    }
    async with site.signed_in() as browser:
        said = {"text": "hi", "id": "key-00001"}
        assert (await browser.post("/api/messages", data=said, files=[("none", ("", b""))])).status_code == 200
        made = await browser.post("/dashboard/do/task.add", data=given)
        assert made.status_code == 200, made.text
        [task] = (await browser.get("/dashboard/tasks?format=json")).json()
        page = (await browser.get(f"/dashboard/tasks/{task['id']}")).text
        await browser.post("/dashboard/do/task.set", data={"id": task["id"], "max_cost": "none"})
        unlimited = (await browser.get(f"/dashboard/tasks/{task['id']}")).text
    for words in ("&lt;b&gt;Mails", "Sum up.", "test -s new-mails", "0 of 5", "isolated", "$0.50"):
        assert words in page
    assert "Sum up." in unlimited and "$0.50" not in unlimited


def test_a_run_that_stands_for_several_says_so() -> None:
    run = TaskLogEntry(
        due_at=1,
        due_local="",
        fired_at=1,
        state=FiringState.SKIPPED,
        reason="the gateway was down",
        times=3,
        duration_ms=None,
        cost=0,
        delivery="",
        turn_id="",
    )
    table = make_table([run], RUN, EmptyState(text="It has not run yet."))
    shown = dict(zip([each.name for each in table.columns], table.rows[0].cells, strict=True))
    assert getattr(shown["state"], "text", "") == "skipped 3 times"
