"""The key ring: the keys that secrets are sealed with. It lies beside the store and never in it, nor in a backup.

It is `keyring.json` in the home (0600), or, read-only, the same JSON in GATEPOST_KEYRING or in a systemd credential
named `gatepost.keyring`. One key is current and seals; the others still open what they sealed. The ring is read anew
at every use, so that a rotation holds at once; only whoever holds the home's lock writes it.
"""

import hashlib
import hmac
import os
import stat
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from gatepost.core import ids
from gatepost.core.errors import SetupError
from gatepost.core.home import Home

FILE = "keyring.json"
VARIABLE = "GATEPOST_KEYRING"
CREDENTIAL = "gatepost.keyring"
KEY_BYTES, NONCE_BYTES = 32, 12
LARGEST_FILE = 1024 * 1024

_changing = threading.Lock()  # what is read is written back: one at a time does that


class UnsealError(SetupError):
    """A sealed value does not open; the text says which and why, never what."""


class _KeyringJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ring as it is written down; keys are base64."""

    current: str
    keys: dict[str, bytes]


class SealedValue(Struct, frozen=True):
    key_id: str
    nonce: bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class KeySet:
    """Keys by id. Never shown: neither its text nor a traceback's holds a key."""

    current: str
    keys: Mapping[str, bytes] = field(repr=False)

    def seal(self, value: bytes, about: tuple[str, ...]) -> SealedValue:
        """Close a value together with what it is about, so that it opens in its own place alone."""
        nonce = os.urandom(NONCE_BYTES)
        data = AESGCM(self.keys[self.current]).encrypt(nonce, value, _associated_data(about, self.current))
        return SealedValue(self.current, nonce, data)

    def derive(self, key_id: str, purpose: str) -> bytes | None:
        """A key for signing, of one purpose, which goes with the key of that id; None: there is none such."""
        key = self.keys.get(key_id)
        return None if key is None else hmac.digest(key, f"gatepost {purpose}".encode(), hashlib.sha256)

    @classmethod
    def parse(cls, raw: bytes, where: str) -> "KeySet":
        """Parse what `to_json` wrote. An error never quotes the content."""
        broken = SetupError(f"the key ring in {where} is damaged or none; bring the right one back")
        try:
            written = msgspec.json.decode(raw, type=_KeyringJson)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise broken from None
        if written.current not in written.keys or any(len(key) != KEY_BYTES for key in written.keys.values()):
            raise broken
        return cls(written.current, written.keys)

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(_KeyringJson(self.current, dict(self.keys)))) + b"\n"

    def open(self, sealed: SealedValue, about: tuple[str, ...]) -> bytes:
        if sealed.key_id not in self.keys:
            raise UnsealError(f"it was sealed with the key {sealed.key_id}, which is not in the key ring")
        try:
            return AESGCM(self.keys[sealed.key_id]).decrypt(
                sealed.nonce, sealed.data, _associated_data(about, sealed.key_id)
            )
        except (InvalidTag, ValueError):  # ValueError: a nonce that is none
            raise UnsealError("it was changed, or moved here from another place") from None


def _associated_data(about: tuple[str, ...], key_id: str) -> bytes:
    return msgspec.json.encode((*about, key_id))


class Keyring:
    """The place of a home's ring. One from elsewhere is read and never written."""

    def __init__(self, home: Home, environ: Mapping[str, str] | None = None) -> None:
        env = os.environ if environ is None else environ
        self._path = home.path / FILE
        self._given = env.get(VARIABLE, "")
        folder = env.get("CREDENTIALS_DIRECTORY", "")
        credential = Path(folder, CREDENTIAL) if folder else None
        self._credential = credential if credential is not None and credential.exists() else None

    @property
    def where(self) -> str:
        """For people: where the ring is kept."""
        if self._given:
            return VARIABLE
        return f"the systemd credential {CREDENTIAL}" if self._credential else str(self._path)

    @property
    def is_file(self) -> bool:
        """Return True if it is the home's own file, which this gateway may write."""
        return not self._given and self._credential is None

    def read(self) -> KeySet | None:
        """The ring; None if the home has none yet. One that cannot be read is never taken for none."""
        if self._given:
            return KeySet.parse(self._given.encode("utf-8", "surrogateescape"), self.where)
        raw = _read_owned(self._path) if self._credential is None else _read(self._credential)
        return None if raw is None else KeySet.parse(raw, self.where)

    def add_key(self) -> KeySet:
        """Make a new key the current one, in a ring of its own if there is none. On the disk when this returns."""
        key_id = ids.new("key")
        with _changing:
            before = self.read()
            keys = {**(before.keys if before else {}), key_id: AESGCM.generate_key(KEY_BYTES * 8)}
            return self._write(KeySet(key_id, keys))

    def add_keys(self, more: KeySet) -> KeySet:
        """Take keys of a kept copy in. The current one stays; in a home without a ring it is that of the copy."""
        with _changing:
            before = self.read()
            keys = {**more.keys, **(before.keys if before else {})}
            return self._write(KeySet(before.current if before else more.current, keys))

    def remove_keys(self, key_ids: Collection[str]) -> KeySet:
        """Take keys out for good; the current one stays whatever is asked."""
        with _changing:
            ring = self.read()
            if ring is None:
                raise SetupError(f"there is no key ring in {self.where}")
            going = set(key_ids) - {ring.current}
            left = {key: value for key, value in ring.keys.items() if key not in going}
            return self._write(KeySet(ring.current, left))

    def _write(self, ring: KeySet) -> KeySet:
        """Whole or not at all, and the owner's alone from its first moment."""
        if not self.is_file:
            raise SetupError(f"the key ring is kept in {self.where}; gatepost does not change it there")
        temporary = self._path.with_name(f".{FILE}.{os.getpid()}")
        try:
            temporary.unlink(missing_ok=True)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(ring.to_json())
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
            _sync_folder(self._path.parent)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise SetupError(f"the key ring {self._path} cannot be written: {error.strerror}") from None
        return ring


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_owned(path: Path) -> bytes | None:
    """The home's file, if it is its owner's alone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SetupError(f"the key ring {path} cannot be read: {error.strerror}") from None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_FILE:
            raise SetupError(f"the key ring {path} is not a key ring; bring the right file back")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise SetupError(
                f"the key ring {path} is open to others; `chmod 600` it, and if somebody may have read it, replace the"
                " secrets and `gatepost secret rotate`"
            )
        return file.read(LARGEST_FILE)


def _read(path: Path) -> bytes:
    """A credential, whose access systemd has settled."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SetupError(f"the key ring {path} cannot be read: {error.strerror}") from None
