"""Drafts that people on a platform see: interim lines of a turn, of which the answer takes the place by an edit.

A draft is a row of the outbox, so its platform id is durable before anything can take its place. At most one draft of
a turn is open: not used by an answer, not withdrawn. Which one, the keys and states of its rows say.
"""

import json
from typing import Any

from gatepost.messages.outbound import Op
from gatepost.store.messages import messages, outbox
from gatepost.store.messages.outbox import OUTBOX, EffectOrigin, EffectState, NewEffect, OutboxEffect
from gatepost.store.port import Db
from gatepost.store.sessions import turns
from gatepost.store.sessions.turns import Turn

GROWS = "grows"  # in the payload of a draft: an answer takes its place
USED = "used"  # in the same: it has
DRAFT = "draft"  # in the payload of an answer: the message whose place it takes
LEFT = "left"  # in the same: the message whose place it could not take
MOST_MESSAGES, MOST_EDITS = 10, 20  # drafts of a turn, and edits of each
_OPEN = (EffectState.PENDING, EffectState.SENDING, EffectState.SENT)


def _key(turn_id: str) -> str:
    return f"{turn_id}/draft/"


def _list_rows(db: Db, turn_id: str) -> list[OutboxEffect]:
    """Drafts and their edits, oldest first."""
    found = OUTBOX.list(db, "WHERE turn_id = ? AND origin = 'status' ORDER BY id", turn_id)
    return [each for each in found if each.key.startswith(_key(turn_id))]


def find_open(db: Db, turn_id: str) -> OutboxEffect | None:
    """The draft whose place an answer would take."""
    sent = [each for each in _list_rows(db, turn_id) if each.op == Op.SEND]
    last = sent[-1] if sent else None
    return last if last is not None and last.state in _OPEN and not last.payload.get(USED) else None


def find_text(db: Db, turn_id: str) -> str:
    """Return the text of the open draft of a turn, '' if there is none."""
    draft = find_open(db, turn_id)
    if draft is None:
        return ""
    shown = [each for each in _list_rows(db, turn_id) if draft.message_id in (each.message_id, each.target_id)]
    return str(shown[-1].payload.get("text") or "")


def record(db: Db, turn: Turn, text: str, now: int) -> bool:
    """Show this as the draft of a turn: by a message, or by an edit of it. False: there is nothing to do. After a
    failure a turn has no further draft: the platform wants to be left alone."""
    rows = _list_rows(db, turn.id)
    sends = [each for each in rows if each.op == Op.SEND]
    if any(each.state in (EffectState.FAILED, EffectState.UNCERTAIN) for each in rows):
        return False
    if is_message_already(db, turn, text):
        return False
    last = sends[-1] if sends else None
    if last is None or last.payload.get(USED) or last.state not in _OPEN:
        if len(sends) < MOST_MESSAGES:
            _add(db, turn, f"{_key(turn.id)}{len(sends) + 1}", text, None, now)
        return len(sends) < MOST_MESSAGES
    edits = [each for each in rows if each.op == Op.EDIT and each.target_id == last.message_id]
    if last.state != EffectState.SENT or len(edits) >= MOST_EDITS or last.payload.get("text") == text:
        return False
    outbox.supersede_edits(db, turn.id, EffectOrigin.STATUS, now)
    _add(db, turn, f"{last.key}/{len(edits) + 1}", text, last.message_id, now)
    return True


def is_message_already(db: Db, turn: Turn, text: str) -> bool:
    """Return True if this became a message meanwhile: a draft of it would say it twice."""
    row = db.row(
        "SELECT m.text FROM outbox o JOIN messages m ON m.id = o.message_id WHERE o.turn_id = ?"
        " AND o.origin = 'result' ORDER BY o.id DESC LIMIT 1",
        (turn.id,),
    )
    return row is not None and str(row[0]).startswith(text.rstrip())


def _add(db: Db, turn: Turn, key: str, text: str, target: int | None, now: int) -> None:
    payload: dict[str, Any] = {"text": text, GROWS: True}
    outbox.add(
        db,
        NewEffect(
            key=key,
            op=Op.SEND if target is None else Op.EDIT,
            origin=EffectOrigin.STATUS,
            instance=turn.instance,
            address=turn.address,
            thread=turn.thread,
            text=text,
            payload=payload,
            folder=turn.folder,
            session_id=turn.session_id,
            turn_id=turn.id,
            attempt=turn.attempt,
            target_id=target,
        ),
        now,
    )


def claim(db: Db, turn_id: str, now: int) -> int | None:
    """The message whose place an answer takes: once. None: there is none. One that waits to be sent is sent first, and
    not withdrawn: a power cut may have forgotten that it was."""
    draft = find_open(db, turn_id)
    if draft is None:
        return None
    outbox.supersede_edits(db, turn_id, EffectOrigin.STATUS, now)
    _set_payload(db, draft, {**draft.payload, USED: True})
    return draft.message_id


def withdraw(db: Db, turn: Turn, *, deletes: bool, now: int) -> bool:
    """Delete the draft of a turn that ended without an answer, if messages can be deleted. Return True if there is
    something to send."""
    draft = find_open(db, turn.id)
    if draft is None or not deletes:
        return False
    _delete(db, turn, f"{draft.key}/withdrawn", claim(db, turn.id, now), now)
    return True


def _delete(db: Db, turn: Turn, key: str, message_id: int | None, now: int) -> None:
    new = NewEffect(
        key=key,
        op=Op.DELETE,
        origin=EffectOrigin.STATUS,
        instance=turn.instance,
        address=turn.address,
        thread=turn.thread,
        payload={},
        folder=turn.folder,
        session_id=turn.session_id,
        turn_id=turn.id,
        attempt=turn.attempt,
        target_id=message_id,
    )
    outbox.add(db, new, now)


def give_up_place(db: Db, effect: OutboxEffect) -> None:
    """The message whose place an answer was to take can no longer be edited: the answer is a message of its own."""
    kept = {name: value for name, value in effect.payload.items() if name != DRAFT}
    _set_payload(db, effect, {**kept, LEFT: effect.payload[DRAFT]})


def remove_left(db: Db, answer: OutboxEffect, *, deletes: bool, now: int) -> None:
    """Delete the draft whose place an answer could not take, once the answer is there."""
    turn = turns.get(db, answer.turn_id) if answer.turn_id is not None else None
    if turn is not None and deletes:
        _delete(db, turn, f"{answer.key}/left", answer.payload[LEFT], now)


def release_platform_id(db: Db, message_id: int) -> None:
    """The answer stands where the draft stood, and the platform's id of that message is the answer's from now on."""
    messages.clear_platform_id(db, message_id)


def _set_payload(db: Db, effect: OutboxEffect, payload: dict[str, Any]) -> None:
    db.run("UPDATE outbox SET payload = ? WHERE id = ?", (json.dumps(payload), effect.id))
