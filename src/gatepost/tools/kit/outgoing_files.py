"""Files that agents give away: named by their path inside, opened without following links, copied for the delivery."""

import hashlib
import mimetypes
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from gatepost.core import error_classification, ids
from gatepost.core.errors import GatepostError, Invalid, SetupError, Unavailable
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.records import replace
from gatepost.flow.delivery import outgoing_messages
from gatepost.flow.delivery.outgoing_messages import LARGEST_FILE
from gatepost.flow.gateways.folder_check import check_here
from gatepost.flow.sessions.sandbox.start_folder import StartFolder, find_start_folder
from gatepost.messages.outbound import OutboundFile
from gatepost.messages.text import clean
from gatepost.store.messages import outbox, sent_files
from gatepost.store.messages.sent_files import NewSentFiles
from gatepost.store.rights.requests import HELD, BoundFile, BoundReads
from gatepost.store.sessions import sessions
from gatepost.tools.call import ToolCall

LARGEST_EXCERPT = 600  # bytes of a file that a card shows
SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".gpg", ".aws", ".azure", ".gcloud", ".kube", ".docker"})
SECRET_FILES = frozenset({".env", ".netrc", ".npmrc", ".pypirc", ".secret", "credentials", "private_key"})
SECRET_NAMES = SECRET_FOLDERS | SECRET_FILES | {"id_rsa", "id_ed25519"}


class LocatedFile(Struct, frozen=True):
    """A file inside, as the host finds it."""

    root: Path
    relative: str
    identity: tuple[int, int] | None = None  # of the root, where others could put another in its place


@asynccontextmanager
async def copy_files(
    call: ToolCall, paths: Sequence[str], field: str, name: str = ""
) -> AsyncIterator[tuple[OutboundFile, ...]]:
    """The delivery's own copies: what the sandbox does to its files afterwards does not matter. They go with the
    delivery, or at once if the call comes to nothing. An allowed call sends exactly the files that people saw. `name`:
    what people see, instead of the file's own."""
    frozen = await find_frozen(call, paths)
    found = await _locate_all(call, paths, field) if frozen is None else []
    if paths and await call.read(outbox.find_by_key, call.key) is not None:
        yield ()  # made again, and on its way since the first time, with its own copies
        return
    keep = get_copy_folder(call)
    sizes = await call.in_thread(lambda: [_size(each) for each in found])
    await set_aside(call, sum(sizes))
    try:
        if frozen is not None:
            made = await call.in_thread(_link_all, frozen, keep, name)
        else:
            made = await call.in_thread(_copy_all, found, sizes, keep, name)
        if call.deps.passing is not None:
            await call.deps.passing.put_sent(made)
    except BaseException:
        await discard_copies(call)
        raise
    try:
        yield made
    except GatepostError:  # anything else does not say that no row was written
        await discard_copies(call)
        raise


async def freeze_files(call: ToolCall, paths: Sequence[str], field: str) -> BoundReads:
    """Copies of what a held call gives away, made when people are asked about it. For a call that they allowed, return
    those that were made then."""
    frozen = await find_frozen(call, paths)
    if frozen is not None or not paths:
        return BoundReads(files=frozen or ())
    found = await _locate_all(call, paths, field)
    sizes = await call.in_thread(lambda: [_size(each) for each in found])
    await set_aside(call, sum(sizes))
    keep = call.deps.home.media / HELD / ids.new("h")
    try:
        copies = await call.in_thread(_copy_all, found, sizes, keep, "")
        if call.deps.passing is not None:
            await call.deps.passing.put_sent(copies)
        made = await call.in_thread(lambda: [_bind(*each) for each in zip(paths, copies, strict=True)])
    except BaseException:
        call.deps.store.post(sent_files.remove, call.key, lane=call.caller.lane)
        await call.in_thread(lambda: shutil.rmtree(keep, ignore_errors=True))
        raise
    return BoundReads(files=tuple(made))


async def find_frozen(call: ToolCall, paths: Sequence[str]) -> tuple[BoundFile, ...] | None:
    """The copies of these files that people saw; None: they did not see all of them, or the copies are gone."""
    known = {each.name: each for each in call.approved.reads.files} if call.approved is not None else {}
    if not paths or any(path not in known for path in paths):
        return None
    files = tuple(OutboundFile(name="", mime="", path=known[path].path, size=known[path].size) for path in paths)
    try:
        if call.deps.passing is not None:
            files = await call.deps.passing.fetch_sent(files)
    except Unavailable:
        return None
    if not await call.in_thread(lambda: all(Path(each.path).is_file() for each in files)):
        return None
    return tuple(replace(known[path], path=each.path) for path, each in zip(paths, files, strict=True))


def _bind(name: str, copy: OutboundFile) -> BoundFile:
    with open(copy.path, "rb") as file:
        head = file.read(LARGEST_EXCERPT)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return BoundFile(name, copy.path, copy.size, digest, _read_excerpt(head))


def _read_excerpt(head: bytes) -> str:
    """The beginning of a text; '' of anything else."""
    text = head.decode("utf-8", "ignore")
    readable = "\0" not in text and len(text.encode()) >= len(head) - 3  # a letter may be cut at the end
    return text if readable else ""


async def _locate_all(call: ToolCall, paths: Sequence[str], field: str) -> list[LocatedFile]:
    if not paths:
        return []
    await check_here(call.deps.store, call.deps.home, call.caller.folder)  # a client over HTTP is anywhere
    start = await _start(call)
    return [locate(call, path, field, start) for path in paths]


async def set_aside(call: ToolCall, size: int) -> None:
    """Refused, if the files of this call are more than its turn or group may send."""
    new = NewSentFiles(
        key=call.key,
        folder=call.caller.folder,
        session_id=call.caller.session_id or "",
        turn_id=call.turn.id if call.turn else "",
        bytes=size,
    )
    if size:
        config, now = call.deps.config, call.now
        await call.deps.store.write(outgoing_messages.reserve_file_bytes, config, new, call.tool, now, durable=False)


async def discard_copies(call: ToolCall) -> None:
    """Nothing of this call is sent: its copies go, and count no more."""
    call.deps.store.post(sent_files.remove, call.key, lane=call.caller.lane)
    await call.in_thread(lambda: shutil.rmtree(get_copy_folder(call), ignore_errors=True))


def get_copy_folder(call: ToolCall) -> Path:
    """Return where the files of a call wait for their delivery. A call that is made again has the same key, and must
    not touch the files of the first."""
    return call.deps.home.media / "out" / f"{call.key.replace('/', '-')}-{call.now}"


def locate(call: ToolCall, path: str, field: str, start: StartFolder | None) -> LocatedFile:
    """The folder on the host that a path inside belongs to, and the rest of it."""
    home, caller = call.deps.home, call.caller
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in path:
        raise Invalid(field, f"{path[:200]!r} leads out of the workspace")
    if path.startswith("/"):
        if parts[:1] != ["workspace"]:
            raise Invalid(field, f"{path[:200]!r} is not under /workspace/agent or /workspace")
        parts = parts[1:]
    else:
        parts = [*(start.inside.split("/")[2:] if start else ["agent"]), *parts]
    top, rest = parts[:1], parts[1:]
    secret = next((part for part in parts if part.lower() in SECRET_NAMES), None)
    if secret is not None:
        raise Invalid(field, f"{secret!r} is a name for secrets and is not given away; rename the file if it is none")
    if not parts or top == ["in"] or (top in (["agent"], ["project"]) and not rest):
        raise Invalid(field, f"{path[:200]!r} is no file that you may send")
    if top == ["agent"]:
        return LocatedFile(home.group(caller.folder), "/".join(rest))
    if top == ["project"] and start is not None:
        granted = start.granted
        return LocatedFile(granted.mount.source, "/".join(rest), (granted.device, granted.inode))
    if caller.session_id is None:
        raise Invalid(field, "there is no session; name a file under /workspace/agent")
    own = home.mailbox if top == ["out"] else home.session
    return LocatedFile(own(caller.session_id), "/".join(parts))


async def _start(call: ToolCall) -> StartFolder | None:
    """Return where the session works, if that is not its group's folder."""
    session = await call.read(sessions.get, call.caller.session_id) if call.caller.session_id else None
    return find_start_folder(call.deps.home, call.deps.config, session.cwd) if session and session.cwd else None


def _size(file: LocatedFile) -> int:
    """As large as its copy will be: holes count."""
    with open_untrusted(file.root) as root:
        size = root.stat(file.relative).st_size
    if size > LARGEST_FILE:
        raise Invalid(file.relative, f"is larger than {LARGEST_FILE} bytes")
    return size


def _copy_all(found: Sequence[LocatedFile], sizes: Sequence[int], keep: Path, name: str) -> tuple[OutboundFile, ...]:
    """Each at most as large as it was when its bytes were set aside."""
    made = []
    for place, (each, most) in enumerate(zip(found, sizes, strict=True)):
        _make(keep)
        with open_untrusted(each.root) as root:
            if each.identity not in (None, root.identity):
                raise Invalid("path", "what you work in was exchanged for something else")
            size = root.copy_out(each.relative, keep / str(place), most)
        made.append(_describe(name or each.relative, keep / str(place), size))
    return tuple(made)


def _link_all(frozen: Sequence[BoundFile], keep: Path, name: str) -> tuple[OutboundFile, ...]:
    """The same bytes under a second name: the first goes with the request."""
    _make(keep)
    for place, each in enumerate(frozen):
        try:
            os.link(each.path, keep / str(place))
        except OSError:  # of a file system that has no links
            shutil.copyfile(each.path, keep / str(place))
    return tuple(_describe(name or each.name, keep / str(place), each.size) for place, each in enumerate(frozen))


def _describe(name: str, path: Path, size: int) -> OutboundFile:
    shown = file_name(name)
    mime = mimetypes.guess_type(shown)[0] or "application/octet-stream"
    return OutboundFile(name=shown, mime=mime, path=str(path), size=size)


def _make(folder: Path) -> None:
    """The host's own folder: what goes wrong here is never the caller's mistake."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        otherwise = SetupError(f"{folder} cannot be made: {error.strerror}")
        raise error_classification.to_gatepost_error("the disk", error, otherwise) from None


def file_name(name: str) -> str:
    plain = "".join(char for char in clean(name).replace("\\", "/").rsplit("/", 1)[-1] if char.isprintable())
    return plain.strip()[:200] or "file"
