"""The doctor, for whoever is not at a terminal: the command itself runs, as a process of its own. It reads the settings
as the next start will, and nothing that it does can hold up the gateway. One runs at a time, for everybody who asks."""

import asyncio
import os
import sys
from contextlib import suppress

import msgspec

from gatepost.core.clock import MINUTE, SECOND, Clock
from gatepost.core.errors import Unavailable
from gatepost.core.home import Home
from gatepost.serve.control.arguments.gateway.doctor import DoctorReport, RunDoctorArgs
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.serve.health.findings import FindingLevel

KEY = "doctor"  # in `OperationDeps.extra`
WORST_FIRST: tuple[FindingLevel, ...] = ("fail", "warn", "note", "ok")
LONGEST_S = 60.0
LARGEST = 1024 * 1024  # bytes that it may print
FRESH = 5 * SECOND  # even whoever wants it anew gets what was found so lately


class DoctorRuns:
    """The last report, and the run that is under way."""

    def __init__(self, home: Home, clock: Clock) -> None:
        self._home, self._clock = home, clock
        self._last: DoctorReport | None = None
        self._running: asyncio.Task[DoctorReport] | None = None

    async def get_report(self, fresh: bool) -> DoctorReport:
        age = self._clock.now() - self._last.checked_at if self._last is not None else None
        if self._last is not None and age is not None and age < (FRESH if fresh else MINUTE):
            return self._last
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await asyncio.shield(self._running)  # whoever leaves does not end it for the others

    async def _run(self) -> DoctorReport:
        found = parse_report(await run_doctor(self._home))
        self._last = msgspec.structs.replace(found, checked_at=self._clock.now())
        return self._last


async def run_doctor(home: Home) -> bytes:
    """Return what the command prints. It is ended if it takes too long or prints too much."""
    words = (sys.executable, "-m", "gatepost", "--home", str(home.path), "doctor", "--json")
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *words, stdin=null, stdout=asyncio.subprocess.PIPE, stderr=null, start_new_session=True
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LONGEST_S):
            printed = bytearray()
            while (chunk := await process.stdout.read(64 * 1024)) and len(printed) <= LARGEST:
                printed += chunk
            return bytes(printed)
    except TimeoutError:
        raise Unavailable("the doctor", f"it was not done within {LONGEST_S:g} s; run `gatepost doctor`") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()


def parse_report(printed: bytes) -> DoctorReport:
    try:
        found = msgspec.json.decode(printed, type=DoctorReport)
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise Unavailable("the doctor", "it ended without a report; run `gatepost doctor`") from None
    found.findings.sort(key=lambda each: WORST_FIRST.index(each.level))
    return found


@operation
async def run_checks(deps: OperationDeps, args: RunDoctorArgs) -> DoctorReport:
    runs: DoctorRuns = deps.extra.setdefault(KEY, DoctorRuns(deps.home, deps.clock))
    return await runs.get_report(args.fresh)
