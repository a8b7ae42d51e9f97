"""Channels in the store: cursors, and which secrets belong to which instance."""

from pathlib import Path

from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.store.port import Db
from gatepost.store.rights import secrets
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.rooms import channel_cursors, channel_instances
from gatepost.store.rooms.channel_instances import StoredChannel
from gatepost.store.sessions import groups


def test_a_cursor_keeps_what_was_acknowledged_while_more_is_received(db: Db) -> None:
    channel_cursors.put(db, "north", "", "5", True, 1)
    channel_cursors.put(db, "north", "", "9", False, 2)
    channel_cursors.put(db, "north", "room/1", "a", False, 3)
    row = channel_cursors.get(db, "north", "")

    assert row is not None and (row.received, row.acknowledged, row.updated_at) == ("9", "5", 2)
    assert [(each.name, each.received, each.acknowledged) for each in channel_cursors.list_all(db)] == [
        ("", "9", "5"),
        ("room/1", "a", ""),
    ]
    assert channel_cursors.get(db, "south", "") is None


def test_a_change_keeps_who_made_it_and_when(db: Db) -> None:
    channel_instances.put(db, StoredChannel("north", "beacon", {"ports": [1, 2], "on": True}, True, 1, "operator"))
    channel_instances.put(db, StoredChannel("north", "beacon", {}, False, 2, "web:user/9"))

    assert channel_instances.list_all(db) == [StoredChannel("north", "beacon", {}, False, 1, "operator")]


def test_an_instance_whose_name_begins_alike_keeps_its_secrets(db: Db, tmp_path: Path) -> None:
    keyring = Keyring(Home(tmp_path), {})
    for instance in ("mail", "mail-two"):
        channel_instances.put_secrets(db, keyring, instance, {"password": "hush"}, 1)
    groups.add(db, "acme", "acme", "", 1)
    secrets.put(db, keyring, SecretOwner(folder="acme"), "CHANNEL_MAIL_PASSWORD", "not of a channel", 1)

    names = channel_instances.list_secret_names(db, "mail", ["mail-two", "other"])
    assert names == ["CHANNEL_MAIL_PASSWORD"]
    assert channel_instances.remove(db, "mail", names) is False
    assert {(each.name, each.folder) for each in secrets.list_all(db)} == {
        ("CHANNEL_MAIL_TWO_PASSWORD", ""),
        ("CHANNEL_MAIL_PASSWORD", "acme"),
    }
