"""The measuring end: one blocking client of a line protocol, over a Unix socket, as HTTP or through a command's pipes.

Standard library only, a process of its own, so that what is measured is the other side. Prints one JSON object.
"""

import json
import socket
import statistics
import subprocess
import sys
import time


class Frames:
    """A line in, a line out, as four bytes of length and the line; without a buffer between, as a bridge has none."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)

    def write(self, message):
        self.sock.sendall(len(message).to_bytes(4, "big") + message)

    def flush(self):
        """It is out already."""

    def readline(self):
        data = self.sock.recv(65536)
        while len(data) < 4 or len(data) - 4 < int.from_bytes(data[:4], "big"):
            data += self.sock.recv(65536)
        return data[4:]


class Http:
    """A line in, a line out, as a POST and its answer on one connection that is kept."""

    def __init__(self, path, address, *headers):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.head = [f"POST {address} HTTP/1.1", "Host: localhost", "Accept: application/json, text/event-stream"]
        self.head += ["Content-Type: application/json", *headers]

    def write(self, message):
        head = "\r\n".join([*self.head, f"Content-Length: {len(message)}", "", ""])
        self.sock.sendall(head.encode() + message)

    def flush(self):
        """It is out already."""

    def readline(self):
        data = self.sock.recv(65536)
        while b"\r\n\r\n" not in data:
            data += self.sock.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        if b"mcp-session-id: " in head and "mcp-session-id" not in self.head[-1]:
            self.head.append("mcp-session-id: " + head.partition(b"mcp-session-id: ")[2].split(b"\r\n")[0].decode())
        if b"content-length: " in head:
            size = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            while len(body) < size:
                body += self.sock.recv(65536)
            return body
        while not body.endswith(b"0\r\n\r\n"):
            body += self.sock.recv(65536)
        return body


def connect(target):
    """A way to send a line and read one: the same for a socket and for a bridge."""
    if target[0] == "socket":
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(target[1])
        return sock.makefile("rwb", buffering=65536)
    if target[0] == "http":
        return Http(*target[1:])
    if target[0] == "frames":
        return Frames(target[1])
    child = subprocess.Popen(target[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    class Pipes:
        write = staticmethod(child.stdin.write)
        flush = staticmethod(child.stdin.flush)
        readline = staticmethod(child.stdout.readline)

    return Pipes


def main():
    order = json.loads(sys.argv[1])
    begun = time.perf_counter()
    line = connect(order["target"])

    def ask(message):
        line.write(message)
        line.flush()
        return line.readline()

    for message in order["before"]:
        ask(message.encode() + b"\n")
    ready_ms = (time.perf_counter() - begun) * 1000
    times = []
    for number in range(order["calls"]):
        message = order["message"].replace("@ID@", str(number + 100)).encode() + b"\n"
        start = time.perf_counter_ns()
        answer = ask(message)
        times.append(time.perf_counter_ns() - start)
        if not answer or b'"error"' in answer or b'"isError":true' in answer:
            sys.exit(f"a call failed: {answer[:300]!r}")
    times.sort()
    p99_us = times[int(len(times) * 0.99)] / 1000 if times else 0
    print(json.dumps({"ready_ms": ready_ms, "median_us": statistics.median(times) / 1000, "p99_us": p99_us}))


main()
