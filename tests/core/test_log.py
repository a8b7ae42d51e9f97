import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.core import log, log_targets
from gatepost.core.home import Home
from gatepost.core.settings import Config


class Screen(io.StringIO):
    """A stream that is, or is not, a terminal."""

    def __init__(self, terminal: bool = False) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    log_targets.close()


def written(home: Home) -> list[dict[str, object]]:
    return [json.loads(line) for line in (home.logs / "gatepost.log").read_text().splitlines()]


def test_a_line_is_json_in_the_file_and_on_a_stream_that_is_no_terminal(home: Home) -> None:
    screen = Screen()
    log_targets.configure(home, Config(), screen)

    log.get("gatepost.flow.intake").info("accepted", message=7, room="web:home")

    [line] = written(home)
    assert json.loads(screen.getvalue()) == line
    assert {
        "event": "accepted",
        "level": "info",
        "logger": "flow.intake",
        "message": 7,
        "room": "web:home",
    }.items() <= (line.items())


def test_a_terminal_gets_lines_for_people(home: Home) -> None:
    screen = Screen(terminal=True)
    log_targets.configure(home, Config(), screen)

    log.get("app").warning("slow", seconds=3)

    assert "slow" in screen.getvalue() and not screen.getvalue().startswith("{")


def test_the_format_can_be_forced(home: Home) -> None:
    screen = Screen(terminal=True)
    log_targets.configure(home, Config({"log.format": "json"}), screen)

    log.get("app").error("bad")

    assert json.loads(screen.getvalue())["event"] == "bad"


def test_below_the_level_nothing_is_written(home: Home) -> None:
    log_targets.configure(home, Config({"log.level": "warning"}), Screen())

    log.get("app").info("quiet")

    assert written(home) == []


@pytest.mark.parametrize(
    "facts",
    [
        {"token": "hunter2hunter2"},
        {"deep": {"list": [{"Authorization": "hunter2hunter2"}]}},
        {"slack_api_key": "hunter2hunter2"},
        {"session_cookie": "hunter2hunter2"},
        {"text": "the key is sk-ant-hunter2hunter2, keep it"},
        {"header": "Authorization: Bearer hunter2hunter2"},
        {"bot": "xoxb-123456-hunter2hunter2"},
        {"url": "http://127.0.0.1/#login=hunter2hunter2"},
        {"url": "https://x.example/?token=hunter2hunter2&x=1"},
        {"bytes_of": b"hunter2hunter2"},
    ],
)
def test_a_secret_is_redacted_wherever_it_lies(home: Home, facts: dict[str, object]) -> None:
    screen = Screen()
    log_targets.configure(home, Config(), screen)

    log.get("app").info("call", **facts)

    assert "hunter2" not in screen.getvalue() + (home.logs / "gatepost.log").read_text()


def test_a_secret_in_a_traceback_is_redacted(home: Home) -> None:
    log_targets.configure(home, Config(), Screen())
    try:
        raise ValueError("refused for sk-ant-hunter2hunter2")
    except ValueError:
        log.get("app").exception("broke")

    [line] = written(home)
    assert "ValueError" in str(line["exception"]) and "hunter2" not in str(line)


def test_a_number_of_tokens_is_no_secret() -> None:
    assert log.redact({"tokens": 12, "max_token": None}) == {"tokens": 12, "max_token": None}


def test_libraries_go_the_same_way(home: Home) -> None:
    log_targets.configure(home, Config(), Screen())

    logging.getLogger("uvicorn.error").warning("told %s", "sk-ant-hunter2hunter2")

    [line] = written(home)
    assert line["event"] == f"told {log.HIDDEN}" and line["logger"] == "uvicorn.error"


def test_the_file_is_its_owners_and_is_rotated(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_targets, "FILE_BYTES", 2000)
    log_targets.configure(home, Config(), Screen())

    for number in range(200):
        log.get("app").info(f"line {number}")

    files = sorted(path.name for path in home.logs.iterdir())
    assert files == ["gatepost.log", "gatepost.log.1", "gatepost.log.2", "gatepost.log.3"]
    assert {path.stat().st_mode & 0o777 for path in home.logs.iterdir()} == {0o600}


def test_setting_it_up_twice_writes_each_line_once(home: Home) -> None:
    log_targets.configure(home, Config(), Screen())
    log_targets.configure(home, Config(), Screen())

    log.get("app").info("once")

    assert len(written(home)) == 1


@pytest.mark.slow
def test_stranger_07_the_same_event_is_written_a_few_times_and_then_counted(home: Home) -> None:
    log_targets.configure(home, Config(), Screen())
    for _ in range(5000):
        log.get("egress").warning("a connection was turned away", folder="acme", pid=7)
        logging.getLogger("uvicorn.error").warning("Invalid %s request", "HTTP")
    log.get("egress").warning("a connection was turned away", folder="other", pid=7)
    log_targets.close()

    lines = written(home)
    assert len(lines) == 2 * log_targets.FIRST + 1 + 2
    assert lines[-3]["folder"] == "other"
    assert [(each["event"], each["repeated"]) for each in lines[-2:]] == [
        ("a connection was turned away (repeated 4,990 times)", 4990),
        ("Invalid %s request (repeated 4,990 times)", 4990),
    ]
    assert lines[-2]["folder"] == "acme"


def test_a_count_is_written_with_the_next_line_after_its_window(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = [1000.0]
    monkeypatch.setattr(logging.time, "time", lambda: moment[0])  # type: ignore[attr-defined]
    monkeypatch.setattr(logging.time, "time_ns", lambda: int(moment[0] * 1e9))  # type: ignore[attr-defined]
    log_targets.configure(home, Config(), Screen())
    for _ in range(log_targets.FIRST + 3):
        log.get("a").warning("again")
    moment[0] += 61
    log.get("b").info("something else")

    assert [each["event"] for each in written(home)[log_targets.FIRST :]] == [
        "again (repeated 3 times)",
        "something else",
    ]


def test_stranger_new_every_fact_is_cut_before_it_is_written(home: Home) -> None:
    log_targets.configure(home, Config(), Screen())

    deep: object = "x"
    for _ in range(2000):
        deep = [deep]
    facts = {"text": "w" * 1_000_000, "list": ["v" * 10_000] * 1000, "map": {"k" * 100_000: "u" * 100_000}}
    log.get("app").warning("e" * 100_000, **facts, deep=deep, small="whole", raw=b"x" * 100_000)

    [line] = written(home)
    assert (home.logs / "gatepost.log").stat().st_size < 20_000
    assert line["small"] == "whole" and line["raw"] == "<100000 bytes>"
    assert str(line["text"]).startswith("www") and "1,000,000" in str(line["text"])


def test_stranger_new_a_traceback_keeps_its_beginning_and_its_end(home: Home) -> None:
    log_targets.configure(home, Config(), Screen())

    try:
        raise ValueError("y" * 1_000_000 + " the end")
    except ValueError:
        log.get("app").exception("broken")

    [line] = written(home)
    told = str(line["exception"])
    assert len(told) < 50_000 and told.startswith("Traceback") and told.rstrip().endswith("the end")


@pytest.mark.parametrize("before", range(1988, 2058, 5))
def test_stranger_new_a_secret_at_the_cut_is_hidden_whole(home: Home, before: int) -> None:
    log_targets.configure(home, Config(), Screen())

    log.get("app").warning("odd", text="- " * (before // 2) + "123456789:" + "AbCdE" * 9 + " " + "z" * 5000)

    [line] = written(home)
    assert "AbC" not in str(line["text"])


def test_lines_are_removed_from_all_files_while_the_log_goes_on(home: Home) -> None:
    log_targets.configure(home, Config(), Screen())
    for who in ("ann", "bob"):
        log.get("intake").info("seen", sender=who)
    (home.logs / "gatepost.log.1").write_text('{"sender": "ann"}\n{"sender": "bob"}\nhalf a line of ann')

    assert log.remove_lines(home, lambda line: "ann" in line) == 3
    log.get("intake").info("goes on")

    assert [line.get("sender", line["event"]) for line in written(home)] == ["bob", "goes on"]
    assert (home.logs / "gatepost.log.1").read_text() == '{"sender": "bob"}\n'
    assert sorted(each.name for each in home.logs.iterdir()) == ["gatepost.log", "gatepost.log.1"]
    assert (home.logs / "gatepost.log").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_rotated_meanwhile_is_looked_at_again(home: Home) -> None:
    log_targets.configure(home, Config(), Screen())
    log.get("intake").info("seen", sender="ann")
    rotated = []

    def is_removed(line: str) -> bool:
        if not rotated:
            rotated.append(True)
            (home.logs / "gatepost.log").rename(home.logs / "gatepost.log.1")
            (home.logs / "gatepost.log").write_text('{"event": "new", "sender": "ann"}\n')
        return "ann" in line

    assert log.remove_lines(home, is_removed) == 2
    assert not any("ann" in each.read_text() for each in home.logs.iterdir())
