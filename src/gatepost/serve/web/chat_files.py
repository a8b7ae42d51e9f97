"""The files of messages: for who may see the message, and from the form that a browser sends, within its limits."""

import os
import stat
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from urllib.parse import quote

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.home import Home
from gatepost.core.process.thread_pools import BoundedThreadPool
from gatepost.messages.inbound import Attachment, AttachmentKind, Direction
from gatepost.messages.text import clean
from gatepost.serve import room_events
from gatepost.serve.room_events import RoomEventFile
from gatepost.serve.web.browser_streams import PDF, PICTURES, SOUNDS
from gatepost.serve.web.file_response import OpenFile, OpenFileResponse, make_open_file
from gatepost.store.messages import messages, outbox
from gatepost.store.port import Db, Store

LARGEST_ID = 2**53
THREADS = 8  # that read files at once
MOST_FILES = 20
LONGEST_TEXT = 200_000  # characters
OVERHEAD = 64 * 1024  # bytes of a form beside its files and its text
SHOWN = (*PICTURES, *SOUNDS, PDF)  # what a browser shows by itself and never runs: the type is ours, and is believed
POLICY = "default-src 'none'; sandbox"
# No viewer works in a sandbox. Our own chat may frame it: it is the only answer here that anything may.
PDF_POLICY = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"


class ChatFiles:
    def __init__(self, store: Store, home: Home, hub: LocalChannel) -> None:
        self._store, self._home, self._hub = store, home, hub
        self._threads = BoundedThreadPool(THREADS)

    async def get(self, request: Request) -> OpenFileResponse:
        found = await self._store.read(
            _find_file,
            self._hub,
            request.path_params["message"],
            request.path_params["number"],
            request.state.visitor.room,
        )
        if found is None:
            raise NotFound("file", request.url.path)
        file, kept = found
        path = kept if kept is not None else self._home.media / file.path
        shown = file.mime in SHOWN
        opened = await self._threads.run(partial(open_media_file, path, self._home.media, file.mime))
        if opened is None:
            raise NotFound("file", file.name, "it is no longer kept")
        headers = {
            "content-type": file.mime if shown else "application/octet-stream",
            "content-disposition": render_disposition("inline" if shown else "attachment", file.name),
            "content-security-policy": PDF_POLICY if file.mime == PDF else POLICY,
            "cache-control": "private, no-cache",
        }
        return OpenFileResponse(opened, headers, self._threads)


def _find_file(
    db: Db, hub: LocalChannel, message_id: int, number: int, only: str
) -> tuple[RoomEventFile, Path | None] | None:
    """A file of one of this channel's messages; for one that was sent, where the channel keeps it. `only`: of this
    room; '': of any."""
    message = messages.get(db, message_id) if message_id < LARGEST_ID else None
    if message is None or message.instance != hub.instance or only not in ("", message.address):
        return None
    files = room_events.parse_files(message.content)
    if number >= len(files):
        return None
    if message.direction == Direction.IN:
        return files[number], None
    effects = outbox.list_for_message(db, message_id)
    return (files[number], hub.kept(effects[0].key, number)) if effects else None


def render_disposition(kind: str, name: str) -> str:
    """A name is a stranger's: what is no plain sign is encoded, so it can end neither the name nor the header."""
    encoded = quote(name, safe="", errors="replace")
    return f'{kind}; filename="{name}"' if encoded == name else f"{kind}; filename*=utf-8''{encoded}"


def open_media_file(path: Path, media: Path, media_type: str) -> OpenFile | None:
    """A regular file under the media folder, by whatever path it was named. None: there is none, or no more."""
    try:
        real = path.resolve()
        if not real.is_relative_to(media.resolve()):
            return None
        fd = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    return make_open_file(fd, media_type)


class UploadTooLarge(Invalid):
    def __init__(self, megabytes: int) -> None:
        super().__init__("message", f"it is larger than {megabytes} MB, the limit of web.max_upload_mb")


async def read_form(request: Request, megabytes: int) -> FormData:
    """The form, within its limit. The announced length is not believed: what comes is counted."""
    limit = megabytes * 1024 * 1024 + OVERHEAD

    async def counted() -> AsyncGenerator[bytes, None]:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise UploadTooLarge(megabytes)
            yield chunk

    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise Invalid("content-type", "multipart/form-data is expected")
    parser = MultiPartParser(
        request.headers, counted(), max_files=MOST_FILES, max_fields=20, max_part_size=4 * LONGEST_TEXT + OVERHEAD
    )
    try:
        return await parser.parse()
    except MultiPartException as error:
        raise Invalid("form", error.message) from None


def get_field(form: FormData, name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


async def read_upload(upload: UploadFile) -> Attachment:
    mime = (upload.content_type or "application/octet-stream").partition(";")[0].strip().lower()
    kind = mime.partition("/")[0]
    return Attachment(
        name=clean(upload.filename or "file"),
        mime=mime,
        data=await upload.read(),
        kind=AttachmentKind(kind) if kind in set(AttachmentKind) else AttachmentKind.FILE,
    )
