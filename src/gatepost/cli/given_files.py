"""Files that a command is given by name: texts to read, and new files of the owner's alone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gatepost.core.errors import Invalid, SetupError


def read_bytes(option: str, name: str, most: int | None = None) -> bytes:
    """Return the contents of a file. `option`: by which it was named; `most`: bytes that it may have."""
    try:
        with Path(name).expanduser().open("rb") as file:
            data = file.read() if most is None else file.read(most + 1)
    except OSError as error:
        raise Invalid(option, f"{name} cannot be read: {error.strerror}") from None
    if most is not None and len(data) > most:
        raise Invalid(option, f"{name} has more than {most} bytes")
    return data


def read_text(option: str, name: str, most: int | None = None) -> str:
    """Return the text of a file, as `read_bytes` does."""
    try:
        return read_bytes(option, name, most).decode()
    except UnicodeDecodeError:
        raise Invalid(option, f"{name} is no text in UTF-8") from None


@contextmanager
def make_private_file(option: str, path: Path) -> Iterator[BinaryIO]:
    """Make a file that nobody else can read. It is on the disk when the block ends, and gone again if nothing came of
    it."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Invalid(option, f"{path} is there already; name another, or remove it") from None
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
