"""Words from gateway to gateway by NOTIFY: that there is something to look at, never what.

A thread with a connection of its own listens and sends. What is to be said within a few milliseconds goes out together,
in one statement: NOTIFY takes one lock for the whole server. A lost word costs time only: whoever waits for one also
looks every few seconds.
"""

import json
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import msgspec
import psycopg
from psycopg import errors, pq

from gatepost.core import log
from gatepost.store.postgres.answer_guard import GRACE_S, AnswerGuard
from gatepost.store.postgres.connection import is_usable, open_connection, render_application

CHANNEL = "gatepost"
SAY = b"say"  # the prepared statement
PAUSE_S = 0.005  # between two statements
LOOK_S = 2.0
AGAIN_S = 0.5
LARGEST = 7000  # bytes of one word; PostgreSQL takes 8000

Notice = tuple[str, ...]

_decode = msgspec.json.Decoder(tuple[str, list[Notice]]).decode
_log = log.get("gateways")


class NoticeBoard:
    def __init__(
        self, url: str, gateway: str, hear: Callable[[list[Notice]], None], guard: AnswerGuard | None = None
    ) -> None:
        """`hear` is called in the board's thread with what the others said. `guard`: somebody calls its `check`."""
        self._guard = guard or AnswerGuard()
        self._url, self._gateway, self._hear = url, gateway, hear
        self._waiting: dict[Notice, None] = {}
        self._lock = threading.Lock()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._ending = False
        self.is_listening = False  # while it is not, nothing that others change is heard of
        self._thread = threading.Thread(target=self._work, name="gateway-notices", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending = True
        self._wake()
        self._thread.join(2.0)
        os.close(self._wake_read)
        os.close(self._wake_write)

    def post(self, notice: Notice) -> None:
        """From any thread: said to all others soon. The same word twice is one word."""
        with self._lock:
            was_empty = not self._waiting
            self._waiting[notice] = None
        if was_empty:
            self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"\0")
        except BlockingIOError:
            return  # it is awake already

    def _work(self) -> None:
        while not self._ending:
            try:
                with open_connection(self._url, f"{render_application(self._gateway)} notices") as connection:
                    # A lost word costs time only, so none waits for the disk.
                    connection.execute("SET synchronous_commit = off")
                    connection.pgconn.prepare(SAY, b"SELECT pg_notify($1, $2)")
                    connection.execute(f"LISTEN {CHANNEL}")
                    self.is_listening = True
                    self._hear([])  # what was said meanwhile was missed: look at everything
                    self._serve(connection)
            except psycopg.Error as error:
                _log.warning("words of other gateways are not heard", error=str(error).strip())
            self.is_listening = False
            if not self._ending:
                time.sleep(AGAIN_S)

    def _serve(self, connection: psycopg.Connection) -> None:
        server, wire = connection.fileno(), connection.pgconn
        heeded = select.poll()  # `select` knows no number above 1023, and visitors may have all below it
        heeded.register(server, select.POLLIN)
        may_send = 0.0  # from when on; meanwhile it listens
        while not self._ending and is_usable(wire):
            pause = may_send - time.monotonic()
            heeded.register(self._wake_read, 0 if pause > 0 else select.POLLIN)
            ready = dict(heeded.poll(1000 * (pause if pause > 0 else LOOK_S)))
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
                with self._guard.within(wire, GRACE_S):
                    self._send(connection)
                may_send = time.monotonic() + PAUSE_S
            if server in ready:
                wire.consume_input()
            self._listen(connection)

    def _listen(self, connection: psycopg.Connection) -> None:
        heard: list[Notice] = []
        while (word := connection.pgconn.notifies()) is not None:
            try:
                speaker, notices = _decode(word.extra)
            except msgspec.MsgspecError:  # anybody in the database may speak here
                _log.warning("words on the gateways' channel are no gateway's", size=len(word.extra))
                continue
            if speaker != self._gateway:
                heard += notices
        if heard:
            self._hear(heard)

    def _send(self, connection: psycopg.Connection) -> None:
        with self._lock:
            waiting, self._waiting = list(self._waiting), {}
        for said in pack_notices(self._gateway, waiting):
            self._notify(connection.pgconn, said)

    def _notify(self, wire: pq.abc.PGconn, said: bytes) -> None:
        """By libpq itself and prepared: a cursor takes twice as long, parsing a third more."""
        result = wire.exec_prepared(SAY, [CHANNEL.encode(), said])
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise errors.error_from_result(result)


def pack_notices(gateway: str, notices: Iterable[Notice]) -> Iterator[bytes]:
    """What is said at once, in as few statements as they fit in. One that fits in none is not said: who waits for it
    looks by itself."""
    head, parts, size = f"[{json.dumps(gateway)}, [", list[str](), 0
    for each in map(json.dumps, notices):
        if len(each) > LARGEST:
            continue
        if parts and size + len(each) > LARGEST:
            yield f"{head}{', '.join(parts)}]]".encode()
            parts, size = [], 0
        parts.append(each)
        size += len(each) + 2
    if parts:
        yield f"{head}{', '.join(parts)}]]".encode()
