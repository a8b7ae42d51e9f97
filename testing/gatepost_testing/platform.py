"""A chat platform outside of the gateway's process, as unreliable as real ones, with a record of its own.

    with Platform(tmp_path / "platform.sock", seed=7, lossy=LOSSY) as platform:
        platform.plug_into(home)                   # the channel `lossy`, as a plug-in file
        platform.say("room/1", "hello")
        platform.wait_for(lambda record: len(record) == 1)

The record holds what people can see: every message that the platform accepted, in order, whatever it answered. The
platform delivers an event until it was acknowledged, and perhaps more often. It may lose an acknowledgement, deliver in
another order, refuse for a moment, or accept a message and never say so.
"""

import asyncio
import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from gatepost.channels.contract import ChannelDeps, Receive
from gatepost.core.errors import Unavailable
from gatepost.messages.inbound import Inbound
from gatepost.messages.outbound import Feature, Outbound
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost_testing.servers.loop_thread import LoopThread
from gatepost_testing.waiting import PATIENCE_S

LARGEST = 1024 * 1024
FEATURES = frozenset({Feature.LOOKUP})
REDELIVER_S = 0.3  # until an event without an acknowledgement is delivered again


class Losses(Struct, frozen=True, kw_only=True):
    """How often something goes wrong, as a share of all events."""

    twice: float = 0.0  # an event is delivered twice
    late: float = 0.0  # an event is delivered after later ones
    forgotten: float = 0.0  # an acknowledgement is lost
    busy: float = 0.0  # a message is not accepted now
    unanswered: float = 0.0  # a message is accepted, and no answer comes


RELIABLE = Losses()
LOSSY = Losses(twice=0.05, late=0.05, forgotten=0.05, busy=0.03, unanswered=0.03)


class PlatformMessage(Struct, frozen=True):
    """A message that people can see."""

    room: str
    text: str
    key: str
    id: str


class Platform(LoopThread):
    """The server: a loop in a thread of its own. Its methods may be called from any thread."""

    def __init__(self, path: Path, *, seed: int = 0, losses: Losses = RELIABLE) -> None:
        super().__init__("platform")
        self._path, self._random, self._losses = path, random.Random(seed), losses
        self._record: list[PlatformMessage] = []
        self._ids: dict[tuple[str, str], str] = {}
        self._unacknowledged: dict[str, dict[str, str]] = {}
        self._accepted: set[str] = set()
        self._line: asyncio.StreamWriter | None = None
        self._changed = threading.Condition()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._last = 0

    # Actions of people and tests.

    def plug_into(self, home: Path) -> None:
        """The channel, as a plug-in file of a home, and the setting that turns it on."""
        folder = home / "plugins" / "channels"
        folder.mkdir(parents=True, exist_ok=True)
        text = f"from gatepost_testing.platform import lossy_channel\n\nLossy = lossy_channel({str(self._path)!r})\n"
        (folder / "lossy.py").write_text(text, encoding="utf-8")

    def say(self, room: str, text: str, *, sender: str = "user/1", id: str = "") -> str:
        """Somebody writes. Delivered until it is acknowledged. The same `id` again is a redelivery."""
        with self._changed:
            self._last += 1
            name = id or f"in-{self._last}"
            self._unacknowledged[name] = {"id": name, "room": room, "text": text, "sender": sender}
            late = self._random.random() < self._losses.late
            twice = self._random.random() < self._losses.twice
        if not late:  # else with the next round of redeliveries
            self._loop.call_soon_threadsafe(self._deliver, name)
        if twice:
            self._loop.call_soon_threadsafe(self._deliver, name)
        return name

    @property
    def record(self) -> list[PlatformMessage]:
        with self._changed:
            return list(self._record)

    def texts(self, room: str = "") -> list[str]:
        return [shown.text for shown in self.record if room in ("", shown.room)]

    def waiting(self) -> int:
        """Events that nobody has acknowledged yet."""
        with self._changed:
            return len(self._unacknowledged)

    def wait_for(self, holds: Callable[[list[PlatformMessage]], bool], timeout: float = PATIENCE_S) -> bool:
        """Until this holds of the record; False if it does not within the bound."""
        with self._changed:
            return self._changed.wait_for(lambda: holds(self._record), timeout)

    def wait_until_accepted(self, id: str, timeout: float = PATIENCE_S) -> bool:
        """Until the gateway has acknowledged an event."""
        with self._changed:
            return self._changed.wait_for(lambda: id in self._accepted, timeout)

    # The server.

    async def _open(self, port: int) -> None:
        self._server = await asyncio.start_unix_server(self._serve, str(self._path), limit=LARGEST)
        self._keep(asyncio.create_task(self._redeliver()))

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._keep(task)
        try:
            while line := await reader.readline():
                if not self._answer(json.loads(line), writer):
                    break
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            if self._line is writer:
                self._line = None
            writer.close()

    def _answer(self, asked: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        """False: hang up without a word."""
        match asked["op"]:
            case "listen":
                self._line = writer
                for name in tuple(self._unacknowledged):
                    self._deliver(name)
            case "acknowledge":
                self._acknowledge(asked["id"])
            case "send":
                return self._receive(asked, writer)
            case _:
                _write(writer, {"id": self._ids.get((asked["room"], asked["key"]))})
        return True

    def _receive(self, asked: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        with self._changed:
            if self._random.random() < self._losses.busy:
                _write(writer, {"busy": True})
                return True
            shown = PlatformMessage(asked["room"], asked["text"], asked["key"], f"out-{len(self._record) + 1}")
            self._record.append(shown)
            self._ids[(shown.room, shown.key)] = shown.id
            self._changed.notify_all()
            if self._random.random() < self._losses.unanswered:
                return False
        _write(writer, {"id": shown.id})
        return True

    def _acknowledge(self, name: str) -> None:
        with self._changed:
            if self._random.random() < self._losses.forgotten:
                return
            self._unacknowledged.pop(name, None)
            self._accepted.add(name)
            self._changed.notify_all()

    def _deliver(self, name: str) -> None:
        event = self._unacknowledged.get(name)
        if event is not None and self._line is not None and not self._line.is_closing():
            _write(self._line, event)

    async def _redeliver(self) -> None:
        while True:
            await asyncio.sleep(REDELIVER_S)
            with self._changed:
                names = list(self._unacknowledged)
                self._random.shuffle(names)
            for name in names:
                self._deliver(name)


def _write(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(json.dumps(message).encode() + b"\n")


class LossyChannel:
    """The gateway's side: what an adapter of such a platform looks like."""

    path = ""

    def __init__(self, deps: ChannelDeps) -> None:
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def listen(self, receive: Receive) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(self.path, limit=LARGEST)
                _write(writer, {"op": "listen"})
                async with asyncio.TaskGroup() as tasks:
                    while line := await reader.readline():
                        tasks.create_task(self._receive(receive, json.loads(line), writer))
            except OSError:
                pass
            await asyncio.sleep(0.05)

    async def _receive(self, receive: Receive, event: dict[str, str], writer: asyncio.StreamWriter) -> None:
        inbound = Inbound(
            address=f"lossy:{event['room']}",
            platform_id=event["id"],
            sender=f"lossy:{event['sender']}",
            sender_name="someone",
            text=event["text"],
        )
        try:
            await receive(inbound)
        except Unavailable:
            return  # it is delivered again
        _write(writer, {"op": "acknowledge", "id": event["id"]})

    async def send(self, address: str, message: Outbound) -> str:
        room = address.partition(":")[2]
        asked = {"op": "send", "room": room, "text": message.text, "key": message.key}
        answer = await self._ask(asked)
        if answer is None:
            raise Unavailable("the platform", "it hung up", uncertain=True)
        if answer.get("busy"):
            raise Unavailable("the platform", "it is busy")
        return str(answer["id"])

    async def look_up(self, address: str, key: str) -> str | None:
        answer = await self._ask({"op": "look_up", "room": address.partition(":")[2], "key": key})
        if answer is None:
            raise Unavailable("the platform", "it hung up")
        found: str | None = answer["id"]
        return found

    async def _ask(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None if the platform hung up without one."""
        try:
            reader, writer = self._free.pop() if self._free else await asyncio.open_unix_connection(self.path)
        except OSError as error:
            raise Unavailable("the platform", str(error)) from None
        try:
            _write(writer, asked)
            line = await reader.readline()
        except OSError:
            line = b""
        if not line:
            writer.close()
            return None
        self._free.append((reader, writer))
        answer: dict[str, Any] = json.loads(line)
        return answer


def lossy_channel(path: str) -> type:
    """The channel `lossy` for the platform at that socket, registered."""
    from gatepost.channels.contract import channel

    cls: type = type("Lossy", (LossyChannel,), {"path": path})
    return channel("lossy", features=FEATURES, always=True, policy=RoomPolicy.PUBLIC)(cls)
