"""The answer to a request that a secret was put into, with that secret struck out. Framing or compression could hide
the secret, so chunks are joined and cut anew, and a compressed answer is not passed on.
"""

import asyncio
import re

from gatepost.core.secret_scrubber import SecretStreamScrubber
from gatepost.egress.http import LARGEST_HEAD, EgressClient, HttpRefusal, read_chunks
from gatepost.egress.pace import PacedReader
from gatepost.egress.rules import EgressTarget

# What asks for a part or a packed form: in either, a secret would not be recognized.
NOT_ASKED = frozenset(("accept-encoding", "range", "if-range", "te"))
MOST_INTERIM = 16  # answers before the final one (1xx)
MOST_LINES = 1000  # of a head
_STATUS = re.compile(rb"http/1\.[01] [2-5][0-9]{2}(?: [^\x00-\x08\x0a-\x1f\x7f]*)?\Z")
_FIELD = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+:[^\x00-\x08\x0a-\x1f\x7f]*\Z")


async def send_scrubbed_response(
    upstream: PacedReader,
    client: EgressClient,
    target: EgressTarget,
    scrub: SecretStreamScrubber,
    largest: int,
    pause: float,
) -> None:
    """The answer, with every secret in it struck out. Raises Refusal; after its first byte, it breaks off."""
    try:
        async with asyncio.timeout(pause):
            head = await _head(upstream)
        framed = _is_chunked(head, target)
        client.answered = True
        await client.send(scrub.feed(head) + scrub.rest())
        if framed:
            async for piece in read_chunks(upstream, largest, pause):
                await _send(client, scrub.feed(piece))
            await _send(client, scrub.rest())
            await client.send_chunk(b"")
            return
        while True:
            async with asyncio.timeout(pause):
                piece = await upstream.read()
            await client.send(scrub.feed(piece) if piece else scrub.rest())
            if not piece:
                return
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, TimeoutError):
        raise HttpRefusal(502, f"{target} gave no answer, or none that can be read", str(target)) from None


async def _send(client: EgressClient, data: bytes) -> None:
    if data:  # an empty chunk would be the end
        await client.send_chunk(data)


async def _head(upstream: PacedReader) -> bytes:
    """Return the head of the final answer, without interim ones (1xx). Raises ValueError if these do not end."""
    for _ in range(MOST_INTERIM):
        head = await upstream.until(b"\r\n\r\n", LARGEST_HEAD)
        if not head.startswith((b"HTTP/1.1 1", b"HTTP/1.0 1")):
            return head
    raise ValueError("nothing but interim answers")


def _is_chunked(head: bytes, target: EgressTarget) -> bool:
    """Return True if it comes in chunks. Raises Refusal if something could be hidden in its body."""
    status, *lines = head.lower().removesuffix(b"\r\n\r\n").split(b"\r\n", MOST_LINES)
    if len(lines) == MOST_LINES:
        raise HttpRefusal(502, f"{target} answers with a head of {MOST_LINES} lines or more", str(target))
    if _STATUS.match(status) is None or not all(map(_FIELD.match, lines)):
        # A client might read it otherwise than it was read here: folded lines, lines that end with one sign alone.
        raise HttpRefusal(502, f"{target} answers with a head that can be read in two ways", str(target))
    fields = [line.partition(b":") for line in lines]
    codings = [value.strip() for name, _, value in fields if name == b"transfer-encoding"]
    packed = [value.strip() for name, _, value in fields if name == b"content-encoding"]
    if codings not in ([], [b"chunked"]) or any(each not in (b"", b"identity") for each in packed):
        raise HttpRefusal(502, f"{target} packs its answers, so a secret in one could not be struck out", str(target))
    return bool(codings)
