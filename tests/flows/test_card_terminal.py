"""A card in the terminal: an agent's call is held, the owner is asked where they type, and a number decides."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.home import Home
from gatepost_testing import fork_server
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import PATIENCE_S, block_until

QUESTIONS = [
    {
        "question": "Which drink?",
        "header": "Drink",
        "options": [{"label": "Tea", "description": "Green."}, {"label": "Coffee"}],
    },
    {"question": "With?", "options": [{"label": "Milk"}, {"label": "Sugar"}, {"label": "Cake"}], "multiSelect": True},
]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    """The agent may send only what somebody allows."""
    running = DaemonProcess(tmp_path / "home", sandbox_kind="process", sessions_provider="scripted")
    script = ScriptBuilder().turn("go").call("send", text="the plan").say("asked").turn("hello").say("hi")
    script.turn("ask me").call("ask_user_question", questions=QUESTIONS).say("They said {result}")
    with running:
        script.write(Home(running.home).group("home")).chmod(0o644)
        assert running.gatepost("grant", "add", "home", "hold send").returncode == 0
        assert running.gatepost("chat", "-m", "hello", "--wait").stdout == "hi\n"
        yield running


def chat(daemon: DaemonProcess, text: str, *args: str) -> list[str]:
    """Return what a conversation prints until everything that is typed was answered."""
    done = fork_server.run(["chat", *args], daemon.env, said=f"{text}\n", timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def wait_for_requests(daemon: DaemonProcess, many: int) -> list[dict[str, Any]]:
    """Return what waits for a person, once there are so many."""
    found: list[dict[str, Any]] = []

    def read() -> bool:
        found[:] = daemon.json("permit", "ls")
        return len(found) == many

    block_until(read, f"{many} requests")
    return found


def find_title(lines: list[str]) -> int:
    return next(at for at, line in enumerate(lines) if "wants to send" in line)


def find_id(card: list[str]) -> str:
    """Return the id of a request, which the details of its card begin with."""
    return next(line.split()[1] for line in card if line.strip().startswith("Details:"))


def test_the_card_is_numbered_text_and_a_word_decides_it(daemon: DaemonProcess) -> None:
    asked = chat(daemon, "go")
    card = asked[find_title(asked) :]
    request_id = find_id(card)
    assert "  text:    the plan" in card
    assert card[card.index("  1. Allow once") :][:5] == [
        "  1. Allow once",
        "  2. Allow in this conversation",
        "  3. Always allow",
        "  4. Deny",
        "  Answer with one of these or its number. Such words may go to the agent if it speaks"
        f" meanwhile; /approve {request_id} or /deny {request_id} is sure to count.",
    ]

    decided = chat(daemon, "deny", "--thread", "aside")
    at = find_title(decided)
    assert decided[at + 1] == "  Denied by Owner."


@pytest.mark.slow
def test_with_wait_the_decision_is_what_is_printed(daemon: DaemonProcess) -> None:
    asked = chat(daemon, "go")
    request_id = find_id(asked[find_title(asked) :])
    vague = daemon.gatepost("chat", "-m", "/approve", "--wait")
    assert f"write /approve {request_id}" in vague.stdout  # the agent has spoken after its card
    done = daemon.gatepost("chat", "-m", f"/approve {request_id}", "--wait")
    assert (done.returncode, done.stdout) == (0, "Allowed by Owner.\n")


@pytest.mark.slow
def test_who_decides_from_another_room_is_told_there(daemon: DaemonProcess) -> None:
    asked = chat(daemon, "go")
    request_id = find_id(asked[find_title(asked) :])
    done = daemon.gatepost("chat", "-m", "/deny", "--wait", "--room", "other")
    assert "Nothing waits for a decision here" in done.stdout
    done = daemon.gatepost("chat", "-m", f"/deny {request_id}", "--wait", "--room", "other")
    assert done.stdout == "Denied by Owner.\n"


@pytest.mark.slow
def test_a_question_is_asked_where_the_agent_was_spoken_to_and_answered_there(daemon: DaemonProcess) -> None:
    """Each line is typed when what is before it was shown: the card, then what the agent makes of the answers."""
    asked = fork_server.run(["chat", "-m", "ask me"], daemon.env, timeout=PATIENCE_S)
    assert asked.returncode == 0, asked.stderr
    (waiting,) = wait_for_requests(daemon, 1)
    card = daemon.gatepost("chat", "-m", "1", "--wait")
    assert card.stdout == "Answered by Owner: Tea.\n"
    second = daemon.gatepost("chat", "-m", "3,1", "--wait")
    assert second.stdout == "Answered by Owner: Milk, Cake.\n"
    assert wait_for_requests(daemon, 0) == []
    late = daemon.gatepost("chat", "-m", f"/answer {waiting['request']['id']} sugar", "--wait")
    assert late.stdout == "It was decided before. Answered by Owner: Tea · Milk, Cake.\n"
    told = daemon.gatepost("chat", "-m", "hello", "--wait")
    assert told.stdout == "hi\n"


@pytest.mark.slow
def test_permit_answers_a_question_of_an_agent_in_a_chat(daemon: DaemonProcess) -> None:
    fork_server.run(["chat", "-m", "ask me"], daemon.env, timeout=PATIENCE_S)
    (waiting,) = wait_for_requests(daemon, 1)
    name = waiting["request"]["id"]
    assert "an answer" in daemon.gatepost("permit", "ls").stdout
    refused = daemon.gatepost("permit", "allow", name, "--answer", "water", "--answer", "milk")
    assert refused.returncode == 1 and "'water' does not answer 'Drink'; Tea, Coffee do" in refused.stderr
    done = daemon.gatepost("permit", "allow", name, "--answer", "tea", "--answer", "1,2")
    assert (done.returncode, done.stdout) == (0, f"{name} is answered\n")
    assert wait_for_requests(daemon, 0) == []
    late = daemon.gatepost("permit", "deny", name)
    assert late.returncode == 1 and "Answered by operator: Tea · Milk, Sugar." in late.stderr
