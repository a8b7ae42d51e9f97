"""What forms of the page say while somebody fills them in, in a real browser before a real daemon."""

import re
from collections.abc import Iterator

import pytest
from playwright.async_api import expect
from tests.browsers import needs_chromium

from gatepost_testing.daemon import DaemonProcess

from .dashboard_desk import DashboardDesk, fill

pytestmark = needs_chromium
PLACES_OF_BUTTONS = """() => [
  document.querySelector("#toast").getBoundingClientRect().bottom,
  [...document.querySelectorAll("main button")].map((each) => each.getBoundingClientRect()).filter((box) => box.width)
    .map((box) => box.top),
]"""


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
    when, send = dialog.locator("[name='when']"), dialog.locator("button[type=submit]")
    for name, value in {"folder": "home", "prompt": "Look.", "text": "Bread!"}.items():
        await fill(dialog, name, value)
    await send.click()
    said = dialog.locator(".field", has=desk.page.locator("[name='when']")).get_by_role("alert")
    await expect(said).to_have_text("Say when, in one way: such as every day at 8.")
    await expect(when).to_be_focused()
    await expect(when).to_have_attribute("aria-invalid", "true")

    await when.fill("in two hours")
    await expect(said).to_have_count(0)
    await send.click()
    said = dialog.locator(".field", has=desk.page.locator("[name='prompt']")).get_by_role("alert")
    await expect(said).to_have_text("Say what it should say, or what it should do: one of the two.")
    await dialog.locator("[name='text']").fill("")
    await fill(dialog, "max_cost", "much")
    await dialog.locator("summary", has_text="More").click()  # folded away
    await send.click()
    await expect(dialog.locator("[name='max_cost']")).to_be_focused()
    await expect(dialog.get_by_role("alert")).to_have_text("Write an amount in US dollars, such as 2.50.")
    await desk.submit("task.add", max_cost="1")


@pytest.mark.slow
async def test_what_was_typed_survives_a_reload_until_it_is_sent(desk: DashboardDesk) -> None:
    dialog, words = desk.page.locator("#dialog"), "Sum up what I missed, and say nothing if it is nothing."

    async def open_dialog() -> None:
        await desk.open("/tasks")
        await desk.page.get_by_role("button", name="New task").first.click()
        await expect(dialog.locator("[name='prompt']")).to_be_visible()

    await open_dialog()
    await expect(dialog.locator(".draft")).to_be_hidden()
    for name, value in {"folder": "home", "prompt": words, "when": "every friday at 9"}.items():
        await fill(dialog, name, value)
    await open_dialog()
    await expect(dialog.locator(".draft")).to_be_visible()
    await expect(dialog.locator("[name='prompt']")).to_have_value(words)
    await desk.submit("task.add")
    await open_dialog()
    await expect(dialog.locator("[name='prompt']")).to_have_value("")

    await dialog.locator("[name='prompt']").fill("Something else.")
    await open_dialog()
    await dialog.get_by_role("button", name="Start anew").click()
    await expect(dialog.locator("[name='prompt']")).to_have_value("")
    await open_dialog()
    await expect(dialog.locator(".draft")).to_be_hidden()


@pytest.mark.slow
async def test_a_secret_is_never_kept_as_a_draft(desk: DashboardDesk) -> None:
    await desk.open("/secrets")
    await desk.page.get_by_role("button", name="Set a secret").first.click()
    dialog = desk.page.locator("#dialog")
    await dialog.locator("[name='name']").fill("HUB")
    await dialog.locator("[name='value']").fill("tok-very-secret-000")
    kept = await desk.page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})")
    assert "HUB" in kept and "tok-very" not in kept


@pytest.mark.slow
async def test_what_was_done_is_undone_by_one_press(desk: DashboardDesk) -> None:
    [route] = [each for each in desk.ask("route.list") if each["target"] == "home"][:1]
    await desk.open("/routes")
    await desk.page.locator(f"main button[hx-get*='route.rm?id={route['id']}']").first.click()
    dialog = desk.page.locator("#dialog")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog).to_be_hidden()
    await desk.page.locator("#toast").get_by_role("button", name="Undo").click()
    await expect(desk.page.locator("#toast [data-done='route.add']")).to_be_visible()
    [again] = [each for each in desk.ask("route.list") if each["target"] == "home"][:1]
    assert {**again, "id": 0, "created_by": "", "created_at": ""} == {
        **route,
        "id": 0,
        "created_by": "",
        "created_at": "",
    }

    desk.ask("task.add", folder="home", text="Bread!", every="1h")
    await desk.open("/tasks")
    await desk.press("Pause", "task.pause", desk.row("Bread!", "active").first)
    await desk.page.locator("#toast").get_by_role("button", name="Undo").click()
    await expect(desk.page.locator("#toast [data-done='task.resume']")).to_be_visible()


@pytest.mark.slow
async def test_what_cannot_be_undone_says_so_before(desk: DashboardDesk) -> None:
    desk.ask("group.add", folder="gone")
    await desk.open("/groups/gone")
    await desk.page.get_by_role("button", name="Remove", exact=True).click()
    await expect(desk.page.locator("#dialog .final")).to_contain_text("cannot be brought back")


@pytest.mark.slow
@pytest.mark.page("permissions", "grant.choose: Add this", "grant.choose: *")
async def test_a_rule_is_a_sentence_that_says_what_it_would_have_done(desk: DashboardDesk) -> None:
    await desk.open("/groups/home?view=may")
    form = desk.page.locator("form.page-form", has=desk.page.locator("[name='subject']"))
    await form.locator("[name='subject']").select_option(label="write by itself")
    await form.locator("[name='room']").select_option(index=1)
    room = await form.locator("[name='room']").input_value()
    said = form.locator("[data-previews='grant.preview']")
    await expect(said).to_contain_text("It did nothing of the kind in the last week.")
    await said.locator("summary").click()
    await expect(said.locator("code")).to_have_text(f"hold speak(jid={room})")
    assert desk.ask("grant.list", folder="home")["rules"] == []

    await form.get_by_role("button", name="Add this").click()
    await expect(desk.page.locator("#toast [data-done='grant.choose']")).to_be_visible()
    places = desk.page.locator(".choices", has=desk.page.get_by_role("heading", name="In one place"))
    await expect(places.get_by_role("button", name="Ask me")).to_have_attribute("aria-pressed", "true")
    await places.get_by_role("button", name="No", exact=True).click()
    await expect(places.get_by_role("button", name="No", exact=True)).to_have_attribute("aria-pressed", "true")
    assert [each["text"] for each in desk.ask("grant.list", folder="home")["rules"]] == [f"!speak(jid={room})"]
    desk.ask("grant.rm", folder="home", rule=f"!speak(jid={room})")


@pytest.mark.slow
async def test_an_answer_for_a_room_about_what_has_none_is_refused_at_that_input(desk: DashboardDesk) -> None:
    await desk.open("/groups/home?view=may")
    form = desk.page.locator("form.page-form", has=desk.page.locator("[name='subject']"))
    await form.locator("[name='subject']").select_option(label="publish something")
    await form.locator("[name='room']").select_option(index=1)
    await form.get_by_role("button", name="Add this").click()
    field = form.locator(".field", has=desk.page.locator("[name='room']"))
    await expect(field.get_by_role("alert")).to_contain_text("Only what it writes or sends has a room")


@pytest.mark.slow
async def test_amounts_and_hosts_are_taken_as_people_write_them(desk: DashboardDesk) -> None:
    await desk.open("/costs")
    await desk.page.get_by_role("button", name="Set a limit").first.click()
    await desk.submit("budget.set", folder="home", daily="2,50")
    [budget] = [each for each in desk.ask("budget.show") if each["name"] == "home"]
    assert budget["daily"]["limit_usd"] == 2.5
    desk.ask("budget.set", folder="home", daily="none")

    await desk.open("/egress")
    await desk.press("Allow a host", "egress.allow", host="https://docs.example.com/page")
    assert [each["host"] for each in desk.ask("egress.list")] == ["docs.example.com"]


@pytest.mark.slow
@pytest.mark.page("spending", "budget.set: Change", "budget.set: Remove")
async def test_a_limit_is_changed_and_taken_away_where_it_stands(desk: DashboardDesk) -> None:
    desk.ask("budget.set", folder="home", daily="5", monthly="20")
    desk.ask("budget.set", instance=True, session="7.50")
    await desk.open("/groups/home?view=costs")
    rows = desk.page.locator("main tbody tr")
    said = [[part.strip() for part in (await each.inner_text()).split("\t")][:3] for each in await rows.all()]
    assert said == [
        ["this agent", "a day", "$0.00 spent of $5.00"],
        ["this agent", "a month", "$0.00 spent of $20.00"],
        ["the whole gateway", "a conversation", "$7.50"],
    ]
    await desk.row("a day").get_by_role("button", name="Change").click()
    dialog = desk.page.locator("#dialog")
    await expect(dialog.get_by_label("For a day")).to_have_value("5")
    await expect(dialog.locator("[name='user'], [name='instance']")).to_have_count(0)
    await dialog.get_by_label("For a day").fill("3")
    await dialog.get_by_role("button", name="Set the limit").click()
    await expect(desk.row("a day")).to_contain_text("of $3.00")

    await desk.row("a month").get_by_role("button", name="Remove").click()
    await expect(dialog.locator(".fixed")).to_contain_text("no limit")
    await dialog.get_by_role("button", name="Take the limit away").click()
    await expect(desk.page.locator("#toast")).to_contain_text("The limit is taken away.")
    await expect(desk.row("a month")).to_have_count(0)
    [budget] = [each for each in desk.ask("budget.show") if each["name"] == "home"]
    assert (budget["daily"]["limit_usd"], budget["monthly"]) == (3.0, None)


@pytest.mark.slow
async def test_a_budget_of_nobody_is_refused_in_the_words_of_the_page(desk: DashboardDesk) -> None:
    await desk.open("/costs")
    await desk.page.get_by_role("button", name="Set a limit").first.click()
    dialog = desk.page.locator("#dialog")
    await dialog.get_by_label("For a day").fill("5")
    await dialog.get_by_role("button", name="Set the limit").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Say whose limit it is")


@pytest.mark.slow
async def test_what_is_missing_is_said_at_its_input(desk: DashboardDesk) -> None:
    await desk.open("/egress")
    await desk.page.get_by_role("button", name="Allow a host").first.click()
    dialog = desk.page.locator("#dialog")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.get_by_role("alert")).to_have_text("This is needed.")
    await expect(dialog.locator("[name='host']")).to_be_focused()
    await dialog.locator("[name='host']").fill("two words")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.get_by_role("alert")).to_have_text("Write a name alone, such as example.com.")


@pytest.mark.slow
@pytest.mark.page("tasks", "task.set: Change")
async def test_a_task_is_changed_beside_what_holds_now(desk: DashboardDesk) -> None:
    made = desk.ask("task.add", folder="home", prompt="Look at the mails.", cron="0 9 * * 1-5", tz="Asia/Tokyo")
    await desk.open(f"/tasks/{made['id']}")
    await desk.page.get_by_role("button", name="Change").click()
    dialog = desk.page.locator("#dialog")
    await expect(dialog.locator("[name='when']")).to_have_attribute("placeholder", "every weekday at 9:00")
    await dialog.locator("[name='when']").fill("every friday at 10")
    await expect(dialog.locator("[data-previews='task.preview']")).to_contain_text("Every Friday at 10:00 (Asia/Tokyo)")
    await desk.submit("task.set")
    task = desk.ask("task.show", id=made["id"])
    assert (task["schedule"], task["zone"], task["prompt"]) == ("0 10 * * 5", "Asia/Tokyo", "Look at the mails.")


@pytest.mark.slow
async def test_a_dialog_closes_once_it_is_done_and_does_nothing_twice(desk: DashboardDesk) -> None:
    await desk.open("/memory")
    await desk.page.locator("main").get_by_role("button", name="Add an entry").first.click()
    dialog = desk.page.locator("#dialog")
    await fill(dialog, "folder", "home")
    await fill(dialog, "text", "The bins go on Tuesday.")
    await dialog.get_by_role("button", name="Remember it").dblclick()
    await expect(desk.page.locator("#toast [data-done='memory.add']")).to_contain_text("It is remembered.")
    await expect(dialog).to_be_hidden()
    assert [each["text"] for each in desk.ask("memory.list", folder="home")] == ["The bins go on Tuesday."]


@pytest.mark.slow
async def test_what_has_happened_is_said_where_it_covers_no_button(desk: DashboardDesk) -> None:
    desk.ask("task.add", folder="home", text="Water!", every="3h")
    await desk.open("/tasks")
    await desk.press("Pause", "task.pause", desk.row("Water!", "active").first)
    end, tops = await desk.page.evaluate(PLACES_OF_BUTTONS)
    assert tops and min(tops) >= end


@pytest.mark.slow
async def test_a_reminder_asks_what_to_say_and_when_and_goes_to_ones_own_chat(desk: DashboardDesk) -> None:
    await desk.open("/groups/home?view=when")
    await desk.page.locator("main").get_by_role("button", name="New task").first.click()
    dialog = desk.page.locator("#dialog")
    await expect(dialog.locator(".fixed")).to_contain_text("Home")
    shown = dialog.locator(".field:visible label")
    labels = [(await each.inner_text()).partition("(")[0].strip() for each in await shown.all()]
    assert labels == ["What it should say", "Or what it should do", "When", "Where the answer goes"]
    await dialog.get_by_label("What it should say").fill("Drink water")
    await dialog.get_by_label("When", exact=True).fill("every day at 8")
    await expect(dialog.get_by_label("Where the answer goes")).to_have_value("web:home")
    await dialog.get_by_role("button", name="Add the task").click()
    said = desk.page.locator("#toast [data-done='task.add']")
    await expect(said).to_contain_text(re.compile(r"Its first time is \w+day, \d+ \w+, 8:00\."))
    [task] = [each for each in desk.ask("task.list", folder="home") if each["text"] == "Drink water"]
    assert (task["schedule"], task["address"], task["prompt"]) == ("0 8 * * *", "web:home", "")


@pytest.mark.slow
async def test_whoever_corrects_an_entry_begins_with_its_words(desk: DashboardDesk) -> None:
    made = desk.ask("memory.add", folder="home", text="Ann likes tee")
    await desk.open(f"/memory/{made['id']}")
    await desk.page.locator("main").get_by_role("button", name="Edit").click()
    await expect(desk.page.locator("#dialog [name=text]")).to_have_value("Ann likes tee")
    await desk.submit("memory.edit", text="Ann likes tea")
    assert "Ann likes tea" in str(desk.ask("memory.list", folder="home"))


@pytest.mark.slow
async def test_instructions_that_were_not_saved_are_still_there_after_another_tab(desk: DashboardDesk) -> None:
    text, form = "# Home\n\nBe brief, and kind.\n", desk.page.locator("form[data-keeps]")
    await desk.open("/groups/home")
    await form.locator("textarea").fill(text)
    await desk.page.locator(".tabs").get_by_role("link", name="Knows").click()
    await desk.page.locator(".tabs").get_by_role("link", name="About").click()
    await expect(form.locator(".draft")).to_be_visible()
    await expect(form.locator("textarea")).to_have_value(text)
    await form.get_by_role("button", name="Save").click()
    await expect(desk.page.locator("#toast")).to_contain_text("AGENTS.md is saved.")
    await desk.open("/groups/home")
    await expect(form.locator(".draft")).to_be_hidden()
    await expect(form.locator("textarea")).to_have_value(text)


@pytest.mark.slow
async def test_an_entry_is_corrected_and_forgotten_where_the_agent_has_it(desk: DashboardDesk) -> None:
    desk.ask("memory.add", folder="home", text="The shop closes at six.")
    await desk.open("/groups/home?view=knows")
    await desk.press("Edit", "memory.edit", desk.row("The shop closes"), text="The shop closes at seven.")
    await desk.press("Forget", "memory.forget", desk.row("closes at seven."))
    await expect(desk.row("The shop closes")).to_have_count(0)


@pytest.mark.slow
async def test_an_agent_is_talked_to_from_its_page(desk: DashboardDesk) -> None:
    await desk.open("/groups/home")
    await desk.page.locator(".tabs").get_by_role("link", name="Talk").click()
    await expect(desk.page.get_by_label("Message", exact=True)).to_be_visible()
    await expect(desk.page.get_by_role("heading", name="Home")).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("stop everything", "Stop everything"),
        ("remind me", "Add the task"),
        ("reminder", "Tasks"),
        ("today", "Everything"),
        ("bill", "Costs"),
        ("backup", "Backups"),
    ],
)
async def test_things_are_found_by_what_people_call_them(desk: DashboardDesk, said: str, found: str) -> None:
    await desk.open("/groups")
    await desk.page.keyboard.press("Control+k")
    await desk.page.get_by_role("combobox").last.fill(said)
    shown = desk.page.locator("#palette-list li:visible")
    await expect(shown.first.locator("b")).to_have_text(found)
    assert not [text for text in await shown.all_inner_texts() if re.search(r"[a-z]\.[a-z]+ |--|[a-z]_[a-z]", text)]
