"""The inner end of a worker process: requests in, answers out, one after the other, until there are no more."""

import os
import resource
import struct
import sys
from collections.abc import Callable
from typing import BinaryIO

NICENESS = 10
SIZE = struct.Struct("!I")


def limit_process(memory: int) -> None:
    """It gives way to the gateway, and has at most so many bytes of memory."""
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def serve(work: Callable[[bytes], bytes], requests: BinaryIO | None = None, answers: BinaryIO | None = None) -> None:
    """Read from standard input and write to standard output, unless others are named."""
    requests, answers = requests or sys.stdin.buffer, answers or sys.stdout.buffer
    while head := requests.read(SIZE.size):
        answer = work(requests.read(SIZE.unpack(head)[0]))
        answers.write(SIZE.pack(len(answer)) + answer)
        answers.flush()
