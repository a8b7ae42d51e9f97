"""Files on their way out, read as they are sent and never whole."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from gatepost.messages.outbound import OutboundFile


@asynccontextmanager
async def open_upload(file: OutboundFile) -> AsyncIterator[BinaryIO]:
    """For `files=` of a request: the client reads it in chunks."""
    data = await asyncio.to_thread(Path(file.path).open, "rb")
    try:
        yield data
    finally:
        await asyncio.to_thread(data.close)
