"""Logs: the last lines that the gateway wrote."""

from typing import Annotated

from msgspec import Meta

from gatepost.core.files.log_tail import LogLevel, LogLine
from gatepost.core.record_fields import option
from gatepost.serve.control.declaration import OperationArgs, declares


@declares("logs.tail", right="logs.read")
class TailLogArgs(OperationArgs[list[LogLine]], frozen=True):
    """The last lines of the gateway's log, the newest first. Secrets were left out when it was written."""

    level: Annotated[LogLevel, option("Only lines of this level and above.")] = LogLevel.INFO
    words: Annotated[str, option("Only lines that have all of these words."), Meta(max_length=200)] = ""
    limit: Annotated[int, option("How many at most.", least=1, most=1000)] = 200
