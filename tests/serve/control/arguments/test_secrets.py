"""Rights on secrets and hosts: where each is judged, so that a right on one group opens nothing for others."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.serve.control.arguments.secrets import (
    AllowHostArgs,
    BindSecretArgs,
    DenyHostArgs,
    ListEgressRulesArgs,
    RemoveEgressRuleArgs,
    UnbindSecretArgs,
)
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import acl, egress
from gatepost.store.rights.acl import AclRow
from gatepost.store.sessions import groups
from gatepost_testing.clock import FixedClock

ADA = "telegram:user/9"


@pytest.mark.parametrize(
    ("host", "scope"),
    [
        ("example.com", "acme"),
        ("*.example.com", "acme"),
        ("*.example.com:8443", "acme"),  # no local host is named so
        ("*", "acme"),
        ("localhost:5432", ""),
        ("db.example.com:443", ""),
        ("[::1]:80", ""),
        ("::1", ""),
    ],
)
def test_only_whoever_has_the_right_everywhere_opens_a_port(host: str, scope: str) -> None:
    assert AllowHostArgs(host=host, folder="acme").get_scope() == scope
    assert DenyHostArgs(host=host, folder="acme").get_scope() == "acme"


def test_a_binding_is_made_with_the_right_everywhere_and_taken_back_with_that_on_its_group() -> None:
    """It sends secrets of the groups above as well."""
    assert BindSecretArgs(name="KEY", host="example.com", folder="acme").get_scope() == ""
    assert UnbindSecretArgs(name="KEY", host="example.com", folder="acme").get_scope() == "acme"
    assert ListEgressRulesArgs(folder="acme").get_scope() == "acme" and RemoveEgressRuleArgs(id=1).get_scope() == ""


@pytest.fixture
async def deps(store: SqliteStore, tmp_path: Path) -> OperationDeps:
    """As Ada calls, who may change the hosts of `acme`."""

    def add(db: Db) -> None:
        groups.add(db, "acme", "Acme", "", 1)
        users.add(db, ADA, "Ada", 1)
        acl.put(db, AclRow(id=0, principal=ADA, action="op:egress.write", scope="acme"), 1)

    await store.write(add)
    home = Home(tmp_path)
    return OperationDeps(home=home, store=store, clock=FixedClock(), config=Config(), events=EventBus(), caller=ADA)


async def allow(deps: OperationDeps, host: str, folder: str) -> Any:
    return await OPERATIONS["egress.allow"](deps, {"host": host, "folder": folder})


async def test_a_right_on_a_group_lets_it_reach_a_public_host_and_no_local_one(deps: OperationDeps) -> None:
    await allow(deps, "example.com", "acme")
    for host, folder in (("localhost:5432", "acme"), ("example.com", "")):
        with pytest.raises(Refused, match=r"op:egress\.write"):
            await allow(deps, host, folder)
    assert [each.host for each in await deps.store.read(egress.list_rules)] == ["example.com"]
