"""Files of a group's pages, opened from the host. The agent owns the folder: no link is followed, nothing but a plain
file with one name is opened, and its size has a cap. All of it blocks: call it in a thread."""

import os
import stat
from contextlib import suppress
from enum import StrEnum

from gatepost.core.errors import Invalid, NotFound
from gatepost.core.files.untrusted_files import UntrustedFolder, open_untrusted
from gatepost.core.home import Home
from gatepost.flow.web_routes import SitePage
from gatepost.serve.web.file_response import OpenFile, make_open_file

INDEX = "index.html"
LARGEST_FILE = 256 * 1024 * 1024  # bytes
HIDDEN_SHOWN = ".well-known"  # of the names that begin with a dot; .git and .env are nobody's business
UNKNOWN_TYPE = "application/octet-stream"
PDF = "application/pdf"
TYPES = {  # what is not here is offered to be saved
    "html": "text/html; charset=utf-8",
    "htm": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "json": "application/json",
    "map": "application/json",
    "webmanifest": "application/manifest+json",
    "txt": "text/plain; charset=utf-8",
    "md": "text/plain; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "xml": "text/xml; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "ico": "image/x-icon",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "ttf": "font/ttf",
    "otf": "font/otf",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "wav": "audio/wav",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "wasm": "application/wasm",
    "pdf": PDF,
}


class FileAbsence(StrEnum):
    MISSING = "missing"
    NEEDS_SLASH = "needs_slash"  # a folder with an index: its links are relative to it


def open_site_file(home: Home, page: SitePage, slash: bool) -> OpenFile | FileAbsence:
    if any(part.startswith(".") and part != HIDDEN_SHOWN for part in page.parts):
        return FileAbsence.MISSING
    with suppress(Invalid, NotFound), open_untrusted(home.groups) as root:  # an agent may replace its own folders, too
        return _open(root, "/".join((page.folder, page.kind.folder, *page.parts)), slash)
    return FileAbsence.MISSING


def _open(root: UntrustedFolder, place: str, slash: bool) -> OpenFile | FileAbsence:
    if stat.S_ISDIR(root.stat(place).st_mode):
        place = f"{place}/{INDEX}"
        if not slash:
            return FileAbsence.NEEDS_SLASH if root.exists(place) else FileAbsence.MISSING
    elif slash:
        return FileAbsence.MISSING
    with root.open_file(place) as file:
        found = os.fstat(file.fileno())
        if found.st_nlink > 1:
            raise Invalid(place, "has a second name, which may lie elsewhere")
        if found.st_size > LARGEST_FILE:
            raise Invalid(place, f"is larger than {LARGEST_FILE} bytes")
        return make_open_file(os.dup(file.fileno()), get_media_type(place))


def get_media_type(name: str) -> str:
    """By the end of the name alone: what is inside is the agent's, and browsers are told to believe us."""
    return TYPES.get(name.rpartition("/")[2].rpartition(".")[2].lower(), UNKNOWN_TYPE)
