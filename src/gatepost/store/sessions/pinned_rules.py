"""Pinned rules: text of a group, or of one of its rooms, that its agent always has, whatever its conversation forgets.
They allow and deny nothing: the rules that do are in `acl.py`."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read


class PinnedRule(Struct, frozen=True):
    """`address`: the room that it is about; '': every room of the group."""

    id: Annotated[int, shown("Id", ShownAs.ID)]
    folder: Annotated[str, shown("Group", ShownAs.CODE, head="group")]
    address: Annotated[str, shown("Room", ShownAs.CODE, head="room", empty="(every room)")]
    text: Annotated[str, shown("Rule", head="rule")]
    added_by: Annotated[str, shown("By", head="by")]
    added_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since")]


PINNED_RULES = Table("pinned_rules", PinnedRule)


def add(db: Db, folder: str, address: str, text: str, by: str, now: int) -> PinnedRule:
    return PINNED_RULES.put(db, folder=folder, address=address, text=text, added_by=by, added_at=now)


@inline_read
def list_for_group(db: Db, folder: str) -> list[PinnedRule]:
    """In the order in which they were given; those of its rooms, too."""
    return PINNED_RULES.list(db, "WHERE folder = ? ORDER BY id", folder)


def list_all(db: Db) -> list[PinnedRule]:
    return PINNED_RULES.list(db, "ORDER BY folder, id")


def get(db: Db, rule_id: int) -> PinnedRule | None:
    return PINNED_RULES.get(db, "WHERE id = ?", rule_id)


def remove(db: Db, rule_id: int) -> bool:
    return bool(db.run("DELETE FROM pinned_rules WHERE id = ?", (rule_id,)))
