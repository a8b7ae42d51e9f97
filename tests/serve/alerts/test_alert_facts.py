"""The facts of alerts: of the store, and of files on this machine."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gatepost.core.clock import DAY, SECOND, Period
from gatepost.core.home import Home
from gatepost.core.money import MICRO
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.serve.alerts.alert_facts import find_unproven_days, list_certificates, read_stored_facts
from gatepost.serve.backups.backup_folder import FOLDER, BackupProof, find_folder, keep_proof, make_name
from gatepost.store.gateways import gateways
from gatepost.store.gateways.gateways import GatewayIdentity
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectState, NewEffect
from gatepost.store.money import budgets
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.port import Db
from gatepost.store.rights import api_tokens
from gatepost.store.rights.api_tokens import NewApiToken
from gatepost.store.rooms.channel_instances import StoredChannel
from gatepost.store.sessions import groups

NOON = 1_800_000_000_000_000


def add_token(db: Db, label: str, expires_at: int | None, *, made_at: int, used_at: int | None) -> str:
    made = api_tokens.add(
        db, NewApiToken(label=label, maker="op", scopes=("*",), expires_at=expires_at), label, made_at
    )
    assert made is not None
    if used_at is not None:
        api_tokens.record_use(db, made.id, used_at)
    return made.id


def test_a_key_counts_if_it_was_made_to_last_and_is_in_use(db: Db) -> None:
    long_ago, soon = NOON - 60 * DAY, NOON + DAY
    ending = add_token(db, "report", soon, made_at=long_ago, used_at=NOON - DAY)
    add_token(db, "never ends", None, made_at=long_ago, used_at=NOON)
    add_token(db, "for an hour", soon, made_at=NOON - DAY, used_at=NOON)
    add_token(db, "unused", soon, made_at=long_ago, used_at=None)
    add_token(db, "forgotten", soon, made_at=long_ago, used_at=NOON - 50 * DAY)
    api_tokens.revoke(db, add_token(db, "revoked", soon, made_at=long_ago, used_at=NOON), NOON)
    assert [each.name for each in read_stored_facts(db, NOON).tokens] == [ending]


def test_gateways_budgets_and_messages_are_told_as_the_store_has_them(db: Db) -> None:
    for name, at in (("a", NOON), ("dead", NOON - DAY)):
        new = GatewayIdentity(name=name, home=name, host="h", version="1", schema_number=75)
        gateways.register(db, new, 60 * SECOND, 1, at)
    groups.add(db, "acme", "Acme", "", NOON)
    scope = BudgetScope(BudgetScopeKind.GROUP, "acme")
    budgets.put(db, scope, Period.DAY, MICRO, "test", NOON)
    budgets.add_spending(db, "acme", "", NOON, spent=2 * MICRO, reserved=0)
    new_effect = NewEffect(key="k", op="send", origin="tool", instance="tg", address="tg:1", payload={"text": "x"})
    sent = outbox.add(db, new_effect, NOON)
    outbox.record_outcome(db, sent.id, EffectState.UNCERTAIN, "no answer", NOON)
    facts = read_stored_facts(db, NOON)
    assert (facts.gone, facts.living) == (("dead",), frozenset({"a"}))
    assert (facts.spent, facts.uncertain, facts.failing) == (("acme",), 1, ())
    assert read_stored_facts(db, NOON + 2 * DAY).uncertain == 0


def write_certificates(path: Path, *days: int) -> None:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    made = [
        x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin + timedelta(days=each)).sign(
            key, hashes.SHA256()
        )
        for each in days
    ]
    path.write_bytes(b"".join(each.public_bytes(serialization.Encoding.PEM) for each in made))


@pytest.mark.parametrize(("days", "ends"), [((10,), 10), ((10, 400), 400)])
def test_the_last_of_a_files_certificates_counts(tmp_path: Path, days: tuple[int, ...], ends: int) -> None:
    load_package("gatepost.channels")
    write_certificates(tmp_path / "ca.pem", *days)
    row = StoredChannel("irc", "irc", {"ca_file": str(tmp_path / "ca.pem")}, True, NOON, "test")
    (found,) = list_certificates(Config(), [row])
    end = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=ends)
    assert (found.name, found.ends_at) == ("irc", int(end.timestamp()) * SECOND)


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_file_that_cannot_be_read_is_for_the_channel_to_say(tmp_path: Path, content: bytes | None) -> None:
    load_package("gatepost.channels")
    if content is not None:
        (tmp_path / "ca.pem").write_bytes(content)
    row = StoredChannel("irc", "irc", {"ca_file": str(tmp_path / "ca.pem")}, True, NOON, "test")
    assert list_certificates(Config(), [row]) == []


def test_without_a_backup_the_age_of_the_store_counts_unless_another_gateway_makes_them(home: Home) -> None:
    assert find_unproven_days(home, Config(), NOON - 9 * DAY, False, NOON) == 9
    assert find_unproven_days(home, Config(), NOON - 9 * DAY, True, NOON) is None
    relative = Config().with_values({FOLDER.name: "backups"}, "test")
    assert find_unproven_days(home, relative, NOON - 9 * DAY, False, NOON) == 9
    folder = find_folder(home, Config())
    folder.mkdir()
    (folder / make_name(NOON - 3 * DAY)).touch()
    keep_proof(folder / make_name(NOON - 3 * DAY), BackupProof(at=1, trouble=""))
    assert find_unproven_days(home, Config(), NOON - 9 * DAY, True, NOON) is not None
