"""The checks of this machine: who may read the home, how much room is left, which walls agents get."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.keyring import FILE as KEYRING
from gatepost.flow.reports import SandboxIsolation
from gatepost.serve.backups.restoring import list_left_homes
from gatepost.serve.health.findings import Finding, Mend

OTHERS = 0o66  # to read and to write, for the group and for everybody
CLOSE = Mend("home.close", "Close them to others")
_LEFT = "look whether it is the home of before, and remove it once all is well"
LITTLE_SPACE, NO_SPACE = 1024**3, 100 * 1024**2  # bytes


def check_folder(home: Home) -> Iterator[Finding]:
    try:
        home.check_length()
    except SetupError as error:
        yield Finding("fail", "home", str(error), "move the home to a shorter path")
    if not home.path.is_dir():
        yield Finding("warn", "home", f"{home.path} does not exist yet", "`gatepost up` makes it")
        return
    if home.is_read_only():
        yield Finding(
            "fail", "home", f"the disk of {home.path} can only be read", "`dmesg` may say why; mount it again"
        )
        return
    if not os.access(home.path, os.W_OK | os.X_OK):
        yield Finding("fail", "home", f"{home.path} cannot be written by this user", "run as its owner, or use --home")
        return
    wide = [path for path in list_open_paths(home) if path.name != KEYRING]  # which is told of by itself
    for path in wide:
        yield Finding("warn", "home", f"{path} may be read or written by others", f"chmod go-rw {path}", CLOSE)
    for path in list_left_homes(home.path):
        yield Finding("warn", "home", f"a restore was killed in its last step and left {path}", _LEFT)
    if home.path.is_mount():
        text = f"{home.path} is where a disk or volume is mounted, so no backup can take its place"
        yield Finding(
            "warn", "home", text, f"stop, move everything in it to {home.path / 'home'}, and use that as home"
        )
    if not wide:
        yield Finding("ok", "home", f"{home.path}, closed to others")


def list_open_paths(home: Home) -> list[Path]:
    """Return the private files and folders of a home that others may read or write."""
    every = (home.path, *_private_paths(home))
    return [path for path in every if path.exists() and stat.S_IMODE(path.stat().st_mode) & OTHERS]


def close_to_others(home: Home) -> list[Path]:
    """Take the rights of others to private files and folders away. Return those that had some."""
    opened = list_open_paths(home)
    for path in opened:
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~OTHERS)
    return opened


def _private_paths(home: Home) -> tuple[Path, ...]:
    files = (home.store, home.lock, home.pid_file, home.path / "gatepost.toml", home.path / KEYRING)
    return (*files, home.logs, home.media)


def check_space(home: Home) -> Iterator[Finding]:
    place = next(path for path in (home.path, *home.path.parents) if path.exists())
    free = shutil.disk_usage(place).free
    text = f"{free / 1024**3:.1f} GB free"
    if free < NO_SPACE:
        yield Finding("fail", "disk", text, f"free some space below {place}")
    elif free < LITTLE_SPACE:
        yield Finding("warn", "disk", text, f"free some space below {place}")
    else:
        yield Finding("ok", "disk", text)


def check_walls(walls: SandboxIsolation) -> Iterator[Finding]:
    if not walls.kind:
        yield Finding("fail", "sandbox", f"agents other than the demo cannot run: {walls.trouble}")
    elif not walls.isolated:
        yield Finding(
            "warn", "sandbox", f"agents run in {walls.kind!r}, without any walls", "set sandbox.kind to bubblewrap"
        )
