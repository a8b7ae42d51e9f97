"""An operation that changes files is in the audit log."""

from pathlib import Path

from gatepost.core.clock import SystemClock
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.port import Store
from gatepost.store.rights import acl, audit
from gatepost.store.rights.acl import AclRow

EVE = "telegram:user/9"


async def test_whoever_closes_the_home_is_in_the_audit(store: Store, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    (home.path / "gatepost.toml").write_text("")
    (home.path / "gatepost.toml").chmod(0o644)
    await store.write(acl.put, AclRow(id=0, principal=EVE, action="op:mend", scope="**"), 1)
    deps = OperationDeps(home=home, store=store, clock=SystemClock(), config=Config(), events=EventBus(), caller=EVE)
    closed = await OPERATIONS["home.close"](deps, {})
    assert closed
    assert [row for row in await store.read(audit.list_latest, 10) if "home.close" in str(row)]
