"""Media of a message, and how each provider takes them: as a block of its own, or as a file that the prompt names.

A provider declares the kinds that it takes. The prompt names each file in any case, because a block is only seen. The
kind is read from the file's first bytes, since a stranger may call anything a JPEG. A block of another kind than it
says makes an endpoint refuse the whole conversation.
"""

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

import msgspec

from gatepost.inside.provider_spec import MediaHandling as MediaHandling
from gatepost.inside.provider_spec import MediaSupport
from gatepost.inside.providers.contract import SPECS, Item, ProviderContext


class MediaKind(StrEnum):
    JPEG = "jpeg"
    PNG = "png"
    GIF = "gif"
    WEBP = "webp"
    PDF = "pdf"
    AUDIO = "audio"
    OTHER = "other"


HEAD = 16  # bytes by which a kind is known
IMAGES = (MediaKind.JPEG, MediaKind.PNG, MediaKind.GIF, MediaKind.WEBP)


_NOTHING = MediaSupport()  # of a provider that declares nothing
# Bytes of a block; base64 makes a third more of them, and the endpoints count those.
LARGEST: Mapping[MediaKind, int] = MappingProxyType(
    {**dict.fromkeys(IMAGES, 3_700_000), MediaKind.PDF: 20_000_000, MediaKind.AUDIO: 15_000_000}
)
MP3 = (b"\xff\xfb", b"\xff\xf3", b"\xff\xf2")  # without a tag before it
MIMES: Mapping[MediaKind, str] = MappingProxyType(
    {
        MediaKind.JPEG: "image/jpeg",
        MediaKind.PNG: "image/png",
        MediaKind.GIF: "image/gif",
        MediaKind.WEBP: "image/webp",
        MediaKind.PDF: "application/pdf",
    }
)
_HEADS = (
    (b"\xff\xd8\xff", MediaKind.JPEG),
    (b"\x89PNG\r\n\x1a\n", MediaKind.PNG),
    (b"GIF87a", MediaKind.GIF),
    (b"GIF89a", MediaKind.GIF),
    (b"%PDF-", MediaKind.PDF),
    (b"ID3", MediaKind.AUDIO),
    *((mark, MediaKind.AUDIO) for mark in MP3),
    (b"OggS", MediaKind.AUDIO),
    (b"fLaC", MediaKind.AUDIO),
)


class MediaBlock(msgspec.Struct, frozen=True):
    """Something that a model is shown as it is. `file` is its name in the conversation's own folder."""

    kind: MediaKind
    mime: str
    name: str
    file: str


def kind_of(head: bytes) -> MediaKind:
    """Return what a file is, by its first bytes."""
    for mark, kind in _HEADS:
        if head.startswith(mark):
            return kind
    if head[:4] == b"RIFF":
        return {b"WEBP": MediaKind.WEBP, b"WAVE": MediaKind.AUDIO}.get(head[8:12], MediaKind.OTHER)
    if head[4:11] == b"ftypM4A":
        return MediaKind.AUDIO
    return MediaKind.OTHER


def get_audio_format(head: bytes) -> str:
    """Return what a recording is called, by its first bytes."""
    named = {b"OggS": "ogg", b"fLaC": "flac", b"RIFF": "wav", b"ID3": "mp3", b"\x1aE\xdf\xa3": "webm"}
    if head.startswith(MP3):
        return "mp3"
    return next((name for mark, name in named.items() if head.startswith(mark)), "m4a")


def get_handling(provider: str, head: bytes, size: int, *, native: bool = False) -> MediaHandling:
    """How this provider gets what begins so. `native`: the group says that its model hears."""
    kind, takes = kind_of(head), SPECS[provider].media if provider in SPECS else _NOTHING
    match kind:
        case MediaKind.AUDIO:
            way = MediaHandling.BLOCK if native and get_audio_format(head) in takes.native else takes.audio
        case MediaKind.PDF:
            way = takes.pdf
        case MediaKind.OTHER:
            way = MediaHandling.FILE
        case _:
            way = takes.image
    if size <= LARGEST.get(kind, 0):
        return way
    return {MediaHandling.BLOCK: MediaHandling.FILE, MediaHandling.BOTH: MediaHandling.WORDS}.get(way, way)


def is_native(options: Mapping[str, object]) -> bool:
    """The group's option `audio`."""
    return options.get("audio") == "native"


def get_file_handling(provider: str, path: Path, *, native: bool = False) -> MediaHandling:
    """How this provider gets that file; what nobody can read stays a file."""
    try:
        if not path.is_file():
            return MediaHandling.FILE
        with path.open("rb") as file:
            return get_handling(provider, file.read(HEAD), path.stat().st_size, native=native)
    except OSError:
        return MediaHandling.FILE


def read_block(provider: str, path: Path, *, native: bool = False) -> tuple[MediaKind, bytes] | None:
    """The bytes for a block; None if this provider gets the file, or nobody can read it."""
    if get_file_handling(provider, path, native=native) not in (MediaHandling.BLOCK, MediaHandling.BOTH):
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    kind = kind_of(data)
    return (kind, data) if len(data) <= LARGEST.get(kind, 0) else None


def list_attachments(place: ProviderContext, item: Item) -> list[Path]:
    """Return where the files that came with a message lie. They stay for the conversation, within its share."""
    return [get_attachment_folder(place) / name for name in list_attachment_paths(item)]


def list_attachment_paths(item: Item) -> list[str]:
    """Return the paths of a message's attachments, relative to the folder of all attachments."""
    return [f"{item.row}/{name}" for name in attachment_names(item.content)]


def attachment_names(content: Mapping[str, object]) -> list[str]:
    given = content.get("attachments")
    return [name for each in (given if isinstance(given, list) else []) if (name := attachment_name(each))]


def attachment_name(attachment: object) -> str:
    return os.path.basename(str(attachment.get("name") or "")) if isinstance(attachment, dict) else ""


def get_attachment_folder(place: ProviderContext) -> Path:
    return place.workspace / "in" / "files"
