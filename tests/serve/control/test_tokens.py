"""Who may make and revoke tokens through the API: whoever has the right for that group."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import NotFound, Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow.groups import ensure_defaults
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.rights import audit
from gatepost.store.sessions import groups

ANN = "fake:user/ann"


@pytest.fixture
async def operation_deps(store: SqliteStore, tmp_path: Path) -> OperationDeps:
    home, clock = Home(tmp_path / "home"), SystemClock()
    home.prepare()
    await ensure_defaults(store, home, clock)
    for folder in ("acme", "acme/eng", "other"):
        await store.write(groups.add, folder, "", "", 1)
    deps = OperationDeps(home=home, store=store, clock=clock, config=Config(), events=EventBus())
    await do(deps, "acl.add", principal=ANN, action="op:tokens.write", scope="acme/**")
    return deps


async def do(deps: OperationDeps, name: str, **args: Any) -> Any:
    return await OPERATIONS[name](deps, args)


async def test_a_right_for_a_part_of_the_tree_is_for_that_part_alone(operation_deps: OperationDeps) -> None:
    ann = replace(operation_deps, caller=ANN)
    made = await do(ann, "invite.create", folder="acme/eng")
    assert made["token"]["created_by"] == ANN
    for name, given in (
        ("invite.create", {"folder": "other"}),
        ("token.add", {"kind": "chat_link", "folder": "home"}),
        ("token.rm", {"id": made["token"]["id"]}),
        ("token.list", {}),
        ("onboarding.open", {"instance": "fake", "folder": "acme"}),
    ):
        with pytest.raises(Refused):
            await do(ann, name, **given)
    gone = await do(ann, "token.rm", id=made["token"]["id"], folder="acme/eng")
    assert gone["state"] == "revoked"


async def test_a_token_of_another_group_is_not_revoked_by_naming_ones_own(operation_deps: OperationDeps) -> None:
    made = await do(operation_deps, "invite.create", folder="other")
    with pytest.raises(NotFound):
        await do(replace(operation_deps, caller=ANN), "token.rm", id=made["token"]["id"], folder="acme")
    assert (await do(operation_deps, "token.list"))[0]["state"] == "valid"


async def test_what_is_recorded_has_no_secret(operation_deps: OperationDeps) -> None:
    made = await do(operation_deps, "invite.create", folder="acme", label="x")
    rows = str(await operation_deps.store.read(audit.list_latest, 100))
    assert "invite.create" in rows and made["secret"] not in rows
