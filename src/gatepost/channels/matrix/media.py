"""Files of encrypted rooms: AES-256 in counter mode, with the hash of what lies on the server. Streamed both ways."""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from gatepost.channels.matrix.wire import MatrixFile
from gatepost.core.errors import Invalid

CHUNK = 256 * 1024


def decode_base64(text: str) -> bytes:
    """With or without its padding, in either alphabet."""
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise Invalid("file", "its key is damaged") from None


def _encode(data: bytes, *, url: bool = False) -> str:
    return (base64.urlsafe_b64encode(data) if url else base64.b64encode(data)).decode().rstrip("=")


async def decrypt(chunks: AsyncIterator[bytes], file: MatrixFile) -> AsyncIterator[bytes]:
    """The file's bytes as they come. A wrong hash shows at the end and raises: the reader then drops the file."""
    key, iv = decode_base64(file.key), decode_base64(file.iv)
    if len(key) != 32 or len(iv) != 16:
        raise Invalid("file", "its key is damaged")
    cipher, digest = Cipher(AES(key), CTR(iv)).decryptor(), hashlib.sha256()
    async for chunk in chunks:
        digest.update(chunk)
        yield cipher.update(chunk)
    if digest.digest() != decode_base64(file.sha256):
        raise Invalid("file", "it was changed on the server")


async def read_chunks(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as source:
        while chunk := await asyncio.to_thread(source.read, CHUNK):
            yield chunk


class EncryptedUpload:
    """Reads a file encrypted; `render` then says how to decrypt it."""

    def __init__(self, path: Path) -> None:
        self._path, self._key = path, secrets.token_bytes(32)
        self._iv = secrets.token_bytes(8) + bytes(8)  # the counter's half begins at zero
        self._digest = hashlib.sha256()

    async def chunks(self) -> AsyncIterator[bytes]:
        cipher, self._digest = Cipher(AES(self._key), CTR(self._iv)).encryptor(), hashlib.sha256()
        async for chunk in read_chunks(self._path):
            encrypted = cipher.update(chunk)
            self._digest.update(encrypted)
            yield encrypted

    def render(self, url: str) -> dict[str, Any]:
        key = {"kty": "oct", "key_ops": ["encrypt", "decrypt"], "alg": "A256CTR", "k": _encode(self._key, url=True)}
        return {
            "url": url,
            "v": "v2",
            "key": key | {"ext": True},
            "iv": _encode(self._iv),
            "hashes": {"sha256": _encode(self._digest.digest())},
        }
