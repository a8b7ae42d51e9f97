"""Files that agents give away: named by their path inside, opened without following links, copied for the delivery."""

import asyncio
import mimetypes
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.untrusted import open_root
from gatepost.flow.sessions.start import Start, find_start
from gatepost.messages.outbound import File
from gatepost.messages.text import clean
from gatepost.store import sessions
from gatepost.tools.contract import Call

LARGEST_FILE = 100 * 1024 * 1024
SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".gpg", ".aws", ".azure", ".gcloud", ".kube", ".docker"})
SECRET_FILES = frozenset({".env", ".netrc", ".npmrc", ".pypirc", ".secret", "credentials", "private_key"})
SECRET_NAMES = SECRET_FOLDERS | SECRET_FILES | {"id_rsa", "id_ed25519"}


@asynccontextmanager
async def copies(call: Call, paths: Sequence[str], field: str, name: str = "") -> AsyncIterator[tuple[File, ...]]:
    """The delivery's own copies: what the sandbox does to its files afterwards does not matter. They go with the
    delivery, or at once if the call comes to nothing. `name`: what people see, instead of the file's own."""
    found = [locate(call, path, field) for path in paths]
    keep = own_folder(call)
    try:
        made = await asyncio.to_thread(_copy_all, found, keep, name)
    except BaseException:
        await asyncio.to_thread(shutil.rmtree, keep, ignore_errors=True)
        raise
    try:
        yield made
    except GatepostError:  # anything else does not say that no row was written
        await asyncio.to_thread(shutil.rmtree, keep, ignore_errors=True)
        raise


def own_folder(call: Call) -> Path:
    """Where the files of a call wait for their delivery. A call that is made again has the same key, and must not touch
    the files of the first."""
    return call.around.home.media / "out" / f"{call.key.replace('/', '-')}-{call.now}"


@dataclass(frozen=True, slots=True)
class Located:
    """A file inside, as the host finds it."""

    root: Path
    relative: str
    identity: tuple[int, int] | None = None  # of the root, where others could put another in its place


def locate(call: Call, path: str, field: str) -> Located:
    """The folder on the host that a path inside belongs to, and the rest of it."""
    home, caller = call.around.home, call.caller
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in path:
        raise Invalid(field, f"{path[:200]!r} leads out of the workspace")
    start = _start(call)
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
        return Located(home.group(caller.folder), "/".join(rest))
    if top == ["project"] and start is not None:
        granted = start.granted
        return Located(granted.mount.source, "/".join(rest), (granted.device, granted.inode))
    if caller.session_id is None:
        raise Invalid(field, "there is no session; name a file under /workspace/agent")
    return Located(home.session(caller.session_id), "/".join(parts))


def _start(call: Call) -> Start | None:
    """Where the session works, if that is not its group's folder."""
    session = call.around.store.look(sessions.get, call.caller.session_id) if call.caller.session_id else None
    return find_start(call.around.home, call.around.config, session.cwd) if session and session.cwd else None


def _copy_all(found: Sequence[Located], keep: Path, name: str) -> tuple[File, ...]:
    made = []
    for place, each in enumerate(found):
        keep.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open_root(each.root) as root:
            if each.identity not in (None, root.identity):
                raise Invalid("path", "what you work in was exchanged for something else")
            size = root.copy_out(each.relative, keep / str(place), LARGEST_FILE)
        shown = file_name(name or each.relative)
        mime = mimetypes.guess_type(shown)[0] or "application/octet-stream"
        made.append(File(name=shown, mime=mime, path=str(keep / str(place)), size=size))
    return tuple(made)


def file_name(name: str) -> str:
    plain = "".join(char for char in clean(name).replace("\\", "/").rsplit("/", 1)[-1] if char.isprintable())
    return plain.strip()[:200] or "file"
