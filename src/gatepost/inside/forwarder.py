"""A byte pump from 127.0.0.1 to egress.sock, for programs that know proxies and base URLs but no unix sockets.

    port = start(Path("/run/gatepost"))          python -I -S forwarder.py /run/gatepost 3128
                                                 python -I -S forwarder.py /run/gatepost -- curl -sS https://…

The standard library alone. It judges nothing: the wall is the other end of the socket. A sandbox without a network has
a loopback of its own, so nobody else reaches the port; without a sandbox every local process would. It can report how
calls of models ended: there is one request a connection, so an answer that was cut is seen at its end.
"""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

SOCKET = "egress.sock"
CHUNK = 64 * 1024
LOOPBACK = "127.0.0.1"
MODEL_CALLS = (b"POST /anthropic/", b"POST /openai/", b"POST /google/")  # what a call of a model begins with
CHUNKED = b"\r\ntransfer-encoding: chunked"
LARGEST_BEGINNING = LARGEST_TAIL = 8192  # bytes of an answer that are reported
BUSY = 429  # too many requests
PLACEHOLDER = "gatepost"  # where a program wants to see a key; the real one is put in outside


class ModelCallBegin(NamedTuple):
    """A call of a model has begun."""


class ModelCallEnd(NamedTuple):
    """How a call of a model ended. `whole`: its answer came to its end; `body` is the beginning of that, `tail` its end
    as it came, in chunks."""

    status: int
    whole: bool
    body: bytes
    tail: bytes = b""


Watch = Callable[[ModelCallBegin | ModelCallEnd], None]


def environment(port: int) -> dict[str, str]:
    """Return what programs must be told so that they go this way."""
    proxy = f"http://{LOOPBACK}:{port}"
    around = f"{LOOPBACK},localhost"
    return {
        "HTTP_PROXY": proxy,
        "HTTPS_PROXY": proxy,
        "http_proxy": proxy,
        "https_proxy": proxy,
        "NO_PROXY": around,
        "no_proxy": around,
        "ANTHROPIC_BASE_URL": f"{proxy}/anthropic",
        "ANTHROPIC_API_KEY": PLACEHOLDER,
        "OPENAI_BASE_URL": f"{proxy}/openai/v1",
        "OPENAI_API_KEY": PLACEHOLDER,
        "GOOGLE_GEMINI_BASE_URL": f"{proxy}/google",
        "GEMINI_API_KEY": PLACEHOLDER,
        "GATEPOST_REFUSED": f"{proxy}/refused",  # why the latest requests were refused, and what the operator can do
        "GATEPOST_TO": f"{proxy}/to",  # …/HOST/path is asked over HTTPS, with what the operator has bound to HOST
    }


def start(run: Path, port: int = 0, watch: Watch | None = None, busy_status: int = BUSY) -> int:
    """Serve from a thread of this process, as long as it lives; the port. `watch` is called in that thread, before the
    client sees the end of an answer. `busy_status`: what the client sees in the place of 429."""
    opened = threading.Event()
    found: list[int | OSError] = []

    def report(answer: int | OSError) -> None:
        found.append(answer)
        opened.set()

    threading.Thread(
        target=lambda: asyncio.run(_serve(run, port, report, watch, busy_status)), name="forwarder", daemon=True
    ).start()
    opened.wait()
    if isinstance(found[0], OSError):
        raise found[0]
    return found[0]


async def _serve(
    run: Path,
    port: int,
    report: Callable[[int | OSError], None],
    watch: Watch | None = None,
    busy_status: int = BUSY,
) -> None:
    joined: set[asyncio.Task[None]] = set()  # the loop forgets a task whose connection it no longer listens to

    def arrive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(_join(reader, writer, run / SOCKET, watch, busy_status))
        joined.add(task)
        task.add_done_callback(joined.discard)

    try:
        server = await asyncio.start_server(arrive, LOOPBACK, port, limit=CHUNK)
    except OSError as error:
        report(error)
        return
    report(int(server.sockets[0].getsockname()[1]))
    await server.serve_forever()


class ModelCallWatch:
    """Notes of one connection, as far as is needed to say how its call ended."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._asked, self._beginning, self._end = b"", b"", b""
        self._size = 0

    def send(self, piece: bytes) -> None:
        first = not self._asked
        self._asked += piece[: 32 - len(self._asked)]
        if first and self._asked.startswith(MODEL_CALLS):
            self._report(ModelCallBegin())

    def receive(self, piece: bytes) -> None:
        self._beginning += piece[: LARGEST_BEGINNING - len(self._beginning)]
        self._end = (self._end + piece)[-LARGEST_TAIL:]
        self._size += len(piece)

    def end(self, *, left: bool) -> None:
        """`left`: the client was gone before; an answer that is not whole was then cut by itself."""
        head, _, body = self._beginning.partition(b"\r\n\r\n")
        status, whole = head[9:12], self._is_whole(head.lower())
        if self._asked.startswith(MODEL_CALLS) and status.isdigit() and (whole or not left):
            if CHUNKED in head.lower():
                body = _join_chunks(body)
            self._report(ModelCallEnd(int(status), whole, body, self._end))

    def _report(self, what: ModelCallBegin | ModelCallEnd) -> None:
        with suppress(RuntimeError):  # nobody is there any more whom it concerns
            self._watch(what)

    def _is_whole(self, head: bytes) -> bool:
        if CHUNKED in head:
            return self._end.endswith(b"0\r\n\r\n")
        _, _, length = head.partition(b"\r\ncontent-length: ")
        announced = length.split(b"\r\n")[0]
        return not announced.isdigit() or self._size - len(head) - 4 >= int(announced)


def _join_chunks(body: bytes) -> bytes:
    """As far as they have come."""
    parts = []
    while body:
        size, _, body = body.partition(b"\r\n")
        try:
            length = int(size.split(b";")[0], 16)
        except ValueError:
            break
        if length <= 0:
            break
        parts.append(body[:length])
        body = body[length + 2 :]
    return b"".join(parts)


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    path: Path,
    watch: Watch | None = None,
    busy_status: int = BUSY,
) -> None:
    try:
        inner, out = await asyncio.open_unix_connection(path, limit=CHUNK)
    except OSError:
        writer.close()  # the gateway has closed the way out
        return
    try:
        call = ModelCallWatch(watch) if watch is not None else None

        def end() -> None:
            if call is not None:
                call.end(left=up.done())

        up = asyncio.ensure_future(_pump(reader, out, call.send if call else None))
        down = asyncio.ensure_future(_pump(inner, writer, call.receive if call else None, end, busy_status))
        await asyncio.wait({down})  # the gateway ends a connection, never the client's last word
        if down.result():
            await asyncio.wait({up}, timeout=2.0)  # what the client still sends is read, or it misses the answer
        up.cancel()
    finally:
        out.close()
        writer.close()


async def _pump(
    source: asyncio.StreamReader,
    sink: asyncio.StreamWriter,
    passed: Callable[[bytes], None] | None = None,
    ended: Callable[[], None] | None = None,
    busy_status: int = BUSY,
) -> bool:
    """False: one side is gone."""
    head = b"HTTP/1.1 %d " % BUSY
    try:
        while piece := await source.read(CHUNK):
            if passed is not None:
                passed(piece)
            if busy_status != BUSY and piece.startswith(head):
                piece = b"HTTP/1.1 %d %s" % (busy_status, piece[len(head) :])
            busy_status = BUSY  # a head comes once
            sink.write(piece)
            await sink.drain()
        if ended is not None:
            ended()
        if sink.can_write_eof():
            sink.write_eof()
    except OSError:
        return False
    return True


def run(folder: Path, command: list[str]) -> int:
    """A command that is told the way; its exit code, as a shell has it."""
    env = {**os.environ, **environment(start(folder))}
    env.pop("LD_LIBRARY_PATH", None)  # for our own interpreter
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is typed is the command's to hear
    try:
        code = subprocess.Popen(command, env=env, preexec_fn=_restore_sigint).wait()
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    return code if code >= 0 else 128 - code


def _restore_sigint() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main(arguments: list[str]) -> int:
    if arguments[1:2] == ["--"] and arguments[2:]:
        return run(Path(arguments[0]), arguments[2:])
    if len(arguments) != 2 or not arguments[1].isdigit():
        sys.stderr.write("usage: forwarder.py RUN PORT | RUN -- COMMAND …\n")
        return 2

    def report(answer: int | OSError) -> None:
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()

    asyncio.run(_serve(Path(arguments[0]), int(arguments[1]), report))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
