"""The API over HTTP as a program meets it: by a token that a command made; and against its own OpenAPI document."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gatepost_testing import programs
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import PATIENCE_S

SCHEMATHESIS = programs.find("schemathesis/bin/schemathesis")  # `make test-all` puts it there
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# What waits for somebody, starts programs of this machine, or ends the gateway for the rest of the run.
LEFT_OUT = r"/v1/ops/(agent\..*|connect\..*|panic.*|worktree\..*|sandbox\..*|session\.(replay|fork|try))"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(
        tmp_path_factory.mktemp("api") / "home", sandbox_kind="process", sessions_provider="demo"
    ) as running:
        yield running


@pytest.fixture(scope="module")
def base(daemon: DaemonProcess) -> str:
    return daemon.banner[0].split()[-1].rstrip("/")


def make_token(daemon: DaemonProcess, *scopes: str) -> dict[str, Any]:
    made: dict[str, Any] = daemon.json("token", "api", "add", *scopes, "--label", "a program")
    return made


@pytest.mark.slow
def test_a_program_uses_a_token_until_it_is_taken_back(daemon: DaemonProcess, base: str) -> None:
    made = make_token(daemon, "groups.*", "*.read")
    with httpx2.Client(
        base_url=base, headers={"authorization": f"Bearer {made['secret']}"}, timeout=PATIENCE_S
    ) as program:
        assert program.post("/v1/ops/group.add", json={"folder": "acme"}).status_code == 200
        assert "acme" in {each["folder"] for each in program.post("/v1/ops/group.list").json()["result"]}
        assert program.post("/v1/ops/panic.on", json={}).status_code in (403, 404)
        assert program.get("/openapi.json").status_code == 200
        listed = daemon.json("token", "api", "list")
        assert [(each["label"], each["state"]) for each in listed] == [("a program", "valid")]
        assert daemon.gatepost("token", "api", "rm", made["token"]["id"]).returncode == 0
        assert program.post("/v1/ops/group.list").status_code == 401
    assert made["secret"] not in daemon.gatepost("token", "api", "list").stdout


def test_the_numbers_of_a_running_gateway_are_those_of_what_happened(daemon: DaemonProcess, base: str) -> None:
    assert daemon.gatepost("chat", "-m", "a word for nobody else", "--wait").returncode == 0
    with httpx2.Client(base_url=base, timeout=PATIENCE_S) as program:
        assert program.get("/readyz").json() == {"status": "ok"}
        answer = program.get("/metrics")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    numbers = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    assert float(numbers["gatepost_store_messages_total"]) >= 2
    (up,) = (value for name, value in numbers.items() if "channel_up" in name and 'channel="terminal"' in name)
    assert float(up) == 1
    assert float(next(value for name, value in numbers.items() if "process_resident_memory_bytes" in name)) > 0
    assert "web:" not in answer.text and "terminal:" not in answer.text and "owner" not in answer.text


@pytest.mark.slow
@pytest.mark.skipif(SCHEMATHESIS is None, reason="Schemathesis is not installed (`make test-all` does it)")
def test_no_request_that_the_document_allows_breaks_anything(daemon: DaemonProcess, base: str, tmp_path: Path) -> None:
    """Nor one that it does not allow: no 5xx, and every answer has the shape that the document says."""
    secret = make_token(daemon, "*")["secret"]
    header = f"Authorization: Bearer {secret}"
    document = tmp_path / "openapi.json"
    with httpx2.Client(base_url=base, headers={"authorization": f"Bearer {secret}"}, timeout=PATIENCE_S) as program:
        document.write_text(json.dumps(program.get("/openapi.json").json()))
    report = tmp_path / "report.xml"
    command = [str(SCHEMATHESIS), "run", str(document), "--url", base, "--header", header, "--checks", CHECKS]
    command += ["--include-path-regex", "^/v1/ops/", "--exclude-path-regex", LEFT_OUT]
    command += ["--phases", "examples,coverage,fuzzing", "--max-examples", "5", "--generation-deterministic"]
    command += ["--no-shrink", "--continue-on-failure", "--request-timeout", "30", "--no-color", "--warnings", "off"]
    command += ["--report", "junit", "--report-junit-path", str(report)]
    env = {**os.environ, "NO_PROXY": "*"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-8000:]
    assert report.read_text().count("<testcase") > 50
