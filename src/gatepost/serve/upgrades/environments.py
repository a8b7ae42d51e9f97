"""The environment that the program runs in, and others beside it: one for each version.

The first switch makes a link of the environment's place, and moves what was there below `<place>.versions`. It is one
exchange of two names, as is each later switch: at every moment the place is a whole version. Programs, units of
services and links of pipx and uv name the place, so they follow.
"""

import ctypes
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import gatepost
from gatepost.core.errors import Invalid, SetupError
from gatepost.core.files.private_files import make_private_folder, sync_folder
from gatepost.core.home import expand_user
from gatepost.core.process.container import ContainerEngine, find_engine

VERSIONS, FIRST = ".versions", "before-upgrades"
IMAGE_MARK = ".image"  # in the environment of an image
CLAIM = ".claimed"  # in an environment that the place has never led to
INSTALL_S = 1800.0
OPEN = 0o755  # whatever our umask is: the users of sandboxes run the Python and bwrap of a version
LONGEST_SAID = 500
CHANGES = "CHANGELOG.md"
IMAGE = (
    "this runs in an image: `gatepost backup create --prove`, then start a container of the new image on the same"
    " volume; the way back is the old image and `gatepost backup restore`"
)
NO_INDEX = (
    "it is neither a wheel, nor a folder with pyproject.toml, nor a commit of a clone that this runs from. Gatepost is"
    " on no index that could be asked for a version"
)
_EXCHANGE, _AT_FDCWD = 2, -100


def is_image(prefix: str = sys.prefix, base: str = sys.base_prefix, engine: ContainerEngine | None = None) -> bool:
    """Return True if this is part of an image, where nothing that is changed would stay."""
    if Path(prefix, IMAGE_MARK).exists():
        return True
    return prefix == base and (find_engine() if engine is None else engine) is not ContainerEngine.NONE


def find_environment(
    prefix: str = sys.prefix, base: str = sys.base_prefix, engine: ContainerEngine | None = None
) -> Path:
    """Return the place that programs name. Raise SetupError where there is none to switch."""
    if is_image(prefix, base, engine):
        raise SetupError(IMAGE)
    if prefix == base:
        raise SetupError(
            "this Python is the machine's own, and not an environment of Gatepost: install it by pipx, uv or `make run`"
        )
    place = Path(prefix).absolute()
    if place.parent.name.endswith(VERSIONS):
        return place.parent.with_name(place.parent.name.removesuffix(VERSIONS))
    return place


def get_python(environment: Path) -> Path:
    return environment / "bin" / "python"


def find_clone() -> Path | None:
    """Return the clone that this version is run from; None if it was installed."""
    root = Path(gatepost.__file__).parents[2]
    return root if (root / ".git").exists() and (root / "pyproject.toml").is_file() else None


def build(place: Path, source: str, say: Callable[[str], None]) -> Path:
    """Install a version beside the others: a wheel, a folder, or a commit of the clone. Return its environment. Long
    steps are announced, as pip prints nothing."""
    versions = place.with_name(place.name + VERSIONS)
    _make_folder(versions)
    remove_abandoned(place)
    new = versions / _choose_name(versions)
    with make_private_folder(versions) as folder:
        given = _find_source(source, folder)
        say(f"installing {source} beside this version (a minute or two)")
        try:
            claim(new, folder)
            _run([sys.executable, "-m", "venv", str(new)], "an environment cannot be made; install python3-venv")
            wanted = f"{given}[{','.join(list_extras())}]" if list_extras() else str(given)
            pip = [str(get_python(new)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, wanted], f"{source} cannot be installed")
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
    return new


def claim(environment: Path, folder: Path) -> None:
    """Make an environment that is this process's until the place leads to it, or until this process ends. `folder`: on
    the same disk, for the mark: nobody sees it there before it is locked."""
    environment.mkdir()
    environment.chmod(OPEN)
    handle = os.open(folder / CLAIM, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)  # never given back
    os.rename(folder / CLAIM, environment / CLAIM)


def remove_abandoned(place: Path) -> None:
    """Remove what processes claimed that were killed. One that lives holds its lock."""
    for mark in place.with_name(place.name + VERSIONS).glob(f"*/{CLAIM}"):
        with suppress(OSError):
            handle = os.open(mark, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(mark.parent, place)
            finally:
                os.close(handle)


def _make_folder(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    folder.chmod(OPEN)


def _choose_name(versions: Path) -> str:
    numbers = [int(each.name) for each in versions.iterdir() if each.name.isdecimal()]
    return str(max(numbers, default=0) + 1)


def _find_source(source: str, folder: Path) -> Path:
    if not source or source.startswith("-"):
        raise Invalid("--to", f"{source[:80]!r} cannot be installed: {NO_INDEX}")
    given = expand_user(source)
    if given.suffix == ".whl" and given.is_file():
        return given.absolute()
    if (given / "pyproject.toml").is_file():
        return given.absolute()
    clone = find_clone()
    if clone is None:
        raise Invalid("--to", f"{source[:80]!r} cannot be installed: {NO_INDEX}")
    commit = subprocess.run(
        ["git", "-C", str(clone), "rev-parse", "--verify", "--quiet", f"{source}^{{commit}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if commit.returncode:
        raise Invalid("--to", f"{source[:80]!r} cannot be installed: {NO_INDEX}")
    target = folder / "source"
    target.mkdir()
    packed = folder / "source.tar"
    _run(["git", "-C", str(clone), "archive", "-o", str(packed), commit.stdout.strip()], f"{source} cannot be read")
    shutil.unpack_archive(packed, target, filter="data")
    return target


def list_extras() -> list[str]:
    """Return the extras that are installed here, so that the new version has them, too."""
    try:
        needed = metadata.requires("gatepost") or []
        extras = metadata.metadata("gatepost").get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        return []
    return [each for each in extras if all(map(_is_installed, _list_names(needed, each)))]


def _list_names(needed: Sequence[str], extra: str) -> list[str]:
    marks = (f"extra == '{extra}'", f'extra == "{extra}"')
    found = [each.partition(";")[0] for each in needed if any(mark in each for mark in marks)]
    return ["".join(c if c.isalnum() or c in "-_." else " " for c in each).split()[0] for each in found]


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _run(words: list[str], trouble: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_S, check=False, umask=0o022)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{trouble}: {error}") from None
    if done.returncode:
        raise SetupError(f"{trouble}: {' '.join((done.stderr or done.stdout).split())[-LONGEST_SAID:]}")
    return done.stdout


def find_present(place: Path) -> Path:
    """Return the environment that the place is or leads to."""
    return Path(os.readlink(place)) if place.is_symlink() else place


def keep_present(place: Path) -> Path:
    """Make a link of the place, if it is none yet, and return the environment that it leads to. It is one step: the
    link is made where the environment will lie, and the two exchange their names."""
    if place.is_symlink():
        return find_present(place)
    versions = place.with_name(place.name + VERSIONS)
    _make_folder(versions)
    kept = versions / FIRST
    with suppress(FileNotFoundError):
        kept.unlink()  # of an attempt that did not come to the exchange
    os.symlink(kept, kept)
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(place), os.fsencode(kept)
    exchange = getattr(libc, "renameat2", None)
    if exchange is None or exchange(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE) != 0:
        why = os.strerror(ctypes.get_errno()) if exchange is not None else "this system cannot exchange two names"
        kept.unlink()
        raise SetupError(f"{place} cannot be switched: {why}")
    sync_folder(place.parent)
    return kept


def switch(place: Path, environment: Path) -> None:
    """Lead the place to another environment, in one step."""
    new = place.with_name(f".{place.name}.new")
    new.unlink(missing_ok=True)
    os.symlink(environment, new)
    os.replace(new, place)
    sync_folder(place.parent)
    (environment / CLAIM).unlink(missing_ok=True)


def remove(environment: Path, place: Path) -> None:
    """Remove a version that nobody uses."""
    if environment.parent == place.with_name(place.name + VERSIONS) and environment != find_present(place):
        shutil.rmtree(environment, ignore_errors=True)


def read_changes(environment: Path | None = None) -> str:
    """Return the changelog of an environment; of this version without one. '' if it has none."""
    clone = find_clone() if environment is None else None
    path = clone / CHANGES if clone else (environment or Path(sys.prefix)) / "share" / "gatepost" / CHANGES
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def list_changes(new: str, old: str) -> list[str]:
    """Return the lines of a changelog that an older one does not have."""
    known = set(old.splitlines())
    return [line for line in new.splitlines() if line.strip() and line not in known]
