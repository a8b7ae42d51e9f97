"""Requests that tell of a person: about them, from a room of theirs, or decided or answered by them, alone or with
others.

The consequence of their word is not lost: as long as nobody was told, their words stay, and they are not forgotten yet.
"""

import json
from collections.abc import Sequence

from msgspec import Struct

from gatepost.store.messages import inbox
from gatepost.store.people.person_scope import FORGOTTEN, PersonScope, make_marks
from gatepost.store.port import Db
from gatepost.store.rights import request_cards, requests
from gatepost.store.rights.requests import RequestKind, RequestState
from gatepost.store.schedule.retention import remove_cards

LONGEST_EXCERPT = 500  # characters of what somebody wrote that a card shows
_NOBODYS = ""  # the folder of what is held for a room that no group has
_ANSWERED_PART = (
    "EXISTS (SELECT 1 FROM request_votes v WHERE v.request_id = r.id AND r.kind = 'question' AND v.person IN ({}))"
)


class PersonRequest(Struct, frozen=True):
    """A request about the person or from a room of theirs (`own`), or one that they decided: its asker was told so."""

    id: str
    session_id: str | None
    own: bool


def list_requests(db: Db, scope: PersonScope, after: str, most: int) -> tuple[list[PersonRequest], str]:
    """Among the next `most`; and the cursor, '' at the end."""
    rows = db.rows(
        "SELECT r.id, r.session_id, r.name, r.about, r.instance, r.address, r.answered_by,"
        f" {_ANSWERED_PART.format(make_marks(scope.names))} FROM requests r WHERE r.id > ? ORDER BY r.id LIMIT ?",
        (*scope.names, after, most),
    )
    found = [
        PersonRequest(number, session_id, own)
        for number, session_id, name, about, *room, answered_by, in_part in rows
        if (own := bool({name, about} & {*scope.names}) or tuple(room) in scope.rooms)
        or in_part
        or is_named(answered_by, scope.names)
    ]
    return found, rows[-1][0] if len(rows) == most else ""


def is_named(listed: str, names: Sequence[str]) -> bool:
    """Return True if the person is the one who did something, or one of several."""
    return listed in names or any(each in names for each in request_cards.split_voters(listed))


def list_undone(db: Db, names: Sequence[str]) -> list[str]:
    """List what the person decided or answered with words of their own, and nobody was told or has run yet."""
    rows = db.rows(
        f"SELECT r.id, r.answered_by, {_ANSWERED_PART.format(make_marks(names))} FROM requests r"
        " WHERE r.state <> 'pending' AND r.notified_at IS NULL AND (r.answer <> '{}' OR r.reason <> '')",
        names,
    )
    return [str(row[0]) for row in rows if row[2] or is_named(row[1], names)]


def remove_requests(db: Db, found: Sequence[PersonRequest], scope: PersonScope, now: int) -> int:
    """Remove the person's requests. One that they decided stays, because what follows from it must not be lost; its
    cards go."""
    for each in found:
        if not each.own:
            _clear_words(db, each.id, now)
        elif not _pass_to_others(db, each.id, scope, now):
            remove_request(db, each.id)
    return len(found)


def remove_request(db: Db, request_id: str) -> None:
    remove_cards(db, request_id)
    db.run("DELETE FROM requests WHERE id = ?", (request_id,))


def _clear_words(db: Db, request_id: str, now: int) -> None:
    """Clear the person's words. A question of which they answered a part does not wait for the rest: the conversation
    that asked begins anew."""
    requests.withdraw(db, request_id, "somebody who answered a part of it was forgotten", now)
    remove_cards(db, request_id)
    notified = "id = ? AND notified_at IS NOT NULL"
    db.run(f"UPDATE requests SET answer = '{{}}' WHERE {notified}", (request_id,))


def _pass_to_others(db: Db, request_id: str, scope: PersonScope, now: int) -> bool:
    """Ask again about those who wrote after the person in a room about which people are asked: about the next of these.
    False: there is nobody else."""
    request = requests.get(db, request_id)
    if request is None or request.kind is not RequestKind.ROOM or request.state is not RequestState.PENDING:
        return False
    held = inbox.list_held_for_request(db, _NOBODYS, request_id)
    left = [(entry, each) for entry, each in held if each.sender not in scope.names]
    if not left or (request.instance, request.address) in scope.rooms:
        return False
    entry, first = left[0]
    said = {"from": first.sender, "name": first.sender_name, "text": first.text[:LONGEST_EXCERPT]}
    about = {name: value for name, value in (request.input | said).items() if value}
    remove_cards(db, request_id)
    db.run(
        "UPDATE requests SET about = ?, input = ?, thread = ?, rights = ?, next_at = ? WHERE id = ?",
        (first.sender, json.dumps(about, ensure_ascii=False), first.thread, entry.rights, now, request_id),
    )
    return True


def replace_answerers(db: Db, names: Sequence[str], after: str, through: str) -> int:
    """Replace the person as the one who decided, in the rows that stay, and what they said to it. Words that nobody was
    told yet are still needed."""
    rows = db.rows(
        "SELECT id, answered_by FROM requests WHERE id > ? AND id <= ? AND answered_by <> ''", (after, through)
    )
    found = [(request_id, by) for request_id, by in rows if is_named(by, names)]
    for request_id, by in found:
        others = [FORGOTTEN if each in names else each for each in request_cards.split_voters(by)]
        left = FORGOTTEN if by in names else request_cards.join_voters(others)
        db.run("UPDATE requests SET answered_by = ? WHERE id = ?", (left, request_id))
        db.run("UPDATE requests SET reason = '', answer = '{}' WHERE id = ? AND notified_at IS NOT NULL", (request_id,))
    return len(found)
