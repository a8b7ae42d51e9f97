"""In the place of `child.py` for an emulated device: its lines go to a socket, and come from there. Nothing is read.

It is run as a program, with the port as its argument, and imports the standard library alone: it starts at once.
"""

import os
import socket
import sys
import threading

CHUNK = 64 * 1024


def main() -> None:
    try:
        peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    except OSError as error:
        sys.exit(f"the emulated device does not answer: {error.strerror}")
    threading.Thread(target=_copy_input, args=(peer,), daemon=True).start()
    try:
        while chunk := peer.recv(CHUNK):
            os.write(1, chunk)
    except OSError:
        pass
    os._exit(1)


def _copy_input(peer: socket.socket) -> None:
    try:
        while chunk := os.read(0, CHUNK):
            peer.sendall(chunk)
    except OSError:
        pass
    os._exit(0)  # the gateway is gone


if __name__ == "__main__":
    main()
