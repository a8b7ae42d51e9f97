"""From the ledger to a session's inbound.db, idempotently. The mailbox is transport: lost or corrupt, it is made again
with the same numbers.

Everything here runs on a thread of its own, never on the loop: a sandbox may hold a lock on the file it reads.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gatepost.core.clock import iso
from gatepost.core.errors import NotFound
from gatepost.core.files.untrusted_files import UntrustedFolder, open_untrusted
from gatepost.core.home import Home
from gatepost.core.settings import setting
from gatepost.mailbox import inbound
from gatepost.mailbox.inbound import InboundRow, MailboxCorrupt
from gatepost.store.memory.memories import Memory
from gatepost.store.messages.destinations import Destination, DestinationKind
from gatepost.store.messages.inbox import InboxEntry, InboxMode
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import REPLAY_INSTANCE
from gatepost.store.sessions.session_files import ConversationFile, ConversationFiles
from gatepost.store.sessions.sessions import Session

INSIDE = "/workspace/in/files"
LARGEST_FILE = 100 * 1024 * 1024
FILES_MB = setting(
    "sessions.files_mb",
    250,
    help="How much of what people send one conversation keeps, in megabytes, and a quarter of sandbox.disk_mb at most."
    " The oldest files go first.",
)


class Projection:
    """A session's mailbox, for as long as its sandbox is awake."""

    def __init__(self, home: Home, session: Session) -> None:
        self._home, self._session = home, session
        self._path = home.mailbox(session.id) / "in" / "inbound.db"
        self._file = inbound.InboundWriter(self._path)
        self._routing = inbound.SessionRouting(session.instance, session.address, session.thread)
        self.files = ConversationFiles()
        self.recalled: dict[int, list[Memory]] = {}  # by the row that they matter to
        self._known: Sequence[Destination] = ()
        self._targets: list[inbound.MailboxDestination] = []  # these, as the mailbox names them

    def begin(self, pairs: Sequence[tuple[InboxEntry, Message]], known: Sequence[Destination]) -> None:
        """A new inbound.db, as every sandbox gets, and the files that the conversation keeps."""
        self.bring_files()
        rows = [_row(*pair, self.files, self.recalled) for pair in pairs]
        self._file.rebuild(rows, self._routing, [_target(each) for each in known])

    def update(self, pairs: Sequence[tuple[InboxEntry, Message]], known: Sequence[Destination]) -> bool:
        """Bring it up to date. True if it was corrupt and had to be made again. Raises Locked if the sandbox does not
        let go of it."""
        rows = [_row(*pair, self.files, self.recalled) for pair in pairs]
        if known is not self._known:
            self._known, self._targets = known, [_target(each) for each in known]
        try:
            self._file.project(rows, self._routing, self._targets)
        except MailboxCorrupt:
            inbound.move_broken_aside(self._path)
            self._file.rebuild(rows, self._routing, self._targets)
            return True
        return False

    def bring_files(self) -> None:
        """Have the conversation's files in the session's folder, and no others. Nothing is copied twice."""
        stage_files(self._home, self._session.id, self.files)

    def close(self) -> None:
        self._file.close()


def _target(each: Destination) -> inbound.MailboxDestination:
    return inbound.MailboxDestination(
        name=each.name,
        display_name=each.name,
        type="channel" if each.kind == DestinationKind.ROOM else "agent",
        channel_type=each.instance,
        platform_id=each.address,
        agent_group_id=each.target_folder,
    )


def _row(
    entry: InboxEntry, message: Message, files: ConversationFiles, recalled: Mapping[int, Sequence[Memory]]
) -> InboundRow:
    content = dict(message.content)
    if content.get("attachments"):
        content["attachments"] = _show_files(entry.id, content["attachments"])
    if content.get("observed") and message.instance == REPLAY_INSTANCE:
        content["observed"] = [_show_observed(entry.id, each) for each in content["observed"]]
    if isinstance(quote := content.get("replyTo"), dict) and quote.get("files"):
        content["replyTo"] = {**quote, "files": _show_quoted(entry.id, quote["files"], files)}
    if dropped := files.dropped.get(entry.id):
        content["droppedFiles"] = dropped
    if known := recalled.get(entry.id):
        content["memories"] = [_show_memory(each) for each in known]
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


def _show_memory(entry: Memory) -> dict[str, Any]:
    since = (iso(entry.created_at) or "")[:10]
    return {"id": entry.id, "text": entry.text, "about": entry.about, "since": since, "source": entry.trust}


def _show_observed(row_id: int, carried: dict[str, Any]) -> dict[str, Any]:
    """Context that a message carries; its files lie with those of the message."""
    content = carried["content"]
    if content.get("attachments"):
        content = {**content, "attachments": _show_files(row_id, content["attachments"])}
    return {**carried, "content": content}


def _show_files(row_id: int, attachments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the files of a message with their paths inside the sandbox. The host's path is not told."""
    return [{**_without_path(each), "localPath": f"{INSIDE}/{row_id}/{each['name']}"} for each in attachments]


def _show_quoted(row_id: int, quoted: list[dict[str, Any]], files: ConversationFiles) -> list[dict[str, Any]]:
    """The files of a quoted message, at the path that they have, if the conversation keeps them."""
    place = files.quoted.get(row_id, 0)
    kept = {each.name for each in files.rows.get(place, ())}
    return [{**each, **({"place": f"{place}/{each['name']}"} if each.get("name") in kept else {})} for each in quoted]


def _without_path(file: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in file.items() if key != "path"}


def stage_files(home: Home, session_id: str, files: ConversationFiles) -> None:
    """Copy each file that is not there yet, and remove what the conversation does not keep. A file whose original is
    gone, because it was over age or its sender was forgotten, goes too."""
    with open_untrusted(home.mailbox(session_id)) as root, open_untrusted(home.media) as media:
        for name in root.list("in/files"):
            if not name.isdecimal() or int(name) not in files.rows:
                root.remove_tree(f"in/files/{name}")
        for row_id, listed in files.rows.items():
            for each in listed:
                _stage(root, media, f"in/files/{row_id}", each)


def _stage(root: UntrustedFolder, media: UntrustedFolder, folder: str, file: ConversationFile) -> None:
    relative = f"{folder}/{file.name}"
    try:
        if root.exists(relative):
            media.stat(file.path)
            return
        data = media.read_bytes(file.path, LARGEST_FILE)
    except (NotFound, FileNotFoundError):
        root.remove_tree(relative)
        return
    above = root.stat("in/files")  # its group is the sandbox's, if that is another user
    root.make_dir(folder, 0o750, above.st_uid, above.st_gid)
    root.write_bytes(relative, data, mode=0o640)
