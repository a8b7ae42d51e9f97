"""Backups that the gateway makes: each in a process of its own, so that nobody else waits for it. One at a time.

By itself it makes one when the last is old enough, proves it, takes it elsewhere if a command is set, and removes what
nothing keeps. Owners are told of a failure, once a day.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from gatepost.core import log
from gatepost.core.clock import DAY, HOUR, Clock
from gatepost.core.errors import GatepostError, Unavailable
from gatepost.core.home import Home
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.settings import Config
from gatepost.serve.backups.backup_folder import (
    COMMAND,
    EVERY_HOURS,
    BackupFile,
    BackupProof,
    find_folder,
    list_backups,
    prune,
    read_proof,
)

LOOK_S, AGAIN = 60.0, HOUR  # between two looks; after a failure
LONGEST_S = 6 * 3600.0
LARGEST_REPORT, LONGEST_SAID = 1024 * 1024, 500
NICENESS = 10
_log = log.get("backups")
TellOwners = Callable[[str, str], Awaitable[None]]


class PrintedProof(msgspec.Struct, frozen=True):
    """The part of a printed proof that is needed here."""

    trouble: str
    seconds: float


class MadeBackup(msgspec.Struct, frozen=True):
    """As `gatepost backup create --json` prints it."""

    file: str
    bytes: int
    files: int
    proof: PrintedProof | None = None


class BackupRuns:
    def __init__(self, home: Home, config: Config, clock: Clock) -> None:
        self._home, self._config, self._clock = home, config, clock
        self._one = asyncio.Lock()

    async def list_found(self) -> list[BackupFile]:
        return await asyncio.to_thread(list_backups, find_folder(self._home, self._config))

    async def create(self) -> MadeBackup:
        return msgspec.json.decode(await self._run("create", "--prove"), type=MadeBackup)

    async def verify(self, name: str) -> BackupProof:
        """The outcome is kept beside the backup, too."""
        await self._run("verify", "--", name)
        proof = await asyncio.to_thread(read_proof, find_folder(self._home, self._config) / name)
        if proof is None:
            raise Unavailable("the trial", "it ended without a word; `gatepost backup verify` says more")
        return proof

    async def prune(self) -> list[BackupFile]:
        return await asyncio.to_thread(prune, find_folder(self._home, self._config), self._config)

    async def _run(self, *words: str) -> bytes:
        base = (sys.executable, "-m", "gatepost", "--home", str(self._home.path), "backup", words[0], "--json")
        async with self._one:
            code, out, said = await run_program((*base, *words[1:]))
        if not out:
            raise Unavailable("the backup", said or f"`gatepost backup {words[0]}` ended with {code}")
        return out

    async def send_elsewhere(self, file: Path) -> None:
        """Have the operator's command take a backup elsewhere."""
        words = [word.replace("{file}", str(file)) for word in self._config[COMMAND]]
        if not words:
            return
        code, _, said = await run_program(words)
        if code != 0:
            raise Unavailable("backup.command", f"it ended with {code}: {said}")


async def run_program(words: Sequence[str]) -> tuple[int, bytes, str]:
    """Return its exit code, what it printed, and the end of what it said besides. It is ended with us."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
        )
    except OSError as error:
        raise Unavailable(words[0], f"it cannot be run: {error.strerror}") from None
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
    assert process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(LONGEST_S):
            out, said = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            code = await process.wait()
    except TimeoutError:
        raise Unavailable(words[0], f"it was not done after {LONGEST_S / 3600:g} hours") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()
    return code, out, " ".join(said.decode(errors="replace").split())[-LONGEST_SAID:]


async def _read(stream: asyncio.StreamReader) -> bytes:
    """Too much is read and forgotten, so that nobody waits for a full pipe."""
    kept = bytearray()
    while chunk := await stream.read(64 * 1024):
        kept += chunk[: max(0, LARGEST_REPORT - len(kept))]
    return bytes(kept)


class BackupLoop:
    """Makes them as often as the settings say. `tell_owners`: with a key, so that each is told once, and a text."""

    def __init__(self, home: Home, config: Config, clock: Clock, tell_owners: TellOwners) -> None:
        self.runs = BackupRuns(home, config, clock)
        self._home, self._config, self._clock, self._add_failure_notice = home, config, clock, tell_owners
        self._not_before = 0

    async def run(self) -> None:
        """Until cancelled."""
        if self._config[EVERY_HOURS] > 0:
            await WakeLoop(_log.error, "backups cannot be looked at", pause_s=LOOK_S).run(self.check)

    async def check(self) -> None:
        now = self._clock.now()
        if now < self._not_before or not is_due(await self.runs.list_found(), now, self._config[EVERY_HOURS]):
            return
        self._not_before = now + AGAIN
        trouble = await self._make()
        if trouble:
            _log.error("a backup failed", trouble=trouble)
            text = f"The backup of today failed: {trouble}. `gatepost backup create --prove` tries again."
            await self._add_failure_notice(f"backup:{now // DAY}", text)

    async def _make(self) -> str:
        """Return what failed; '' if nothing did. A backup that is not proven takes no other's place."""
        try:
            made = await self.runs.create()
            if made.proof is None or made.proof.trouble:
                return f"it was made, and cannot be put back: {made.proof.trouble if made.proof else 'not tried'}"
            await self.runs.send_elsewhere(Path(made.file))
            await self.runs.prune()
        except (GatepostError, msgspec.DecodeError, OSError) as error:
            return str(error)
        _log.info("a backup was made and proven", file=made.file, bytes=made.bytes, seconds=made.proof.seconds)
        return ""


def is_due(found: Sequence[BackupFile], now: int, every_hours: float) -> bool:
    last = max((each.made_at for each in found), default=None)
    return last is None or now - last >= every_hours * HOUR
