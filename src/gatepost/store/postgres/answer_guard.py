"""Ends connections on which the server owes an answer for too long.

A proxy, a balancer or a tunnel may keep a connection open for ever after the server behind it is gone. Neither
keepalives nor the server's own timeouts end such a wait. The waiting thread gets an error as if the connection had
broken, and connects anew.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from psycopg import Error, pq

from gatepost.core import log

GRACE_S = 3.0  # for an answer that the server gives at once, or after it was told to stop
LONG_S = 5.0
LOOK_S = 0.5

_log = log.get("store")


class AwaitedAnswer:
    """The answer that one thread waits for on one connection."""

    def __init__(self, connection: pq.abc.PGconn, since: float, until: float) -> None:
        self.connection, self.since, self.until = connection, since, until
        self.was_cut = self.is_overdue = False  # it may be cut before its time


class AnswerGuard:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """`cuts`: how many connections were ended. Those that were made before the last one are of no use either."""
        self._now = now
        self.cuts = 0
        self._awaited: set[AwaitedAnswer] = set()
        self._lock = threading.Lock()

    def begin(self, connection: pq.abc.PGconn, seconds: float) -> AwaitedAnswer:
        """Until `end`: all that is asked on a connection is answered in so many seconds, or the connection is cut."""
        now = self._now()
        awaited = AwaitedAnswer(connection, now, now + seconds)
        with self._lock:
            self._awaited.add(awaited)
        return awaited

    def renew(self, awaited: AwaitedAnswer, seconds: float) -> None:
        """Give the next answer so many seconds."""
        awaited.since = self._now()
        awaited.until = awaited.since + seconds

    def end(self, awaited: AwaitedAnswer) -> None:
        with self._lock:
            self._awaited.discard(awaited)

    @contextmanager
    def within(self, connection: pq.abc.PGconn, seconds: float) -> Iterator[AwaitedAnswer]:
        awaited = self.begin(connection, seconds)
        try:
            yield awaited
        finally:
            self.end(awaited)

    def check(self) -> None:
        """From another thread, often. With one that is overdue go those that wait for long already: if the server is
        gone, it is gone for all of them."""
        now = self._now()
        with self._lock:
            for each in self._awaited:
                each.is_overdue = now > each.until
            if not any(each.is_overdue for each in self._awaited):
                return
            for each in self._awaited:
                if not each.was_cut and (each.is_overdue or now - each.since > LONG_S):
                    each.was_cut = True
                    self.cuts += 1
                    _log.warning("the database owes an answer for too long; its connection is ended")
                    _cut(each.connection)

    def run(self, ending: threading.Event) -> None:
        while not ending.wait(LOOK_S):
            self.check()


def _cut(connection: pq.abc.PGconn) -> None:
    """Shut down the socket, so that a thread that waits in libpq finds it closed. That thread closes the connection."""
    with suppress(OSError, Error), socket.socket(fileno=os.dup(connection.socket)) as same:
        same.shutdown(socket.SHUT_RDWR)
