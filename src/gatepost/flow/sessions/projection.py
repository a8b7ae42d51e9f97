"""From the ledger to a session's inbound.db, idempotently. The mailbox is transport: lost or corrupt, it is made again
with the same numbers.

Everything here runs on a thread of its own, never on the loop: a sandbox may hold a lock on the file it reads.
"""

from collections.abc import Sequence
from typing import Any

from gatepost.core.home import Home
from gatepost.core.untrusted_files import open_untrusted
from gatepost.mailbox import inbound
from gatepost.mailbox.inbound import InboundRow, MailboxCorrupt
from gatepost.store.destinations import Destination, DestinationKind
from gatepost.store.inbox import InboxEntry, InboxMode
from gatepost.store.messages import Message
from gatepost.store.outbox import REPLAY_INSTANCE
from gatepost.store.sessions import Session

INSIDE = "/workspace/in/files"
LARGEST_FILE = 100 * 1024 * 1024


class Projection:
    """A session's mailbox, for as long as its sandbox is awake."""

    def __init__(self, home: Home, session: Session) -> None:
        self._home, self._session = home, session
        self._path = home.mailbox(session.id) / "in" / "inbound.db"
        self._file = inbound.InboundWriter(self._path)
        self._routing = inbound.SessionRouting(session.instance, session.address, session.thread)

    def begin(self, pairs: Sequence[tuple[InboxEntry, Message]], known: Sequence[Destination]) -> None:
        """A new file, as every sandbox gets; files of rows that have ended are gone."""
        sweep_files(self._home, self._session.id, {entry.id for entry, _ in pairs})
        self._file.rebuild(self._rows(pairs), self._routing, [_target(each) for each in known])

    def update(self, pairs: Sequence[tuple[InboxEntry, Message]], known: Sequence[Destination]) -> bool:
        """Bring it up to date. True if it was corrupt and had to be made again. Raises Locked if the sandbox does not
        let go of it."""
        rows, targets = self._rows(pairs), [_target(each) for each in known]
        try:
            self._file.project(rows, self._routing, targets)
        except MailboxCorrupt:
            inbound.move_broken_aside(self._path)
            self._file.rebuild(rows, self._routing, targets)
            return True
        return False

    def close(self) -> None:
        self._file.close()

    def _rows(self, pairs: Sequence[tuple[InboxEntry, Message]]) -> list[InboundRow]:
        return [_row(self._home, self._session, entry, message) for entry, message in pairs]


def _target(each: Destination) -> inbound.MailboxDestination:
    return inbound.MailboxDestination(
        name=each.name,
        display_name=each.name,
        type="channel" if each.kind == DestinationKind.ROOM else "agent",
        channel_type=each.instance,
        platform_id=each.address,
        agent_group_id=each.target_folder,
    )


def _row(home: Home, session: Session, entry: InboxEntry, message: Message) -> InboundRow:
    content = dict(message.content)
    if content.get("attachments"):
        content["attachments"] = _stage(home, session, entry.id, content["attachments"])
    if content.get("observed") and message.instance == REPLAY_INSTANCE:
        content["observed"] = [_stage_observed(home, session, entry.id, each) for each in content["observed"]]
    return InboundRow(
        id=entry.id,
        seq=entry.seq,
        kind=message.kind,
        timestamp=message.at,
        trigger=0 if entry.mode == InboxMode.OBSERVE else 1,
        tries=entry.tries,
        platform_id=message.address,
        channel_type=message.instance,
        thread_id=message.thread,
        content=content,
    )


def _stage_observed(home: Home, session: Session, row_id: int, carried: dict[str, Any]) -> dict[str, Any]:
    """Context that a message carries; its files lie with those of the message."""
    content = carried["content"]
    if content.get("attachments"):
        content = {**content, "attachments": _stage(home, session, row_id, content["attachments"])}
    return {**carried, "content": content}


def _stage(home: Home, session: Session, row_id: int, attachments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Copy what came with a message to where the sandbox can read it; the host's path is not told."""
    staged = []
    with open_untrusted(home.mailbox(session.id)) as root, open_untrusted(home.media) as media:
        for each in attachments:
            shown = {key: value for key, value in each.items() if key != "path"}
            relative = f"in/files/{row_id}/{each['name']}"
            if not root.exists(relative):
                above = root.stat("in/files")  # its group is the sandbox's, if that is another user
                root.make_dir(f"in/files/{row_id}", 0o750, above.st_uid, above.st_gid)
                root.write_bytes(relative, media.read_bytes(each["path"], LARGEST_FILE), mode=0o640)
            staged.append({**shown, "localPath": f"{INSIDE}/{row_id}/{each['name']}"})
    return staged


def sweep_files(home: Home, session_id: str, open_rows: set[int]) -> None:
    """Remove the files of every row that has ended."""
    with open_untrusted(home.mailbox(session_id)) as root:
        for name in root.list("in/files"):
            if not name.isdecimal() or int(name) not in open_rows:
                root.remove_tree(f"in/files/{name}")
