"""A whole gateway, a real process, on a real PostgreSQL server."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from gatepost.store.engine.readonly import read_snapshot
from gatepost_testing.clients.web_manners import make_manners
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs
from gatepost_testing.waiting import PATIENCE_S, block_until

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)

PASSWORD = "hush-hush"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as started:
        yield started


@pytest.fixture(scope="module")
def daemon(server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    url = server.add_database("served").replace("postgres@", f"postgres:{PASSWORD}@")
    home = tmp_path_factory.mktemp("daemon") / "home"
    with DaemonProcess(home, store_url=url, store_unsafe="1", sandbox_kind="process", storeurl=PASSWORD) as started:
        yield started


def test_the_demo_agent_answers_and_no_file_is_made(daemon: DaemonProcess) -> None:
    said = daemon.gatepost("chat", "-m", "hello", "--wait")
    assert said.returncode == 0, said.stderr + daemon.stderr()
    assert "demo of Gatepost" in said.stdout
    assert not (daemon.home / "gatepost.db").exists()


@pytest.mark.slow
def test_commands_read_the_database_beside_the_gateway(daemon: DaemonProcess) -> None:
    assert daemon.json("status")["store"]["groups"] >= 1
    assert daemon.json("audit", "verify")["whole"]
    doctor = daemon.gatepost("doctor")
    assert "schema" in doctor.stdout and "fail" not in doctor.stdout.split("schema")[0].splitlines()[-1]
    assert daemon.json("keep", "show")["store"]["bytes"] > 0


@pytest.mark.slow
def test_the_password_is_shown_nowhere(daemon: DaemonProcess) -> None:
    commands = (("settings",), ("settings", "--json"), ("doctor",), ("status", "--json"), ("audit", "list", "--json"))
    for command in (*commands, ("settings", "set", "store.url", f"postgresql://a:{PASSWORD}@b/c"), ("backup", "list")):
        done = daemon.gatepost(*command)
        assert PASSWORD not in done.stdout + done.stderr, command
    logs = [each.read_text(errors="replace") for each in Path(daemon.home, "logs").rglob("*") if each.is_file()]
    assert not any(PASSWORD in text for text in (daemon.stderr(), *logs))


def test_a_start_names_a_mistyped_variable(daemon: DaemonProcess) -> None:
    logs = (daemon.home / "logs" / "gatepost.log").read_text()
    assert "nothing reads the variable GATEPOST_STOREURL; did you mean GATEPOST_STORE_URL?" in logs


@pytest.mark.slow
def test_a_backup_has_the_rows_and_is_proven_without_the_database(daemon: DaemonProcess, tmp_path: Path) -> None:
    assert daemon.gatepost("chat", "-m", "remember the tide", "--wait").returncode == 0
    done = daemon.gatepost("backup", "create", str(tmp_path / "b.tar.gz"), "--prove", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["proof"]["trouble"] == ""
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        tar.extract("gatepost.db", tmp_path, filter="data")
    said = read_snapshot(tmp_path / "gatepost.db", lambda db: db.rows("SELECT text FROM messages WHERE text <> ''"))
    assert ("remember the tide",) in said


def ask(daemon: DaemonProcess, path: str, body: object) -> httpx2.Response:
    with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(daemon.home / "run" / "control.sock"))) as client:
        return client.post(f"http://gatepost{path}", json=body, timeout=PATIENCE_S)


@pytest.mark.slow
def test_a_database_that_goes_away_is_said_and_waited_for(daemon: DaemonProcess, server: PostgresServer) -> None:
    base, _, token = daemon.address.partition("/#token=")
    with httpx2.Client(base_url=base, timeout=PATIENCE_S, **make_manners(base)) as browser:
        assert browser.post("/login", json={"token": token}).status_code == 200
        assert browser.get("/dashboard/groups").status_code == 200
        server.stop("immediate")
        answers = [
            ask(daemon, "/v1/ops/group.list", {}),
            ask(daemon, "/v1/chat", {"text": "lost?"}),
            browser.get("/readyz"),
            browser.get("/dashboard/groups"),
        ]
        said = daemon.gatepost("chat", "-m", "are you there", "--wait")
        server.start()
    assert [(each.status_code, "retry-after" in each.headers) for each in answers] == [(503, True)] * 4
    assert said.returncode == 1 and "is unavailable" in said.stderr
    block_until(lambda: daemon.gatepost("chat", "-m", "hello", "--wait").returncode == 0, "the demo to answer again")
    assert daemon.json("ledger", "check")["unaccounted"] == 0


@pytest.mark.slow
def test_a_start_without_its_database_ends_with_one_sentence(tmp_path: Path) -> None:
    url = f"postgresql://ann:{PASSWORD}@127.0.0.1:1/ledger"
    done = DaemonProcess(tmp_path / "home", store_url=url, log_format="json").gatepost("up")
    assert done.returncode == 1
    assert "database ledger on 127.0.0.1, port 1 does not let us in" in done.stderr.splitlines()[-1]
    assert len([line for line in done.stderr.splitlines() if "trying again" in line]) > 1
    assert PASSWORD not in done.stderr
