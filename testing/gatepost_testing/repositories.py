"""Real git repositories for tests: an operator's, or what an agent would have done in one."""

import os
import subprocess
from pathlib import Path

_WHO = {"NAME": "Ann", "EMAIL": "ann@example.com"}
_ENV = {f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in _WHO.items()}
# Nobody's own settings, and repositories of whichever owner.
_SETTINGS = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
_ENV |= {**_SETTINGS, "GIT_CONFIG_NOSYSTEM": "1", "HOME": os.devnull}


def git(folder: Path, *words: str) -> str:
    """Return what it says; it must succeed."""
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**os.environ, **_ENV}, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(folder: Path, name: str, text: str) -> str:
    """A file with that text, committed; the commit."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", f"{name}: {text[:40]}")
    return git(folder, "rev-parse", "HEAD")


def repository(folder: Path, branch: str = "main") -> Path:
    """A new one with a first commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", branch)
    commit(folder, "README", "the first words")
    return folder


def bare(source: Path, place: Path) -> Path:
    """A copy as servers have it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    git(source, "clone", "-q", "--bare", str(source), str(place))
    return place
