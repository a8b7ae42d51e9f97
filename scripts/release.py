"""`make release VERSION=X.Y.Z`: version, changelog section, sdist and wheel, a trial of the wheel, the files beside
them (`release_files`), commit and tag.

Nothing is pushed. Everything is checked before anything is changed, and a failure puts the files back.
"""

import datetime
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import release_files
from lock import LOCKS

ROOT = Path(__file__).resolve().parent.parent
VERSION_FILE, CHANGELOG = ROOT / "src" / "gatepost" / "__init__.py", ROOT / "CHANGELOG.md"
NUMBER = re.compile(r"\d+\.\d+\.\d+")


class ReleaseError(Exception):
    """Why there is no release, for whoever asked for it."""


def current_version(text: str) -> str:
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise ReleaseError(f"{VERSION_FILE.name} names no version")
    return found[1]


def check_version(wanted: str, current: str) -> None:
    if NUMBER.fullmatch(wanted) is None:
        raise ReleaseError(f"VERSION={wanted or '?'} is no version like 0.3.0")
    if [int(each) for each in wanted.split(".")] <= [int(each) for each in current.split(".")]:
        raise ReleaseError(f"{wanted} is not newer than {current}")


def cut_changelog(text: str, version: str, day: str) -> str:
    """The changelog with a section for the version, and an empty one for what comes next."""
    head, marker, rest = text.partition("## [Unreleased]\n")
    entries = rest.partition("\n## [")[0].strip()
    if not marker or not entries:
        raise ReleaseError("CHANGELOG.md has nothing under [Unreleased]")
    return f"{head}{marker}\n## [{version}] - {day}\n{rest}"


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run([str(each) for each in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"{' '.join(str(each) for each in command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def try_wheel(wheel: Path, version: str) -> None:
    """Installed where nothing of the checkout is, it tells its version and lists its commands."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(sys.executable, "-m", "venv", place / "venv")
        run(place / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", wheel)
        told = run(place / "venv" / "bin" / "gatepost", "--version", cwd=place)
        if told.strip() != f"gatepost {version}":
            raise ReleaseError(f"the installed wheel says {told.strip()!r}")
        run(place / "venv" / "bin" / "gatepost", "--home", place / "home", "doctor", "--help", cwd=place)


def build(folder: Path) -> list[Path]:
    run(sys.executable, "-m", "pip", "install", "--quiet", "build")
    run(sys.executable, "-m", "build", "--outdir", folder)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT / "testing")  # the doubles, for extensions
    return sorted(folder.iterdir())


def add_files(wheel: Path, changelog: str, version: str, day: str) -> None:
    locks = [ROOT / name for name in LOCKS]
    try:
        release_files.write_beside(wheel, locks, changelog, version, f"{day}T00:00:00Z")
    except ValueError as error:
        raise ReleaseError(str(error)) from None


def release(version: str, day: str) -> None:
    code, changes = VERSION_FILE.read_text(encoding="utf-8"), CHANGELOG.read_text(encoding="utf-8")
    current = current_version(code)
    check_version(version, current)
    if run("git", "status", "--porcelain"):
        raise ReleaseError("the work tree has changes; commit or stash them first")
    section = cut_changelog(changes, version, day)
    if version in {tag.removeprefix("v") for tag in run("git", "tag").split()}:
        raise ReleaseError(f"there is a tag v{version} already")
    try:
        VERSION_FILE.write_text(code.replace(f'"{current}"', f'"{version}"'), encoding="utf-8")
        CHANGELOG.write_text(section, encoding="utf-8")
        made = build(ROOT / "dist" / version)
        wheel = next(each for each in made if each.match("gatepost-*.whl"))
        try_wheel(wheel, version)
        add_files(wheel, section, version, day)
    except BaseException:
        VERSION_FILE.write_text(code, encoding="utf-8")
        CHANGELOG.write_text(changes, encoding="utf-8")
        raise
    run("git", "commit", "--quiet", "-am", f"Release {version}")
    run("git", "tag", "-a", f"v{version}", "-m", f"Gatepost {version}")
    names = ", ".join(sorted(each.name for each in wheel.parent.iterdir()))
    print(f"v{version} is committed and tagged; dist/{version} has {names}")


def main() -> int:
    try:
        today = datetime.datetime.now(datetime.UTC).date()
        release(sys.argv[1] if len(sys.argv) > 1 else "", today.isoformat())
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
