"""The memory that this machine has of a store, outside its home. A copy, a restored backup or a rolled-back disk
differs from it.

One small file for each incarnation of a store, in the state folder of the user. It may be missing, as in a new
container: then the same memory in the home, written beside the store's file, tells that this file was overwritten.
"""

import fcntl
import hashlib
import os
import struct
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from gatepost.core.home import expand_user
from gatepost.core.settings import Config, setting

STATE_FOLDER = setting(
    "restore.state_folder",
    "",
    help="Where this machine remembers its stores, to find out that one was restored or copied (empty:"
    " $XDG_STATE_HOME/gatepost, or ~/.local/state/gatepost).",
)
HOME_MEMORY = "store-mark.json"  # in the home
MOST_LISTED = 1000
_GET_VERSION = 0x80087601  # FS_IOC_GETVERSION
_MACHINE_ID = Path("/etc/machine-id")


class MachineMemory(Struct, frozen=True, kw_only=True):
    """`lives`: the last start; while one begins, also the one before. `mark`: how far the ledger had come. `clean`: the
    gateway was stopped, so nothing came after the mark."""

    incarnation: str = ""
    home: str
    file: str
    lives: tuple[str, ...]
    mark: int
    clean: bool = False


def find_state_folder(config: Config) -> Path:
    if config[STATE_FOLDER]:
        return expand_user(config[STATE_FOLDER])
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base.startswith("/") else expand_user("~/.local/state")) / "gatepost"


def get_memory_path(folder: Path, incarnation: str) -> Path:
    return folder / "stores" / f"{incarnation}.json"


def list_known_homes(folder: Path) -> list[Path]:
    """Return the homes of the stores that this machine remembers, each once."""
    files = sorted((folder / "stores").glob("*.json"))[:MOST_LISTED]
    found = [memory.home for each in files if (memory := MemoryFile(each).load()) is not None]
    return [Path(home) for home in dict.fromkeys(found) if home]


class MemoryFile:
    """One memory. A folder that cannot be used is no fault: there is no memory then."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> MachineMemory | None:
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._path.read_bytes(), type=MachineMemory)
        return None

    def save(self, memory: MachineMemory) -> bool:
        """False: it cannot be kept. Replaced whole: a reader sees one or the other."""
        made = ""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, made = tempfile.mkstemp(dir=self._path.parent, prefix=".")
            with open(handle, "wb") as file:
                file.write(msgspec.json.encode(memory))
            os.replace(made, self._path)
        except OSError:
            with suppress(OSError):
                os.unlink(made)
            return False
        return True


def identify_file(path: Path) -> str:
    """The inode, and its generation where the file system tells it: a number that is free is given out again. '' if
    there is no such file. Only before SQLite has it open: to close it drops the locks of this process."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        generation = 0
        with suppress(OSError):
            (generation,) = struct.unpack("I", fcntl.ioctl(handle, _GET_VERSION, bytes(8))[:4])
        return f"{os.fstat(handle).st_ino}:{generation}"
    finally:
        os.close(handle)


def is_in_place(path: Path, known: str) -> bool:
    """Return False if a file that is open was removed or replaced. It is not opened: its number is not given out
    again before it is closed."""
    try:
        return str(path.stat().st_ino) == known.partition(":")[0]
    except FileNotFoundError:
        return False
    except OSError:
        return True  # of a disk that cannot be read others tell


def is_same_file(known: str, found: str) -> bool:
    """A generation of 0 is not known."""
    (inode, _, generation), (other, _, other_generation) = known.partition(":"), found.partition(":")
    return inode == other and ("0" in (generation, other_generation) or generation == other_generation)


def identify_machine() -> str:
    """A hash of the machine's id, which is nobody else's business; '' if it has none."""
    with suppress(OSError):
        return hashlib.sha256(b"gatepost" + _MACHINE_ID.read_bytes().strip()).hexdigest()[:16]
    return ""


def sync_log(store: Path) -> None:
    """Sync the log, so that every commit is on the disk. Nobody locks the log itself, so its handle may be closed."""
    with suppress(OSError):
        handle = os.open(f"{store}-wal", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
