"""Webhook links of a real gateway: from the command that makes one to the agent's answer, and what is left behind."""

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import httpx2
import pytest

from gatepost_testing.daemon import READY, DaemonProcess
from gatepost_testing.waiting import PATIENCE_S, block_until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "links.md"
SCRIPT: dict[str, Any] = {
    "turns": [
        {"when": "nothing", "do": []},
        {"when": "break", "do": [{"error": {"message": "broken", "kind": "fatal"}}]},
        {"when": "gate", "do": [{"wait_for": "open"}, {"say": "the gate is open"}]},
        {"when": "wait for two", "do": [{"wait_for_message": True}, {"say": "both"}]},
        {"when": "second", "do": []},
        {"when": "ask", "do": [{"ask": {"question": "Shall I?", "options": ["yes"]}}, {"say": "{answer}"}]},
    ],
    "default": [{"say": "echo: {text}"}],
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("hooks") / "home"
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted") as running:
        (home / "groups" / "home" / "script.json").write_text(json.dumps(SCRIPT))
        yield running


def issue(daemon: DaemonProcess, label: str, *options: str) -> dict[str, Any]:
    made: dict[str, Any] = daemon.json("token", "add", "webhook", "home", "--label", label, *options)
    return made


def find_session(daemon: DaemonProcess, label: str) -> dict[str, Any]:
    found = [each for each in daemon.json("session", "list") if each["address"] == f"hook:home/{label}"]
    return found[0] if found else {}


async def post(url: str, text: str) -> Any:
    async with httpx2.AsyncClient(timeout=PATIENCE_S) as client:
        answer = await client.post(url, content=text, headers={"content-type": "text/plain"})
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json()["response"]


@pytest.mark.slow
@pytest.mark.skipif(not (which("curl") and which("openssl")), reason="curl or openssl is not installed")
def test_the_lines_for_curl_in_the_docs_work(daemon: DaemonProcess) -> None:
    """Exactly what the page shows runs in a shell, with an address of ours."""
    plain, signed = issue(daemon, "ci"), issue(daemon, "github", "--signature", "github")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/hook/[\w-]{43}", plain["url"])
    page = PAGE.read_text(encoding="utf-8").replace("LINK=https://gate.example/hook/TOKEN\n", "")
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert "gate.example" not in "".join(blocks)
    answers = []
    for block, link in zip(blocks, (plain, plain, signed), strict=True):
        done = subprocess.run(
            ["sh", "-euc", block],
            env={"LINK": link["url"], "SECRET": link["signing_secret"], "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout)
    assert answers[0] == ""
    for answer, said in zip(answers[1:], ("echo: Is the build green?", '{"action": "opened"}'), strict=True):
        response = json.loads(answer)["response"]
        assert response["status"] == "done" and response["body"].endswith(said)


@pytest.mark.slow
async def test_a_program_that_waits_is_told_how_the_turn_of_its_message_ended(daemon: DaemonProcess) -> None:
    link = issue(daemon, "ends")["url"]
    assert await post(f"{link}?wait=60", "hello") == {"status": "done", "body": "echo: hello"}
    assert await post(f"{link}?wait=60", "nothing") == {"status": "silent", "body": ""}
    assert (await post(f"{link}?wait=60", "break"))["status"] == "failed"
    gate = daemon.home / "groups" / "home" / "open"
    assert await post(f"{link}?wait=1", "gate") == {"status": "timeout", "body": ""}
    gate.touch()
    assert await post(f"{link}?wait=60", "after it") == {"status": "done", "body": "echo: after it"}


@pytest.mark.slow
async def test_messages_of_one_turn_get_the_same_answer_each(daemon: DaemonProcess) -> None:
    link = issue(daemon, "pair")["url"]
    first = asyncio.create_task(post(f"{link}?wait=60", "wait for two"))
    await asyncio.to_thread(block_until, lambda: find_session(daemon, "pair").get("state") == "running", "a turn")
    second = await post(f"{link}?wait=60", "second")
    assert second == await first == {"status": "done", "body": "both"}


@pytest.mark.slow
async def test_what_waits_for_a_person_is_held(daemon: DaemonProcess) -> None:
    link = issue(daemon, "asks")["url"]
    assert await post(f"{link}?wait=3", "ask") == {"status": "held", "body": ""}


def test_a_token_is_in_no_file_of_the_gateway(daemon: DaemonProcess) -> None:
    made = issue(daemon, "quiet", "--signature", "github")
    url, token = made["url"], made["secret"]
    for path in (url, url + "?wait=1", url + "/", f"{url}x"):
        httpx2.post(path, content="hello", timeout=PATIENCE_S)
    found = daemon.read_audit("token.add")
    assert found and token not in str(found) and made["signing_secret"] not in str(found)
    files = [each for each in daemon.home.rglob("*") if each.is_file() and not each.is_symlink()]
    assert any(each.name.startswith("gatepost.db") for each in files)
    for secret in (token, made["signing_secret"]):
        assert [each for each in files if secret.encode() in each.read_bytes()] == []
        assert secret not in daemon.stderr()


@pytest.mark.slow
def test_what_was_answered_survives_a_kill_and_is_said_once(daemon: DaemonProcess) -> None:
    """The last one here: its gateway is another afterwards."""
    link = issue(daemon, "kill")["url"]
    keys = [f"delivery-{number}" for number in range(5)]
    for key in keys:
        answer = httpx2.post(link, content=key, headers={"idempotency-key": key}, timeout=PATIENCE_S)
        assert answer.status_code == 204
    daemon.kill()
    daemon.start()
    base = daemon.banner[0].removeprefix(READY).rstrip("/")
    again = f"{base}/hook/{link.rpartition('/')[2]}"
    for key in keys:
        answer = httpx2.post(f"{again}?wait=60", content=key, headers={"idempotency-key": key}, timeout=PATIENCE_S)
        assert answer.json()["response"]["status"] == "done"
    lines = [each for each in daemon.json("ledger", "list") if each["address"] == "hook:home/kill"]
    said = [each["text"] for each in lines if each["direction"] == "in" and each["text"].startswith("delivery-")]
    told = [each["text"] for each in lines if each["direction"] == "out"]
    assert sorted(said) == keys and sorted(told) == [f"echo: {key}" for key in keys]
