"""The base of channels whose platform is the gateway itself (web, terminal).

The ledger is their record, and a room is read from the store. So `send` delivers by waking the watchers of the room,
and an effect sent twice under one key is one thing. A wake-up carries no content and is never queued. Only files are
kept here, because a delivery's own copies go when it is done. There is no `look_up`: after a crash only sending again
makes sure that the files were kept, and it does no harm.
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gatepost.channels.contract import ChannelDeps, Receive, get_file_folder_name
from gatepost.core.errors import Unavailable
from gatepost.core.process.thread_pools import FairThreadPool
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.messages.outbound import Draft, Outbound, OutboundFile

REST_S = 0.001  # between two drafts, for each who watches


class RoomWatch:
    """One watcher's bell. Rings that come while it is busy are one ring. `drafts`: it is also rung for them."""

    def __init__(self, *, drafts: bool = False) -> None:
        self.drafts = drafts
        self._bell = asyncio.Event()
        self._woken = self._drafted = self._rests = False

    def ring(self) -> None:
        self._woken = True
        self._bell.set()

    def ring_draft(self) -> None:
        self._drafted = True
        if not self._rests:
            self._bell.set()

    def rest_from_drafts(self, seconds: float) -> None:
        """Not be woken by a draft for so long; what the room itself has to tell comes as ever."""
        if not self._rests:
            self._rests = True
            asyncio.get_running_loop().call_later(seconds, self._end_rest)

    def _end_rest(self) -> None:
        self._rests = False
        if self._drafted:
            self._bell.set()

    async def wait(self, timeout: float, stopping: asyncio.Event) -> bool:
        """True if it was rung for the room itself. Returns early for a draft (`forget_drafted` tells), and when the
        gateway stops, so that an open stream never delays it."""
        waits = [asyncio.ensure_future(self._bell.wait()), asyncio.ensure_future(stopping.wait())]
        try:
            await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in waits:
                waiting.cancel()
        woken, self._woken = self._woken, False
        self._bell.clear()  # before the caller looks: a ring during its look is heard next time
        return woken

    def forget_drafted(self) -> bool:
        """Return True if a draft has changed since the last time."""
        drafted, self._drafted = self._drafted, False
        return drafted


class LocalChannel:
    """A channel without a platform. A subclass names its `platform`, its default room and its owner."""

    platform = ""
    main_room = ""  # the room of somebody who names none
    owner = ""  # the sender that whoever may open this channel is

    def __init__(self, deps: ChannelDeps) -> None:
        self.instance = deps.instance
        self._receive: Receive | None = None
        self._watches: dict[RoomWatch, str | None] = {}
        self._typing: set[tuple[str, str]] = set()
        self._drafts: dict[str, Draft] = {}  # by session
        self._watch_listeners: list[Callable[[], None]] = []
        self._file_folder: Path | None = None
        self._threads = FairThreadPool(workers=4, share=1)  # by room

    async def listen(self, receive: Receive) -> None:
        self._receive = receive
        try:
            await asyncio.Event().wait()
        finally:
            self._receive = None

    async def submit(self, inbound: Inbound) -> Receipt:
        """Hand in what a person did here; durable when this returns."""
        if self._receive is None:
            raise Unavailable(f"the {self.platform} channel", "it does not listen; the gateway is starting or stopping")
        receipt = await self._receive(inbound)
        self.ring(inbound.address)
        return receipt

    async def send(self, address: str, message: Outbound) -> str:
        if message.files:
            await self._threads.run(address, self._keep, message)
        self.ring(address)
        return message.key

    def set_file_folder(self, folder: Path) -> None:
        """Set the folder in which sent files stay. The server that shows the rooms sets it."""
        self._file_folder = folder

    def kept(self, key: str, number: int) -> Path:
        """A file that was sent, by the effect's key and its place in it."""
        if self._file_folder is None:
            raise Unavailable(f"the {self.platform} channel", "it has no place for files yet", retry_after=1)
        return self._file_folder / get_file_folder_name(key) / str(number)

    def _keep(self, message: Outbound) -> None:
        for number, file in enumerate(message.files):
            target = self.kept(message.key, number)
            try:
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                _copy(file, target)
            except OSError as error:
                raise Unavailable(f"the file {file.name}", error.strerror or "it cannot be kept") from None

    async def typing(self, address: str, thread: str, on: bool) -> None:
        before = (address, thread) in self._typing
        if on:
            self._typing.add((address, thread))
        else:
            self._typing.discard((address, thread))
        if on != before:
            self.ring(address)

    def typing_in(self, address: str | None = None) -> frozenset[tuple[str, str]]:
        """The (room, thread) pairs in which somebody is at work."""
        return frozenset(pair for pair in self._typing if address is None or pair[0] == address)

    def show_draft(self, draft: Draft) -> None:
        """In memory, the latest of each session, for whoever watches its room."""
        if draft.text:
            self._drafts[draft.session] = draft
        else:
            self._drafts.pop(draft.session, None)
        self.ring_draft(draft.address)

    def ring_draft(self, address: str) -> None:
        for watch, watched in self._watches.items():
            if watch.drafts and watched in (None, address):
                watch.ring_draft()

    def drafts_in(self, address: str | None = None) -> tuple[Draft, ...]:
        return tuple(draft for draft in self._drafts.values() if address in (None, draft.address))

    @property
    def draft_rest_s(self) -> float:
        """How long a watcher rests between two drafts: the more there are, the longer, since one loop serves all."""
        return REST_S * sum(watch.drafts for watch in self._watches)

    def is_watched(self, address: str) -> bool:
        """Return True if somebody sees drafts of this room."""
        return any(watch.drafts and watched in (None, address) for watch, watched in self._watches.items())

    def on_watch(self, listener: Callable[[], None]) -> None:
        self._watch_listeners.append(listener)

    def ring(self, address: str) -> None:
        for watch, watched in self._watches.items():
            if watched is None or watched == address:
                watch.ring()

    def ring_all(self) -> None:
        """Wake everybody who watches any room."""
        for watch in self._watches:
            watch.ring()

    @contextmanager
    def watch(self, address: str | None = None, *, drafts: bool = False) -> Iterator[RoomWatch]:
        """Be woken when something changes in a room (None: in any)."""
        watch = RoomWatch(drafts=drafts)
        self._watches[watch] = address
        self._notify_listeners(watch)
        try:
            yield watch
        finally:
            del self._watches[watch]
            self._notify_listeners(watch)

    def _notify_listeners(self, watch: RoomWatch) -> None:
        for listener in self._watch_listeners if watch.drafts else ():
            listener()


def _copy(file: OutboundFile, target: Path) -> None:
    """Whole or not at all; a second time changes nothing. The delivery's own file is never changed, only removed, so
    another name for it will do where the file system can give it one."""
    if target.exists():
        return
    part = target.with_suffix(".part")
    part.unlink(missing_ok=True)
    try:
        os.link(file.path, part)
    except OSError:
        shutil.copyfile(file.path, part)
    part.rename(target)
