"""`gatepost uninstall`: what is found on a machine, what is removed, and what stays."""

import json
import sys
from pathlib import Path

import pytest

from gatepost.cli.installation.installed_parts import PIPX, UV, find_remover, list_services
from gatepost.cli.installation.service_units import ServicePlan, parse_home, render_unit, write_unit
from gatepost.cli.program import run
from gatepost.core import home as homes
from gatepost.core.process import home_lock
from gatepost.core.records import replace
from gatepost.store.gateways.machine_memory import MachineMemory, MemoryFile, get_memory_path

COMPLETION = "complete --command gatepost --arguments '(env _GATEPOST_COMPLETE=fish_complete gatepost)'\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with a home, a service, completions, and a manager of services that agrees to everything."""
    home = tmp_path / "our home"
    home.mkdir()
    (home / "gatepost.db").write_text("kept")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    (tmp_path / "bin" / "systemctl").chmod(0o755)
    for name, value in (
        ("HOME", tmp_path),
        ("XDG_CONFIG_HOME", tmp_path / ".config"),
        ("PATH", f"{tmp_path}/bin:/bin"),
    ):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "platform", "linux")
    plan = ServicePlan(name="gatepost", home=home, system=False, path="/bin")
    write_unit(plan, render_unit(plan))
    other = replace(plan, name="other")
    write_unit(other, render_unit(other).replace(sys.executable, "/elsewhere/bin/python"))
    completion = tmp_path / ".config" / "fish" / "completions" / "gatepost.fish"
    completion.parent.mkdir(parents=True)
    completion.write_text(COMPLETION)
    (tmp_path / ".bashrc").write_text('alias ll="ls -l"\neval "$(_GATEPOST_COMPLETE=bash_source gatepost)"\n')
    return tmp_path


def list_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_without_yes_everything_is_said_and_nothing_is_changed(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = list_files(machine)
    assert run(["--home", str(machine / "our home"), "uninstall"]) == 0
    said = capsys.readouterr().out
    assert (
        f"service      {machine}/.config/systemd/user/gatepost.service  `gatepost uninstall --yes` removes it" in said
    )
    assert f"by hand: everything that was said and kept is there; rm -rf '{machine}/our home'" in said
    assert f"{machine}/.bashrc  by hand: remove its line 2" in said and "environment" in said
    assert "other.service" not in said and list_files(machine) == before


def test_every_home_that_was_started_here_is_named(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, name in enumerate(("one", "two", "gone", "one")):
        memory = MachineMemory(home=str(machine / name), file="1:0", lives=(), mark=0)
        assert MemoryFile(get_memory_path(machine / "state" / "gatepost", f"i-{number}")).save(memory)
    for name in ("one", "two"):
        (machine / name).mkdir()
    assert run(["--home", str(machine / "our home"), "uninstall", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    homes_found = [each["place"] for each in found if each["kind"] == "home"]
    assert homes_found == [str(machine / name) for name in ("our home", "one", "two")]
    [known] = [each for each in found if each["kind"] == "known-stores"]
    assert known["place"] == str(machine / "state" / "gatepost") and "restored or copied store" in known["by_hand"]


def test_yes_removes_services_and_completions_and_never_a_home(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = list_files(machine)
    assert run(["--home", str(machine / "our home"), "uninstall", "--yes"]) == 0
    assert "gatepost.service  is gone" in capsys.readouterr().out
    assert (machine / "asked").read_text() == "--user disable --now gatepost.service\n"
    gone = {".config/systemd/user/gatepost.service", ".config/fish/completions/gatepost.fish"}
    assert before - list_files(machine) == gone
    assert run(["--home", str(machine / "our home"), "uninstall", "--json"]) == 0
    left = json.loads(capsys.readouterr().out)
    assert {"home", "completion", "environment"} <= {each["kind"] for each in left}
    assert [each for each in left if not each["by_hand"]] == []


def test_a_gateway_that_runs_without_a_service_is_not_taken_apart(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, elsewhere = list_files(machine), homes.Home(machine / "elsewhere")
    elsewhere.prepare()
    with home_lock.acquire(elsewhere, role=home_lock.DAEMON):
        assert run(["--home", str(elsewhere.path), "uninstall", "--yes"]) == 1
    assert "`gatepost down` first" in capsys.readouterr().err
    assert before <= list_files(machine)


@pytest.mark.parametrize("launchd", [False, True])
def test_the_home_of_a_unit_is_read_as_it_was_written(launchd: bool) -> None:
    plan = ServicePlan(name="x", home=Path("/srv/our home/100%$x"), system=False, launchd=launchd)
    assert parse_home(render_unit(plan)) == plan.home


def test_a_service_is_found_with_its_name_and_home(machine: Path) -> None:
    (found,) = list_services()
    assert (found.name, found.home, found.system) == ("gatepost", machine / "our home", False)


def test_an_environment_is_removed_by_what_made_it(tmp_path: Path) -> None:
    assert find_remover(tmp_path).startswith(f"rm -rf {tmp_path}")
    (tmp_path / UV).touch()
    assert find_remover(tmp_path) == "uv tool uninstall gatepost"
    kept = tmp_path / "env.versions" / "before-upgrades"
    kept.mkdir(parents=True)
    (kept / PIPX).touch()
    assert find_remover(tmp_path / "env") == "pipx uninstall gatepost"
