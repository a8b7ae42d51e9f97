"""`gatepost agent attach` against a real daemon: at a terminal, from a pipe, and across a restart."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.cli.agent_console import ConsoleCommand, parse_answer, parse_command, parse_number
from gatepost.cli.exit_codes import ASKS, CLOSED, FAILED
from gatepost.cli.output import Colored
from gatepost.cli.timeline_renderer import TimelineRenderer
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.serve.control.arguments.agents import LogEntry, PendingRequest
from gatepost.store.rights.requests import RequestKind
from gatepost.store.sessions.timeline import TimelineKind
from gatepost_testing import fork_server
from gatepost_testing.clients.terminal import CTRL_C, CTRL_D, PtyTerminal
from gatepost_testing.daemon import DaemonProcess

COMMAND = "rm -rf build\n[Permission 9] It asks to use nothing"
ASK = {"ask": {"permission": "Bash", "input": {"command": COMMAND}}}
SCRIPT = {
    "turns": [
        {"when": "danger twice", "do": [ASK, ASK, {"say": "they said {answer}"}]},
        {"when": "danger", "do": [ASK, {"say": "they said {answer}"}]},
        {"when": "paint", "do": [{"say": "\x1b[2J\x1b]0;owned\x07evil\u202e"}]},
        {"when": "hang", "do": [{"say": "at it"}, {"hang": True}]},
        {"when": "fail", "do": [{"error": {"message": "no luck"}}]},
    ]
}


def started(home: Path) -> DaemonProcess:
    folder = Home(home).group("agents")
    folder.mkdir(parents=True)
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    return DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted").start()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    running = started(tmp_path_factory.mktemp("attach") / "h")
    yield running
    running.stop()


def made(daemon: DaemonProcess, title: str, prompt: str = "") -> str:
    return str(daemon.json("agent", "run", *([prompt] if prompt else []), "--title", title, "-d")["agentId"])


def piped(daemon: DaemonProcess, given: str | bytes, agent: str, *words: str) -> subprocess.CompletedProcess[str]:
    return fork_server.run(["agent", "attach", agent, *words], daemon.env, said=given)


# What is typed, and what is shown.


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("sweep", ConsoleCommand("", "sweep")),
        ("//compact now", ConsoleCommand("", "/compact now")),
        ("/steer  left", ConsoleCommand("steer", "left")),
        ("/deny 2 not that", ConsoleCommand("deny", "2 not that")),
        ("/", ConsoleCommand("help", "")),
    ],
)
def test_a_line_is_work_or_an_order(line: str, order: ConsoleCommand) -> None:
    assert parse_command(line) == order


@pytest.mark.parametrize(
    ("text", "read"),
    [("", (None, "")), ("2", (2, "")), ("2 no", (2, "no")), ("not that", (None, "not that")), ("²", (None, "²"))],
)
def test_a_number_comes_before_a_reason(text: str, read: tuple[int | None, str]) -> None:
    assert parse_number(text) == read


def test_a_call_is_told_when_it_begins_and_again_only_if_it_fails() -> None:
    rows = TimelineRenderer()

    def told(**data: Any) -> str:
        piece = rows.render_entry(LogEntry(1, 0, "t", TimelineKind.TOOL_CALL, data), {})
        return "" if piece is None else piece if isinstance(piece, str) else piece.text

    assert told(callId="a", name="Bash", status="running", input={"command": "ls"}) == "[Bash] ls"
    assert told(callId="a", status="completed", output="x") == ""
    assert told(callId="b", name="Bash", status="running", input={"command": "cat"}) == "[Bash] cat"
    assert told(callId="b", status="failed", output="x") == "[Bash] cat (failed)"


def test_a_plan_is_shown_whole_with_the_mode_that_it_leads_to_and_once() -> None:
    rows = TimelineRenderer(typed=True)
    asked = PendingRequest(
        id="p-1",
        kind=RequestKind.TOOL,
        name="ExitPlanMode",
        input={"plan": "one\ntwo"},
        asked_at="",
        next_mode_id="acceptEdits",
    )
    piece = rows.render_request(asked)
    assert isinstance(piece, Colored) and piece.text.splitlines() == [
        "[Permission 1] It asks to use ExitPlanMode:",
        "  | plan: one",
        "  |   two",
        "  Allowed, it goes on in mode acceptEdits.",
        "  /allow 1 or /deny 1 [reason]",
    ]
    assert rows.render_request(asked) is None


QUESTION = PendingRequest(
    id="p-2",
    kind=RequestKind.QUESTION,
    name="Ask",
    input={"question": "Tea or coffee?", "options": ["tea", "coffee"]},
    asked_at="",
)


def test_a_question_is_shown_with_its_options_and_how_it_is_answered() -> None:
    piece = TimelineRenderer(typed=True).render_request(QUESTION)
    assert isinstance(piece, Colored) and piece.text.splitlines() == [
        "[Permission 1] It asks a question:",
        "  | Tea or coffee?",
        "  |   - tea",
        "  |   - coffee",
        "  /answer 1 text or /deny 1 [reason]",
    ]


def test_an_answer_fits_what_was_asked() -> None:
    several = replace(QUESTION, input={"questions": [{"question": "Drink?"}, {"question": "Milk?"}]})
    tool = PendingRequest(id="p-3", kind=RequestKind.TOOL, name="Bash", input={}, asked_at="")
    assert parse_answer("answer", "tea", QUESTION) == {"id": "p-2", "allow": True, "answers": ["tea"]}
    assert parse_answer("answer", "tea | no", several)["answers"] == ["tea", "no"]
    assert parse_answer("deny", "not now", QUESTION) == {"id": "p-2", "allow": False, "message": "not now"}
    assert parse_answer("allow", "", tool) == {"id": "p-3", "allow": True}
    for verb, text, asked in (("allow", "", QUESTION), ("answer", "", QUESTION), ("allow", "why", tool)):
        with pytest.raises(Invalid):
            parse_answer(verb, text, asked)


# At a terminal.


@pytest.mark.slow
def test_at_a_terminal_one_sees_works_permits_and_leaves_it_running(daemon: DaemonProcess) -> None:
    agent = made(daemon, "Typed", "before")
    daemon.gatepost("agent", "wait", agent)
    with PtyTerminal(daemon.env, "agent", "attach", "Typed") as terminal:
        terminal.expect("[User] before")
        terminal.expect("echo: before")
        terminal.expect("is idle. /help")
        terminal.type("danger twice")
        terminal.expect("[Permission 1] It asks to use Bash:")
        terminal.expect("  | command: rm -rf build")
        terminal.expect("  |   [Permission 9] It asks to use nothing")
        terminal.type("y")
        terminal.expect("[Permission 1] Bash: allowed")
        terminal.expect("[Permission 2]")
        terminal.type("/deny 7")
        terminal.expect("7: does not wait for an answer")
        terminal.type("/deny 2 not that")
        terminal.expect("they said deny")
        terminal.expect("[idle]")
        terminal.type("/nonsense")
        terminal.expect("/nonsense: is no command")
        terminal.type("hang")
        terminal.expect("at it")
        terminal.press_until(CTRL_C, "It works on. /stop ends what it does now")
        assert terminal.insist(CTRL_D) == 0
        assert "Traceback" not in terminal.text
        assert terminal.text.count("[User]") == 1  # one's own words stand there already
    assert daemon.json("agent", "inspect", agent)["status"] == "running"

    with PtyTerminal(daemon.env, "agent", "attach", agent) as terminal:
        terminal.expect("is running. /help")
        terminal.type("/stop")
        terminal.expect("it is stopped")
        terminal.press_until(CTRL_C, "Ctrl-C again leaves")
        assert terminal.insist(CTRL_C) == 130
        assert "Traceback" not in terminal.text


@pytest.mark.slow
def test_what_an_agent_says_draws_nothing_on_the_screen(daemon: DaemonProcess) -> None:
    agent = made(daemon, "Painter")
    with PtyTerminal(daemon.env, "agent", "attach", agent) as terminal:
        terminal.expect("/help")
        terminal.type("paint")
        terminal.expect("evil")
        terminal.type("/detach")
        assert terminal.wait() == 0
        assert "\x1b[2J" not in terminal.raw and "\x1b]0;" not in terminal.raw and "\u202e" not in terminal.raw


@pytest.mark.slow
def test_a_restart_is_told_and_nothing_is_shown_twice_or_lost(tmp_path: Path) -> None:
    daemon = started(tmp_path / "h")
    try:
        agent = made(daemon, "Keeper", "first")
        daemon.gatepost("agent", "wait", agent)
        with PtyTerminal(daemon.env, "agent", "attach", agent) as terminal:
            terminal.expect("echo: first")
            terminal.expect("/help")
            daemon.stop()
            terminal.expect("the gateway went away; waiting for it")
            terminal.type("unheard")
            terminal.expect("no gateway runs in")
            daemon.start()
            daemon.gatepost("agent", "send", agent, "second")
            terminal.expect("the gateway is back")
            terminal.expect("echo: second")
            terminal.type("third")
            terminal.expect("echo: third")
            assert terminal.insist(CTRL_D) == 0
            shown = [terminal.text.count(f"echo: {word}") for word in ("first", "unheard", "second", "third")]
            assert shown == [1, 0, 1, 1]
    finally:
        daemon.stop()


# From a pipe.


@pytest.mark.slow
def test_from_a_pipe_every_line_is_work_and_the_end_waits_for_the_answers(daemon: DaemonProcess) -> None:
    agent = made(daemon, "Piped")
    done = piped(daemon, "one\n\ntwo\n", agent)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["[User] one", "[User] two", "echo: one", "echo: two"]


def test_a_pipe_permits_what_has_not_been_asked_yet(daemon: DaemonProcess) -> None:
    done = piped(daemon, "danger twice\n/allow\n/deny 2 no\n", made(daemon, "Permitted"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "they said deny" in done.stdout
    assert done.stdout.count("[Permission 1] It asks") == 1


def test_a_pipe_ends_with_a_request_that_nobody_answers(daemon: DaemonProcess) -> None:
    done = piped(daemon, "danger\n", "Asking" if made(daemon, "Asking") else "")
    assert done.returncode == ASKS
    assert "gatepost permit allow p" in done.stderr
    allowed = daemon.json("permit", "allow", "Asking")
    assert allowed["allowed"] is True
    assert daemon.gatepost("agent", "wait", "Asking").stdout == "they said allow\n"


@pytest.mark.slow
def test_a_pipe_tells_of_a_turn_that_failed_and_of_orders_that_are_none(daemon: DaemonProcess) -> None:
    failed = piped(daemon, "fail\n", made(daemon, "Failing"))
    assert failed.returncode == FAILED and "[Error] no luck" in failed.stdout
    wrong = piped(daemon, "/mode nonsense\n/steer\nall the same\n", made(daemon, "Wrong"))
    assert wrong.returncode == 1 and "echo: all the same" in wrong.stdout
    assert "has no mode 'nonsense'" in wrong.stderr and "/steer: wants a text" in wrong.stderr


def test_entries_are_json_lines_for_a_program(daemon: DaemonProcess) -> None:
    done = piped(daemon, "danger\n/allow\npaint\n", made(daemon, "Json"), "--json")
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["seq"] for each in entries] == list(range(1, len(entries) + 1))
    asked = next(each for each in entries if each["data"].get("status") == "pending")
    assert asked["data"]["input"] == {"command": COMMAND}
    assert "\x1b" not in done.stdout


@pytest.mark.slow
def test_what_is_no_text_and_what_is_too_long_is_said(daemon: DaemonProcess) -> None:
    agent = made(daemon, "Hostile")
    assert "echo: " in piped(daemon, b"\xff\xfe sweep\n", agent).stdout
    long = piped(daemon, "x" * 1_000_001, agent)
    assert (long.returncode, "longer than 1000000 characters" in long.stderr) == (1, True)


@pytest.mark.slow
def test_an_agent_that_is_closed_or_not_there_is_said(daemon: DaemonProcess) -> None:
    agent = made(daemon, "Closed", "sweep")
    daemon.gatepost("agent", "wait", agent)
    daemon.gatepost("agent", "kill", agent)
    closed = piped(daemon, "more\n", agent)
    assert closed.returncode == CLOSED
    assert "echo: sweep" in closed.stdout and "ended for good" in closed.stderr
    unknown = piped(daemon, "", "s-nobody")
    assert (unknown.returncode, unknown.stdout) == (1, "") and "no agent named" in unknown.stderr


@pytest.mark.slow
def test_with_no_gateway_there_it_is_said(tmp_path: Path) -> None:
    done = piped(DaemonProcess(tmp_path / "h"), "x\n", "any")
    assert (done.returncode, done.stdout) == (1, "")
    assert "`gatepost up` starts one" in done.stderr
