"""Words from gateway to gateway by NOTIFY: that there is something to look at, never what.

A thread connects; the loop sends and receives, and never waits for the server. Notices of a few milliseconds go out
together in one statement, because NOTIFY takes one lock for the whole server. A lost notice costs time only: its
receivers also look every few seconds.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

import msgspec
import psycopg
from psycopg import errors, pq

from gatepost.core import log
from gatepost.store.postgres.answer_guard import GRACE_S, AnswerGuard, AwaitedAnswer
from gatepost.store.postgres.connection import open_connection, render_application

CHANNEL = "gatepost"
SAY = b"say"  # the prepared statement
PAUSE_S = 0.005  # between two statements
AGAIN_S = 0.5
STOP_S = 2.0
STUCK_S = 2 * GRACE_S  # without an answer, when the guard has ended the connection long ago
LARGEST = 7000  # bytes of one word; PostgreSQL takes 8000

Notice = tuple[str, ...]

_CHANNEL = CHANNEL.encode()
_decode = msgspec.json.Decoder(tuple[str, list[Notice]]).decode
_encode = msgspec.json.Encoder().encode
_log = log.get("gateways")


class NoticeExchange:
    def __init__(
        self, url: str, gateway: str, hear: Callable[[list[Notice]], None], guard: AnswerGuard | None = None
    ) -> None:
        """`hear` is called on the loop with what the others said. `guard`: somebody calls its `check`."""
        self._url, self._gateway, self._hear = url, gateway, hear
        self._name = f"{render_application(gateway)} notices"
        self._guard = guard or AnswerGuard()
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Notice, None] = {}
        self._connection: NoticeConnection | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._ending, self._detached = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="gateway-notices", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        self._ending.set()
        self._detach()
        self._detached.set()  # it may have waited for nothing
        await asyncio.to_thread(self._thread.join, STOP_S)

    def post(self, notice: Notice) -> None:
        """Said to all others soon. The same word twice is one word."""
        self._waiting[notice] = None
        self._send_waiting()

    def _send_waiting(self) -> None:
        connection = self._connection
        if not self._waiting or connection is None or self._pause is not None:
            return
        if connection.is_busy:
            if connection.find_silence() > STUCK_S:
                _log.warning("words to other gateways are not answered")
                self._detach()
            return
        if word := pop_word(self._gateway, self._waiting):
            self._pause = self._loop.call_later(PAUSE_S, self._end_pause)
            self._use(lambda: connection.send(word))

    def _end_pause(self) -> None:
        self._pause = None
        self._send_waiting()

    def _receive(self) -> None:
        if (connection := self._connection) is None:
            return
        self._use(lambda: self._listen(connection.receive()))
        self._send_waiting()

    def _use(self, use: Callable[[], None]) -> None:
        """Once a connection fails, it is of no more use."""
        try:
            use()
        except psycopg.Error as error:
            _log.warning("words of other gateways are not heard", error=str(error).strip())
            self._detach()

    def _listen(self, words: list[bytes]) -> None:
        heard: list[Notice] = []
        for word in words:
            try:
                speaker, notices = _decode(word)
            except msgspec.MsgspecError:  # anybody in the database may speak here
                _log.warning("words on the gateways' channel are no gateway's", size=len(word))
                continue
            if speaker != self._gateway:
                heard += notices
        if heard:
            self._hear(heard)

    def _attach(self, connection: "NoticeConnection") -> None:
        if self._ending.is_set():
            self._detached.set()
            return
        try:
            self._loop.add_reader(connection.socket, self._receive)
        except (OSError, RuntimeError) as error:  # the loop may know that number as somebody else's still
            _log.warning("words of other gateways are not heard", error=str(error))
            self._detached.set()
            return
        self._connection = connection
        self._hear([])  # what was said meanwhile was missed: look at everything
        self._send_waiting()

    def _detach(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._loop.remove_reader(connection.socket)
            connection.close()
            self._detached.set()

    def _work(self) -> None:
        """In its thread: a connection, and another one when the loop has no more use for it."""
        while not self._ending.is_set():
            with suppress(RuntimeError):  # the loop is gone
                try:
                    # Closed, and no more: as a context it would commit first, and wait for a server that may be gone.
                    with closing(open_connection(self._url, self._name)) as connection:
                        self._prepare(connection)
                        self._detached.clear()
                        self._loop.call_soon_threadsafe(self._attach, NoticeConnection(connection.pgconn, self._guard))
                        self._detached.wait()
                except (psycopg.Error, OSError) as error:  # of the latter: no descriptor is free
                    _log.warning("words of other gateways are not heard", error=str(error).strip())
            self._ending.wait(AGAIN_S)

    def _prepare(self, connection: psycopg.Connection) -> None:
        with self._guard.within(connection.pgconn, GRACE_S):
            connection.execute("SET synchronous_commit = off")  # a lost word costs time only
            connection.pgconn.prepare(SAY, b"SELECT pg_notify($1, $2)")
            connection.execute(f"LISTEN {CHANNEL}")


class NoticeConnection:
    """One connection, that nobody waits for."""

    def __init__(self, wire: pq.abc.PGconn, guard: AnswerGuard) -> None:
        self._wire, self._guard = wire, guard
        self.socket = wire.socket
        self._awaited: AwaitedAnswer | None = None

    @property
    def is_busy(self) -> bool:
        return self._awaited is not None

    def find_silence(self) -> float:
        """Seconds for which an answer is awaited."""
        return 0.0 if self._awaited is None else time.monotonic() - self._awaited.since

    def send(self, word: bytes) -> None:
        """By libpq itself and prepared: a cursor takes twice as long, parsing a third more. A socket that does not take
        a word at once has not taken much for long; the guard ends it."""
        self._wire.send_query_prepared(SAY, [_CHANNEL, word])
        self._awaited = self._guard.begin(self._wire, GRACE_S)
        self._wire.flush()

    def receive(self) -> list[bytes]:
        """Return what was said, by whomever."""
        self._wire.consume_input()
        while self._awaited is not None and not self._wire.is_busy():
            result = self._wire.get_result()
            if result is None:
                self.close()
            elif result.status != pq.ExecStatus.TUPLES_OK:
                raise errors.error_from_result(result)
        words = []
        while (said := self._wire.notifies()) is not None:
            words.append(said.extra)
        return words

    def close(self) -> None:
        """Nothing is awaited any more."""
        if self._awaited is not None:
            self._guard.end(self._awaited)
            self._awaited = None


def pop_word(gateway: str, notices: dict[Notice, None]) -> bytes:
    """As many of them as are said in one statement, the oldest first; b"" for none. One that fits in none is not said:
    who waits for it looks by itself."""
    taken, dropped, size = list[Notice](), list[Notice](), 0
    for each in notices:
        length = len(_encode(each)) + 1
        if length > LARGEST:
            dropped.append(each)
        elif size + length > LARGEST:
            break
        else:
            taken.append(each)
            size += length
    for each in (*taken, *dropped):
        del notices[each]
    return _encode((gateway, taken)) if taken else b""
