"""`make release`: everything is checked before anything is changed."""

import hashlib
import importlib
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gatepost import __version__

ROOT = Path(__file__).resolve().parent.parent
CHANGES = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n\n## [0.1.0] - 2026-01-01\n\n- The first.\n"


VALIDATOR = Path(sys.prefix) / "programs" / "cyclonedx" / "bin" / "python"
VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
validator = JsonStrictValidator(SchemaVersion.V1_6)
for path in sys.argv[1:]:
    print(*str(validator.validate_str(open(path).read())).splitlines()[:1])
"""


def load_script(name: str) -> ModuleType:
    sys.path.insert(0, str(ROOT / "scripts"))  # scripts import each other
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "scripts"))


@pytest.fixture(scope="module")
def release() -> ModuleType:
    return load_script("release")


@pytest.fixture(scope="module")
def files() -> ModuleType:
    return load_script("release_files")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def beside(files: ModuleType, wheel: Path) -> Path:
    """The folder of a release, with the files beside its wheel."""
    files.write_beside(wheel, sorted(ROOT.glob("requirements*.lock")), CHANGES, "0.1.0", "2026-01-01T00:00:00Z")
    return wheel.parent


def read_bill(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "gatepost-0.1.0.cdx.json").read_text(encoding="utf-8"))
    return found


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
    shared |= {
        f"share/gatepost/{path.relative_to(ROOT).as_posix()}"
        for folder in ("prometheus", "grafana")
        for path in (ROOT / "ops" / folder).iterdir()
    }
    brought = {name.partition(".data/data/")[2] for name in names if ".data/" in name}
    assert brought == ({*shared, "share/gatepost/CHANGELOG.md"} if package == "gatepost" else set())
    assert f"{package}/py.typed" in names and not [name for name in names if "/test_" in name]


def test_the_bill_of_materials_lists_what_a_wheel_needs_as_it_is_locked(beside: Path, wheel: Path) -> None:
    bill = read_bill(beside)
    about = bill["metadata"]["component"]
    assert (bill["bomFormat"], bill["specVersion"], about["name"], about["version"]) == (
        "CycloneDX",
        "1.6",
        "gatepost",
        __version__,
    )
    assert about["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    known = {each["name"]: each for each in bill["components"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    direct = {re.split(r"[^A-Za-z0-9._-]", each)[0].lower() for each in project["dependencies"]}
    assert direct <= known.keys() and {each for each in direct if known[each]["scope"] != "required"} == set()
    assert known["markupsafe"]["scope"] == "required"  # which Jinja needs
    assert known["pyrage"]["scope"] == known["psycopg-binary"]["scope"] == "optional"  # of extras
    assert not {"pytest", "ruff", "hatchling", "zensical"} & known.keys()
    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for each in bill["components"]:
        hashes = [one["content"] for one in each["externalReferences"][0]["hashes"]]
        assert hashes and (each["scope"] == "optional" or f"{each['name']}=={each['version']}" in locked.lower())
        assert each["scope"] == "optional" or all(f"sha256:{one}" in locked for one in hashes)
        assert each["scope"] == "optional" or each["licenses"], each["name"]


def test_each_component_is_reached_from_the_gateway(beside: Path) -> None:
    bill = read_bill(beside)
    graph = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    own = bill["metadata"]["component"]["bom-ref"]
    assert graph.keys() == {own, *(each["bom-ref"] for each in bill["components"])}
    reached, waiting = {own}, [own]
    while waiting:
        new = set(graph[waiting.pop()]) - reached
        reached, waiting = reached | new, [*waiting, *new]
    assert {each["bom-ref"] for each in bill["components"] if each["scope"] == "required"} <= reached


def test_a_locked_version_that_is_not_installed_makes_no_bill(files: ModuleType, wheel: Path, tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("click==0.0.1 \\\n    --hash=sha256:" + "0" * 64 + "\n")
    with pytest.raises(ValueError, match=r"click 0\.0\.1 is locked"):
        files.make_bill(wheel, [lock], "2026-01-01T00:00:00Z")


def test_the_bill_is_the_same_each_time(files: ModuleType, beside: Path, wheel: Path) -> None:
    again = files.make_bill(wheel, sorted(ROOT.glob("requirements*.lock")), "2026-01-01T00:00:00Z")
    assert again == read_bill(beside)


@pytest.mark.slow
@pytest.mark.skipif(not VALIDATOR.exists(), reason="cyclonedx-py is not here: scripts/system_packages.py --all")
def test_the_bill_is_what_cyclonedx_takes(beside: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(read_bill(beside) | {"components": [{"type": "nothing", "name": "one"}]}))
    command = [str(VALIDATOR), "-c", VALIDATE, str(beside / "gatepost-0.1.0.cdx.json"), str(wrong)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert told[0] == "None" and "nothing" in told[1]


def test_the_sums_are_of_every_file_and_the_notes_of_the_version_alone(beside: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=beside, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summed = {line.split("  ")[1] for line in (beside / "SHA256SUMS").read_text().splitlines()}
    assert summed == {each.name for each in beside.iterdir()} - {"SHA256SUMS"}
    assert (beside / "RELEASE_NOTES.md").read_text() == "# Gatepost 0.1.0\n\n2026-01-01\n\n- The first.\n"


def test_notes_of_a_version_that_the_changelog_lacks_are_refused(files: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"no section 0\.3\.0"):
        files.cut_notes(CHANGES, "0.3.0")


def write_program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """With a program of the test's own in the place of pip-audit."""
    found = load_script("audit")
    monkeypatch.setattr(found, "install_apart", lambda *given: True)
    monkeypatch.setattr(found, "PROGRAMS", tmp_path)
    monkeypatch.setattr(found, "MOST_S", 0.5)
    return found


FOUND = {"name": "one", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}
WELL, MISSED = {"name": "two", "version": "2.0", "vulns": []}, {"name": "three", "skip_reason": "not on the index"}
WRITES = 'for each; do case $each in --output=*) cp FOUND "${each#--output=}";; esac; done; exit 1'


@pytest.mark.parametrize(
    ("program", "dependencies", "told", "code"),
    [
        (
            WRITES,
            [FOUND, WELL, MISSED],
            [
                "one 1.0: PYSEC-1, mended in 1.1",
                "three: the service does not know it",
                "audit: 2 packages were looked up, 1 vulnerabilities are known",
            ],
            1,
        ),
        (WRITES, [WELL], ["audit: 1 packages were looked up, 0 vulnerabilities are known"], 0),
        (
            WRITES,
            [MISSED, MISSED],
            ["audit: skipped, because the service that answered knows none of the 2 packages"],
            0,
        ),
        (
            "echo 'no route to host' >&2; exit 1",
            [],
            ["audit: skipped, because no service of advisories could be asked (no route to host)"],
            0,
        ),
        ("exec sleep 60", [], ["audit: skipped, because no service of advisories answered within 0.5 s"], 0),
    ],
)
def test_an_audit_tells_what_is_known_or_by_name_why_nobody_could_be_asked(
    audit: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    program: str,
    dependencies: list[dict[str, Any]],
    told: list[str],
    code: int,
) -> None:
    (tmp_path / "found").write_text(json.dumps({"dependencies": dependencies}))
    path = tmp_path / "pip-audit" / "bin" / "pip-audit"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{program.replace('FOUND', str(tmp_path / 'found'))}\n")
    path.chmod(0o755)
    assert audit.main() == code
    assert capsys.readouterr().out.splitlines() == told


@pytest.mark.slow
def test_a_refused_release_changes_nothing_and_says_why(tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", tmp_path / "c"], check=True)
    for name in ("release.py", "release_files.py"):
        (tmp_path / "c" / "scripts" / name).write_bytes((ROOT / "scripts" / name).read_bytes())
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
