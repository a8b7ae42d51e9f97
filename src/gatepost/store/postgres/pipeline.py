"""Several statements in one round trip to the server."""

import select
from collections.abc import Sequence

from psycopg import Error, pq

Statement = tuple[bytes, list[bytes | None]]  # the name of a prepared one, and its values

_BINARY = pq.Format.BINARY


def execute_together(connection: pq.abc.PGconn, statements: Sequence[Statement]) -> list[pq.abc.PGresult]:
    """Their results, in order. The first that fails is the last: what stands behind it is not run."""
    connection.enter_pipeline_mode()
    found: list[pq.abc.PGresult] = []
    try:
        for name, values in statements:
            connection.send_query_prepared(name, values, [_BINARY] * len(values), _BINARY)
        connection.pipeline_sync()
        _flush(connection)
        while True:
            result = _get_result(connection)
            if result is None:
                if connection.status != pq.ConnStatus.OK:
                    break
                continue
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                break
            if result.status != pq.ExecStatus.PIPELINE_ABORTED:
                found.append(result)
    finally:
        _leave_pipeline(connection)
    return found


def send_commit(connection: pq.abc.PGconn) -> None:
    """End a transaction that has only read. Nobody waits for the answer: `drop_answer`, before the next statement."""
    connection.send_query(b"COMMIT")
    _flush(connection)


def drop_answer(connection: pq.abc.PGconn) -> None:
    while _get_result(connection) is not None:
        pass


def _flush(connection: pq.abc.PGconn) -> None:
    """Send everything that is queued; psycopg's connections do not wait when they send. Answers that come meanwhile are
    read, so that the two sides do not wait for each other."""
    while connection.flush():
        waiting = select.poll()
        waiting.register(connection.socket, select.POLLIN | select.POLLOUT)
        if any(event & select.POLLIN for _, event in waiting.poll()):
            connection.consume_input()


def _get_result(connection: pq.abc.PGconn) -> pq.abc.PGresult | None:
    """psycopg's own `get_result` waits with the interpreter's lock held: nothing else of the process would go on."""
    if connection.is_busy():
        waiting = select.poll()
        waiting.register(connection.socket, select.POLLIN)
        while connection.is_busy():
            waiting.poll()
            connection.consume_input()
    return connection.get_result()


def _leave_pipeline(connection: pq.abc.PGconn) -> None:
    """One that cannot be left is of no more use."""
    try:
        if connection.status == pq.ConnStatus.OK:
            connection.exit_pipeline_mode()
    except Error:
        connection.finish()
