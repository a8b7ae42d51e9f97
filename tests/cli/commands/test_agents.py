"""`gatepost agent` and `gatepost permit`, hurried and hostile users included, against a real daemon."""

import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gatepost.cli import program
from gatepost.cli.exit_codes import ASKS, CLOSED, FAILED, IDLE, STILL
from gatepost.core.home import Home
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import PATIENCE_S

ASK = {"ask": {"permission": "Bash", "input": {"command": "ls"}}}
SCRIPT = {
    "turns": [
        {"when": "danger", "do": [ASK, {"say": "they said {answer}"}]},
        {"when": "hang", "do": [{"hang": True}]},
        {"when": "half", "do": [{"say": "so far"}, {"error": {"message": "no luck"}}]},
        {"when": "fail", "do": [{"error": {"message": "no luck"}}]},
        {"when": "^count", "do": [{"say": "counted"}]},
    ]
}

# Asks a question before anything else, and says what it was answered.
ASKER = """
import asyncio
from gatepost.inside.providers.contract import PermissionRequest, TurnResult, ConversationStarted, Text, provider

DRINK = {"question": "Tea or coffee?", "header": "Drink", "options": [{"label": "tea"}, {"label": "coffee"}]}


@provider("asker")
class Asker:
    takes_pushes = False

    def __init__(self, place):
        self.answered = asyncio.get_running_loop().create_future()

    async def query(self, batch, resume):
        yield ConversationStarted("c")
        yield PermissionRequest("q", "AskUserQuestion", {"questions": [DRINK]}, "question")
        verdict, given = await self.answered
        yield Text(f"{verdict}: {given.get('answers', {}).get('Drink', '')}")
        yield TurnResult()

    async def answer(self, request, verdict, input):
        self.answered.set_result((verdict, input))

    async def interrupt(self):
        self.answered.cancel()

    async def close(self):
        pass
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("agent") / "h"
    folder = Home(home).group("agents")
    folder.mkdir(parents=True)
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    plugins = home / "plugins" / "providers"
    plugins.mkdir(parents=True)
    (plugins / "asker.py").write_text(ASKER)
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted") as made:
        yield made


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


def ran(daemon: DaemonProcess, *words: str, given: bytes = b"") -> Ran:
    """In this process, as the console script runs it, with a pipe as its stdin."""
    out, err, stdin, hook = io.StringIO(), io.StringIO(), sys.stdin, sys.excepthook
    sys.stdin = io.TextIOWrapper(io.BytesIO(given))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = program.run(["--home", str(daemon.home), *words])
    finally:
        sys.stdin, sys.excepthook = stdin, hook
    return Ran(code, out.getvalue(), err.getvalue())


def agent(daemon: DaemonProcess, *words: str, given: bytes = b"") -> Ran:
    return ran(daemon, "agent", *words, given=given)


def told(daemon: DaemonProcess, *words: str) -> Any:
    return json.loads(ran(daemon, *words, "--json").out)


def made(daemon: DaemonProcess, title: str, *words: str) -> str:
    return str(json.loads(agent(daemon, "run", *words, "--title", title, "-d", "--json").out)["agentId"])


@pytest.mark.slow
def test_what_became_of_it_is_the_exit_code(daemon: DaemonProcess) -> None:
    assert agent(daemon, "run", "sweep").code == IDLE
    assert agent(daemon, "run", "fail").code == FAILED
    asking = made(daemon, "Asks", "danger")
    waited = agent(daemon, "wait", asking)
    assert waited.code == ASKS and "gatepost permit allow p" in waited.out
    hanging = made(daemon, "Hangs", "hang")
    assert agent(daemon, "wait", hanging, "--timeout", "0.05").code == STILL
    agent(daemon, "kill", hanging)
    assert agent(daemon, "wait", hanging).code == CLOSED
    for name in ("run", "send", "wait", "attach"):
        assert "Exit status: 0 " in agent(daemon, name, "--help").out


@pytest.mark.slow
def test_an_agent_is_meant_by_its_id_the_beginning_of_it_or_its_title(daemon: DaemonProcess) -> None:
    one, two = made(daemon, "Twin"), made(daemon, "Other")
    for named in (one, one[:-1], "Twin"):
        assert json.loads(agent(daemon, "inspect", named, "--json").out)["agentId"] == one
    both = next(size for size in range(4, len(one)) if one[:size] != two[:size]) - 1
    several = agent(daemon, "stop", one[:both])
    assert several.code == 1
    assert "means several agents" in several.err if both >= 4 else "no agent named" in several.err
    made(daemon, "Twin")
    assert "'Twin' means several agents" in agent(daemon, "mode", "Twin", "default").err


@pytest.mark.parametrize("named", ["", "s", "nobody", "s-0", "%", "'; drop table sessions", "\x1b[2J"])
def test_an_agent_that_is_not_there_is_said_in_a_line(daemon: DaemonProcess, named: str) -> None:
    for words in (("inspect",), ("wait",), ("stop",), ("logs",), ("archive",), ("send", "x")):
        done = agent(daemon, words[0], named, *words[1:])
        assert (done.code, done.out) == (1, "")
        assert "no agent named" in done.err and done.err.count("\n") == 1 and "\x1b" not in done.err


def test_a_closed_agent_takes_nothing_more(daemon: DaemonProcess) -> None:
    closed = made(daemon, "Over")
    assert agent(daemon, "kill", closed).code == 0
    done = agent(daemon, "send", closed, "more")
    assert done.code == 1 and "ended for good" in done.err
    assert agent(daemon, "kill", closed).code == 0


@pytest.mark.slow
def test_prompts_come_from_the_line_or_from_stdin(daemon: DaemonProcess) -> None:
    assert agent(daemon, "run", "-", given=b"from a pipe\n").out == "echo: from a pipe\n"
    assert agent(daemon, "run", given=b"from a pipe").out == "echo: from a pipe\n"
    idle = agent(daemon, "run", "--title", "Idle")
    assert idle.code == 0 and "is idle" in idle.out
    long = b"count " + b"x" * 900_000
    assert agent(daemon, "send", "Idle", "-", given=long).out == "counted\n"
    for given, said in ((b"x" * 1_000_001, "longer than 1000000 characters"), (b"\xff\xfe", "no text in UTF-8")):
        refused = agent(daemon, "send", "Idle", "-", given=given)
        assert refused.code == 1 and said in refused.err
    huge = agent(daemon, "send", "Idle", "-", given=b"x" * 12_000_000)
    assert huge.code == 1 and huge.err.startswith("gatepost: ") and "Traceback" not in huge.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", ""), "PROMPT: is empty"),
        (("run", " \n"), "PROMPT: is empty"),
        (("run", "x", "--title", "t" * 61), "1 to 60 characters"),
        (("run", "x", "--label", "=x"), "is not NAME=VALUE"),
        (("run", "x", "--provider", "nobody"), "there is no provider 'nobody'"),
        (("run", "x", "--folder", "nowhere"), "no group named 'nowhere'"),
        (("run", "x", "--folder", "../etc"), "gatepost: "),
        (("run", "x", "--mode", "wild"), "has no mode 'wild'"),
    ],
)
def test_what_cannot_be_is_refused_and_makes_no_agent(daemon: DaemonProcess, words: tuple[str, ...], said: str) -> None:
    before = len(told(daemon, "agent", "ls", "--all"))
    done = agent(daemon, *words)
    assert done.code == 1 and said in done.err and done.out == ""
    assert len(told(daemon, "agent", "ls", "--all")) == before


@pytest.mark.slow
def test_a_log_has_its_entries_as_lines_and_ends_when_the_agent_has(daemon: DaemonProcess) -> None:
    logged = made(daemon, "Logged", "danger")
    agent(daemon, "wait", logged)
    shown = agent(daemon, "logs", logged).out
    assert shown.startswith("[User] danger\n[Permission 1] It asks to use Bash:\n  | command: ls\n")
    following = subprocess.Popen(
        [sys.executable, "-m", "gatepost", "agent", "logs", "-f", logged, "--json"],
        env=daemon.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["kind"] == "user_message"
    ran(daemon, "permit", "deny", logged, "--message", "not now")
    entries: list[Any] = [json.loads(line) for line in following.stdout]
    assert following.wait(30) == 0
    following.stdout.close()
    assert [each["kind"] for each in entries] == ["permission", "permission", "assistant_message"]


@pytest.mark.slow
def test_a_request_is_meant_by_its_id_the_beginning_of_it_or_its_agent(daemon: DaemonProcess) -> None:
    for form in (lambda each: each, lambda each: each[:-1], lambda each: "Guarded"):
        guarded = made(daemon, "Guarded", "danger")
        agent(daemon, "wait", guarded)
        (request,) = [
            each["request"]["id"] for each in told(daemon, "permit", "ls") if each["agent"]["agentId"] == guarded
        ]
        assert told(daemon, "permit", "allow", form(request)) == {"id": request, "allowed": True}
        assert agent(daemon, "wait", guarded).out == "they said allow\n"
        again = ran(daemon, "permit", "deny", request)
        assert again.code == 1 and again.err.startswith(f"gatepost: {request} does not wait any more"), again.err
        agent(daemon, "kill", guarded)
    for named in ("", "p", "p-nothing"):
        unknown = ran(daemon, "permit", "allow", named)
        assert unknown.code == 1 and "no request named" in unknown.err


def ask_again(daemon: DaemonProcess, title: str) -> str:
    """An agent that asks to use Bash; its request."""
    made(daemon, title, "danger")
    return str(told(daemon, "agent", "wait", title)["permission"]["id"])


@pytest.mark.slow
def test_what_is_asked_can_be_allowed_with_other_arguments(daemon: DaemonProcess, tmp_path: Path) -> None:
    request = ask_again(daemon, "Typed")
    for wrong, why in (
        ("ls", "one JSON object"),
        ("[1]", "one JSON object"),
        ("{}", "an empty object"),
        ("@no", "@no"),
    ):
        refused = ran(daemon, "permit", "allow", request, "--input", wrong)
        assert refused.code == 1 and "--input" in refused.err and why.strip("@") in refused.err, refused.err
    done = ran(daemon, "permit", "allow", request, "--input", '{"command": "ls -l"}')
    assert done.out.startswith(f"{request} is allowed with changes\n")
    assert agent(daemon, "wait", "Typed").out == 'they said allow {"command":"ls -l"}\n'

    request = ask_again(daemon, "Filed")
    (tmp_path / "input.json").write_text('{"command": "pwd"}')
    assert ran(daemon, "permit", "allow", request, "--input", f"@{tmp_path / 'input.json'}").code == 0
    assert agent(daemon, "wait", "Filed").out == 'they said allow {"command":"pwd"}\n'


@pytest.mark.slow
def test_arguments_are_edited_in_the_editor_and_one_that_saves_nothing_answers_nothing(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ask_again(daemon, "Edited")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "true")
    kept = ran(daemon, "permit", "allow", request, "--edit")
    assert kept.code == 1 and "nothing was answered" in kept.err
    both = ran(daemon, "permit", "allow", request, "--edit", "--input", "{}")
    assert both.code == 1 and "one of the two" in both.err
    monkeypatch.setenv("EDITOR", "sed -i s/ls/whoami/")
    assert ran(daemon, "permit", "allow", "Edited", "--edit").code == 0
    assert agent(daemon, "wait", "Edited").out == 'they said allow {"command":"whoami"}\n'
    question = ask_question(daemon, "Curious")
    refused = ran(daemon, "permit", "allow", question, "--edit")
    assert refused.code == 1 and "cannot be edited" in refused.err
    ran(daemon, "permit", "deny", question)


def ask_question(daemon: DaemonProcess, title: str) -> str:
    made(daemon, title, "drink", "--provider", "asker")
    return str(told(daemon, "agent", "wait", title)["permission"]["id"])


def test_the_providers_are_listed_with_what_they_lack_and_their_models_with_prices(daemon: DaemonProcess) -> None:
    found = {each["id"]: each for each in told(daemon, "agent", "models")}
    assert found["scripted"]["ready"] and found["demo"]["ready"]
    assert not found["anthropic"]["ready"] and "gatepost connect anthropic" in found["anthropic"]["reason"]
    models = told(daemon, "agent", "models", "anthropic")
    assert [(each["id"], each["isDefault"]) for each in models[:1]] == [("claude-sonnet-4-5", True)]
    assert all(each["input"] > 0 and each["vendor"] == "anthropic" for each in models)
    assert "default model" in ran(daemon, "agent", "models").out
    assert "cache read" in ran(daemon, "agent", "models", "codex").out
    unknown = ran(daemon, "agent", "models", "scripted")
    assert unknown.code == 1 and "there are models for: acp, anthropic, claude" in unknown.err


def test_without_a_gateway_it_is_said(tmp_path: Path) -> None:
    done = agent(DaemonProcess(tmp_path / "h"), "ls")
    assert done.code == 1 and "`gatepost up` starts it" in done.err


def started(daemon: DaemonProcess, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gatepost", *words],
        env=daemon.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_why_a_turn_failed_stands_beside_what_was_said(daemon: DaemonProcess) -> None:
    half = agent(daemon, "run", "half", "--title", "Half")
    assert (half.code, half.out) == (FAILED, "so far\n")
    assert "failed: no luck" in half.err and "gatepost agent logs s-" in half.err
    nothing = agent(daemon, "run", "fail")
    assert nothing.out == "" and "failed: no luck" in nothing.err
    assert told(daemon, "agent", "wait", "Half")["lastError"] == "no luck"


def test_a_request_is_told_with_what_it_is_about_and_both_answers(daemon: DaemonProcess) -> None:
    asked = agent(daemon, "run", "danger", "--title", "Bold")
    head, ways = asked.out.splitlines()
    assert head.startswith("Bold (s-") and head.endswith(") asks to use Bash: ls")
    assert "gatepost permit allow p" in ways and "gatepost permit deny p" in ways
    assert "running, asks" in agent(daemon, "ls").out
    (row,) = [line for line in ran(daemon, "permit", "list").out.splitlines() if " Bold " in line]
    assert row.split("Bold")[1].split() == ["to", "use", "Bash", "ls"]
    assert ran(daemon, "permit", "deny", "Bold", "not that").code == 0
    assert agent(daemon, "wait", "Bold").out == "they said deny\n"


@pytest.mark.slow
def test_a_question_is_shown_with_its_options_and_answered_in_words(daemon: DaemonProcess) -> None:
    asked = agent(daemon, "run", "drink", "--provider", "asker", "--title", "Thirsty")
    assert asked.code == ASKS and ") asks: Tea or coffee? (tea, coffee)\n" in asked.out
    assert "--answer TEXT" in asked.out
    assert "Tea or coffee? (tea, coffee)" in ran(daemon, "permit", "ls").out
    shown = agent(daemon, "logs", "Thirsty").out
    assert "It asks a question:\n  | Tea or coffee?\n  |   - tea\n  |   - coffee\n" in shown
    refused = ran(daemon, "permit", "allow", "Thirsty")
    assert refused.code == 1 and "is a question; say --answer TEXT" in refused.err
    assert "is answered" in ran(daemon, "permit", "allow", "Thirsty", "--answer", "tea").out
    assert agent(daemon, "wait", "Thirsty").out == "allow: tea\n"


@pytest.mark.slow
def test_somebody_who_has_enough_of_waiting_leaves_it_at_work_and_knows_its_name(daemon: DaemonProcess) -> None:
    running = started(daemon, "agent", "run", "hang")
    assert running.stderr is not None
    at_work = running.stderr.readline()
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE_S)
    name = at_work.split()[0]
    assert at_work == f"{name} is at work\n" and (running.returncode, out) == (130, "")
    assert err.startswith(f"{name} works on") and f"gatepost agent stop {name}" in err
    assert told(daemon, "agent", "inspect", name)["status"] in ("initializing", "running")
    stopped = told(daemon, "agent", "stop", name[:-2])
    assert stopped == {"agentId": name, "stopped": True}


@pytest.mark.slow
def test_waiting_has_a_limit_wherever_one_waits(daemon: DaemonProcess) -> None:
    assert agent(daemon, "run", "hang", "--title", "Slow", "--timeout", "0.05").code == STILL
    assert agent(daemon, "send", "Slow", "more", "--timeout", "0").code == STILL
    attached = started(daemon, "agent", "attach", "Slow", "--timeout", "0.05")  # what follows it ends with its process
    attached.communicate(timeout=PATIENCE_S)
    assert attached.returncode == STILL
    agent(daemon, "kill", "Slow")


@pytest.mark.slow
def test_a_log_of_one_that_rests_ends_at_once_and_begins_where_one_likes(daemon: DaemonProcess) -> None:
    rests = made(daemon, "Rests", "sweep")
    agent(daemon, "wait", rests)
    agent(daemon, "send", rests, "mop")
    following = started(daemon, "agent", "logs", rests, "-f", "-n", "2")
    out, _ = following.communicate(timeout=PATIENCE_S)
    assert out.splitlines() == ["[User] mop", "echo: mop"]


def test_archived_ones_are_marked_and_the_list_has_either_name(daemon: DaemonProcess) -> None:
    agent(daemon, "archive", made(daemon, "Gone"))
    (row,) = [line for line in agent(daemon, "list", "--all").out.splitlines() if " Gone " in line]
    assert "idle, archived" in row
    assert ran(daemon, "group", "ls").out == ran(daemon, "group", "list").out
    assert "  list" not in agent(daemon, "--help").out
    assert agent(daemon, "inspect", "Gone").out.startswith("agentId")


def test_what_is_wrong_is_named_as_it_is_typed(daemon: DaemonProcess, tmp_path: Path) -> None:
    assert "--cwd: " in agent(daemon, "run", "x", "--cwd", str(tmp_path)).err
    assert "--base: is missing" in agent(daemon, "run", "x", "--cwd", str(tmp_path), "--worktree", "w").err
    assert "--title: must have" in agent(daemon, "run", "x", "--title", "t" * 61).err


@pytest.mark.slow
def test_a_restart_ends_neither_waiting_nor_looking_on(tmp_path: Path) -> None:
    folder = Home(tmp_path / "h").group("agents")
    folder.mkdir(parents=True)
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    with DaemonProcess(tmp_path / "h", sandbox_kind="process", sessions_provider="scripted") as daemon:
        waiting = started(daemon, "agent", "run", "hang")
        assert waiting.stderr is not None
        name = waiting.stderr.readline().split()[0]
        looking = started(daemon, "agent", "logs", "-f", name)
        assert looking.stdout is not None and looking.stderr is not None
        assert looking.stdout.readline() == "[User] hang\n"
        daemon.stop()
        for each in (waiting, looking):
            assert each.stderr is not None
            assert each.stderr.readline() == "the gateway went away; waiting for it\n"
        daemon.start()
        for each in (waiting, looking):
            assert each.stderr is not None
            assert each.stderr.readline() == "the gateway is back\n"
        agent(daemon, "stop", name)
        assert [each.wait(30) for each in (waiting, looking)] == [IDLE, IDLE]
        for each in (waiting, looking):
            each.communicate()
