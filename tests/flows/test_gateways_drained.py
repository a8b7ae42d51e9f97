"""Two gateways on one database: one is drained, and the other goes on. At its start each is asked what it must have in
common with the others."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copy

import pytest

from gatepost.core.keyring import FILE as KEYRING
from gatepost.store.engine.place import GATEWAY_MARK
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.storms.drain import run_drain_storm
from gatepost_testing.storms.storm import SEED, SMALL, WHOLE
from gatepost_testing.waiting import PATIENCE_S, block_until

from .channel_desk import SETTINGS

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
]

HELD = ScriptBuilder().turn("hold").wait_for("go").say("echo: {text}").otherwise().say("echo: {text}")


def ask(daemon: DaemonProcess, path: str) -> tuple[int, str]:
    """Status and body of a page."""
    base = daemon.banner[0].removeprefix("gatepost is ready at ").rstrip("/")
    try:
        with urllib.request.urlopen(f"{base}{path}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def get_state(daemon: DaemonProcess, name: str) -> str:
    return next((each["state"] for each in daemon.json("gateway", "list") if each["name"] == name), "")


def test_what_a_drained_gateway_had_is_answered_once_by_the_other(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    counts = run_drain_storm(tmp_path, SEED, size=SMALL)
    figures(f"drain: {counts.render()}")
    assert counts.list_faults() == []


@pytest.mark.timeout(600)
def test_a_thousand_messages_are_answered_once_though_the_listener_is_drained(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    counts = run_drain_storm(tmp_path, SEED, size=WHOLE)
    figures(f"drain: {counts.render()}")
    assert counts.list_faults() == []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("g"), ("a", "b"), 'timezone = "UTC"\n', **SETTINGS) as cluster:
        assert cluster.first.gatepost("secret", "set", "WORD", "first-word").returncode == 0
        cluster.share_keys()
        for daemon in cluster.daemons.values():
            daemon.start()
            HELD.write(daemon.home / "groups" / "home").chmod(0o644)
        yield cluster


def test_gateways_are_named_by_list_show_status_doctor_and_trace(cluster: Cluster) -> None:
    a, b = cluster["a"], cluster["b"]
    found = {each["name"]: each for each in b.json("gateway", "list")}
    assert {name: (each["alive"], each["state"]) for name, each in found.items()} == {
        "a": (True, "running"),
        "b": (True, "running"),
    }
    assert found["a"]["capacity"] > 0
    assert found["a"]["listen"] in a.banner[0]
    block_until(
        lambda: "schedule" in a.json("gateway", "show", "a")["duties"] + b.json("gateway", "show", "b")["duties"],
        "a gateway to take the schedule",
    )
    assert "a; beside it: b" in a.gatepost("status").stdout
    assert b.json("status")["gateway"] == "b"
    told = a.gatepost("chat", "-m", "hello", "--wait")
    assert "echo: hello" in told.stdout, told.stderr
    trace = a.gatepost("trace", "1")
    assert re.search(r"→ gateway +[ab]\n", trace.stdout), trace.stdout
    doctor = a.gatepost("doctor").stdout
    assert re.search(r"gateways\s+a is running on", doctor)
    assert re.search(r"gateways\s+b is running on", doctor)
    assert "clock is" not in doctor


def test_other_settings_are_told_and_another_key_ring_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    new = DaemonProcess(tmp_path / "c", **{**SETTINGS, **_shared(cluster), "gateway_name": "c"})
    new.home.mkdir()
    refused = new.gatepost("up")
    assert refused.returncode == 1
    assert "the key ring of this gateway lacks" in refused.stderr and "copy keyring.json" in refused.stderr

    copy(cluster["a"].home / KEYRING, new.home / KEYRING)
    (new.home / "gatepost.toml").write_text('timezone = "Asia/Tokyo"\n')
    with new:
        doctor = new.gatepost("doctor").stdout
        assert "a: its gatepost.toml differs from this one's in timezone" in doctor, doctor
    assert get_state(cluster["a"], "c") == "gone"  # it left when it was stopped
    assert new.gatepost("gateway", "forget", "c").returncode == 0
    assert get_state(cluster["a"], "c") == ""
    assert [row["action"] for row in cluster["a"].read_audit("gateway.forget")] == ["gateway.forget"]


@pytest.mark.parametrize("copied", [(KEYRING,), (KEYRING, GATEWAY_MARK)])
def test_a_living_gateways_name_on_another_home_or_a_copy_is_refused(
    cluster: Cluster, tmp_path: Path, copied: tuple[str, ...]
) -> None:
    new = DaemonProcess(tmp_path / "c", **{**SETTINGS, **_shared(cluster), "gateway_name": "a"})
    new.home.mkdir()
    epoch = cluster.query("SELECT epoch FROM gateways WHERE name = 'a'")
    for each in copied:
        copy(cluster["a"].home / each, new.home / each)
    refused = new.gatepost("up")
    assert refused.returncode == 1
    assert "a gateway named 'a' lives on" in refused.stderr
    assert cluster.query("SELECT epoch FROM gateways WHERE name = 'a'") == epoch


def test_a_running_gateway_is_not_forgotten_and_an_unknown_one_is_named(cluster: Cluster) -> None:
    refused = cluster["a"].gatepost("gateway", "forget", "b")
    assert refused.returncode != 0
    assert "gatepost gateway drain b" in refused.stderr
    assert "gatepost gateway list" in cluster["a"].gatepost("gateway", "drain", "x").stderr


def test_a_gateway_that_another_drains_is_not_ready_ends_its_turn_and_stops(cluster: Cluster) -> None:
    assert cluster["a"].gatepost("chat", "-m", "hold on").returncode == 0
    block_until(lambda: sum(map(cluster.count_open_turns, "ab")) == 1, "an open turn")
    name, other = ("a", "b") if cluster.count_open_turns("a") else ("b", "a")
    drained, left = cluster[name], cluster[other]
    assert ask(drained, "/readyz")[0] == 200

    assert left.gatepost("gateway", "drain", name).returncode == 0
    block_until(lambda: ask(drained, "/readyz")[0] == 503, "the drain to begin")
    assert json.loads(ask(drained, "/readyz")[1])["status"] == "draining"
    assert cluster.count_open_turns(name) == 1
    (drained.home / "groups" / "home" / "go").touch()
    block_until(lambda: not drained.is_running, "it to end")
    assert drained.stop() == 0
    assert "stopped, because it was asked to drain" in drained.stderr()
    assert get_state(left, name) == "gone"
    assert cluster.query("SELECT COUNT(*) FROM turns WHERE ended_at IS NULL") == [["0"]]
    assert ask(left, "/readyz")[0] == 200
    drained.start()
    assert get_state(left, name) == "running"


def test_a_gateway_whose_schema_was_overtaken_stops_and_says_so(cluster: Cluster) -> None:
    b = cluster["b"]
    cluster.server.execute("INSERT INTO schema_version VALUES (9999, 'newer', 0)", "cluster")
    try:
        block_until(lambda: not b.is_running, "b to end")
        assert b.stop() == 1
        assert "a newer gatepost has brought the store to schema 9999" in b.stderr()
        refused = b.gatepost("up")
        assert refused.returncode == 1 and "newer gatepost" in refused.stderr
    finally:
        cluster.server.execute("DELETE FROM schema_version WHERE number = 9999", "cluster")


def test_an_older_gateway_that_lives_is_named_to_one_of_another_schema(cluster: Cluster, tmp_path: Path) -> None:
    cluster.server.execute(
        "INSERT INTO gateways VALUES"
        " ('old', 1, 'running', 9000000000000000, 'h', 'third', '0.1', 1, '', 1, '', '', '', 1)",
        "cluster",
    )
    new = DaemonProcess(tmp_path / "c", **{**SETTINGS, **_shared(cluster), "gateway_name": "c"})
    new.home.mkdir()
    copy(cluster["a"].home / KEYRING, new.home / KEYRING)
    refused = new.gatepost("up")
    assert refused.returncode == 1
    assert "the gateway 'old' on third (gatepost 0.1) runs with schema 1" in refused.stderr, refused.stderr


def _shared(cluster: Cluster) -> dict[str, str]:
    env = cluster["a"].env
    names = ("store_url", "groups_place", "groups_shared_folder")
    return {"store_unsafe": "true", **{each: env[f"GATEPOST_{each.upper()}"] for each in names}}
