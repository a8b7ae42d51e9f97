"""Pages off the loop: a process of its own reads one at a time, within a deadline. It is started when it is first
needed and ended when it was idle, or when a page was too much for it. At most one page of each group waits for it, so a
group with pages that take long keeps no other from it."""

import asyncio
from contextlib import AsyncExitStack, suppress
from weakref import WeakValueDictionary

import msgspec

from gatepost.core import log
from gatepost.core.process.worker_process import WorkerProcess
from gatepost.core.records import replace
from gatepost.egress.page_text import LARGEST_RICH, PageText, UnreadPage

PROGRAM = "gatepost.egress.page_reader_process"
START_S = 60.0  # until its libraries are loaded; a busy machine that has never loaded them takes long
DEADLINE_S = 10.0  # for one page
PATIENCE_S = 90.0  # for its turn
IDLE_S = 300.0
LARGEST_TEXT = 64 * 1024 * 1024  # bytes of an answer
TOO_MUCH = "it could not be read: it is damaged, or takes too long or too much memory"

_log = log.get("egress")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PageText).decode
_HELLO = _encode(UnreadPage("", "text/plain", "", b"-"))


class PageReader:
    """Read pages one at a time, those of different groups in turn."""

    def __init__(self, deadline: float = DEADLINE_S, patience: float = PATIENCE_S) -> None:
        self._deadline, self._patience = deadline, patience
        self._worker: WorkerProcess | None = None
        self._turn = asyncio.Lock()
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by group: whose pages wait
        self._reading: asyncio.Task[PageText] | None = None
        self._idle: asyncio.TimerHandle | None = None

    async def read(self, page: UnreadPage, folder: str = "") -> PageText:
        """Read a page; if the libraries cannot, once more without them. `folder`: the group that wants it."""
        async with AsyncExitStack() as place:
            try:
                async with asyncio.timeout(self._patience):
                    await place.enter_async_context(self._lines.setdefault(folder, asyncio.Lock()))
                    await place.enter_async_context(self._turn)
            except TimeoutError:
                return PageText(problem="the gateway reads too many pages at once; try again in a minute")
            # Whoever leaves meanwhile does not have the process ended, which others need, and keeps the place.
            self._reading = asyncio.create_task(self._read_in_place(page, place.pop_all()))
        return await asyncio.shield(self._reading)

    async def _read_in_place(self, page: UnreadPage, place: AsyncExitStack) -> PageText:
        async with place:
            found = await self._ask(page)
            if found is None and len(page.body) <= LARGEST_RICH and not page.body.startswith(b"%PDF-"):
                found = await self._ask(replace(page, plain=True))
            return found or PageText(problem=TOO_MUCH)

    async def _ask(self, page: UnreadPage) -> PageText | None:
        if self._idle is not None:
            self._idle.cancel()
        try:
            if self._worker is None:
                self._worker = WorkerProcess(PROGRAM, LARGEST_TEXT)
                async with asyncio.timeout(START_S):
                    await self._worker.ask(_HELLO)
            async with asyncio.timeout(self._deadline):
                found = _decode(await self._worker.ask(_encode(page)))
        except (TimeoutError, OSError, msgspec.MsgspecError) as error:
            _log.warning("a page was not read", size=len(page.body), error=str(error) or "it took too long")
            self.close()
            return None
        except BaseException:
            self.close()  # an answer that nobody took would be given to the next
            raise
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self.close)
        return found

    def close(self) -> None:
        """End the process. The next page starts another."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._worker is not None:
            with suppress(OSError):
                self._worker.close()
            self._worker = None
