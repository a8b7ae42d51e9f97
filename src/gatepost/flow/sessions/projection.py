"""From the ledger to a session's inbound.db, idempotently. The mailbox is transport: lost or corrupt, it is made again
with the same numbers.

Everything here runs on a thread of its own, never on the loop: a sandbox may hold a lock on the file it reads.
"""

from collections.abc import Sequence
from typing import Any

from gatepost.core.home import Home
from gatepost.core.untrusted import open_root
from gatepost.mailbox import inbound
from gatepost.mailbox.inbound import Corrupt, InRow
from gatepost.store.destinations import Destination
from gatepost.store.inbox import Entry
from gatepost.store.messages import Message
from gatepost.store.sessions import Session

INSIDE = "/workspace/in/files"
LARGEST_FILE = 100 * 1024 * 1024


def project(home: Home, session: Session, pairs: Sequence[tuple[Entry, Message]], known: Sequence[Destination]) -> bool:
    """Bring inbound.db up to date. True if it had to be rebuilt. Raises Locked if the sandbox does not let go."""
    rows = [_row(home, session, entry, message) for entry, message in pairs]
    path = home.session(session.id) / "in" / "inbound.db"
    routing = inbound.Routing(session.instance, session.address, session.thread)
    targets = [
        inbound.Destination(
            name=each.name,
            display_name=each.name,
            type="channel" if each.kind == "room" else "agent",
            channel_type=each.instance,
            platform_id=each.address,
            agent_group_id=each.target_folder,
        )
        for each in known
    ]
    _sweep(home, session, {str(row.id) for row in rows})
    try:
        inbound.project(path, rows, routing, targets)
    except Corrupt:
        inbound.rebuild(path, rows, routing, targets)
        return True
    return False


def _row(home: Home, session: Session, entry: Entry, message: Message) -> InRow:
    content = dict(message.content)
    if content.get("attachments"):
        content["attachments"] = _stage(home, session, entry.id, content["attachments"])
    return InRow(
        id=entry.id,
        seq=entry.seq,
        kind=message.kind,
        timestamp=message.at,
        trigger=1 if entry.mode == "trigger" else 0,
        tries=entry.tries,
        platform_id=message.address,
        channel_type=message.instance,
        thread_id=message.thread,
        content=content,
    )


def _stage(home: Home, session: Session, row_id: int, attachments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Copy what came with a message to where the sandbox can read it; the host's path is not told."""
    staged = []
    with open_root(home.session(session.id)) as root, open_root(home.media) as media:
        for each in attachments:
            shown = {key: value for key, value in each.items() if key != "path"}
            relative = f"in/files/{row_id}/{each['name']}"
            if not root.exists(relative):
                root.make_dir(f"in/files/{row_id}", 0o755)
                root.write_bytes(relative, media.read_bytes(each["path"], LARGEST_FILE), mode=0o644)
            staged.append({**shown, "localPath": f"{INSIDE}/{row_id}/{each['name']}"})
    return staged


def _sweep(home: Home, session: Session, open_rows: set[str]) -> None:
    """The files of rows that have ended."""
    with open_root(home.session(session.id)) as root:
        for name in root.list("in/files"):
            if name not in open_rows:
                root.remove_tree(f"in/files/{name}")
