"""What came with a message, and how each provider takes it: as a block of its own, or as a file that the prompt names.

One table for all providers. The kind is read from the file's first bytes: what a stranger calls a JPEG may be anything,
and a block that is not what it says makes an endpoint refuse the whole conversation.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

import msgspec


class Kind(StrEnum):
    JPEG = "jpeg"
    PNG = "png"
    GIF = "gif"
    WEBP = "webp"
    PDF = "pdf"
    AUDIO = "audio"
    OTHER = "other"


class Way(StrEnum):
    BLOCK = "block"  # the model gets the bytes
    FILE = "file"  # the prompt says where it lies


IMAGES = (Kind.JPEG, Kind.PNG, Kind.GIF, Kind.WEBP)

# Kind × provider. A provider that is not named, or a kind that has no line, gets files.
WAYS: Mapping[str, Mapping[Kind, Way]] = MappingProxyType(
    {
        "anthropic": {**dict.fromkeys(IMAGES, Way.BLOCK), Kind.PDF: Way.BLOCK, Kind.AUDIO: Way.FILE},
        "openai": {**dict.fromkeys(IMAGES, Way.BLOCK), Kind.PDF: Way.BLOCK, Kind.AUDIO: Way.FILE},
        "acp": {**dict.fromkeys(IMAGES, Way.BLOCK), Kind.PDF: Way.FILE, Kind.AUDIO: Way.BLOCK},  # if the agent takes it
    }
)
# Bytes of a block; base64 makes a third more of them, and the endpoints count those.
LARGEST: Mapping[Kind, int] = MappingProxyType(
    {**dict.fromkeys(IMAGES, 3_700_000), Kind.PDF: 20_000_000, Kind.AUDIO: 15_000_000}
)
MIMES: Mapping[Kind, str] = MappingProxyType(
    {
        Kind.JPEG: "image/jpeg",
        Kind.PNG: "image/png",
        Kind.GIF: "image/gif",
        Kind.WEBP: "image/webp",
        Kind.PDF: "application/pdf",
    }
)
_HEADS = (
    (b"\xff\xd8\xff", Kind.JPEG),
    (b"\x89PNG\r\n\x1a\n", Kind.PNG),
    (b"GIF87a", Kind.GIF),
    (b"GIF89a", Kind.GIF),
    (b"%PDF-", Kind.PDF),
    (b"ID3", Kind.AUDIO),
    (b"\xff\xfb", Kind.AUDIO),
    (b"OggS", Kind.AUDIO),
    (b"fLaC", Kind.AUDIO),
)


class Block(msgspec.Struct, frozen=True):
    """Something that a model is shown as it is. `file` is its name in the conversation's own folder."""

    kind: Kind
    mime: str
    name: str
    file: str


def kind_of(head: bytes) -> Kind:
    """What a file is, by its first bytes."""
    for mark, kind in _HEADS:
        if head.startswith(mark):
            return kind
    if head[:4] == b"RIFF":
        return {b"WEBP": Kind.WEBP, b"WAVE": Kind.AUDIO}.get(head[8:12], Kind.OTHER)
    if head[4:11] == b"ftypM4A":
        return Kind.AUDIO
    return Kind.OTHER


def way_of(provider: str, kind: Kind, size: int) -> Way:
    """How this provider gets it."""
    if size > LARGEST.get(kind, 0):
        return Way.FILE
    return WAYS.get(provider, {}).get(kind, Way.FILE)


def read_block(provider: str, path: Path) -> tuple[Kind, bytes] | None:
    """The bytes for a block; None if this provider gets the file, or nobody can read it."""
    try:
        if not path.is_file():
            return None
        size = path.stat().st_size
        with path.open("rb") as file:
            kind = kind_of(file.read(16))
            if way_of(provider, kind, size) is Way.FILE:
                return None
            file.seek(0)
            return kind, file.read(LARGEST[kind])
    except OSError:
        return None
