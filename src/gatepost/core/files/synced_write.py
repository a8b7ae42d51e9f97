"""Copies that do not hold up the store. The file system flushes a file's new pages with the next commit of anybody, so
a large copy would make every durable write wait for the disk. Here only a few pages wait at any time, and between two
steps the disk is everybody else's."""

import os
import time
from collections.abc import Iterable

STEP = 1024 * 1024  # bytes that wait for the disk at most
PAUSE_S = 0.02  # between two steps: about 50 MB a second for one copy


def write_synced(out: int, parts: Iterable[bytes]) -> int:
    """Write all parts to a descriptor, and to the disk after each step. How many bytes they were."""
    size = waiting = 0
    for part in parts:
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(out, rest) :]
        size += len(part)
        waiting += len(part)
        if waiting >= STEP:
            os.fdatasync(out)
            time.sleep(PAUSE_S)
            waiting = 0
    return size
