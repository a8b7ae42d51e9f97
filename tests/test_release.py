"""`make release`: everything is checked before anything is changed."""

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
CHANGES = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n\n## [0.1.0] - 2026-01-01\n\n- The first.\n"


@pytest.fixture(scope="module")
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / "scripts" / "release.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_changelog_gets_a_section_and_an_empty_one_for_what_comes_next(release: ModuleType) -> None:
    cut = release.cut_changelog(CHANGES, "0.2.0", "2026-02-03")

    assert "## [Unreleased]\n\n## [0.2.0] - 2026-02-03\n\n### Added\n\n- A thing.\n\n## [0.1.0]" in cut


def test_an_empty_changelog_is_no_release(release: ModuleType) -> None:
    with pytest.raises(release.ReleaseError, match="nothing under"):
        release.cut_changelog(CHANGES.replace("### Added\n\n- A thing.\n\n", ""), "0.2.0", "2026-02-03")


@pytest.mark.parametrize(("wanted", "why"), [("", "no version"), ("1.0", "no version"), ("0.1.0", "not newer")])
def test_a_version_must_be_one_and_newer(release: ModuleType, wanted: str, why: str) -> None:
    with pytest.raises(release.ReleaseError, match=why):
        release.check_version(wanted, "0.1.0")


def test_ten_is_newer_than_nine(release: ModuleType) -> None:
    release.check_version("0.10.0", "0.9.9")


@pytest.mark.parametrize(("folder", "package"), [(".", "gatepost"), ("testing", "gatepost_testing")])
def test_a_gateway_is_shipped_without_the_doubles_and_these_without_it(
    tmp_path: Path, folder: str, package: str
) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT / folder, check=True, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    names = zipfile.ZipFile(wheel).namelist()
    beside = (".dist-info/", ".data/data/share/")  # the changelog, which an upgrade reads, and what `make docs` prints
    assert {name.partition("/")[0] for name in names if not any(each in name for each in beside)} == {package}
    shared = {
        path.relative_to(ROOT / "ops").as_posix() for path in (ROOT / "ops" / "share").rglob("*") if path.is_file()
    }
    brought = {name.partition(".data/data/")[2] for name in names if ".data/" in name}
    assert brought == ({*shared, "share/gatepost/CHANGELOG.md"} if package == "gatepost" else set())
    assert f"{package}/py.typed" in names and not [name for name in names if "/test_" in name]


@pytest.mark.slow
def test_a_refused_release_changes_nothing_and_says_why(tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", tmp_path / "c"], check=True)
    (tmp_path / "c" / "scripts" / "release.py").write_bytes((ROOT / "scripts" / "release.py").read_bytes())
    (tmp_path / "c" / "untracked").touch()

    done = subprocess.run(
        [sys.executable, "scripts/release.py", "99.0.0"], cwd=tmp_path / "c", capture_output=True, text=True
    )

    assert done.returncode == 1
    assert "commit or stash" in done.stderr and "Traceback" not in done.stderr
    told = subprocess.run(
        ["git", "diff", "--name-only", "--", "src", "CHANGELOG.md"], cwd=tmp_path / "c", capture_output=True, text=True
    )
    assert told.stdout == ""
