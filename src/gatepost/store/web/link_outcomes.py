"""The outcome of a message that a program posted, for a program that waits for it."""

from enum import StrEnum

from msgspec import Struct

from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxEntry, InboxMode, InboxState
from gatepost.store.port import Db
from gatepost.store.rights import switches, waiting_requests

LONGEST_BODY = 100_000  # characters of what is said in answer
MOST_SAID = 100  # messages of one turn that are joined


class LinkAnswerStatus(StrEnum):
    """`done`: it was worked on to the end. `silent`: the same, and nothing was said. `failed`: it was not. `held`: a
    person has to decide first, or everything is halted. `timeout`: it is still worked on, or waits for its turn."""

    DONE = "done"
    SILENT = "silent"
    FAILED = "failed"
    HELD = "held"
    TIMEOUT = "timeout"


class LinkOutcome(Struct, frozen=True):
    """`body`: what was said in the link's room."""

    status: LinkAnswerStatus
    body: str = ""

    @property
    def is_over(self) -> bool:
        return self.status not in (LinkAnswerStatus.TIMEOUT, LinkAnswerStatus.HELD)


_ENDS = {InboxState.ANSWERED: LinkAnswerStatus.DONE, InboxState.SILENT: LinkAnswerStatus.SILENT}


def get_outcome(db: Db, message_id: int) -> LinkOutcome:
    """As it stands now. Messages that one turn took have the same."""
    entry = next((each for each in inbox.list_for_message(db, message_id) if each.mode is InboxMode.TRIGGER), None)
    if entry is None:
        return LinkOutcome(LinkAnswerStatus.FAILED)
    body = _join_texts(db, entry) if entry.state in inbox.END else ""
    if _is_held(db, entry):
        return LinkOutcome(LinkAnswerStatus.HELD, body)
    if entry.state not in inbox.END:
        return LinkOutcome(LinkAnswerStatus.TIMEOUT)
    return LinkOutcome(_ENDS.get(entry.state, LinkAnswerStatus.FAILED), body)


def _is_held(db: Db, entry: InboxEntry) -> bool:
    if entry.turn_id and waiting_requests.find_pending(db, entry.turn_id):
        return True
    waits = entry.state not in inbox.END
    return entry.state is InboxState.HELD or (waits and switches.get(db, switches.PANIC) is not None)


def _join_texts(db: Db, entry: InboxEntry) -> str:
    """Return what its turn said in the room of the message, oldest first."""
    rows = db.rows(
        "SELECT SUBSTR(said.text, 1, CAST(? AS INTEGER))"
        " FROM messages asked JOIN outbox o ON o.instance = asked.instance"
        " AND o.address = asked.address JOIN messages said ON said.id = o.message_id"
        " WHERE asked.id = ? AND o.turn_id = ? AND o.op IN ('send', 'file') AND o.origin IN ('result', 'tool')"
        " AND o.state NOT IN ('superseded', 'cancelled', 'failed') ORDER BY o.id LIMIT ?",
        (LONGEST_BODY, entry.message_id, entry.turn_id or "", MOST_SAID),
    )
    return "\n\n".join(text for (text,) in rows if text)[:LONGEST_BODY]
