"""An errand whose caller was stopped: what is done for it ends, and then what it gave out itself."""

from gatepost.store import errands, inbox, turns
from gatepost.store.errands import Errand
from gatepost.store.port import Db


def stop_errand(db: Db, errand: Errand, now: int) -> bool:
    """Return True if its turn was running: then its sandbox is to be ended. The next level is marked, and not walked
    here: a unit of the writer stays small however far errands reach."""
    turn = turns.find_open(db, errand.session_id)
    own = turn is not None and (turn.instance, turn.thread) == (errands.INSTANCE, errand.id)
    ended = turn is not None and own and turns.cancel(db, turn.id, errand.reason, now)
    inbox.cancel_waiting(db, errand.session_id, errand.reason, now, thread=errand.id)
    errands.mark_stopping(db, errands.list_children(db, errand.id), errand.reason)
    errands.cancel(db, errand.id, now)
    return ended
