"""Files on their way out, read as they are sent and never whole."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from gatepost.core.records import replace
from gatepost.messages.outbound import Op, Outbound, OutboundFile


@asynccontextmanager
async def open_upload(file: OutboundFile) -> AsyncIterator[BinaryIO]:
    """For `files=` of a request: the client reads it in chunks."""
    data = await asyncio.to_thread(Path(file.path).open, "rb")
    try:
        yield data
    finally:
        await asyncio.to_thread(data.close)


def split_files(message: Outbound, most: int, largest: float = math.inf) -> list[Outbound]:
    """The messages that a message with many files is sent as. The last has its key, so that it is found only once all
    of it was sent. `most`, `largest`: the files of one message, and their bytes together."""
    groups: list[list[OutboundFile]] = [[]]
    for file in message.files:
        size = sum(each.size for each in groups[-1]) + file.size
        if groups[-1] and (len(groups[-1]) == most or size > largest):
            groups.append([])
        groups[-1].append(file)
    if len(groups) == 1:
        return [message]
    rest = replace(message, op=Op.FILE, text="", card=None, reply_to="")
    made = [replace(message if at == 0 else rest, files=tuple(each)) for at, each in enumerate(groups)]
    return [*(replace(each, key=f"{each.key} part {at}") for at, each in enumerate(made[:-1])), made[-1]]
