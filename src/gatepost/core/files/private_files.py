"""New files of the owner's alone: keys, tokens, backups."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gatepost.core.errors import Invalid, SetupError


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
