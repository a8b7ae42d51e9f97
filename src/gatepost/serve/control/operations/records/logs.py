"""Logs: the last lines that the gateway wrote."""

import asyncio

from gatepost.core.files.log_tail import LogLine, read_last_lines
from gatepost.serve.control.arguments.records.logs import TailLogArgs
from gatepost.serve.control.contract import OperationDeps, operation


@operation
async def tail_log(deps: OperationDeps, args: TailLogArgs) -> list[LogLine]:
    path = deps.home.logs / "gatepost.log"
    return await asyncio.to_thread(read_last_lines, path, args.limit, args.level, args.words)
