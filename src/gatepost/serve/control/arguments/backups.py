"""Backups: which there are, a new one, the proof of one, and removing those that nothing keeps."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import argument
from gatepost.serve.backups.backup_folder import BackupFile, BackupProof
from gatepost.serve.control.declaration import OperationArgs, declares

RIGHT = "backup"


class CreatedBackup(Struct, frozen=True, kw_only=True):
    """`trouble`: why it cannot be put back; '' if that was proven."""

    name: str
    size: int
    files: int
    trouble: str = ""


@declares("backup.list", right=RIGHT, needs_home=True)
class ListBackupsArgs(OperationArgs[list[BackupFile]], frozen=True):
    """List the backups in their folder, the newest first, and whether each was proven."""


@declares("backup.create", right=RIGHT, needs_home=True)
class CreateBackupArgs(OperationArgs[CreatedBackup], frozen=True):
    """Make a backup in the folder of backups, and prove that it can be put back. It takes seconds to minutes.

    The key ring is never in it: keep a copy of that elsewhere.
    """


@declares("backup.verify", right=RIGHT, needs_home=True)
class VerifyBackupArgs(OperationArgs[BackupProof], frozen=True):
    """Prove that a backup can be put back: unpacked into a folder of its own, brought up to date, checked, answered."""

    file: Annotated[
        str, argument("The backup, by its name in the folder.", examples=("gatepost-20260101T030000Z.tar.gz",))
    ]


@declares("backup.prune", right=RIGHT, needs_home=True)
class PruneBackupsArgs(OperationArgs[list[BackupFile]], frozen=True):
    """Remove the backups that are older than what the settings keep, and list them.

    The newest stays in every case, and so does the newest that was proven.
    """
