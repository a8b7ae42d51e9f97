"""Prints how far one message travels: `make trace-message`, with ARGS=--steps every call in order.

A warm message and its answer are followed through a gateway in this process: the files and functions of the package
that run, and how often a call leads to another file. Only what runs with each of several messages counts: the rest are
the gateway's own watches. The same for each unit of the store's writer; the largest is the
one that accepts the message. The inside of the sandbox is another process and is not followed. A comprehension counts
to the function that it stands in: newer versions of Python make no frame for it.
"""

import asyncio
import itertools
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType

import gatepost
from gatepost.flow.sessions.host import host_limits
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, start_channel, wait_until_settled
from gatepost_testing.platforms.telegram import TelegramPlatform

PACKAGE = str(Path(gatepost.__file__).parent) + "/"
TESTING = PACKAGE + "testing/"
UNIT = SqliteStore._try.__code__  # runs a unit of the writer
ROOM = "fake:room/1"
WARM = 5  # messages before those that are followed
TRIES = 5  # messages that are followed
SELDOM = {"sessions__look_s": 60.0, "watchdog__every_s": 60.0}  # what looks every now and then
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
PAUSE_S = 4.0  # before one on Telegram that is followed: none waits for the pace of its channel
REST_S = 0.15  # after its answer: it is recorded as sent, and its turn ends

Call = tuple[str, str]  # a file, and a function with its line there


class CallRecorder:
    """Records the calls of all threads that were started after it, while it is switched on."""

    def __init__(self) -> None:
        self.is_on = False
        self.calls: dict[str, list[Call]] = {}  # by thread
        self.units: list[tuple[str, list[Call]]] = []
        self._local = threading.local()

    def keep(self, common: set[Call]) -> None:
        for calls in (*self.calls.values(), *(calls for _, calls in self.units)):
            calls[:] = [call for call in calls if call in common]
        self.calls = {thread: calls for thread, calls in self.calls.items() if calls}

    def install(self) -> None:
        sys.setprofile(self._see)
        threading.setprofile(self._see)

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "return" and code is UNIT:
            self._local.unit = None
        if not self.is_on or event != "call":
            return
        path = code.co_filename
        if not path.startswith(PACKAGE) or path.startswith(TESTING) or code.co_name in COMPREHENSIONS:
            return
        call = (path.removeprefix(PACKAGE), f"{code.co_qualname}:{code.co_firstlineno}")
        self.calls.setdefault(threading.current_thread().name, []).append(call)
        if code is UNIT:
            self._local.unit = []
            self.units.append((frame.f_locals["unit"].name, self._local.unit))
        elif (unit := getattr(self._local, "unit", None)) is not None:
            unit.append(call)


def count(calls: list[Call]) -> str:
    changes = sum(1 for before, after in itertools.pairwise(calls) if before[0] != after[0])
    files, functions = {file for file, _ in calls}, set(calls)
    return f"{len(files):4} files  {len(functions):4} functions  {changes:5} changes of file  {len(calls):5} calls"


def show(title: str, recorder: CallRecorder, *, steps: bool) -> None:
    print(f"\n{title}\n  {'all threads':<28}{count([call for calls in recorder.calls.values() for call in calls])}")
    for thread, calls in recorder.calls.items():
        print(f"  {thread:<28}{count(calls)}")
    for name, calls in sorted(recorder.units, key=lambda unit: -len(unit[1]))[:6]:
        print(f"  unit {name[-22:]:<23}{count(calls)}")
    if steps:
        for thread, calls in recorder.calls.items():
            print(f"\n{thread}")
            for file, function in calls:
                print(f"  {file:<52}{function}")


async def follow(recorder: CallRecorder, say: Callable[[str], Awaitable[None]], pause: float = REST_S) -> None:
    """Record several messages, and keep the last."""
    for number in range(WARM):
        await say(f"warm {number}")
    found: list[set[Call]] = []
    for number in range(TRIES):
        await asyncio.sleep(pause)
        recorder.calls, recorder.units = {}, []
        recorder.is_on = True
        await say(f"one {number}")
        await asyncio.sleep(REST_S)
        recorder.is_on = False
        found.append({call for calls in recorder.calls.values() for call in calls})
    recorder.keep(set.intersection(*found))


async def trace_fake(recorder: CallRecorder, folder: Path) -> None:
    channel = FakeChannel()
    async with running_gateway(folder / "h", {"fake": (channel.kind, channel)}, **SELDOM) as gateway:
        await open_room(gateway, "fake", ROOM)
        sent = 0

        async def say(text: str) -> None:
            nonlocal sent
            sent += 1
            await channel.say(text, address=ROOM)
            await channel.wait_for(sent)

        await follow(recorder, say)
        await wait_until_settled(gateway)


async def trace_telegram(recorder: CallRecorder, folder: Path) -> None:
    with TelegramPlatform() as platform:
        async with running_gateway(folder / "h", **SELDOM) as gateway:
            await start_channel(gateway, "telegram", platform.get_settings(), platform.get_secrets())
            await open_room(gateway, "telegram", platform.get_address("team"))

            async def say(text: str) -> None:
                platform.send(text, room="team", mention=True)
                await platform.until(lambda: any(text in each for each in platform.texts("team")))

            await follow(recorder, say, PAUSE_S)
            await wait_until_settled(gateway)


def main() -> None:
    steps = "--steps" in sys.argv[1:]
    host_limits.FLOOR_S = host_limits.MEMORY_S = host_limits.DISK_S = 60.0
    for title, trace in (("a warm message, fake channel", trace_fake), ("emulated Telegram", trace_telegram)):
        recorder = CallRecorder()
        recorder.install()
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(trace(recorder, Path(folder)))
        sys.setprofile(None)
        threading.setprofile(None)
        show(title, recorder, steps=steps)


if __name__ == "__main__":
    main()
