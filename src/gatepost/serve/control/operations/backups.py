"""Backups: list, create, verify, prune. Putting one back is a command, because the gateway must be down for it."""

from pathlib import Path

from gatepost.serve.backups.backup_folder import BackupFile, BackupProof, find_folder, get_backup
from gatepost.serve.backups.backup_runs import BackupRuns
from gatepost.serve.control.arguments.backups import (
    CreateBackupArgs,
    CreatedBackup,
    ListBackupsArgs,
    PruneBackupsArgs,
    VerifyBackupArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.serve.control.operations.gateways import get_doctor_runs

RUNS = "backup_runs"


def _get_runs(deps: OperationDeps) -> BackupRuns:
    runs: BackupRuns = deps.extra.setdefault(RUNS, BackupRuns(deps.home, deps.config, deps.clock))
    return runs


@operation
async def list_found(deps: OperationDeps, args: ListBackupsArgs) -> list[BackupFile]:
    return await _get_runs(deps).list_found()


@operation
async def create(deps: OperationDeps, args: CreateBackupArgs) -> CreatedBackup:
    made = await _get_runs(deps).create()
    name, trouble = Path(made.file).name, made.proof.trouble if made.proof is not None else ""
    await deps.write(lambda db: None, file=name, trouble=trouble)
    get_doctor_runs(deps).forget()
    return CreatedBackup(name=name, size=made.bytes, files=made.files, trouble=trouble)


@operation
async def verify(deps: OperationDeps, args: VerifyBackupArgs) -> BackupProof:
    get_backup(find_folder(deps.home, deps.config), args.file)
    proof = await _get_runs(deps).verify(args.file)
    await deps.write(lambda db: None, trouble=proof.trouble)
    return proof


@operation
async def prune(deps: OperationDeps, args: PruneBackupsArgs) -> list[BackupFile]:
    gone = await _get_runs(deps).prune()
    await deps.write(lambda db: None, removed=len(gone))
    return gone
