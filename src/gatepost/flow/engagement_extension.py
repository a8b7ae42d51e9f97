"""A group that says something where it is engaged stays in that conversation longer, if a person's words led to it. A
message that a timer, another agent, a bot or the gateway itself led to extends nothing."""

from gatepost.access.senders import is_person, is_program
from gatepost.store.messages import inbox
from gatepost.store.port import Db
from gatepost.store.rooms import engagements
from gatepost.store.sessions.turns import Turn


def extend_by_reply(db: Db, turn: Turn, now: int) -> bool:
    """To be called when half of the time is over, in the transaction of the reply."""
    if not any(is_person(each) and not is_program(each) for each in inbox.list_senders(db, turn.id)):
        return False
    return engagements.extend(db, turn.instance, turn.address, turn.thread, turn.folder, turn.started_at, now)
