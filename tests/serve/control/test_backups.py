"""The operations of backups: only files of the folder, only for who may, and each change in the audit log."""

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import NotFound
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.serve.backups.backup_folder import BackupFile, make_name
from gatepost.serve.control.arguments.backups import RIGHT, CreateBackupArgs, VerifyBackupArgs
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.serve.control.operations.backups import RUNS
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.rights import audit


@pytest.fixture
def deps(store: SqliteStore, home: Home) -> OperationDeps:
    return OperationDeps(home=home, store=store, clock=SystemClock(), config=Config(), events=EventBus())


@pytest.mark.parametrize("file", ["../../etc/passwd", "/etc/passwd", "gatepost-none.tar.gz"])
async def test_no_other_file_is_tried_out(deps: OperationDeps, file: str) -> None:
    with pytest.raises(NotFound):
        await OPERATIONS["backup.verify"](deps, {"file": file})


async def test_what_is_removed_is_in_the_audit_log(deps: OperationDeps) -> None:
    folder = deps.home.path / "backups"
    folder.mkdir(parents=True)
    for moment in range(40):
        (folder / make_name(1_700_000_000_000_000 + moment * 1_000_000)).touch()
    gone = await OPERATIONS["backup.prune"](deps, {})
    assert len(gone) == 39 and len(list(folder.iterdir())) == 1
    actions = [row[3] for row in await deps.store.read(audit.list_latest, 5)]
    assert "backup.prune" in actions and RUNS in deps.extra


def test_all_of_it_needs_one_right_for_the_whole_gateway() -> None:
    for each in (CreateBackupArgs, VerifyBackupArgs):
        assert each.info.right == RIGHT
    assert BackupFile(name="x", made_at=1, size=1).is_proven is False
