"""`gatepost chat` and `gatepost login` against a running gateway with its demo agent."""

import asyncio
import socketserver
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Thread
from typing import Any

import click
import httpx2
import msgspec
import pytest
from msgspec import UNSET

from gatepost.cli.commands.chat import SentChat, render, render_failure, render_held, send_message
from gatepost.cli.conversation import (
    ChatTarget,
    StreamedCursor,
    StreamedDraft,
    StreamedEvent,
    StreamedMessage,
    StreamedTyping,
    render_message,
)
from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.messages.inbound import Direction
from gatepost.serve.control.client import ControlClient
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.money import costs
from gatepost.store.money.costs import NewCost
from gatepost_testing import fork_server
from gatepost_testing.clients.web_manners import make_manners
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(
        tmp_path_factory.mktemp("chat") / "home", sandbox_kind="process", sessions_provider="demo"
    ) as running:
        yield running


def pipe(daemon: DaemonProcess, text: str, *args: str) -> subprocess.CompletedProcess[str]:
    return fork_server.run(["chat", *args], daemon.env, said=text)


@pytest.mark.slow
async def test_a_spent_budget_is_said_in_words_and_a_pipe_fails_like_wait(daemon: DaemonProcess) -> None:
    daemon.gatepost("user", "add", "terminal:pauper")
    assert daemon.gatepost("budget", "set", "--user", "terminal:pauper", "--daily", "0.01").returncode == 0
    now, store = SystemClock().now(), SqliteStore(daemon.home / "gatepost.db", readers=1)
    spent = NewCost(key="spent", at=now, folder="home", user="terminal:pauper", model="m", micro=20_000)
    await store.write(costs.add_external, spent, now)
    store.close()

    assert "held" in daemon.gatepost("chat", "-m", "hello", "--as", "pauper", "--room", "poor").stdout
    (asked,) = [each["request"]["id"] for each in daemon.json("permit", "ls") if each["request"]["kind"] == "budget"]
    assert daemon.gatepost("permit", "deny", asked).returncode == 0

    waited = daemon.gatepost("chat", "-m", "hello", "--wait", "--as", "pauper", "--room", "poor")
    piped = await asyncio.to_thread(pipe, daemon, "hello\n", "--as", "pauper", "--room", "poor")
    for each in (waited, piped):
        assert each.returncode == 1
        assert "refused: a budget is spent (`gatepost budget show` says which" in each.stderr
        assert "budget_spent" not in each.stderr


def test_a_message_is_accepted_and_the_command_returns(daemon: DaemonProcess) -> None:
    done = daemon.gatepost("chat", "-m", "hello")

    assert done.returncode == 0
    assert done.stdout.startswith("message ") and "queued" in done.stdout


def test_with_wait_the_answer_is_printed(daemon: DaemonProcess) -> None:
    done = daemon.gatepost("chat", "-m", "hello", "--wait")

    assert (done.returncode, done.stderr) == (0, "")
    assert "demo" in done.stdout


@pytest.mark.slow
def test_with_wait_the_answer_of_a_fork_is_printed(daemon: DaemonProcess) -> None:
    daemon.gatepost("chat", "-m", "hello", "--wait", "--room", "forked")
    done = daemon.gatepost("chat", "-m", "/fork side", "--wait", "--room", "forked")
    again = daemon.gatepost("chat", "-m", "/fork side", "--wait", "--room", "forked")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Forked. ") and "the topic side" in done.stdout
    assert "`#side …`" in done.stdout
    assert again.stdout.startswith("This conversation was not forked: there is a conversation 'side'")


def test_the_answer_of_a_fork_names_the_way_there_only_if_a_text_can_name_the_topic(daemon: DaemonProcess) -> None:
    daemon.gatepost("chat", "-m", "hello", "--wait", "--room", "blanks")
    done = daemon.gatepost("chat", "-m", "/fork two words", "--wait", "--room", "blanks")

    assert done.stdout.startswith("Forked. ") and "two words" in done.stdout and "#" not in done.stdout


def test_json_is_one_object_with_state_and_replies(daemon: DaemonProcess) -> None:
    said = daemon.json("chat", "-m", "hello", "--wait", "--room", "ops", "--thread", "t1")

    assert set(said) == {"message", "new", "state", "reason", "replies"}
    assert (said["new"], said["state"]) == (True, "answered")
    assert [set(reply) for reply in said["replies"]] == [{"text", "seq", "state"}]
    assert said["replies"][0]["state"] == "sent"


def test_sent_twice_under_one_id_it_is_accepted_once(daemon: DaemonProcess) -> None:
    first = daemon.json("chat", "-m", "note buy milk", "--id", "milk-1", "--wait")
    again = daemon.json("chat", "-m", "note buy milk", "--id", "milk-1", "--wait")

    assert (first["new"], again["new"]) == (True, False)
    assert first["message"] == again["message"]
    assert first["replies"] == again["replies"]


def test_a_name_that_the_owner_vouches_for_is_answered_but_is_not_the_owner(daemon: DaemonProcess) -> None:
    said = daemon.json("chat", "-m", "hello", "--as", "eve", "--wait")
    denied = daemon.gatepost("chat", "-m", "/clear", "--as", "eve", "--wait")

    assert said["state"] == "answered" and said["replies"]
    assert denied.returncode == 1
    assert "refused: " in denied.stderr


def test_a_name_of_another_platform_is_refused_in_one_line(daemon: DaemonProcess) -> None:
    done = daemon.gatepost("chat", "-m", "hello", "--as", "telegram:user/9")

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_text_may_come_from_standard_input(daemon: DaemonProcess) -> None:
    done = pipe(daemon, "two\nlines\n", "-m", "-", "--wait")

    assert done.returncode == 0
    assert "two" in done.stdout and "lines" in done.stdout


@pytest.mark.slow
def test_a_conversation_prints_replies_as_they_come_and_ends_with_quit(daemon: DaemonProcess) -> None:
    talking = subprocess.Popen(
        [sys.executable, "-m", "gatepost", "chat", "--room", "talk"],
        env={**daemon.env, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert talking.stdin is not None and talking.stdout is not None
    talking.stdin.write("hello\n")
    talking.stdin.flush()

    for line in talking.stdout:
        if "demo" in line:
            break
    else:
        pytest.fail("the reply was not printed")
    talking.stdin.write("/quit\n")
    talking.stdin.close()
    talking.stdout.read()
    talking.stdout.close()

    assert talking.wait(30) == 0


def test_what_is_piped_in_is_answered_before_it_ends(daemon: DaemonProcess) -> None:
    done = pipe(daemon, "hello\n/ping\nsay cheese\n", "--room", "pipe")

    assert (done.returncode, done.stderr) == (0, "")
    assert "demo" in done.stdout and "pong: " in done.stdout and "cheese" in done.stdout
    assert "Type a message" not in done.stdout


@pytest.mark.parametrize(
    ("command", "said"), [("/ping", "pong: "), ("/chatid", "terminal:own"), ("/clear", "new"), ("/stop", "othing")]
)
def test_with_wait_the_gateways_own_answer_is_printed(daemon: DaemonProcess, command: str, said: str) -> None:
    done = daemon.gatepost("chat", "-m", command, "--wait", "--room", "own")

    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout


def test_in_a_panic_nobody_waits_in_vain(daemon: DaemonProcess) -> None:
    daemon.gatepost("panic")
    try:
        done = [daemon.gatepost("chat", "-m", "hello", "--wait", "--timeout", "50", "--room", "quiet") for _ in "ab"]
        piped = daemon.json("chat", "-m", "hello", "--wait", "--timeout", "50", "--room", "quiet")
    finally:
        daemon.gatepost("panic", "--off")

    for each in done:
        assert each.returncode == 1
        assert "has stopped everything for now" in each.stdout
        assert "is queued until `gatepost panic --off`" in each.stderr and "no answer within" not in each.stderr
    assert piped["halted"] and piped["state"] == "queued"


class Impatient(ControlClient):
    """A gateway that has the message, and somebody who does not wait for its answer."""

    def post(self, path: str, body: dict[str, Any] | None = None, timeout: float = 1) -> dict[str, Any]:
        return {"result": {"message_id": 7, "new": True, "state": "queued", "reason": ""}}

    def get(self, path: str, timeout: float = 1) -> dict[str, Any]:
        raise KeyboardInterrupt


def test_whoever_stops_waiting_is_told_that_it_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(click.exceptions.Exit) as ended:
        send_message(Impatient(tmp_path / "control.sock"), ChatTarget(room="", thread="", sender=""), "hi", "", 60)

    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "message 7 goes on; `gatepost trace 7`\n"


def test_wait_and_id_belong_to_a_message(daemon: DaemonProcess) -> None:
    assert daemon.gatepost("chat", "--wait").returncode == 2


def test_login_prints_a_new_address_each_time(daemon: DaemonProcess) -> None:
    first, second = daemon.gatepost("login"), daemon.gatepost("login")

    assert first.returncode == 0
    assert first.stdout.startswith("http://127.0.0.1:") and "/#token=" in first.stdout
    assert first.stdout != second.stdout


@pytest.mark.slow
def test_a_browser_is_listed_and_signed_out_from_the_command_line(daemon: DaemonProcess) -> None:
    base, _, token = daemon.address.partition("/#token=")
    with httpx2.Client(base_url=base, timeout=PATIENCE_S, **make_manners(base)) as browser:
        assert browser.post("/login", json={"token": token}).status_code == 200
        (found,) = daemon.json("login", "list")
        assert found["user_id"] == "web:user/owner" and found["id"] in daemon.gatepost("login", "list").stdout
        assert daemon.gatepost("login", "end", found["id"]).returncode == 0
        assert browser.get("/api/start").status_code == 401
    assert daemon.gatepost("login", "end", found["id"]).returncode == 1
    assert "is signed out everywhere" in daemon.gatepost("login", "end-all", "--person", "web:user/owner").stdout


@pytest.mark.parametrize("args", [("chat", "-m", "hello"), ("chat",), ("login",)])
def test_without_a_gateway_the_way_out_is_named(tmp_path: Path, args: tuple[str, ...]) -> None:
    done = DaemonProcess(tmp_path / "home").gatepost(*args)

    assert done.returncode == 1
    assert f"no gateway runs in {tmp_path / 'home'}; `gatepost up` starts one" in done.stderr
    assert "Traceback" not in done.stderr


class Vanishing(BaseHTTPRequestHandler):
    """A gateway that is well, and goes away with the first message."""

    def do_GET(self) -> None:
        body = b'{"type": "cursor", "cursor": 1}\n' if "stream" in self.path else b'{"result": {}}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.close_connection = True
        Path(str(self.server.server_address)).unlink(missing_ok=True)

    def address_string(self) -> str:
        return "pipe"

    def log_message(self, format: str, *args: object) -> None: ...


def test_a_pipe_ends_with_one_error_when_the_gateway_goes_away(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    with socketserver.ThreadingUnixStreamServer(str(home.control), Vanishing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        done = fork_server.run(["chat"], DaemonProcess(home.path).env, said="hello\n" * 100)
        server.shutdown()
    assert done.returncode == 1
    assert done.stderr == "gatepost: the gateway is unavailable: it went away before it answered\n"


def test_what_is_not_answered_in_time_is_named_with_the_way_to_look() -> None:
    outcome = SentChat(message=7, new=True, state="working", reason="")

    assert render_failure(outcome, 2.5) == "no answer within 2.5 s; message 7 is working: `gatepost trace 7`"
    assert render_failure(replace(outcome, state="retry", reason="the sandbox died"), 3) == (
        "no answer within 3 s; message 7 waits to be tried again, because the sandbox died: `gatepost trace 7`"
    )
    assert render_failure(replace(outcome, asks="p-1"), 3) == (
        "no answer within 3 s; message 7 waits for a person (`gatepost permit show p-1`): `gatepost trace 7`"
    )
    assert render(outcome, waited=False) == "message 7 working"
    assert render(outcome, waited=True) == ""


def test_a_message_that_waits_for_a_person_says_how_that_is_decided() -> None:
    outcome = SentChat(message=7, new=True, state="held", reason="p-1", asks="p-1")

    assert render_held(outcome) == (
        "message 7 waits until somebody decides: `gatepost permit show p-1` says what, `gatepost permit allow p-1` or"
        " `gatepost permit deny p-1` decides it"
    )
    assert render_held(replace(outcome, asks=UNSET)) == ""


async def test_with_wait_it_is_said_at_once_what_a_held_message_waits_for(daemon: DaemonProcess) -> None:
    daemon.gatepost("user", "add", "terminal:broke")
    assert daemon.gatepost("budget", "set", "--user", "terminal:broke", "--daily", "0.01").returncode == 0
    now, store = SystemClock().now(), SqliteStore(daemon.home / "gatepost.db", readers=1)
    spent = NewCost(key="broke", at=now, folder="home", user="terminal:broke", model="m", micro=20_000)
    await store.write(costs.add_external, spent, now)
    store.close()
    waited = asyncio.to_thread(
        daemon.gatepost, "chat", "-m", "hello", "--wait", "--as", "broke", "--room", "broke", "--timeout", "3"
    )
    done = await waited
    assert done.returncode == 1
    first, last = done.stderr.splitlines()
    assert "waits until somebody decides: `gatepost permit show p-" in first and "no answer within 3 s" in last


def test_only_what_others_say_in_this_thread_is_printed() -> None:
    said = StreamedMessage(id=7, direction=Direction.OUT, thread="", verb="send", text="hi")

    assert render_message(said, "") == ("hi",)
    assert render_message(replace(said, verb="edit"), "") == ("[edited] hi",)
    assert render_message(replace(said, verb="react", reaction="👍"), "") == ("[👍]",)
    assert render_message(replace(said, direction=Direction.IN), "") == ()
    assert render_message(said, "another") == ()


def test_an_event_of_a_room_is_read_by_its_type() -> None:
    def read(**given: object) -> StreamedEvent:
        made: StreamedEvent = msgspec.convert({"address": "terminal:main", "thread": "", **given}, StreamedEvent)
        return made

    message = read(type="message", id=7, direction="out", verb="send", text="hi", files=[], card=None)
    assert message == StreamedMessage(id=7, direction=Direction.OUT, thread="", verb="send", text="hi")
    assert read(type="draft", text="so far", agent="home") == StreamedDraft(thread="", text="so far")
    assert read(type="cursor", cursor=9) == StreamedCursor(cursor=9)
    assert read(type="typing", on=True) == StreamedTyping()  # it is not shown
