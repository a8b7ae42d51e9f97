"""Files that only a recipient can open, in the format of age: `age -d` opens each without us.

A backup is sealed to recipients, whose identities need not be on this machine. The emergency kit is sealed by a
passphrase. Files go through in pieces. A file that was changed or cut does not open.
"""

import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from gatepost.core.errors import Invalid, SetupError

EXTRA, MODULE = "backup", "pyrage"
SEALED = ".age"  # behind the name of a sealed file
BINARY, ARMORED = b"age-encryption.org/v1\n", b"-----BEGIN AGE ENCRYPTED FILE-----"
PIECE = 1024 * 1024
SECRET = "AGE-SECRET-KEY-"  # how the line of an identity begins; lower case is one, too
LARGEST_IDENTITY = 64 * 1024


def _load_age() -> ModuleType:
    """Return the library, which is an extra."""
    if find_spec(MODULE) is None:
        raise SetupError(f"the library that seals and opens backups is not installed: pip install 'gatepost[{EXTRA}]'")
    import pyrage

    loaded: ModuleType = pyrage
    return loaded


def is_sealed(path: Path) -> bool:
    """Tell by its first bytes, whatever it is called."""
    try:
        with path.open("rb") as file:
            head = file.read(len(ARMORED))
    except OSError:
        return False
    return head.startswith((BINARY, ARMORED))


def parse_recipients(texts: Sequence[str]) -> list[object]:
    """Return them as the library has them. Raise Invalid for what is none."""
    age, found = _load_age(), list[object]()
    for text in texts:
        try:
            found.append(age.x25519.Recipient.from_str(text))
        except age.RecipientError:
            hint = "; this is an identity, which opens backups: keep it elsewhere" if _is_secret(text) else ""
            shown = "what stands there" if hint else repr(text[:80])
            raise Invalid(
                "backup.recipients",
                f"{shown} is no recipient, or mistyped: `age-keygen` prints one, which begins with age1{hint}",
            ) from None
    return found


def make_identity() -> tuple[str, str]:
    """Return a new identity, which opens, and its recipient, which seals."""
    made = _load_age().x25519.Identity.generate()
    return str(made), str(made.to_public())


def find_recipients(identity: str) -> list[str]:
    """Return the recipients that an identity file opens for."""
    return [str(each.to_public()) for each in _parse_identity(identity)]


def read_identity(path: Path) -> str:
    """Return the text of an identity file, as `age-keygen` writes it."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_IDENTITY).decode()
    except OSError as error:
        raise Invalid("--identity", f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        text = ""
    _parse_identity(text)
    return text


def _is_secret(line: str) -> bool:
    return line.strip().upper().startswith(SECRET)


def _parse_identity(text: str) -> list[Any]:
    age, lines = _load_age(), [line.strip() for line in text.splitlines()]
    try:
        found = [age.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except age.IdentityError:
        found = []
    if not found:
        raise Invalid("--identity", "that is no identity of age: its line begins with AGE-SECRET-KEY-1")
    return found


class _DigestWriter:
    """Writes to a file and keeps the digest of what it wrote."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.digest = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def seal(source: BinaryIO, target: BinaryIO, recipients: Sequence[str]) -> str:
    """Seal to recipients and return the digest of the sealed file."""
    age, writer = _load_age(), _DigestWriter(target)
    age.encrypt_io(source, writer, parse_recipients(recipients))
    return writer.digest.hexdigest()


def measure_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def open_plain(path: Path, identity: str = "") -> Iterator[BinaryIO]:
    """Open a file to be read from its begin to its end, sealed or not. Nothing of it is on a disk in the clear.

    The reader must not trust it before the block has ended: only then is its end known to be genuine.
    """
    if not is_sealed(path):
        with path.open("rb") as file:
            yield file
        return
    if not identity:
        raise Invalid("--identity", f"{path.name} is sealed: name the file with the identity, or the kit by --kit")
    identities, trouble = _parse_identity(identity), list[str]()
    with path.open("rb") as sealed:
        out, into = os.pipe()
        thread = threading.Thread(target=_unseal, args=(sealed, into, identities, trouble), daemon=True)
        thread.start()
        try:
            with os.fdopen(out, "rb") as plain:
                yield plain
                while plain.read(PIECE):  # padding behind the archive; its last piece proves that nothing was cut
                    pass
        finally:
            thread.join()
            if trouble:
                raise SetupError(f"{path} does not open: {trouble[0]}")


def _unseal(sealed: BinaryIO, into: int, identities: Sequence[object], trouble: list[str]) -> None:
    age = _load_age()
    with suppress(BrokenPipeError), os.fdopen(into, "wb") as target:  # BrokenPipeError: nobody reads any more
        try:
            age.decrypt_io(sealed, target, identities)
        except BrokenPipeError:
            raise
        except (age.DecryptError, OSError) as error:
            trouble.append(str(error))


def seal_by_passphrase(data: bytes, passphrase: str) -> bytes:
    """Return text that `age -d` opens. It takes some seconds and half a gigabyte, so that nobody can try many."""
    sealed: bytes = _load_age().passphrase.encrypt(data, passphrase, armored=True)
    return sealed


def open_by_passphrase(sealed: bytes, passphrase: str) -> bytes:
    age = _load_age()
    try:
        found: bytes = age.passphrase.decrypt(sealed, passphrase)
    except age.DecryptError as error:
        raise Invalid("the kit", f"it does not open with this passphrase, or is damaged: {error}") from None
    return found
