"""Audit: a hash chain over who did what with which verdict. Details and the actor can be erased; the chain holds.

Each gateway on a store has a chain of its own, so that none waits for another. `number` is a row's place in its chain;
rows from before there were several have none, and stand at `seq`. A gateway that takes over from another seals its
chain: the row `SEAL` holds the end of that chain.

Details are chained by their hash, so they can simply go. The actor is chained as it is. A row whose actor was erased
cannot be hashed again: a later row (`ERASED`) vouches for all that is left of it, so no further change goes unseen.
"""

import hashlib
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from gatepost.core.clock import SECOND
from gatepost.store.port import Db, LockKind

START = "0" * 64
CUT = "audit.cut"  # the action of the row that vouches for an anchor
ERASED = "audit.erased"  # the action of a row that vouches for those whose actor was erased
SEAL = "gateway.takeover"  # the action of a row that says where another chain ended
FORGOTTEN = "forgotten:"  # what stands for such an actor begins so
_ROWS = 64  # in one statement: calls that are written behind come in heaps, and each statement costs the loop its turn
_TEXTS = ("actor", "action", "verdict", "details", "details_hash", "previous", "hash")
_COLUMNS = ", ".join(("seq", "at", *_TEXTS))
_NEW = ", ".join(("gateway", "number", "at", *_TEXTS))
_WHOLE = "integer text text text text text text text"
_ERASED = "integer text text text null text text text"
_READ = 500  # rows at a time
LONGEST_NUMBER = 18  # digits of a row's place
AFTER = 60 * SECOND  # a call that a turn made is written down by then
_encode = msgspec.json.Encoder(order="sorted", enc_hook=str).encode


class _TurnDetails(msgspec.Struct):
    turn: object = None


class _CallDetails(msgspec.Struct):
    call: str | int | None = None
    repeated: int = 0
    args: dict[str, Any] = {}


class _RepeatedDetails(msgspec.Struct):
    repeated: int


class _ErasureVoucher(msgspec.Struct):
    rows: dict[str, str]  # by seq: the digest of what is left


class ChainSeal(msgspec.Struct, frozen=True):
    """The end of a gateway's chain when it was taken over from."""

    gateway: str
    number: int
    hash: str


class _SealDetails(msgspec.Struct):
    seal: ChainSeal


_COUNTS = '{"repeated":'  # what such details begin with: names are sorted
_read_call = msgspec.json.Decoder(_CallDetails).decode
_read_turn = msgspec.json.Decoder(_TurnDetails).decode
_read_voucher = msgspec.json.Decoder(_ErasureVoucher).decode
_read_seal = msgspec.json.Decoder(_SealDetails).decode


class AuditRecord(Struct, frozen=True):
    """A record to be written down."""

    at: int
    actor: str
    action: str
    verdict: str
    details: dict[str, Any]


def _hash(*parts: object) -> str:
    return hashlib.sha256(_encode(parts)).hexdigest()


def append(db: Db, *records: AuditRecord) -> str:
    """The head of this gateway's chain then, as `get_head` gives it."""
    gateway = db.gateway
    db.lock(LockKind.AUDIT, gateway)
    number, previous = _find_end(db, gateway)
    rows = []
    for record in records:
        number += 1
        details = _encode(record.details)
        details_hash = hashlib.sha256(details).hexdigest()
        about = (record.at, record.actor, record.action, record.verdict)
        chained = _hash(*_name(gateway), number, *about, details_hash, previous)
        rows.append((gateway, number, *about, details.decode(), details_hash, previous, chained))
        previous = chained
    waiting = iter(rows)
    while heap := tuple(islice(waiting, _ROWS)):
        values = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"] * len(heap))
        db.run(f"INSERT INTO audit ({_NEW}) VALUES {values}", tuple(chain.from_iterable(heap)))
    return f"{number}:{previous}"


def _name(gateway: str) -> tuple[str, ...]:
    """Return what the hashes of a chain begin with: that of a gateway by itself has no name."""
    return (gateway,) if gateway else ()


def _of_chain(gateway: str) -> str:
    """For a statement: the index is over chains that have a name."""
    return "gateway = ? AND gateway <> ''" if gateway else "gateway = ?"


def _in_order(gateway: str) -> str:
    """The column that its rows stand in order by."""
    return "number" if gateway else "seq"


def _find_end(db: Db, gateway: str) -> tuple[int, str]:
    """(number, hash) of the newest row of a chain."""
    last = db.row(
        f"SELECT COALESCE(number, seq), hash FROM audit WHERE {_of_chain(gateway)}"
        f" ORDER BY {_in_order(gateway)} DESC LIMIT 1",
        (gateway,),
    )
    return (int(last[0]), str(last[1])) if last else get_anchor(db, gateway)


def find_until(db: Db, gateway: str, seq: int) -> tuple[int, str] | None:
    """(number, hash) of the last row of a chain up to that row of any; None: it has none there any more."""
    row = db.row(
        f"SELECT COALESCE(number, seq), hash FROM audit WHERE {_of_chain(gateway)} AND seq <= ?"
        f" ORDER BY {_in_order(gateway)} DESC LIMIT 1",
        (gateway, seq),
    )
    return (int(row[0]), str(row[1])) if row else None


def make_seal(db: Db, gateway: str) -> ChainSeal:
    """To be written by whoever takes over from it: nothing is appended to that chain any more."""
    return ChainSeal(gateway, *_find_end(db, gateway))


def erase_details(db: Db, seq: int) -> bool:
    return bool(db.run("UPDATE audit SET details = NULL WHERE seq = ?", (seq,)))


def erase_actors(db: Db, seqs: Sequence[int], stand_in: str, by: str, now: int) -> int:
    """Put `stand_in` in the place of these rows' actors, and erase their details. A row that vouches for them is
    written with it. How many there were."""
    assert not seqs or stand_in.startswith(FORGOTTEN)
    left: dict[str, str] = {}
    for seq in seqs:
        row = db.row(f"SELECT {_COLUMNS} FROM audit WHERE seq = ?", (seq,))
        if row is None or str(row[2]).startswith(FORGOTTEN):
            continue
        _, at, _, action, verdict, _, details_hash, previous, chained = row
        left[str(seq)] = _hash(seq, at, stand_in, action, verdict, details_hash, previous, chained)
        db.run("UPDATE audit SET actor = ?, details = NULL WHERE seq = ?", (stand_in, seq))
    if left:
        append(db, AuditRecord(now, by, ERASED, "done", {"rows": left}))
    return len(left)


class ChainBreak(Struct, frozen=True):
    """The first row that does not hold. `number`: where it should be in its chain."""

    gateway: str
    number: int
    why: str = "it was changed or removed"


class ChainVerdict(Struct, frozen=True):
    """`rows`: how many were checked. `chains`: by gateway, the head of each."""

    rows: int
    broken: ChainBreak | None
    heads: dict[str, str]


class _Vouchers:
    """Words of rows of all chains about others, until all have been read."""

    def __init__(self) -> None:
        self.erased: dict[str, tuple[str, str, int]] = {}  # by seq: (digest, gateway, number) of what is left
        self.vouched: set[tuple[str, str]] = set()  # (seq, digest)
        self.cuts: set[str] = set()  # hashes of details
        self.seals: list[ChainSeal] = []

    def find_unvouched(self) -> tuple[str, int] | None:
        """(gateway, number) of the first row whose actor was erased by nobody who says so."""
        left = (each[1:] for seq, each in self.erased.items() if (seq, each[0]) not in self.vouched)
        return min(left, default=None)


def verify(db: Db) -> tuple[int, int | None]:
    """(rows checked, the number of the first row that does not hold or None), over all chains."""
    found = verify_chains(db)
    return found.rows, found.broken.number if found.broken is not None else None


def verify_chains(db: Db) -> ChainVerdict:
    """Verify all chains, and return a verdict for any content of the file. A chain whose old rows were removed begins
    at its anchor, which holds only if a row vouches for it. A chain that was sealed goes as far as its seal."""
    said, heads, rows = _Vouchers(), dict[str, str](), 0
    for gateway in list_chains(db):
        checked, end, broken = _verify_chain(db, gateway, said)
        rows += checked
        if broken is not None:
            return ChainVerdict(rows, broken, heads)
        heads[gateway] = f"{end[0]}:{end[1]}"
    return ChainVerdict(rows, _check_vouchers(db, list(heads), said), heads)


def list_chains(db: Db) -> list[str]:
    """Gateways that wrote rows, or whose rows were removed because of their age. That without a name comes first."""
    named = db.rows("SELECT DISTINCT gateway FROM audit WHERE gateway <> ''")
    cut = db.rows("SELECT gateway FROM audit_anchors")
    return sorted({"", *(str(row[0]) for row in (*named, *cut))})


def _verify_chain(db: Db, gateway: str, said: _Vouchers) -> tuple[int, tuple[int, str], ChainBreak | None]:
    """(rows checked, number and hash of its end, what does not hold)."""
    start, previous = get_anchor(db, gateway)
    number, after = start, start if gateway else _find_cut(db)
    while rows := _read_next(db, gateway, after):
        for row in rows:
            number, after = number + 1, row[1] if gateway else row[0]
            chained = _check_row(row, gateway, number, previous, said)
            if chained is None:  # where it should be: what it calls itself may be what was changed
                return number - start, (number, previous), ChainBreak(gateway, number)
            previous = chained
    if rows is None:
        return number - start + 1, (number, previous), ChainBreak(gateway, number + 1)
    return number - start, (number, previous), None


def _check_vouchers(db: Db, chains: Sequence[str], said: _Vouchers) -> ChainBreak | None:
    for gateway in chains:
        start, begins = get_anchor(db, gateway)
        wanted = hashlib.sha256(_encode(make_voucher(start, begins, gateway))).hexdigest()
        if start and wanted not in said.cuts:
            return ChainBreak(gateway, start + 1)
    for seal in said.seals:
        if not _holds_seal(db, seal):
            why = "rows were removed behind the seal of whoever took over from it, or all was written anew"
            return ChainBreak(seal.gateway, seal.number, why)
    unvouched = said.find_unvouched()
    return ChainBreak(*unvouched) if unvouched is not None else None


def _holds_seal(db: Db, seal: ChainSeal) -> bool:
    start, _ = get_anchor(db, seal.gateway)
    return seal.number < start or continues_from(db, seal.number, seal.hash, seal.gateway)


def get_anchor(db: Db, gateway: str = "") -> tuple[int, str]:
    """(number, hash) of the row after which a chain begins: rows before it were removed because of their age."""
    row = db.row("SELECT number, hash FROM audit_anchors WHERE gateway = ?", (gateway,))
    return (int(row[0]), str(row[1])) if row else (0, START)


def _find_cut(db: Db) -> int:
    """The row after which the chain without a name begins; those before it may not all be removed yet."""
    row = db.row("SELECT seq FROM audit_anchors WHERE gateway = ''")
    return int(row[0]) if row else 0


def make_voucher(through: int, chained: str, gateway: str = "") -> dict[str, Any]:
    """The details of the row that vouches for an anchor. They can be erased: their hash is compared."""
    return {"through": through, "hash": chained, **({"gateway": gateway} if gateway else {})}


def _read_next(db: Db, gateway: str, after: int) -> list[tuple[Any, ...]] | None:
    """The following rows; None: there is one that cannot be read. Texts come as bytes, which need not be UTF-8."""
    kept = ", ".join(f"CAST({column} AS BLOB)" for column in _TEXTS)
    kinds = " || ' ' || ".join(f"typeof({column})" for column in ("at", *_TEXTS))
    order = _in_order(gateway)
    sql = (
        f"SELECT seq, COALESCE(number, seq), at, {kinds}, {kept} FROM audit"
        f" WHERE {_of_chain(gateway)} AND {order} > ? ORDER BY {order} LIMIT ?"
    )
    for limit in (_READ, 1):  # one by one where something is damaged: those before it still hold
        try:
            return db.rows(sql, (gateway, after, limit))
        except apsw.CorruptError:
            continue
    return None


def _check_row(row: tuple[Any, ...], gateway: str, expected: int, previous: str, said: _Vouchers) -> str | None:
    """The row's hash, if it holds. `said` gets what it says of others."""
    seq, number, at, kinds, *kept = row
    if kinds not in (_WHOLE, _ERASED):
        return None
    try:
        actor, action, verdict, details, details_hash, before, chained = (each and each.decode() for each in kept)
    except UnicodeDecodeError:
        return None
    if details is not None and hashlib.sha256(details.encode()).hexdigest() != details_hash:
        return None
    if number != expected or before != previous:
        return None
    if actor.startswith(FORGOTTEN) and details is None:
        left = _hash(seq, at, actor, action, verdict, details_hash, previous, chained)
        said.erased[str(seq)] = (left, gateway, number)
        return str(chained)
    if _hash(*_name(gateway), number, at, actor, action, verdict, details_hash, previous) != chained:
        return None
    _read_words(action, details, details_hash, said)
    return str(chained)


def _read_words(action: str, details: str | None, details_hash: str, said: _Vouchers) -> None:
    """Collect what a valid row vouches for in other rows."""
    if action == CUT:
        said.cuts.add(details_hash)
    if details is None or action not in (ERASED, SEAL):
        return
    with suppress(msgspec.MsgspecError):
        if action == ERASED:
            said.vouched.update(_read_voucher(details).rows.items())
        else:
            said.seals.append(_read_seal(details).seal)


def count_repeated(db: Db) -> int:
    """How many further events the rows stand for that only tell a number (see `gate/dispatch.py`)."""
    found = 0
    for (details,) in db.rows(
        "SELECT details FROM audit WHERE substr(details, 1, CAST(? AS INTEGER)) = ?", (len(_COUNTS), _COUNTS)
    ):
        found += msgspec.json.decode(details, type=_RepeatedDetails).repeated
    return found


def find_damage(db: Db) -> str:
    """Return what is wrong with the pages that keep the rows, though each may still be read; '' if nothing."""
    return db.upkeep.find_damage("audit")


def get_head(db: Db, gateway: str = "") -> str:
    """`NUMBER:HASH` of a chain's newest row. Kept elsewhere, it shows later whether the chain is still the same that
    far."""
    number, chained = _find_end(db, gateway)
    return f"{number}:{chained}"


def get_newest(db: Db) -> int:
    """The `seq` of the newest row, of whichever chain."""
    row = db.row("SELECT COALESCE(MAX(seq), 0) FROM audit")
    return int(row[0]) if row else 0


def continues_from(db: Db, number: int, chained: str, gateway: str = "") -> bool:
    """Return True if a chain has that row, or begins after it."""
    if number == 0:
        return chained == START
    if (number, chained) == get_anchor(db, gateway):
        return True
    at = "number = ?" if gateway else "seq >= ? AND COALESCE(number, seq) = ?"
    row = db.row(
        f"SELECT hash FROM audit WHERE {_of_chain(gateway)} AND {at} ORDER BY seq LIMIT 1",
        (gateway, number) if gateway else (gateway, number, number),
    )
    return row is not None and row[0] == chained


def parse_head(text: str) -> tuple[str, int, str] | None:
    """(gateway, number, hash) of `NUMBER:HASH` or `GATEWAY/NUMBER:HASH`; None: it is neither."""
    gateway, _, rest = text.strip().rpartition("/")
    number, colon, chained = rest.partition(":")
    is_number = number.isascii() and number.isdigit() and len(number) <= LONGEST_NUMBER
    return (gateway, int(number), chained) if colon and is_number else None


def render_heads(db: Db) -> str:
    """Return the heads of all chains, each in the form that `parse_head` reads."""
    named = [each for each in list_chains(db) if each]
    own = get_head(db)
    unnamed = [] if named and own.startswith("0:") else [own]
    return " ".join((*unnamed, *(f"{each}/{get_head(db, each)}" for each in named)))


def get(db: Db, seq: int) -> dict[str, Any] | None:
    """A row without its hashes."""
    columns = ("seq", "at", "actor", "action", "verdict", "details")
    row = db.row(f"SELECT {', '.join(columns)} FROM audit WHERE seq = ?", (seq,))
    return dict(zip(columns, row, strict=True)) if row else None


def list_latest(db: Db, limit: int) -> list[tuple[Any, ...]]:
    return [row[:-1] for row in list_latest_of_all(db, limit)]


def list_latest_of_all(db: Db, limit: int) -> list[tuple[Any, ...]]:
    """The same, each with the gateway in whose chain it is."""
    return db.rows(
        "SELECT seq, at, actor, action, verdict, details, gateway FROM audit ORDER BY seq DESC LIMIT ?", (limit,)
    )


def list_for_turns(
    db: Db, turns: Collection[str], since: int, until: int | None, most: int = 20_000
) -> dict[str, list[tuple[int, str, str, str]]]:
    """(at, actor, action, verdict) of the calls made in each of these turns, which lie between two moments. All in one
    look, at the newest `most` rows of that time."""
    end = find_first_since(db, until + AFTER) if until is not None else 2**62
    newest = db.row("SELECT COALESCE(MAX(seq), 0) FROM audit WHERE seq < ?", (end,))
    start = max(find_first_since(db, since - AFTER), (int(newest[0]) if newest else 0) - most + 1)
    found: dict[str, list[tuple[int, str, str, str]]] = {turn: [] for turn in turns}
    for at, actor, action, verdict, details in db.rows(
        "SELECT at, actor, action, verdict, details FROM audit WHERE seq >= ? AND seq < ? AND details IS NOT NULL"
        " ORDER BY seq",
        (start, end),
    ):
        turn = _read_turn(details).turn
        if isinstance(turn, str) and turn in found and at >= since:
            found[turn].append((at, actor, action, verdict))
    return found


class CallCount(Struct, frozen=True):
    """`more`: calls older than the rows that were looked at, or kept as a number alone, are not among them."""

    calls: int
    more: bool


def count_calls(
    db: Db, actor: str, actions: Sequence[str], since: int, room: str = "", most: int = 20_000
) -> CallCount:
    """Count the calls of these tools since a moment, among the newest `most` rows. `room`: only those that name it. A
    call that was held and then made is one."""
    first, newest = find_first_since(db, since), get_newest(db)
    start = max(first, newest - most + 1)
    wanted, calls, summed = {*actions}, set[str | int | None](), 0
    for action, details in db.rows(
        "SELECT action, details FROM audit WHERE seq >= ? AND actor = ? AND verdict IN ('allowed', 'held', 'failed')"
        " AND details IS NOT NULL",
        (start, actor),
    ):
        if action not in wanted:
            continue
        try:
            call = _read_call(details)
        except msgspec.DecodeError:  # somebody has changed it, which is not for here to say
            continue
        if call.repeated:
            summed += call.repeated
        elif not room or room in call.args.values():
            calls.add(call.call)
    return CallCount(len(calls) + (0 if room else summed), start > first or bool(room and summed))


def find_first_since(db: Db, moment: int) -> int:
    """The first row from that moment on, by halves: rows stand in the order in which they were written, and one that
    was written behind is not much behind."""
    low, high = 0, int((db.row("SELECT COALESCE(MAX(seq), 0) + 1 FROM audit") or (1,))[0])
    while low < high:
        middle = (low + high) // 2
        row = db.row("SELECT at FROM audit WHERE seq >= ? ORDER BY seq LIMIT 1", (middle,))
        if row is None or row[0] >= moment:
            high = middle
        else:
            low = middle + 1
    return low
