"""How many bytes of files an agent may give away: a turn, and a group in a day. Set aside before anything is copied.

Each such file becomes a copy on the host that outlives the sandbox, and a sparse one becomes as large as it says.
"""

from gatepost.core.errors import Refused
from gatepost.core.settings import Config, setting
from gatepost.store.messages import sent_files
from gatepost.store.messages.sent_files import NewSentFiles
from gatepost.store.port import Db, LockKind

TURN_MB = setting(
    "files.turn_mb", 200, help="Megabytes of files that an agent may send in one turn, or between two turns."
)
GROUP_MB = setting("files.group_mb", 1000, help="Megabytes of files that a group's agents may send within 24 hours.")
LARGEST_FILE = 100 * 1024 * 1024
MEGABYTE = 1024 * 1024


def reserve_bytes(db: Db, config: Config, new: NewSentFiles, action: str, now: int) -> None:
    """Refused, with the limit, if these bytes do not fit."""
    db.lock(LockKind.QUOTA, "files", new.folder)
    turn = sent_files.count_turn_bytes(db, new.session_id, new.turn_id, without=new.key)
    group = sent_files.count_group_bytes(db, new.folder, now, without=new.key)
    for sent, limit, span in ((turn, TURN_MB, "in one turn"), (group, GROUP_MB, "of a group within 24 hours")):
        most = config[limit]
        if sent + new.bytes > most * MEGABYTE:
            why = (
                f"files of at most {most} MB are sent {span} ({limit.name}); {_mb(sent)} MB were, and this is"
                f" {_mb(new.bytes)} MB more; send less, or name the path to whoever can read it"
            )
            raise Refused(new.folder, action, why=why)
    sent_files.put(db, new, now)


def _mb(size: int) -> str:
    return f"{size / MEGABYTE:.1f}"
