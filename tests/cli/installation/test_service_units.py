"""Units of the service: what they say, and that systemd itself can read them."""

import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest

from gatepost.cli.installation.service_units import (
    ServicePlan,
    check_name,
    list_steps,
    render_systemd,
    render_unit,
    write_unit,
)
from gatepost.cli.program import run
from gatepost.core.errors import Invalid, SetupError
from gatepost.core.records import replace

PLAN = ServicePlan(name="gatepost", home=Path("/srv/our home/100%$x"), system=True, user="gatepost", path="/usr/bin")


def test_odd_words_of_a_path_reach_the_program_as_they_are() -> None:
    assert '"/srv/our home/100%%$$x" up' in render_systemd(PLAN)
    assert "User=gatepost" in render_systemd(PLAN) and "User=" not in render_systemd(replace(PLAN, user=""))
    mine = render_systemd(replace(PLAN, system=False))
    assert "User=" not in mine and "ProtectSystem" not in mine and "WantedBy=default.target" in mine


@pytest.mark.parametrize("home", ["/srv/a\nExecStart=/bin/true", "/srv/\x1b[2J", "/srv/\udcff"])
def test_a_path_that_is_more_than_a_word_is_refused(home: str) -> None:
    for plan in (
        replace(PLAN, home=Path(home)),
        replace(PLAN, path=home),
        replace(PLAN, home=Path(home), launchd=True),
    ):
        with pytest.raises(Invalid, match="cannot stand in a unit file"):
            render_unit(plan)


def test_a_dollar_is_doubled_in_the_command_alone() -> None:
    """systemd.exec(5): `$` has no meaning in Environment=."""
    lines = render_systemd(replace(PLAN, path="/usr/bin:/opt/$x/bin")).splitlines()
    assert [each for each in lines if "$$" in each and not each.startswith("ExecStart=")] == []
    assert any("/opt/$x/bin" in each for each in lines)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("system", [True, False])
def test_systemd_reads_the_unit_without_a_word(tmp_path: Path, system: bool) -> None:
    unit = tmp_path / "gatepost.service"
    unit.write_text(render_systemd(replace(PLAN, system=system, user="root" if system else "")))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert [line for line in done.stderr.splitlines() if "gatepost.service" in line] == []


def test_the_unit_of_macos_is_a_property_list_that_starts_again_what_fails() -> None:
    plan = replace(PLAN, launchd=True)
    found = plistlib.loads(render_unit(plan).encode())
    assert found["KeepAlive"] == {"SuccessfulExit": False} and found["ProgramArguments"][-1] == "up"
    assert list_steps(plan, "install")[0][:2] == ["launchctl", "bootstrap"]


@pytest.mark.parametrize("name", ["", "-x", "../x", "A", "x.service", "x" * 60])
def test_a_name_is_no_path(name: str) -> None:
    with pytest.raises(Invalid, match="no name of a service"):
        check_name(name)


def test_a_unit_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    plan = replace(PLAN, system=False)
    write_unit(plan, "old")
    write_unit(plan, "new")
    assert plan.file.read_text() == "new" and [each.name for each in plan.file.parent.iterdir()] == [plan.file.name]
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    with pytest.raises(SetupError, match="cannot be written"):
        write_unit(plan, "newest")


def test_where_no_service_manager_answers_nothing_stays_installed_and_the_way_without_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("systemctl", "launchctl"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\necho Failed to connect to bus >&2\nexit 1\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["--home", str(tmp_path / "h"), "service", "install"]) == 1
    said = capsys.readouterr().err
    assert "Failed to connect to bus. Nothing was installed. Without a service, `gatepost up`" in said
    assert [each for each in tmp_path.rglob("gatepost*") if each.is_file()] == []
    for command in ("status", "logs", "restart", "uninstall"):
        assert run(["--home", str(tmp_path / "h"), "service", command]) == 1
        assert "no service of that name was installed; `gatepost service install` does it" in capsys.readouterr().err


def test_what_would_be_done_is_printed_and_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert run(["--home", str(tmp_path / "h"), "service", "install", "--print"]) == 0
    said = capsys.readouterr().out
    assert "Type=notify" in said and "systemctl --user enable --now gatepost.service" in said
    assert list(tmp_path.iterdir()) == []
    assert run(["service", "uninstall"]) == 1 and "no service of that name" in capsys.readouterr().err
    assert run(["service", "install", "--as", "x"]) == 1 and "--system" in capsys.readouterr().err
