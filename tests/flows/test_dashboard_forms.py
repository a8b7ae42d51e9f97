"""What forms of the page say while somebody fills them in, in a real browser before a real daemon."""

from collections.abc import Iterator

import pytest
from playwright.async_api import expect
from tests.browsers import needs_chromium

from gatepost_testing.daemon import DaemonProcess

from .dashboard_desk import DashboardDesk, fill

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("forms") / "home"
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted") as running:
        assert running.gatepost("chat", "-m", "hello", "--wait").returncode == 0
        yield running


@pytest.mark.slow
@pytest.mark.page("tasks", "task.add: New task")
async def test_a_time_in_words_shows_its_next_runs_before_it_is_saved(desk: DashboardDesk) -> None:
    await desk.open("/tasks")
    await desk.page.get_by_role("button", name="New task").first.click()
    dialog = desk.page.locator("#dialog")
    said = dialog.locator("[data-previews='task.preview']")
    await dialog.locator("[name='when']").fill("every weekday at 25")
    await expect(said).to_contain_text("nderstood 'every weekday', but '25' is no time of day")
    assert desk.ask("task.list") == []

    await dialog.locator("[name='when']").fill("every weekday at 9")
    await expect(said).to_contain_text("Every weekday at 9:00 (")
    shown = await said.inner_text()
    assert shown.count(", 9:00") == 3 and "Saturday" not in shown and "Sunday" not in shown
    await desk.submit("task.add", folder="home", prompt="Sum up my mails.")
    [task] = desk.ask("task.list")
    zone = await desk.page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone")
    assert (task["schedule"], task["zone"]) == ("0 9 * * 1-5", zone)
    await expect(desk.row("Sum up my mails.", "every weekday").first).to_contain_text("every weekday at 9:00")


@pytest.mark.slow
async def test_an_error_stands_at_its_input_until_that_is_changed(desk: DashboardDesk) -> None:
    await desk.open("/tasks")
    await desk.page.get_by_role("button", name="New task").first.click()
    dialog = desk.page.locator("#dialog")
    folder, send = dialog.locator("[name='folder']"), dialog.locator("button[type=submit]")
    for name, value in {"folder": "hom", "prompt": "Look.", "when": "in two hours"}.items():
        await fill(dialog, name, value)
    await send.click()
    said = dialog.locator(".field", has=desk.page.locator("[name='folder']")).get_by_role("alert")
    await expect(said).to_contain_text("There is no agent named “hom”")
    await expect(said.get_by_role("link", name="All agents")).to_be_visible()
    await expect(folder).to_be_focused()
    await expect(folder).to_have_attribute("aria-invalid", "true")

    await folder.fill("home")
    await expect(said).to_have_count(0)
    await fill(dialog, "max_cost", "much")
    await dialog.locator("summary", has_text="Further settings").click()  # folded away
    await send.click()
    await expect(dialog.locator("[name='max_cost']")).to_be_focused()
    await expect(dialog.get_by_role("alert")).to_have_count(1)
    await desk.submit("task.add", max_cost="1")
