"""The script of a task: runs before its prompt, and may say that there is nothing to do.

The last line that it prints is JSON: `{"wakeAgent": false}` ends the run in silence; with `true`, what it gives as
`data` is shown with the prompt."""

import asyncio
import os
import shutil
import signal
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

SECONDS = 30.0
END_S = 5.0  # for the last of a program that was ended
LARGEST_OUTPUT = 1_000_000  # bytes
LONGEST_ERROR = 400  # characters of what it says about its own failure


class ScriptOutcome(msgspec.Struct, frozen=True):
    """`error` '': it ended well."""

    wake: bool = False
    data: Any = None
    error: str = ""


class ProgramOutcome(msgspec.Struct, frozen=True):
    """`error` '': it ended well."""

    printed: str = ""
    error: str = ""
    code: int = 0  # that it ended with by itself


class _LastLine(msgspec.Struct):
    wakeAgent: bool
    data: Any = None


class _TooLarge(Exception):
    pass


async def run_script(script: str, folder: Path, seconds: float = SECONDS) -> ScriptOutcome:
    ended = await run_program((shutil.which("bash") or "/bin/sh", "-c", script), folder, seconds)
    return ScriptOutcome(error=ended.error) if ended.error else read_outcome(ended.printed)


async def run_program(
    arguments: Sequence[str], folder: Path, seconds: float, env: Mapping[str, str] | None = None
) -> ProgramOutcome:
    """Run a program for at most so many seconds. All processes that it started are gone when this returns. `env`: its
    variables; None: ours."""
    starting = asyncio.create_task(_start(arguments, folder, env))
    try:
        process = await asyncio.shield(starting)
    except (OSError, ValueError) as error:  # ValueError: an argument that no program can be given
        return ProgramOutcome(error=f"it could not be started: {error}")
    except asyncio.CancelledError:  # it runs already: asyncio would end the shell alone, and wait for its children
        with suppress(OSError):
            await _kill_group(await starting)
        raise
    try:
        async with asyncio.timeout(seconds):
            printed, complained = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            code = await process.wait()
    except TimeoutError:
        return ProgramOutcome(error=f"it took more than {seconds:g} seconds")
    except _TooLarge:
        return ProgramOutcome(error=f"it printed more than {LARGEST_OUTPUT} bytes")
    finally:
        await _kill_group(process)
    text = printed.decode("utf-8", "replace")
    if code != 0:
        last = complained.decode("utf-8", "replace").strip()[-LONGEST_ERROR:]
        return ProgramOutcome(text, f"it ended with {code}" + (f": {last}" if last else ""), code)
    return ProgramOutcome(text)


async def _start(arguments: Sequence[str], folder: Path, env: Mapping[str, str] | None) -> Process:
    return await asyncio.create_subprocess_exec(
        *arguments,
        cwd=folder,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


async def _kill_group(process: Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # A pipe that nobody reads, or that a process outside of the group holds, keeps `wait` from its end.
    with suppress(TimeoutError):
        async with asyncio.timeout(END_S):
            await asyncio.gather(_drain(process.stdout), _drain(process.stderr), process.wait())


async def _drain(stream: asyncio.StreamReader | None) -> None:
    with suppress(RuntimeError):  # somebody else reads it
        while stream is not None and await stream.read(65_536):
            pass


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    found = bytearray()
    while stream is not None and (piece := await stream.read(65_536)):
        found += piece
        if len(found) > LARGEST_OUTPUT:
            raise _TooLarge
    return bytes(found)


def read_outcome(printed: str) -> ScriptOutcome:
    """Read the outcome from the last line that a script printed."""
    lines = printed.strip().splitlines()
    if not lines:
        return ScriptOutcome(error='it printed nothing; its last line must be JSON such as {"wakeAgent": true}')
    try:
        said = msgspec.json.decode(lines[-1], type=_LastLine)
    except (msgspec.MsgspecError, RecursionError):
        return ScriptOutcome(error=f'its last line is not JSON such as {{"wakeAgent": true}}: {lines[-1][:100]}')
    return ScriptOutcome(said.wakeAgent, said.data)
