"""The process of a linked device: `python -m gatepost.channels.whatsapp_linked.child`. It alone loads neonize.

It speaks `protocol` over its standard input and output, and ends when its input closes. The library writes to the
standard output, too; that goes to the errors instead.
"""

import fcntl
import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gatepost.channels.whatsapp_linked.device_lines import LineWriter, end
from gatepost.channels.whatsapp_linked.protocol import (
    LONGEST_LINE,
    Acknowledge,
    Begin,
    LinkState,
    LinkStatus,
    parse_gateway_line,
)

if TYPE_CHECKING:
    from gatepost.channels.whatsapp_linked.linked_device import LinkedDevice

AT_ONCE = 4


def read_line() -> bytes:
    raw = sys.stdin.buffer.readline(LONGEST_LINE)
    if not raw.endswith(b"\n"):
        os._exit(0)  # the gateway is gone
    return raw


def read_requests(device: "LinkedDevice") -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while True:
            try:
                line = parse_gateway_line(read_line())
            except msgspec.DecodeError as error:
                end(f"a line of the gateway cannot be read: {error}")
            if isinstance(line, Acknowledge):
                device.journal.acknowledge(line.number)
            elif not isinstance(line, Begin):
                pool.submit(device.answer, line)


def claim_folder(folder: Path) -> int:
    """One process for one session. The lock ends with the process."""
    held = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        end("another process uses this session")
    return held


def main() -> None:
    os.umask(0o077)
    writer = LineWriter()
    begin = parse_gateway_line(read_line())
    if not isinstance(begin, Begin):
        end("the first line is not the one that begins")
    try:
        from gatepost.channels.whatsapp_linked import linked_device
    except ImportError:
        writer.write(LinkStatus(state=LinkState.NO_LIBRARY))
        return
    logging.getLogger().setLevel(logging.ERROR)
    claim_folder(Path(begin.folder))
    if not begin.connect:
        writer.write(LinkStatus(state=linked_device.find_state(Path(begin.folder))))
        while read_line():  # until the gateway closes it
            pass
    device = linked_device.LinkedDevice(begin, writer)
    threading.Thread(target=read_requests, args=(device,), daemon=True).start()
    try:
        device.run()
    except Exception as error:  # noqa: BLE001  a library's own; the gateway starts us again
        end(f"the library ended: {error}")
    end("the library ended without a word")


if __name__ == "__main__":
    main()
