"""A recording in words: asked of an OpenAI-shaped endpoint over `egress.sock`. The key and the price stand outside."""

from pathlib import Path

import msgspec

from gatepost.inside.post import Cut, Endpoint, posting

LARGEST = 25 * 1024 * 1024
PATIENCE_S = 300.0
PATH = "/audio/transcriptions"
ENDINGS = {b"ID3": "mp3", b"\xff\xfb": "mp3", b"OggS": "ogg", b"fLaC": "flac", b"RIFF": "wav", b"\x1aE\xdf\xa3": "webm"}
_BOUNDARY = "hearing-5f0c9a7d31b84e62"


class _Heard(msgspec.Struct):
    text: str = ""


async def transcribe(run: Path, path: Path, model: str) -> str | None:
    """What is said in the recording at `path`; None if nobody can say. `run` holds the session's sockets."""
    try:
        size = path.stat().st_size
        data = path.read_bytes() if 0 < size <= LARGEST else b""
    except OSError:
        return None
    if not data:
        return None
    endpoint = Endpoint(prefix="/openai/v1", socket=run / "egress.sock")
    about = {"content-type": f"multipart/form-data; boundary={_BOUNDARY}"}
    try:
        async with posting(endpoint, PATH, about, _form(data, model), PATIENCE_S) as response:
            raw = await response.read()
            return msgspec.json.decode(raw, type=_Heard).text.strip() or None if response.status == 200 else None
    except (Cut, msgspec.MsgspecError):
        return None


def _form(data: bytes, model: str) -> bytes:
    ending = next((ending for mark, ending in ENDINGS.items() if data.startswith(mark)), "m4a")
    parts = [
        f'form-data; name="model"\r\n\r\n{model}'.encode(),
        b'form-data; name="response_format"\r\n\r\njson',
        f'form-data; name="file"; filename="audio.{ending}"\r\n\r\n'.encode() + data,
    ]
    mark = f"--{_BOUNDARY}".encode()
    return b"".join(mark + b"\r\ncontent-disposition: " + part + b"\r\n" for part in parts) + mark + b"--\r\n"
