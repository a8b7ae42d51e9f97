"""New files of the owner's alone: keys, tokens, backups."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gatepost.core.errors import Invalid, SetupError
from gatepost.core.files.untrusted_files import remove_folder


@contextmanager
def make_private_file(option: str, path: Path) -> Iterator[BinaryIO]:
    """Make a file that nobody else can read. It is on the disk when the block ends, and gone again if nothing came of
    it."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Invalid(option, f"{path} is there already; name another, or remove it") from None
    except FileNotFoundError:
        raise Invalid(option, f"there is no folder {path.parent}; make it, or name another place") from None
    except OSError as error:
        raise SetupError(f"{path} cannot be made: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink()
        raise


UNDER_WAY = ".gatepost-part-"  # how the names of files begin that are not done
LEFT_S = 60.0  # a file is locked by its maker from its first moments on


@contextmanager
def make_whole_file(option: str, path: Path) -> Iterator[BinaryIO]:
    """The same for a file that others must never see in part: it takes its name when the block ends. Leftovers of a
    maker that was killed are removed."""
    if path.exists():
        raise Invalid(option, f"{path} is there already; name another, or remove it")
    remove_leftovers(path.parent)
    part = path.with_name(f"{UNDER_WAY}{os.getpid()}-{path.name}")
    with make_private_file(option, part) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
        file.flush()
        os.fsync(file.fileno())
        _publish(option, part, path)
    part.unlink(missing_ok=True)
    sync_folder(path.parent)


def _publish(option: str, part: Path, path: Path) -> None:
    """Give a file its name, unless somebody was faster."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise Invalid(option, f"{path} is there already; name another, or remove it") from None
    except OSError:  # a file system without a second name for a file
        os.rename(part, path)
        part.touch()  # the caller removes it


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def make_private_folder(parent: Path) -> Iterator[Path]:
    """Make a folder for files on their way, gone when the block ends."""
    remove_leftovers(parent)
    folder = parent / f"{UNDER_WAY}{os.getpid()}"
    try:
        folder.mkdir(mode=0o700)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SetupError(f"{folder} cannot be made: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(handle)
        remove_folder(folder)


def remove_leftovers(folder: Path) -> None:
    """Remove what makers left that were killed. One that lives holds its lock."""
    for path in folder.glob(f"{UNDER_WAY}*"):
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if time.time() - os.fstat(handle).st_mtime < LEFT_S:
                continue
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_folder(path) if path.is_dir() else path.unlink()
        except OSError:
            continue  # its maker lives, or removed it
        finally:
            os.close(handle)
