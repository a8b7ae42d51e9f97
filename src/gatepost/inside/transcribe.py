"""A recording in words: asked of an OpenAI-shaped endpoint over `egress.sock`, or of a program in this sandbox.

The key and the price stand outside. A program has the rights of the agent, and no more."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gatepost.inside import media
from gatepost.inside.http_client import ClientEndpoint, IncompleteResponse, post_request
from gatepost.inside.media import MediaHandling
from gatepost.inside.task_script import run_program
from gatepost.mailbox.inbound import InboundRow
from gatepost.mailbox.runner_frames import TRANSCRIBE_BY_COMMAND, TRANSCRIBE_BY_DEFAULT

LARGEST = 25 * 1024 * 1024
PATIENCE_S = 60.0  # for a transcript as a whole
COMMAND_S = 120.0  # for all recordings that a turn begins with
LONGEST_TRANSCRIPT = 100_000  # characters
FILE = "{file}"
PATH = "/audio/transcriptions"
_BOUNDARY = "hearing-5f0c9a7d31b84e62"


class _Transcription(msgspec.Struct):
    text: str = ""


class AttachmentTranscriber:
    """Words of the recordings that come with messages. Made once of each file: kept until its message has ended, for a
    turn that is continued."""

    def __init__(self, run: Path, workspace: Path, provider: str, options: Mapping[str, Any]) -> None:
        self._run, self._files = run, workspace / "in" / "files"
        self._kept = workspace / "state" / ".heard"
        self._provider, self._native = provider, media.is_native(options)
        self._by = str(options["transcribe"])
        command = options.get("transcribe_command")
        self._command = [str(word) for word in command] if isinstance(command, list) else []
        self._turns = asyncio.Semaphore(1)  # programs: each of them takes all the processors that it gets

    async def transcribe(self, rows: Sequence[InboundRow]) -> list[InboundRow]:
        """The same with a transcript at each recording; an empty one where nobody could make one."""
        self._tidy()
        return list(await asyncio.gather(*(self._transcribe(row) for row in rows)))

    async def _transcribe(self, row: InboundRow) -> InboundRow:
        names = self._recordings(row)
        if not names:
            return row
        said = dict(zip(names, await asyncio.gather(*(self._words(row.id, name) for name in names)), strict=True))
        listed = [
            {**each, "transcript": said[name]} if (name := media.attachment_name(each)) in said else each
            for each in row.content["attachments"]
        ]
        return msgspec.structs.replace(row, content={**row.content, "attachments": listed})

    def _recordings(self, row: InboundRow) -> list[str]:
        return [
            name
            for name in dict.fromkeys(media.attachment_names(row.content))
            if media.get_file_handling(self._provider, self._files / str(row.id) / name, native=self._native)
            in (MediaHandling.WORDS, MediaHandling.BOTH)
        ]

    async def _words(self, row: int, name: str) -> str:
        kept = self._kept / str(row) / name
        try:
            return kept.read_text(encoding="utf-8")
        except OSError:
            pass
        words = await self._make(self._files / str(row) / name)
        if words is None:
            return ""
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.with_suffix(".new").write_text(words, encoding="utf-8")
        kept.with_suffix(".new").rename(kept)
        return words

    async def _make(self, path: Path) -> str | None:
        if self._by == TRANSCRIBE_BY_COMMAND:
            try:
                async with asyncio.timeout(COMMAND_S), self._turns:  # those that wait have no more time than the first
                    return await run_transcriber(self._command, path)
            except TimeoutError:
                return None
        prefix = "/transcribe/v1" if self._by == TRANSCRIBE_BY_DEFAULT else "/openai/v1"
        return await transcribe(self._run, path, self._by, prefix)

    def _tidy(self) -> None:
        """Remove the transcripts of messages that have ended."""
        for kept in self._kept.glob("*/*"):
            if not (self._files / kept.parent.name).exists():
                kept.unlink(missing_ok=True)


async def run_transcriber(command: Sequence[str], path: Path, seconds: float = COMMAND_S) -> str | None:
    """Return the words that a program prints for the recording at `path`; None if it fails or prints none."""
    given = [word.replace(FILE, str(path)) for word in command]
    if not given:
        return None
    if not any(FILE in word for word in command):
        given.append(str(path))
    ended = await run_program(given, path.parent, seconds)
    return ended.printed.strip()[:LONGEST_TRANSCRIPT] or None if not ended.error else None


async def transcribe(
    run: Path, path: Path, model: str, prefix: str = "/openai/v1", seconds: float = PATIENCE_S
) -> str | None:
    """Return what is said in the recording at `path`; None if nobody can say. `run` holds the session's sockets."""
    try:
        size = path.stat().st_size
        data = path.read_bytes() if 0 < size <= LARGEST else b""
    except OSError:
        return None
    if not data:
        return None
    endpoint = ClientEndpoint(prefix=prefix, socket=run / "egress.sock")
    about = {"content-type": f"multipart/form-data; boundary={_BOUNDARY}"}
    try:
        async with (
            asyncio.timeout(seconds),
            post_request(endpoint, PATH, about, _form(data, model), seconds) as response,
        ):
            raw = await response.read()
            words = msgspec.json.decode(raw, type=_Transcription).text if response.status == 200 else ""
            return words.strip()[:LONGEST_TRANSCRIPT] or None
    except (IncompleteResponse, TimeoutError, msgspec.MsgspecError):
        return None


def _form(data: bytes, model: str) -> bytes:
    ending = media.get_audio_format(data)
    parts = [
        f'form-data; name="model"\r\n\r\n{model}'.encode(),
        b'form-data; name="response_format"\r\n\r\njson',
        f'form-data; name="file"; filename="audio.{ending}"\r\n\r\n'.encode() + data,
    ]
    mark = f"--{_BOUNDARY}".encode()
    return b"".join(mark + b"\r\ncontent-disposition: " + part + b"\r\n" for part in parts) + mark + b"--\r\n"
