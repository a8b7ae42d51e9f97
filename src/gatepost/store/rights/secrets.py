"""Secrets: sealed values by scope (a person, a folder, the whole gateway) and name, and the record of their uses.

Sealing and opening happen inside the store's transactions, which come one after another: so none is sealed with a key
that a rotation beside it is about to drop. No function here that lists, records or rotates gives a value away.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping

from msgspec import Struct

from gatepost.core.clock import HOUR, SECOND, Clock, SystemClock
from gatepost.core.errors import SetupError
from gatepost.core.keyring import Keyring, KeySet, SealedValue, UnsealError
from gatepost.store.engine.table import Table
from gatepost.store.gateways import gateways, incarnations
from gatepost.store.gateways.incarnations import IncarnationReason
from gatepost.store.people import identities
from gatepost.store.port import Db, LockKind, Store
from gatepost.store.rights.secret_rows import UNBOUND, Secret, SecretOwner, SecretUse, render_scope

ANTHROPIC_API_KEY = "ANTHROPIC_API_KEY"
ANTHROPIC_AUTH_TOKEN = "ANTHROPIC_AUTH_TOKEN"  # of a subscription, made by `claude setup-token`
OPENAI_API_KEY = "OPENAI_API_KEY"
GEMINI_API_KEY = "GEMINI_API_KEY"
KNOWN = (ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY, GEMINI_API_KEY)  # those that the gateway itself uses

USES_KEPT = 100_000  # one a model call: the record is for looking back, not for ever
VALUE_KEPT, UNREADABLE_KEPT = HOUR, 10 * SECOND  # until a value that is kept open is opened anew
MOST_NAMED = 5  # gateways in an error


SECRETS = Table("secrets", Secret)
_COLUMNS = ", ".join(f"COALESCE({name}, '')" if name in ("folder", "user_id") else name for name in SECRETS.names)


USES = Table("secret_uses", SecretUse)


def list_scopes(folder: str, *people: str) -> tuple[str, ...]:
    """Return where to look, the nearest first: the person by each identity, the folder, those above it, the gateway."""
    parts = folder.split("/") if folder else []
    folders = ["/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]
    return (*(SecretOwner(user_id=each).scope for each in people), *(SecretOwner(each).scope for each in folders), "")


def put(db: Db, keyring: Keyring, place: SecretOwner, name: str, value: str, now: int, origin: str = UNBOUND) -> Secret:
    """Seal a value into its place; the one that was there is gone."""
    db.lock(LockKind.SECRETS)
    sealed = _ring_to_seal(db, keyring).seal(value.encode(), (place.scope, name))
    row = SECRETS.insert(
        db,
        "ON CONFLICT (scope, name, origin) DO UPDATE SET key_id = excluded.key_id, nonce = excluded.nonce,"
        f" sealed = excluded.sealed, updated_at = excluded.updated_at RETURNING {_COLUMNS}",
        scope=place.scope,
        name=name,
        folder=place.folder or None,
        user_id=place.user_id or None,
        key_id=sealed.key_id,
        nonce=sealed.nonce,
        sealed=sealed.data,
        created_at=now,
        updated_at=now,
        origin=origin,
    )
    assert row is not None
    return SECRETS.parse(row)


def bind_origins(db: Db, origins: Mapping[str, str]) -> int:
    """Keys that were set before origins were kept belong to the endpoints of now; how many there were."""
    return sum(
        db.run(
            "UPDATE secrets SET origin = ? WHERE name = ? AND origin = ? AND NOT EXISTS (SELECT 1 FROM secrets AS own"
            " WHERE own.scope = secrets.scope AND own.name = secrets.name AND own.origin = ?)",
            (origin, name, UNBOUND, origin),
        )
        for name, origin in origins.items()
    )


def get(db: Db, place: SecretOwner, name: str, origins: tuple[str, ...] | None = None) -> Secret | None:
    """`origins`: of those alone that were given for one of these endpoints, the first of them before the others."""
    rows = db.rows(f"SELECT {_COLUMNS} FROM secrets WHERE scope = ? AND name = ? ORDER BY origin", (place.scope, name))
    found = [each for each in map(SECRETS.parse, rows) if origins is None or each.origin in origins]
    return min(found, key=lambda each: origins.index(each.origin) if origins else 0, default=None)


def list_all(db: Db) -> list[Secret]:
    return [SECRETS.parse(row) for row in db.rows(f"SELECT {_COLUMNS} FROM secrets ORDER BY name, scope, origin")]


def remove(db: Db, place: SecretOwner, name: str, origin: str | None = None) -> bool:
    """`origin`: the one for that endpoint alone."""
    if origin is None:
        return bool(db.run("DELETE FROM secrets WHERE scope = ? AND name = ?", (place.scope, name)))
    return bool(db.run("DELETE FROM secrets WHERE scope = ? AND name = ? AND origin = ?", (place.scope, name, origin)))


def list_uses(db: Db, limit: int) -> list[SecretUse]:
    """The latest first."""
    return USES.list(db, "ORDER BY id DESC LIMIT ?", limit)


def _ring_to_seal(db: Db, keyring: Keyring) -> KeySet:
    """The ring, made with the first secret. A lost one is not replaced: what it sealed would stay shut unnoticed. But
    after a restore, which brings none, it is: the doctor names what stays shut."""
    ring = keyring.read()
    if ring is None and keyring.is_file and (db.row("SELECT 1 FROM secrets LIMIT 1") is None or _was_restored(db)):
        check_new_key(db)
        return keyring.add_key()
    return ring if ring is not None else _raise_lost_keyring(keyring)


def _was_restored(db: Db) -> bool:
    current = incarnations.get_current(db)
    return current is not None and current.reason is not IncarnationReason.FIRST


def check_new_key(db: Db) -> None:
    """A key that is made here is in no other gateway's ring, so what it seals would open here alone."""
    others = [each.name for each in gateways.list_present(db) if each.name != db.gateway]
    if len(others) > (0 if db.gateway else 1):  # a command does not know which of them is its own
        raise SetupError(
            f"other gateways on this store ({', '.join(others[:MOST_NAMED])}) would not have a new key: end them"
            " (`gatepost gateway drain NAME`), run `gatepost secret rotate` here, copy keyring.json to their homes,"
            " and start them again"
        )


def get_ring(db: Db, keyring: Keyring) -> KeySet:
    """The ring for what is derived from it. It is made like for a first secret; a lost one is a SetupError."""
    return _ring_to_seal(db, keyring)


def _ring_to_open(keyring: Keyring) -> KeySet:
    ring = keyring.read()
    return ring if ring is not None else _raise_lost_keyring(keyring)


def _raise_lost_keyring(keyring: Keyring) -> KeySet:
    raise SetupError(
        f"there are secrets, but the key ring {keyring.where} is gone; bring it back (GATEPOST_KEYRING, if it was kept"
        " there), or remove them with `gatepost secret rm` and set them anew"
    )


def _open(ring: KeySet, scope: str, name: str, sealed: SealedValue) -> bytes:
    try:
        return ring.open(sealed, (scope, name))
    except UnsealError as error:
        raise UnsealError(f"the secret {name} of {render_scope(scope)} cannot be read: {error}; set it anew") from None


def _read_and_record(
    db: Db,
    keyring: Keyring,
    name: str,
    folder: str,
    user: str | None,
    purpose: str,
    now: int,
    origins: tuple[str, ...] | None,
) -> tuple[str | None, SetupError | None]:
    """The nearest value, and its use on record. A near one that does not open is not passed over for a farther one."""
    order = list_scopes(folder, *(identities.list_names(db, user) if user else ()))
    marks = ", ".join("?" * len(order))
    found = db.rows(
        f"SELECT scope, key_id, nonce, sealed, origin FROM secrets WHERE name = ? AND scope IN ({marks})",
        (name, *order),
    )
    rows = [row for row in found if origins is None or row[4] in origins]
    scope, value, trouble = None, None, None
    if rows:
        scope, *sealed, origin = min(
            rows, key=lambda row: (order.index(row[0]), origins.index(row[4]) if origins else 0, row[4])
        )
        try:
            value = _open(_ring_to_open(keyring), scope, name, SealedValue(*sealed)).decode()
            db.run(
                "UPDATE secrets SET used_at = ? WHERE scope = ? AND name = ? AND origin = ?", (now, scope, name, origin)
            )
        except SetupError as error:
            trouble = error
    outcome = "unreadable" if trouble else "missing" if value is None else "used"
    use = SecretUse(now, name, scope, folder, user or "", purpose, outcome)
    row = USES.insert(db, "RETURNING id", use)
    assert row is not None
    db.run("DELETE FROM secret_uses WHERE id <= ?", (row[0] - USES_KEPT,))
    return value, trouble


def find_mark(db: Db, name: str, folder: str) -> bytes | None:
    """Return what changes whenever the value that holds for a group does; None: there is none. No use is recorded."""
    found = find_version(db, name, folder)
    return found.mark if found is not None else None


class SecretVersion(Struct, frozen=True):
    scope: str
    mark: bytes  # what changes whenever the value does


def find_version(db: Db, name: str, folder: str, user: str = "") -> SecretVersion | None:
    """Return the version of a secret that holds for a group, and for a person if one is named. No use is recorded."""
    order = list_scopes(folder, *(identities.list_names(db, user) if user else ()))
    marks = ", ".join("?" * len(order))
    rows = db.rows(f"SELECT scope, origin, nonce FROM secrets WHERE name = ? AND scope IN ({marks})", (name, *order))
    found = min(((order.index(row[0]), row[1], bytes(row[2])) for row in rows), default=None)
    return SecretVersion(order[found[0]], found[2]) if found is not None else None


class SecretReader:
    """For whoever spends secrets on the host."""

    def __init__(self, store: Store, keyring: Keyring, clock: Clock | None = None) -> None:
        self._store, self._keyring, self._clock = store, keyring, clock or SystemClock()

    async def get(
        self,
        name: str,
        folder: str,
        user: str | None = None,
        *,
        purpose: str = "",
        origins: tuple[str, ...] | None = None,
    ) -> str | None:
        """The value that holds for a group, and for a person if one is named: theirs first, then that of the deepest
        folder, then the gateway's. `origins`: of those alone that were given for one of these endpoints. None: nobody
        has it. The use is recorded with its purpose, such as a host; a value that does not open is a SetupError."""
        now = self._clock.now()
        value, trouble = await self._store.write(
            _read_and_record, self._keyring, name, folder, user, purpose, now, origins, durable=False
        )
        if trouble is not None:
            raise trouble
        return value


class KeptSecrets:
    """Values that strangers have us use as often as they like: each is opened once, and its use recorded once, until
    another one is set. A change counts at once: the store is asked for the mark each time, which writes nothing. One
    that does not open is tried again after a while, since the key ring may have come back."""

    def __init__(self, reader: SecretReader, store: Store, clock: Clock, most: int) -> None:
        """`most`: how many are kept, the latest."""
        self._reader, self._store, self._clock, self._most = reader, store, clock, most
        self._kept: OrderedDict[tuple[str, str], _KeptSecret] = OrderedDict()
        self._turn = asyncio.Lock()

    async def get(self, name: str, folder: str, *, purpose: str) -> str:
        """'' if nobody has set it. A value that does not open is a SetupError."""
        mark = await self._store.read(find_mark, name, folder)
        async with self._turn:  # whoever comes while it is opened gets the same one
            kept = self._kept.pop((name, folder), None)
            if kept is None or kept.mark != mark or not 0 <= self._clock.now() - kept.at < kept.lasts:
                kept = await self._open(mark, name, folder, purpose)
            self._kept[name, folder] = kept
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        if kept.trouble is not None:
            raise kept.trouble
        return kept.value

    async def _open(self, mark: bytes | None, name: str, folder: str, purpose: str) -> "_KeptSecret":
        now = self._clock.now()
        try:
            value = await self._reader.get(name, folder, purpose=purpose)
        except SetupError as error:
            return _KeptSecret(mark, now, UNREADABLE_KEPT, trouble=error)
        return _KeptSecret(mark, now, VALUE_KEPT, value or "")


class _KeptSecret(Struct, frozen=True):
    mark: bytes | None
    at: int
    lasts: int
    value: str = ""
    trouble: SetupError | None = None


def open_all(db: Db, keyring: Keyring) -> list[tuple[str, str, str, bytes]]:
    """(scope, name, origin, value) of every secret. Before a rotation, too: one that does not open stops it before the
    ring is touched."""
    rows = db.rows("SELECT scope, name, origin, key_id, nonce, sealed FROM secrets ORDER BY scope, name, origin")
    if not rows:
        return []
    ring = _ring_to_open(keyring)
    return [(row[0], row[1], row[2], _open(ring, row[0], row[1], SealedValue(*row[3:]))) for row in rows]


def reseal(db: Db, keyring: Keyring) -> tuple[str, int]:
    """Seal everything with the ring's current key: (the key, how many)."""
    db.lock(LockKind.SECRETS)
    opened, ring = open_all(db, keyring), keyring.read()
    if ring is None:
        raise SetupError(f"there is no key ring in {keyring.where}")
    for scope, name, origin, value in opened:
        sealed = ring.seal(value, (scope, name))
        db.run(
            "UPDATE secrets SET key_id = ?, nonce = ?, sealed = ? WHERE scope = ? AND name = ? AND origin = ?",
            (sealed.key_id, sealed.nonce, sealed.data, scope, name, origin),
        )
    return ring.current, len(opened)


def list_key_ids(db: Db) -> set[str]:
    """Those that secrets are sealed with."""
    return {str(row[0]) for row in db.rows("SELECT DISTINCT key_id FROM secrets")}


def list_unused_keys(db: Db, keyring: Keyring) -> list[str]:
    """Keys of the ring that no secret needs any more."""
    ring = keyring.read()
    return sorted(set(ring.keys) - list_key_ids(db) - {ring.current}) if ring else []
