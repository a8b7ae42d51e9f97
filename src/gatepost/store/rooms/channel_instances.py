"""Instances of channels that were added by `gatepost channel add`: their kind and their settings. Those of the file are
not here. The values of secrets are in `secrets`, under a name that is made of the instance and the setting."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from gatepost.core.keyring import Keyring
from gatepost.store.engine.table import Table
from gatepost.store.port import Db
from gatepost.store.rights import secrets
from gatepost.store.rights.secret_rows import SecretOwner, get_channel_secret_name
from gatepost.store.rooms import channel_cursors

GATEWAY = SecretOwner()  # whose a channel's secrets are


class StoredChannel(Struct, frozen=True):
    instance: str
    kind: str
    settings: Mapping[str, Any]
    is_on: bool
    created_at: int
    created_by: str


STORED = Table("channel_instances", StoredChannel)


def list_all(db: Db) -> list[StoredChannel]:
    return STORED.list(db, "ORDER BY instance")


def get(db: Db, instance: str) -> StoredChannel | None:
    return STORED.get(db, "WHERE instance = ?", instance)


def put(db: Db, new: StoredChannel) -> None:
    """Add one, or change its settings. The maker and the time of making stay."""
    STORED.insert(
        db,
        "ON CONFLICT (instance) DO UPDATE SET settings = excluded.settings, is_on = excluded.is_on",
        instance=new.instance,
        kind=new.kind,
        settings=msgspec.json.encode(new.settings).decode(),
        is_on=int(new.is_on),
        created_at=new.created_at,
        created_by=new.created_by,
    )


def put_secrets(db: Db, keyring: Keyring, instance: str, values: Mapping[str, str], now: int) -> None:
    """By the last names of their settings."""
    for name, value in values.items():
        secrets.put(db, keyring, GATEWAY, get_channel_secret_name(instance, name), value, now)


def remove(db: Db, instance: str, secret_names: Iterable[str]) -> bool:
    """With its cursor and these secrets. False: there was no row."""
    for name in secret_names:
        secrets.remove(db, GATEWAY, name)
    channel_cursors.remove(db, instance)
    return bool(db.run("DELETE FROM channel_instances WHERE instance = ?", (instance,)))


def list_secret_names(db: Db, instance: str, others: Iterable[str]) -> list[str]:
    """The secrets of an instance that are set, by their names in the store. `others`: the other instances, whose names
    may begin alike."""
    own = get_channel_secret_name(instance, "")
    longer = tuple(
        prefix for each in others if (prefix := get_channel_secret_name(each, "")) != own and prefix.startswith(own)
    )
    names = {each.name for each in secrets.list_all(db) if not each.folder and not each.user_id}
    return sorted(name for name in names if name.startswith(own) and not (longer and name.startswith(longer)))
