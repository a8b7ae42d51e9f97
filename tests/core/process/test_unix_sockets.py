"""Sockets that sandboxes reach take bytes and nothing else."""

import array
import errno
import os
import socket
from pathlib import Path

import pytest

from gatepost.core.process.unix_sockets import bind_unix, can_refuse_descriptors

needs_kernel = pytest.mark.skipif(not can_refuse_descriptors(), reason="this kernel cannot refuse descriptors")


def send_descriptor(sock: socket.socket) -> None:
    reading, writing = os.pipe()
    try:
        sock.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [reading]))])
    finally:
        os.close(reading)
        os.close(writing)


@needs_kernel
def test_stranger_new_nobody_sends_a_descriptor_before_or_after_the_connection_is_accepted(tmp_path: Path) -> None:
    with bind_unix(tmp_path / "s") as listener, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "s"))
        with pytest.raises(PermissionError) as early:
            send_descriptor(client)
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            with pytest.raises(PermissionError) as late:
                send_descriptor(client)
            client.sendall(b"words")
            words = accepted.recv(100)

    assert words == b"words"
    assert (early.value.errno, late.value.errno) == (errno.EPERM, errno.EPERM)
