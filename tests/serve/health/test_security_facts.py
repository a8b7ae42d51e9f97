"""A real home that is made worse step by step, and what the judgement says of each."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import DAY, Period, SystemClock
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.money import MICRO
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.serve.backups.backup_folder import BackupProof, find_folder, keep_proof, make_name
from gatepost.serve.health.security_checks import judge_security
from gatepost.serve.health.security_facts import read_security_facts
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.money import budgets
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, api_tokens, egress, secret_rows, secrets, tokens
from gatepost.store.rights.acl import AclRow
from gatepost.store.rights.api_tokens import NewApiToken
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.rights.tokens import NewToken, SignatureScheme, TokenKind
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups
from gatepost.store.web import web_routes
from gatepost.store.web.web_routes import WebAccess, WebRoute

NOW = SystemClock().now()
EVE = "web:user/eve"


@pytest.fixture
def good_home(home: Home, empty_store: Path) -> Home:
    """Closed in every way: one agent that asks before anything goes out, a budget, and a proven backup of today."""
    for each in ("gatepost.channels", "gatepost.sandboxes"):
        load_package(each)
    shutil.copy(empty_store, home.store)
    home.store.chmod(0o600)
    write(home, make_good)
    folder = find_folder(home, Config())
    folder.mkdir(mode=0o700)
    (folder / make_name(NOW)).touch()
    keep_proof(folder / make_name(NOW), BackupProof(at=NOW, trouble=""))
    return home


def make_good(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", NOW)
    acl.add_rule(db, "acme", "hold speak", "test", NOW)
    budgets.put(db, BudgetScope(BudgetScopeKind.INSTANCE), Period.DAY, 5 * MICRO, "test", NOW)
    signed = NewToken(
        kind=TokenKind.WEBHOOK,
        created_by="test",
        folder="acme",
        signature=SignatureScheme.GITHUB,
        signing_key="K",
        expires_at=NOW + DAY,
    )
    tokens.add(db, signed, "signed", NOW)
    rooms.add(db, "terminal", "terminal:main", "Terminal", False, RoomPolicy.PUBLIC, NOW)


def write(home: Home, change: Callable[[Db], Any]) -> None:
    connection = connect(home.store)
    change(SqliteDb(connection))
    connection.close()


def judge(home: Home, **settings: Any) -> set[str]:
    """Walls are the machine's."""
    config = Config({name.replace("__", "."): value for name, value in settings.items()})
    return {each.subject for each in judge_security(read_security_facts(home, config))} - {"walls"}


def test_a_good_home_is_silent(good_home: Home) -> None:
    assert judge(good_home) == set()


def test_a_home_without_a_store_has_nothing_in_it_that_is_open(home: Home) -> None:
    assert judge(home) == {"backups"}


def add_hook(db: Db) -> None:
    tokens.add(db, NewToken(kind=TokenKind.WEBHOOK, created_by="t", folder="acme", expires_at=NOW + DAY), "h", NOW)


def add_endless_link(db: Db) -> None:
    tokens.add(db, NewToken(kind=TokenKind.CHAT_LINK, created_by="t", folder="acme"), "l", NOW)


def add_invited_admin(db: Db) -> None:
    users.add(db, EVE, "Eve", NOW)
    users.add_role(db, EVE, UserRole.ADMIN, "acme", "invite:tk-1", NOW)


def add_page(db: Db) -> None:
    web_routes.put_route(
        db,
        WebRoute(folder="acme", path="/pub/acme", access=WebAccess.PUBLIC, owner="", created_by="t", created_at=NOW),
    )


def add_shared_secret(db: Db, home: Home) -> None:
    groups.add(db, "other", "Other", "", NOW)
    acl.add_rule(db, "other", "!hand_out", "test", NOW)
    secrets.put(db, Keyring(home), SecretOwner(), "STRIPE_KEY", "sk-1", NOW)
    secret_rows.put_binding(db, None, "STRIPE_KEY", ("https", "api.stripe.com", 443), "Authorization", "{}", "t", NOW)


WORSE: dict[str, tuple[Callable[[Db], Any], str]] = {
    "a row for everybody": (
        lambda db: acl.put(db, AclRow(id=0, principal="telegram:*", action="interact"), NOW),
        "everybody",
    ),
    "a public room": (lambda db: rooms.add(db, "tg", "telegram:group/1", "T", False, RoomPolicy.PUBLIC, NOW), "rooms"),
    "every host": (
        lambda db: egress.put(db, "acme", "*", 0, allow=True, local=False, by="t", now=NOW),
        "open network",
    ),
    "a webhook without a secret": (add_hook, "webhooks"),
    "an admin by invitation": (add_invited_admin, "admins"),
    "an agent without a hold": (lambda db: groups.add(db, "free", "Free", "", NOW), "holds"),
    "a public page": (add_page, "public pages"),
    "a key without an end": (
        lambda db: api_tokens.add(db, NewApiToken(label="x", maker="op", scopes=("*",), expires_at=None), "t", NOW),
        "endless keys",
    ),
    "a link without an end": (add_endless_link, "endless keys"),
    "no budget": (
        lambda db: budgets.put(db, BudgetScope(BudgetScopeKind.INSTANCE), Period.DAY, None, "t", NOW),
        "budgets",
    ),
}


@pytest.mark.parametrize("what", WORSE)
def test_each_step_that_opens_it_is_found_and_nothing_else(good_home: Home, what: str) -> None:
    change, subject = WORSE[what]
    write(good_home, change)
    assert judge(good_home) == {subject}


def test_keys_that_agents_of_two_worlds_share_are_found(good_home: Home) -> None:
    write(good_home, lambda db: add_shared_secret(db, good_home))
    assert judge(good_home) == {"shared keys"}


def test_a_rule_of_a_group_above_holds_below_it(good_home: Home) -> None:
    write(good_home, lambda db: groups.add(db, "acme/eng", "Eng", "", NOW))
    assert judge(good_home) == set()


def test_files_that_others_may_read_are_found(good_home: Home) -> None:
    good_home.store.chmod(0o644)
    assert judge(good_home) == {"secrets in files"}


def test_an_address_of_the_network_is_found_unless_something_encrypts_it(good_home: Home) -> None:
    assert judge(good_home, listen="0.0.0.0:8420") == {"network address"}
    assert judge(good_home, listen="0.0.0.0:8420", web__url="https://gate.example.org") == set()


def test_an_old_backup_is_found(good_home: Home) -> None:
    folder = find_folder(good_home, Config())
    shutil.rmtree(folder)
    assert judge(good_home) == {"backups"}


def test_agents_without_walls_are_found(good_home: Home) -> None:
    found = judge_security(read_security_facts(good_home, Config({"sandbox.kind": "process"})))
    assert [each.subject for each in found] == ["walls"]
