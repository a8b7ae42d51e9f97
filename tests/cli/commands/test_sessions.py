"""`gatepost session` against a running gateway."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import block_until


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    """Its agent answers a second time only if its conversation holds the first."""
    daemon = DaemonProcess(tmp_path / "home", sandbox_kind="process", sessions_provider="scripted")
    script = ScriptBuilder().turn("what is it", once=True).say("a plum").turn("what is it").say("a plum, as I said")
    script.write(tmp_path / "home" / "groups" / "home")
    with daemon as running:
        yield running


@pytest.mark.slow
def test_a_session_is_copied_into_an_agent_that_knows_what_it_knows(daemon: DaemonProcess) -> None:
    daemon.gatepost("chat", "-m", "what is it", "--wait")
    (session,) = daemon.json("session", "list")
    copied = daemon.json("session", "copy", session["id"], "--title", "Twin")
    answer = daemon.gatepost("agent", "send", copied["session_id"], "what is it")
    (twin,) = daemon.json("agent", "ls")

    assert (copied["how"], copied["parent_id"]) == ("copied", session["id"])
    assert answer.stdout.strip() == "a plum, as I said"
    assert twin["title"] == "Twin"
    assert daemon.read_audit("session.copy")[0]["verdict"] == "done"


@pytest.mark.slow
def test_a_session_is_forked_listed_and_closed(daemon: DaemonProcess) -> None:
    daemon.gatepost("chat", "-m", "what is it", "--wait")
    (session,) = daemon.json("session", "list")
    forked = daemon.gatepost("session", "fork", session["id"], "side")
    again = daemon.gatepost("session", "fork", session["id"], "side")
    side = next(each for each in daemon.json("session", "list") if each["thread"] == "side")
    replaced = daemon.json("session", "fork", session["id"], "side", "--force")
    closed = daemon.gatepost("session", "close", replaced["session_id"])
    listed = daemon.gatepost("session", "list").stdout

    assert f"session {side['id']} goes on in topic side, with a copy of the conversation" in forked.stdout
    assert again.returncode == 1 and "gatepost: topic: topic_exists: there is a conversation 'side'" in again.stderr
    assert "choose another topic, or replace it with --force" in again.stderr
    assert replaced["replaced"] == side["id"] and replaced["session_id"] != side["id"]
    assert "is closed" in closed.stdout
    assert session["id"] in listed and replaced["session_id"] not in listed


@pytest.mark.slow
def test_what_is_not_there_is_named_with_the_way_out(daemon: DaemonProcess) -> None:
    closed = daemon.gatepost("session", "close", "s-nobody")
    listed = daemon.gatepost("session", "list", "--folder", "hom")

    assert closed.returncode == 1 and "no live session named 's-nobody'; `gatepost session list`" in closed.stderr
    assert listed.returncode == 1 and "no group named 'hom'; did you mean 'home'?" in listed.stderr


@pytest.mark.slow
def test_what_is_not_there_is_not_forked_and_without_a_gateway_nothing_is(daemon: DaemonProcess) -> None:
    unknown = daemon.gatepost("session", "fork", "s-nobody", "side")
    daemon.stop()
    down = daemon.gatepost("session", "fork", "s-nobody", "side")

    assert unknown.returncode == 1 and "no live session named 's-nobody'; `gatepost session list`" in unknown.stderr
    assert down.returncode != 0 and "gatepost up" in down.stderr


@pytest.mark.slow
def test_a_session_is_replayed_and_both_are_shown_side_by_side(daemon: DaemonProcess, tmp_path: Path) -> None:
    daemon.gatepost("chat", "-m", "what is it", "--wait")
    daemon.gatepost("chat", "-m", "what is it", "--wait")
    (session,) = daemon.json("session", "list")
    (tmp_path / "new.md").write_text("Be stern.")
    given = ("--agents-md", str(tmp_path / "new.md"), "--skill", f"pr-review={tmp_path / 'new.md'}", "--turns", "2")
    made = daemon.json("session", "replay", session["id"], *given)
    block_until(lambda: daemon.gatepost("session", "compare", made["session_id"]).returncode == 0, "the replay")
    shown = daemon.gatepost("session", "compare", made["session_id"]).stdout
    found = daemon.json("session", "compare", made["session_id"])

    assert found["source"] == session["id"] and found["finished"]
    assert found["changes"] == {"AGENTS.md": "changed", "skills/pr-review": "changed"}
    assert [each["replayed"]["answer"] for each in found["turns"]] == ["a plum", "a plum, as I said"]
    assert "turn 2: what is it" in shown and "replayed (done, $0.0000, " in shown
    assert "Be stern." not in str(daemon.read_audit("session.replay"))


def test_a_replay_of_nothing_or_with_a_file_that_is_not_there_is_refused(daemon: DaemonProcess) -> None:
    unknown = daemon.gatepost("session", "replay", "s-nobody")
    no_file = daemon.gatepost("session", "replay", "s-nobody", "--agents-md", "/nowhere/new.md")
    no_replay = daemon.gatepost("session", "compare", "s-nobody")

    assert unknown.returncode == 1 and "no session named 's-nobody'" in unknown.stderr
    assert no_file.returncode == 1 and "/nowhere/new.md cannot be read" in no_file.stderr
    assert no_replay.returncode == 1 and "no replay named 's-nobody'" in no_replay.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--skill", "review"), "--skill: 'review' is not NAME=VALUE"),
        (("--skill", "review=none.md"), "--skill: none.md cannot be read: No such file or directory"),
        (("--agents-md", "none.md"), "--agents-md: none.md cannot be read: No such file or directory"),
    ],
)
def test_a_replay_names_the_option_whose_file_it_cannot_read(
    daemon: DaemonProcess, given: tuple[str, ...], told: str
) -> None:
    refused = daemon.gatepost("session", "replay", "s-nobody", *given)
    assert refused.returncode == 1 and refused.stderr == f"gatepost: {told}\n"
