"""The proof of a backup: it is put back for a try, and an agent answers.

It is unpacked into a folder of its own. A gateway starts there and brings it up to date. Its ledger and its audit log
are checked.

That gateway reaches nobody: it has no key ring, no settings, plug-ins or channels of the home, nothing of our
environment, and its tasks, budgets and switches are off. The agent is the demo, which asks no model.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from gatepost import __version__
from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError, SetupError
from gatepost.core.files.untrusted_files import remove_folder
from gatepost.core.home import Home
from gatepost.serve.backups.backup_folder import BackupProof
from gatepost.serve.backups.restoring import unpack
from gatepost.store.engine.sqlite_copy import silence_copy

LONGEST_STEP_S = 600.0
START_S, STOP_S = 300.0, 30.0  # a store of an old version is brought up to date meanwhile
LOOK_S = 0.2
LONGEST_SAID = 300
ROOM = 2  # a backup is unpacked to so many times its size, at least
WORDS = "Hello. This is a trial of a backup."
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
OF_OURS = ("VIRTUAL_ENV", "PYTHONPATH")  # where our own modules are, and not those of another version


class _Trial(Struct, frozen=True):
    home: Home
    python: Path  # of the version that tries it


def prove(source: Path, identity: str = "", python: Path = Path(sys.executable)) -> BackupProof:
    """`python`: of the version that tries it. It blocks, for seconds to minutes. Failures are in the answer."""
    begun, steps = time.monotonic(), list[str]()
    trouble = ""
    try:
        with _make_home(source) as home:
            files = unpack(source, home.path, identity).files
            steps.append(f"{files} files unpacked")
            _silence(home)
            trial = _Trial(home, python)
            with _running(trial):
                steps.append("the store is whole and up to date")
                _check(trial, "ledger", "check")
                steps.append("the ledger accounts for every message")
                _check(trial, "audit", "verify")
                steps.append("the audit log holds")
                _check(trial, "agent", "run", WORDS, "--provider", "demo", "--timeout", "120")
                steps.append("an agent answered")
    except (GatepostError, OSError) as error:
        trouble = str(error)[:LONGEST_SAID]
    return BackupProof(
        at=SystemClock().now(),
        trouble=trouble,
        seconds=round(time.monotonic() - begun, 2),
        version=__version__,
        steps=tuple(steps),
    )


@contextmanager
def _make_home(source: Path) -> Iterator[Home]:
    """Find a folder with room, and with a path that is short enough for sockets: beside the temporary files, or the
    backup."""
    wanted, places = source.stat().st_size * ROOM, (Path(tempfile.gettempdir()), source.parent)
    for place in places:
        if shutil.disk_usage(place).free < wanted:
            continue
        home = Home(Path(tempfile.mkdtemp(prefix="gp-", dir=place)))
        try:
            home.check_length()
            yield home
            return
        finally:
            remove_folder(home.path)
    raise SetupError(f"neither {places[0]} nor {places[1]} has room for a trial; it takes {wanted:,} bytes or more")


def _silence(home: Home) -> None:
    shutil.rmtree(home.plugins, ignore_errors=True)
    for path in home.path.iterdir():
        if path.is_file() and path != home.store:
            path.unlink()
    (home.path / "gatepost.toml").write_text(
        f'[restore]\nstate_folder = "{home.path / "state"}"\n[sessions]\nprovider = "demo"\n'
    )
    silence_copy(home.store)


@contextmanager
def _running(trial: _Trial) -> Iterator[None]:
    """A gateway of the trial's home, on sockets in it alone."""
    words = _command(trial, "up", "--listen", f"unix:{trial.home.path / 'web.sock'}")
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, env=_make_environment(trial)
        )
        try:
            _wait_until_ready(trial, process, said.fileno())
            yield
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            process.kill()
            process.wait()


def _wait_until_ready(trial: _Trial, process: "subprocess.Popen[bytes]", said: int) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SetupError(f"a gateway does not start with it: {_read_end(said)}")
        if trial.home.control.exists() and _run(trial, "status", "--json").returncode == 0:
            return
        time.sleep(LOOK_S)
    raise SetupError(f"a gateway was not ready with it after {START_S:g} s")


def _read_end(fd: int) -> str:
    size = os.fstat(fd).st_size
    text = os.pread(fd, LONGEST_SAID, max(0, size - LONGEST_SAID)).decode(errors="replace")
    return " ".join(text.split())


def _check(trial: _Trial, *words: str) -> None:
    done = _run(trial, *words)
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).decode(errors="replace").split())[:LONGEST_SAID]
        raise SetupError(f"`gatepost {' '.join(words[:2])}` fails with it: {said}")


def _run(trial: _Trial, *words: str) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(
            _command(trial, *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=_make_environment(trial),
            timeout=LONGEST_STEP_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SetupError(f"`gatepost {words[0]}` was not done with it after {LONGEST_STEP_S:g} s") from None


def _command(trial: _Trial, *words: str) -> list[str]:
    return [str(trial.python), "-m", "gatepost", "--home", str(trial.home.path), *words]


def _make_environment(trial: _Trial) -> dict[str, str]:
    names = (*KEPT, *OF_OURS) if trial.python == Path(sys.executable) else KEPT
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return kept | {"XDG_STATE_HOME": str(trial.home.path / "state")}
