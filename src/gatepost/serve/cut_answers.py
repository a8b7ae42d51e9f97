"""Answers that end before the bytes that they promised. The connection is closed, which is all that a client can see.

The server takes each exception of an answer for a mistake of ours, and logs its traceback. This one is none: whoever
raises it has logged why.
"""

import logging


class AnswerCutShort(Exception):
    """Ends an answer, and its connection."""


def is_logged(record: logging.LogRecord) -> bool:
    """The filter of the server's log."""
    error = record.exc_info[1] if record.exc_info else None
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return not isinstance(error, AnswerCutShort)


def spare_cut_answers() -> None:
    logging.getLogger("uvicorn.error").addFilter(is_logged)
