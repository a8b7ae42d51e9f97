"""Newcomers: people who get a group of their own, by an entrance or an invitation.

    queued → admitted → settled · failed        queued → denied

An entrance is open to some senders of a channel, and lets so many in a day. An admitted newcomer gets a group, which
`flow/onboarding.py` makes; `settled` is written with it.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core import ids
from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read

PREFIX = "nc"  # how ids begin


class NewcomerState(StrEnum):
    QUEUED = "queued"
    ADMITTED = "admitted"  # their group is to be made
    SETTLED = "settled"
    DENIED = "denied"
    FAILED = "failed"  # their group could not be made


def render_limit(per_day: int) -> str:
    return f"{per_day} a day" if per_day else "each when somebody allows it"


class EntranceFields(Struct, frozen=True, kw_only=True):
    """The columns that whoever opens an entrance sets."""

    instance: Annotated[str, shown("Channel", head="channel"), argument("The channel's instance, like telegram.")]
    folder: Annotated[
        str,
        shown("Group", head="group", render=lambda folder: f"{folder}/…"),
        argument("The group below which theirs are made.", examples=("acme/eng",)),
    ]
    senders: Annotated[
        str,
        shown("Who", ShownAs.CODE),
        option("A glob over senders.", examples=("email:*@acme.example", "telegram:user/*")),
        Meta(max_length=512),
    ] = "*"
    per_day: Annotated[
        int,
        shown("Lets in", head="lets in", render=render_limit),
        option("How many come in on one day by themselves (0: somebody allows each).", least=0, most=1000),
    ] = 10


class Entrance(EntranceFields, frozen=True, kw_only=True):
    id: Annotated[int, shown("Id", ShownAs.ID)]
    created_by: Annotated[str, shown("By", head="by")]
    created_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since")]


class NewNewcomer(Struct, frozen=True, kw_only=True):
    sender: str
    name: str
    instance: str
    address: str
    parent: str
    state: NewcomerState
    entrance_id: int | None = None
    invited_by: str = ""
    admitted_at: int | None = None
    decided_by: str = ""


class Newcomer(Struct, frozen=True):
    id: Annotated[str, shown("Id", ShownAs.ID)]
    name: Annotated[str, shown("Name")]
    sender: Annotated[str, shown("Who", ShownAs.CODE)]
    instance: Annotated[str, shown("Channel", head="channel")]
    address: Annotated[str, shown("Wrote in", ShownAs.CODE, head="wrote in")]
    parent: str
    entrance_id: int | None
    state: Annotated[NewcomerState, shown("State", ShownAs.BADGE)]
    reason: Annotated[str, shown("Why", head="why")]
    folder: Annotated[str, shown("Group", head="group")]
    invited_by: Annotated[str, shown("Invited by", head="invited by")]
    decided_by: Annotated[str, shown("Decided by", head="decided by")]
    asked_at: Annotated[int, shown("Asked", ShownAs.MOMENT, head="since")]
    admitted_at: Annotated[int | None, shown("Let in", ShownAs.MOMENT, head="let in")]


ENTRANCES, NEWCOMERS = Table("entrances", Entrance), Table("newcomers", Newcomer)


@inline_read
def list_entrances(db: Db) -> tuple[Entrance, ...]:
    """In the order in which they are asked."""
    return tuple(ENTRANCES.list(db, "ORDER BY id"))


def add_entrance(db: Db, instance: str, senders: str, folder: str, per_day: int, by: str, now: int) -> Entrance:
    """The one for the same senders is changed."""
    return ENTRANCES.put(
        db,
        "ON CONFLICT (instance, senders) DO UPDATE SET folder = excluded.folder, per_day = excluded.per_day,"
        " created_by = excluded.created_by, created_at = excluded.created_at",
        instance=instance,
        senders=senders,
        folder=folder,
        per_day=per_day,
        created_by=by,
        created_at=now,
    )


def remove_entrance(db: Db, entrance_id: int) -> Entrance | None:
    """Remove an entrance. Newcomers who wait there stay in the queue until somebody decides."""
    row = db.row(f"DELETE FROM entrances WHERE id = ? RETURNING {ENTRANCES.columns}", (entrance_id,))
    return ENTRANCES.parse(row) if row else None


def add(db: Db, new: NewNewcomer, now: int) -> Newcomer | None:
    """Return None if the stranger came to that parent before."""
    once = f"ON CONFLICT (sender, parent) DO NOTHING RETURNING {NEWCOMERS.columns}"
    row = NEWCOMERS.insert(db, once, new, id=ids.new(PREFIX), asked_at=now)
    return NEWCOMERS.parse(row) if row else None


@inline_read
def get(db: Db, newcomer_id: str) -> Newcomer | None:
    return NEWCOMERS.get(db, "WHERE id = ?", newcomer_id)


def find(db: Db, sender: str, parent: str) -> Newcomer | None:
    return NEWCOMERS.get(db, "WHERE sender = ? AND parent = ?", sender, parent)


def list_all(db: Db) -> list[Newcomer]:
    """The oldest first."""
    return NEWCOMERS.list(db, "ORDER BY asked_at, id")


def list_in_state(db: Db, state: NewcomerState, most: int) -> list[Newcomer]:
    return NEWCOMERS.list(db, "WHERE state = ? ORDER BY asked_at, id LIMIT ?", state, most)


def list_queued(db: Db, entrance_id: int, most: int) -> list[Newcomer]:
    waiting = "WHERE state = 'queued' AND entrance_id = ? ORDER BY asked_at, id LIMIT ?"
    return NEWCOMERS.list(db, waiting, entrance_id, most)


def count_queued(db: Db, entrance_id: int) -> int:
    row = db.row("SELECT COUNT(*) FROM newcomers WHERE state = 'queued' AND entrance_id = ?", (entrance_id,))
    return int(row[0]) if row else 0


def count_admitted(db: Db, entrance_id: int, since: int) -> int:
    """How many came in by an entrance, nobody's word asked."""
    row = db.row(
        "SELECT COUNT(*) FROM newcomers WHERE entrance_id = ? AND admitted_at >= ? AND decided_by = ''",
        (entrance_id, since),
    )
    return int(row[0]) if row else 0


def count_below(db: Db, parent: str) -> int:
    """How many have, or get, a group below one."""
    row = db.row("SELECT COUNT(*) FROM newcomers WHERE parent = ? AND state IN ('admitted', 'settled')", (parent,))
    return int(row[0]) if row else 0


def count_admitted_below(db: Db, parent: str) -> int:
    """Count the admitted newcomers below a group whose groups are still to be made."""
    row = db.row("SELECT COUNT(*) FROM newcomers WHERE parent = ? AND state = 'admitted'", (parent,))
    return int(row[0]) if row else 0


def count_waiting(db: Db) -> int:
    """Everybody for whom somebody may have to do something."""
    row = db.row("SELECT COUNT(*) FROM newcomers WHERE state IN ('queued', 'failed')")
    return int(row[0]) if row else 0


def admit(db: Db, newcomer_id: str, by: str, now: int) -> Newcomer | None:
    """`by` '': the entrance itself. None if the newcomer is in already."""
    row = db.row(
        "UPDATE newcomers SET state = 'admitted', admitted_at = ?, decided_by = ?, reason = ''"
        f" WHERE id = ? AND state IN ('queued', 'denied', 'failed') RETURNING {NEWCOMERS.columns}",
        (now, by, newcomer_id),
    )
    return NEWCOMERS.parse(row) if row else None


def admit_invited(db: Db, newcomer_id: str, invited_by: str, by: str, now: int) -> Newcomer | None:
    """Admit by an invitation: the newcomer owes it to whoever invited them, and no longer to the entrance where they
    asked."""
    db.run("UPDATE newcomers SET invited_by = ?, entrance_id = NULL WHERE id = ?", (invited_by, newcomer_id))
    return admit(db, newcomer_id, by, now)


def deny(db: Db, newcomer_id: str, by: str, reason: str) -> Newcomer | None:
    """Return None if the newcomer is in already, or was denied before."""
    row = db.row(
        "UPDATE newcomers SET state = 'denied', decided_by = ?, reason = ?"
        f" WHERE id = ? AND state IN ('queued', 'failed') RETURNING {NEWCOMERS.columns}",
        (by, reason, newcomer_id),
    )
    return NEWCOMERS.parse(row) if row else None


def set_folder(db: Db, newcomer_id: str, folder: str) -> None:
    """Record the name of the newcomer's group. If the gateway is killed before it is made, it is made under this
    name."""
    db.run("UPDATE newcomers SET folder = ? WHERE id = ?", (folder, newcomer_id))


def settle(db: Db, newcomer_id: str, folder: str) -> bool:
    """Record that the newcomer's group is made in this transaction. False if it was before, or they are not admitted
    any more."""
    settled = "UPDATE newcomers SET state = 'settled', folder = ? WHERE id = ? AND state = 'admitted'"
    return bool(db.run(settled, (folder, newcomer_id)))


def fail(db: Db, newcomer_id: str, reason: str) -> bool:
    failed = "UPDATE newcomers SET state = 'failed', reason = ? WHERE id = ? AND state = 'admitted'"
    return bool(db.run(failed, (reason, newcomer_id)))


def has_folder(db: Db, folder: str) -> bool:
    """Return True if a newcomer has, or gets, the group of that name."""
    return db.row("SELECT 1 FROM newcomers WHERE folder = ? LIMIT 1", (folder,)) is not None
