"""The folder that keeps backups: which there are, whether each was proven, and which are old enough to go.

Beside a backup lies a file with the outcome of its last proof. A file of somebody else's is neither listed nor removed.
"""

import gzip
import os
import tarfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from gatepost.core.clock import DAY, iso
from gatepost.core.errors import Invalid, NotFound, SetupError
from gatepost.core.home import Home, expand_user
from gatepost.core.record_fields import ShownAs, shown
from gatepost.core.settings import Config, change_check, setting
from gatepost.serve.backups.archive import MANIFEST
from gatepost.serve.backups.sealed_files import SEALED, is_sealed, parse_recipients

FOLDER = setting("backup.folder", "", help="Where backups are kept (empty: `backups` in the home).")
EVERY_HOURS = setting(
    "backup.every_hours", 0.0, help="The gateway makes a backup this many hours after the last one; 0: it makes none."
)
KEEP_DAILY = setting("backup.keep_daily", 7, help="Of so many last days with a backup, the newest of each is kept.")
KEEP_WEEKLY = setting("backup.keep_weekly", 4, help="The same for weeks.")
KEEP_MONTHLY = setting("backup.keep_monthly", 6, help="The same for months.")
COMMAND = setting(
    "backup.command",
    (),
    help="A program with its arguments that takes each proven backup elsewhere, such as restic or rclone. {file} stands"
    " for the backup.",
)
RECIPIENTS = setting(
    "backup.recipients",
    (),
    help="Backups are encrypted so that only these can open them: recipients of age, each beginning with age1.",
)
BEGINNING, ENDING, PROOF = "gatepost-", ".tar.gz", ".proof.json"
BACKUPS = "backups"  # in the home, unless a setting names another folder
LARGEST_FACTS = 64 * 1024  # bytes of what stands beside a backup, and first in it
MOST_LISTED = 1000
# What lies in the folder may be of somebody else: a moment that no calendar has would stop whoever shows it.
Moment = Annotated[int, Meta(ge=0, le=250_000_000_000_000_000)]  # until the year 9892


class BackupProof(Struct, frozen=True, kw_only=True):
    """The outcome of putting a backup back for a try. `trouble`: '' if it answered."""

    at: Moment
    trouble: str = ""
    seconds: float = 0.0
    version: str = ""  # of the gateway that tried
    steps: tuple[str, ...] = ()
    digest: str = ""  # of the sealed file, which was made right after the trial; '': the file itself was tried


def render_bytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def render_proof(proof: BackupProof | None) -> str:
    if proof is None:
        return "not tried yet"
    return f"failed: {proof.trouble}" if proof.trouble else f"proven {(iso(proof.at) or '')[:16].replace('T', ' ')}"


class BackupFile(Struct, frozen=True, kw_only=True):
    """A backup in the folder. `version`: of the gateway that made it; '' if it does not say."""

    name: Annotated[str, shown("Backup", ShownAs.ID)]
    made_at: Annotated[int, shown("Made", ShownAs.MOMENT, head="made")]
    size: Annotated[int, shown("Size", render=render_bytes)]
    version: Annotated[str, shown("Version")] = ""
    proof: Annotated[BackupProof | None, shown("Proof", render=render_proof, empty="not tried yet")] = None
    encrypted: Annotated[bool, shown("Encrypted", ShownAs.FLAG, word="encrypted")] = False

    @property
    def is_proven(self) -> bool:
        return self.proof is not None and not self.proof.trouble


class BackupManifest(Struct):
    """The words of a backup about itself. One of before 0.3 says nothing."""

    made_at: Moment = 0
    version: str = ""
    schema: int = 0
    home: str = ""
    shared: bool = False
    gateway: str = ""


def find_folder(home: Home, config: Config) -> Path:
    given = expand_user(config[FOLDER]) if config[FOLDER] else home.path / BACKUPS
    if not given.is_absolute():
        raise Invalid("backup.folder", f"{config[FOLDER]!r} is no whole path; write it from / on")
    return given


def find_usable_folder(home: Home, config: Config) -> Path:
    """Return the folder, which a new backup makes if it is not there. Raise Invalid where it could not be written."""
    folder = find_folder(home, config)
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not there.is_dir():
        raise Invalid(FOLDER.name, f"{folder} cannot be written, because {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise Invalid(FOLDER.name, f"{folder} cannot be written: the gateway may not write to {there}")
    return folder


@change_check
def check_backup_settings(home: Home, config: Config) -> None:
    """Raise SetupError for what the next backup could not use. A start goes on without: its disk may come later."""
    try:
        find_usable_folder(home, config)
        if recipients := config[RECIPIENTS]:
            parse_recipients(recipients)
    except Invalid as error:
        raise SetupError(str(error)) from None


def make_name(moment: int, *, sealed: bool = False) -> str:
    at = datetime.fromtimestamp(moment / 1_000_000, UTC)
    return f"{BEGINNING}{at:%Y%m%dT%H%M%SZ}{ENDING}{SEALED if sealed else ''}"


def find_moment(name: str) -> int:
    """Return the time in a name; 0 if there is none."""
    try:
        at = datetime.strptime(name.removeprefix(BEGINNING).removesuffix(SEALED).removesuffix(ENDING), "%Y%m%dT%H%M%SZ")
    except ValueError:
        return 0
    return int(at.replace(tzinfo=UTC).timestamp()) * 1_000_000


def get_backup(folder: Path, name: str) -> Path:
    """Return the path of one that is listed."""
    path = folder / name
    if path.name != name or not _is_ours(name) or not path.is_file() or path.is_symlink():
        raise NotFound("backup", name[:80], "`gatepost backup list` shows what there is")
    return path


def _is_ours(name: str) -> bool:
    return name.startswith(BEGINNING) and name.endswith((ENDING, ENDING + SEALED))


def list_backups(folder: Path) -> list[BackupFile]:
    """Return them, the newest first. One that cannot be read is listed by its name or the time of its file."""
    try:
        names = sorted(filter(_is_ours, os.listdir(folder)), reverse=True)[:MOST_LISTED]
    except OSError:
        return []
    found = [_describe(folder / name) for name in names if (folder / name).is_file()]
    return sorted(found, key=lambda each: each.made_at, reverse=True)


def _describe(path: Path) -> BackupFile:
    sealed, proof, seen = is_sealed(path), read_proof(path), path.stat()
    facts = BackupManifest(version=proof.version if proof else "") if sealed else read_manifest(path)
    written = seen.st_mtime_ns // 1000
    said = facts.made_at or find_moment(path.name)
    return BackupFile(
        name=path.name,
        made_at=said if 0 < said <= written + DAY else written,  # one of the future would stop the schedule
        size=seen.st_size,
        version=facts.version,
        proof=proof,
        encrypted=sealed,
    )


def _begins_plainly(path: Path) -> bool:
    """Return True if the first header is that of a file: one that extends another is read whole, however long."""
    with gzip.open(path) as file:
        head = file.read(tarfile.BLOCKSIZE)
    return len(head) == tarfile.BLOCKSIZE and head[156:157] in (tarfile.REGTYPE, tarfile.AREGTYPE)


def read_manifest(path: Path) -> BackupManifest:
    try:
        if not _begins_plainly(path):
            return BackupManifest()
        with tarfile.open(path, mode="r|gz", bufsize=tarfile.BLOCKSIZE) as tar:
            first = tar.next()
            if first is None or first.name != MANIFEST or first.size > LARGEST_FACTS:
                return BackupManifest()
            file = tar.extractfile(first)
            return msgspec.json.decode(file.read() if file is not None else b"{}", type=BackupManifest)
    except (tarfile.TarError, EOFError, OSError, zlib.error, msgspec.DecodeError):
        return BackupManifest()


def parse_manifest(path: Path) -> BackupManifest:
    """The same of a file that was unpacked."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(LARGEST_FACTS), type=BackupManifest)
    except (OSError, msgspec.DecodeError):
        return BackupManifest()


def read_proof(path: Path) -> BackupProof | None:
    try:
        with path.with_name(path.name + PROOF).open("rb") as file:
            return msgspec.json.decode(file.read(LARGEST_FACTS), type=BackupProof)
    except (OSError, msgspec.DecodeError):
        return None


def keep_proof(path: Path, proof: BackupProof) -> None:
    place = path.with_name(path.name + PROOF)
    new = place.with_name(f".{place.name}.new")
    new.write_bytes(msgspec.json.encode(proof))
    new.replace(place)


def choose_expired(found: Sequence[BackupFile], daily: int, weekly: int, monthly: int) -> list[BackupFile]:
    """Return those that nothing keeps. The newest stays in every case, and so does the newest that was proven."""
    newest_first = sorted(found, key=lambda each: each.made_at, reverse=True)
    kept = {each.name for each in newest_first[:1]}
    kept |= {each.name for each in [each for each in newest_first if each.is_proven][:1]}
    spans: Iterable[tuple[int, Callable[[datetime], Any]]] = (
        (daily, lambda at: at.date()),
        (weekly, lambda at: at.isocalendar()[:2]),
        (monthly, lambda at: (at.year, at.month)),
    )
    for most, span in spans:
        first_of = dict[Any, str]()
        for each in newest_first:
            first_of.setdefault(span(datetime.fromtimestamp(each.made_at / 1_000_000, UTC)), each.name)
        kept |= set(list(first_of.values())[: max(most, 0)])
    return [each for each in newest_first if each.name not in kept]


def prune(folder: Path, config: Config) -> list[BackupFile]:
    """Remove those that nothing keeps, and return them."""
    limits = (config[KEEP_DAILY], config[KEEP_WEEKLY], config[KEEP_MONTHLY])
    expired = choose_expired(list_backups(folder), *limits)
    for each in expired:
        (folder / each.name).unlink(missing_ok=True)
        (folder / (each.name + PROOF)).unlink(missing_ok=True)
    return expired


def count_days_unproven(found: Sequence[BackupFile], now: int) -> int | None:
    """Return the age of the newest backup that was proven, in days; None if none was."""
    proven = max((each.made_at for each in found if each.is_proven), default=None)
    return None if proven is None else max(0, (now - proven) // DAY)
