"""`gatepost channel emulate`: it prints where to write and how to add the channel, and ends with Ctrl-C."""

import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from gatepost.cli.channel_emulation import emulate, render_command
from gatepost.core.errors import Invalid, NotFound
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import PATIENCE_S, block_until


def test_without_a_kind_it_lists_what_can_be_played(tmp_path: Path) -> None:
    done = CliRunner().invoke(emulate, [], obj=str(tmp_path / "home"))
    assert done.exit_code == 0
    assert {"discord", "toy"} <= set(done.output.split())


def test_a_kind_that_is_nearly_right_is_guessed(tmp_path: Path) -> None:
    done = CliRunner().invoke(emulate, ["telegrm"], obj=str(tmp_path / "home"))
    assert str(done.exception) == "no emulator named 'telegrm'; did you mean 'telegram'?"


def test_the_example_whose_channel_is_not_there_cannot_be_added(tmp_path: Path) -> None:
    done = CliRunner().invoke(emulate, ["toy", "--add"], obj=str(tmp_path / "home"))
    assert isinstance(done.exception, Invalid) and "--add: there is no channel 'toy' here" in str(done.exception)


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(emulate, ["telegram", "--port", str(port)], obj=str(tmp_path / "home"))
    assert isinstance(done.exception, Invalid)
    assert str(done.exception) == f"--port: 127.0.0.1:{port} is in use"


def test_a_kind_that_nobody_plays_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(emulate, ["pigeon"], obj=str(tmp_path / "home"))
    assert isinstance(done.exception, NotFound)
    assert "there are: " in str(done.exception)


@pytest.mark.slow
@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_the_platform_and_the_page_until_it_is_ended(tmp_path: Path, ends: signal.Signals) -> None:
    command = [sys.executable, "-m", "gatepost", "--home", str(tmp_path / "home"), "channel", "emulate", "toy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr and process.stderr.read()
        printed = "".join(lines)
        platform, page = re.findall(r"http://127\.0\.0\.1:\d+", printed)[:2]
        assert httpx2.get(f"{platform}/me", trust_env=False, timeout=PATIENCE_S).status_code == 401
        assert httpx2.get(f"{page}/state", trust_env=False, timeout=PATIENCE_S).json()["kind"] == "toy"
        assert f"--set api_url={platform} --secret token=-" in printed and "Add the channel with:\n" in printed
        assert "`gatepost pair` prints a code; send it as ann in direct:ann" in printed
        process.send_signal(ends)
        assert process.wait(timeout=PATIENCE_S) == 0
        assert process.stderr is not None and "Traceback" not in process.stderr.read()


def test_what_it_prints_can_be_pasted_into_a_shell() -> None:
    line = render_command("toy", "second toy", {"api_url": "http://x/?a=1&b", "on": True}, {"token": "it's"})
    assert shlex.split(line) == [
        *("printf", "%s\\n", "it's", "|", "gatepost", "channel", "add", "toy", "--name", "second toy"),
        *("--set", "api_url=http://x/?a=1&b", "--set", "on=true", "--secret", "token=-"),
    ]


@pytest.mark.slow
def test_with_add_the_running_gateway_has_the_channel_until_it_is_ended(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "home", sessions_provider="demo") as daemon:
        words = ("--home", str(daemon.home), "channel", "emulate", "telegram", "--add")
        command = [sys.executable, "-m", "gatepost", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stderr is not None
            while "Ctrl-C" not in (line := process.stdout.readline()):
                assert line, process.stderr.read()
            block_until(lambda: find_states(daemon) == {"telegram": "up"}, "the channel to be up")
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=PATIENCE_S) == 0, process.stderr.read()
        assert find_states(daemon) == {}


def find_states(daemon: DaemonProcess) -> dict[str, str]:
    return {each["instance"]: each["state"] for each in daemon.json("channel", "list") if each["kind"] == "telegram"}
