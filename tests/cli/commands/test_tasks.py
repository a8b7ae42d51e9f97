"""`gatepost task` on a home whose gateway is down."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.cli.conftest import Ran

from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.money import costs
from gatepost.store.money.costs import NewCost
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import FiringState

Run = Callable[..., Ran]
ROOM = ("--room", "terminal:main")


def add(run: Run, *args: str) -> str:
    said = run("task", "add", "home", *ROOM, *args)
    assert said.code == 0, said.err
    return said.out.partition(":")[0]


def test_a_reminder_is_made_by_one_line_and_shown(run: Run) -> None:
    made = run("task", "add", "home", *ROOM, "--text", "Take the bread out.", "--at", "+20m", "--tz", "Europe/Berlin")
    assert made.code == 0, made.err
    assert re.fullmatch(
        r"task\S+: home in terminal:main, next at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d Europe/Berlin\n", made.out
    )
    task = made.out.partition(":")[0]
    listed = run("task", "list").out
    assert task in listed and "Take the bread out." in listed and "active" in listed
    shown = run("task", "show", task).out
    assert "group    home\n" in shown and "room     terminal:main\n" in shown and "it has not run yet" in shown


def test_the_same_task_is_not_made_twice_and_says_so(run: Run) -> None:
    task = add(run, "--prompt", "sum up", "--cron", "0 8 * * 1-5")
    again = run("task", "add", "home", *ROOM, "--prompt", "sum up", "--cron", "0 8 * * 1-5")
    assert (again.code, again.out.startswith(f"there is this task already: {task}")) == (0, True)


def test_next_prints_the_coming_fifty_in_local_time(run: Run) -> None:
    task = add(run, "--prompt", "sum up", "--cron", "0 8 * * *", "--tz", "Asia/Tokyo")
    add(run, "--text", "once", "--at", "+1m")
    lines = run("task", "next").out.splitlines()
    assert len(lines) == 51
    assert sum(" 08:00:00  Asia/Tokyo" in line for line in lines) == 49
    assert all(task in line for line in run("task", "next", task).out.splitlines()[1:])


def test_a_task_is_paused_resumed_and_cancelled(run: Run) -> None:
    task = add(run, "--prompt", "sum up", "--every", "1h")
    assert f"gatepost task resume {task}" in run("task", "pause", task).out
    assert "(paused by operator)" in run("task", "show", task).out
    assert run("task", "next").out.startswith("nothing is scheduled; `gatepost task add` makes a task")
    assert f"`gatepost task show {task}` says why" in run("task", "next", task).out
    assert "is active, next at" in run("task", "resume", task).out
    assert run("task", "cancel", task).out == f"{task} is cancelled\n"
    assert run("task", "list").out.startswith("there are no tasks")
    assert task in run("task", "list", "--all").out
    for verb in ("pause", "resume", "cancel"):
        assert "is over: cancelled by operator; `gatepost task add` makes another" in run("task", verb, task).err
        assert "no task named 'task-none'; `gatepost task list --all`" in run("task", verb, "task-none").err


def test_a_list_of_a_group_that_is_not_there_says_so(run: Run) -> None:
    add(run, "--text", "hi", "--at", "+2m")
    assert "hi" in run("task", "list", "home").out
    refused = run("task", "list", "hom")
    assert refused.code != 0 and "no group named 'hom'; did you mean 'home'? `gatepost group list`" in refused.err


def test_a_script_is_read_from_its_file(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "check.sh"
    script.write_text("echo '{\"wakeAgent\": false}'\n")
    task = add(run, "--prompt", "sum up", "--every", "1h", "--script", str(script))
    assert run("task", "show", task, "--json").json["script"] == script.read_text()
    empty = tmp_path / "empty.sh"
    empty.write_text("\n")
    for name, why in ((tmp_path / "none.sh", "cannot be read"), (tmp_path, "cannot be read"), (empty, "is empty")):
        refused = run("task", "add", "home", *ROOM, "--prompt", "p", "--every", "2h", "--script", str(name))
        assert refused.code != 0 and why in refused.err


def test_what_cannot_be_is_refused_with_the_way_out(run: Run) -> None:
    for args, why in (
        (("--prompt", "p"), "exactly one of when, at, cron and every"),
        (("--prompt", "p", "--at", "soon"), "tomorrow 9:00"),
        (("--at", "+2m"), "either a prompt"),
    ):
        refused = run("task", "add", "home", *ROOM, *args)
        assert refused.code != 0 and why in refused.err
    refused = run("task", "add", "home", "--text", "hi", "--at", "+2m")
    assert refused.code != 0 and "--room ADDRESS" in refused.err
    refused = run("task", "run", "task-none")
    assert refused.code != 0 and "gatepost up" in refused.err


def test_status_and_doctor_name_what_its_failures_paused_and_not_what_somebody_held(run: Run, home: Home) -> None:
    broken, held = (add(run, "--prompt", words, "--every", "1h") for words in ("fetch", "wait"))
    run("task", "pause", held)
    connection = connect(home.store)
    for _ in range(tasks.MOST_FAILURES):
        tasks.record_failure(SqliteDb(connection), broken, "the key is wrong", 1)
    connection.close()

    store = run("status", "--json").json["store"]
    assert store["tasks"] == {"active": 0, "next_at": None, "broken": [broken]}
    assert f"paused after failures: {broken}; `gatepost task show` tells why" in run("status").out
    found = [each for each in run("doctor", "--json").json["findings"] if each["subject"] == "tasks"]
    assert [(each["level"], broken in each["text"], "the key is wrong" in each["text"]) for each in found] == [
        ("warn", True, True)
    ]
    assert f"`gatepost task resume {broken}`" in found[0]["remedy"]


def test_a_task_is_changed_by_the_options_that_are_named(run: Run) -> None:
    task = add(run, "--text", "Take the bread out.", "--at", "+20m", "--title", "Bread")
    assert "Bread" in run("task", "next").out
    changed = run("task", "set", task, "--every", "2h", "--tz", "Asia/Tokyo", "--missed", "skip", "--max-runs", "3")
    assert changed.out.startswith(f"{task}: home in terminal:main, next at ") and changed.out.endswith(" Asia/Tokyo\n")
    shown = run("task", "show", task).out
    assert "what     Bread\n" in shown and "after 3 runs" in shown
    assert "when     2h\n" in shown and "zone     Asia/Tokyo\n" in shown and "missed   skip\n" in shown
    run("task", "pause", task)
    assert f"`gatepost task resume {task}` lets it run again" in run("task", "set", task, "--title", "").out
    assert "what" not in run("task", "show", task).out

    assert "task: say what to change" in run("task", "set", task).err
    missing = run("task", "set", task, "--prompt", "look", "--script", "/nope")
    assert missing.code == 1 and missing.err.startswith("gatepost: --script: /nope cannot be read")


def test_the_times_of_a_run_are_in_one_zone_that_is_named(run: Run, home: Home) -> None:
    task = add(run, "--prompt", "sum up", "--cron", "0 8 * * *", "--tz", "Asia/Tokyo", "--until", "tomorrow 9:00")
    at = int(datetime(2026, 11, 15, 23, tzinfo=UTC).timestamp() * 1_000_000)
    connection = connect(home.store)
    firings.add(SqliteDb(connection), task, at, at + 5_000_000, FiringState.SKIPPED, times=3)
    connection.close()

    shown = run("task", "show", task).out
    assert "due (Asia/Tokyo)" in shown
    assert re.search(r"^2026-11-16 08:00:00 +2026-11-16 08:00:05 +skipped 3 times", shown, re.MULTILINE)
    assert re.search(r"^ends     at .* 09:00:00 Asia/Tokyo$", shown, re.MULTILINE)
    assert re.search(r"^made by  operator$", shown, re.MULTILINE)
    assert re.search(r"^made     .* Asia/Tokyo$", shown, re.MULTILINE)


def test_a_task_says_what_its_last_runs_cost_and_what_one_may(run: Run, home: Home) -> None:
    task, at = add(run, "--prompt", "sum up", "--cron", "0 8 * * *", "--max-cost", "0.50"), 1_800_000_000_000_000
    assert "limit    $0.50\n" in run("task", "show", task).out
    connection = connect(home.store)
    new = firings.make_firing(task, at, at, FiringState.ANSWERED, session_id="s-1")
    firings.add_all(SqliteDb(connection), [replace(new, turn_id="t-1", ended_at=at + 9)])
    for number, measured in enumerate((True, False)):
        cost = NewCost(
            key=f"k{number}", at=at + 1, folder="home", model="m", micro=100_000, session_id="s-1", turn_id="t-1",
            measured=measured,
        )  # fmt: skip
        costs.add_external(SqliteDb(connection), cost, at)
    connection.close()

    said = "$0.20 (the last run, $0.10 of it estimated)"
    assert f"cost     {said}\n" in run("task", "show", task).out
    assert "$0.20 (the last run" in run("task", "list").out
    assert f"it cost {said}\n" in run("task", "set", task, "--max-cost", "none").out
    assert "limit" not in run("task", "show", task).out
