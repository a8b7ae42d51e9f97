"""Markdown off the loop: a process of its own renders one text at a time, within a deadline, once.

A thread would not do: it cannot be ended, and while it works it takes the interpreter from the event loop. The process
is started when it is first needed and ended when it has been idle. A text that it does not render in time, or that ends
it, is shown as it is written. The same holds for a text that waits too long behind others.

Answers are rendered while they are written, too: one rendering for all who watch. A draft gives way to messages, so it
gets a part of the process's time. One that takes long is shown as it is written from then on.
"""

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from gatepost.core import log
from gatepost.core.process.worker_process import WorkerProcess
from gatepost.messages.markdown.markup import LONGEST, render_plain_html
from gatepost.messages.outbound import Draft

DEADLINE_S = 3.0  # for one text
PATIENCE_S = 5.0  # for its turn: a room full of heavy texts must not keep the others from being shown
IDLE_S = 300.0
LARGEST_CACHE = 8_000_000  # characters of texts and their HTML

SHARE = 4  # a draft rests so many times as long as its last rendering took
HEAVY_S = 1.5  # of rendering, for a draft
MOST_DRAFTS = 200  # that are remembered

PROGRAM = "gatepost.serve.web.markdown"
LARGEST_ANSWER = 256 * 1024 * 1024  # bytes; its memory is bounded as well

_log = log.get("web")


class MarkdownRenderer:
    """The HTML of texts. Readers of the same text wait for one rendering; what was rendered is remembered."""

    def __init__(
        self, deadline: float = DEADLINE_S, largest: int = LARGEST_CACHE, patience: float = PATIENCE_S
    ) -> None:
        self._deadline, self._largest, self._patience = deadline, largest, patience
        self._worker: WorkerProcess | None = None
        self._turn = asyncio.Lock()
        self._under_way: dict[str, asyncio.Task[str]] = {}
        self._cache: OrderedDict[str, str] = OrderedDict()
        self._size = 0
        self._idle: asyncio.TimerHandle | None = None
        self.rendered = 0  # texts that the process was asked for

    @property
    def is_started(self) -> bool:
        return self._worker is not None

    async def html(self, text: str, *, remember: bool = True) -> str:
        if not text:
            return ""
        if len(text) > LONGEST:
            return render_plain_html(text)
        if text in self._cache:
            self._cache.move_to_end(text)
            return self._cache[text]
        task = self._under_way.get(text)
        if task is None:
            task = self._under_way[text] = asyncio.create_task(self._render(text, remember))
            task.add_done_callback(lambda done: self._under_way.pop(text, None))
        return await asyncio.shield(task)  # a reader that leaves takes nothing from the others

    async def _render(self, text: str, remember: bool) -> str:
        try:
            async with asyncio.timeout(self._patience):
                await self._turn.acquire()
        except TimeoutError:
            return render_plain_html(text)  # not remembered: it may be rendered when it is asked for again
        try:
            html = await self._ask(text)
        finally:
            self._turn.release()
        if remember:
            self._remember(text, html)
        return html

    async def _ask(self, text: str) -> str:
        self.rendered += 1
        try:
            if self._worker is None:
                self._worker = WorkerProcess(PROGRAM, LARGEST_ANSWER)
            async with asyncio.timeout(self._deadline):
                html = (await self._worker.ask(text.encode("utf-8", "surrogatepass"))).decode()
        except (TimeoutError, OSError) as error:
            _log.warning("a text was not rendered", length=len(text), error=str(error) or "it took too long")
            self.close()
            return render_plain_html(text)
        except BaseException:
            self.close()  # an answer that nobody took would be given to the next
            raise
        self._put_off_end()
        return html

    def _remember(self, text: str, html: str) -> None:
        self._cache[text] = html
        self._size += len(text) + len(html)
        while self._size > self._largest and self._cache:
            old, gone = self._cache.popitem(last=False)
            self._size -= len(old) + len(gone)

    def _put_off_end(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self.close)

    def close(self) -> None:
        """End the process. The next text starts another."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._worker is not None:
            with contextlib.suppress(OSError):
                self._worker.close()
            self._worker = None


class RenderedDraft(Struct, frozen=True):
    """`next_at`: not rendered again before."""

    text: str
    html: str
    next_at: float
    is_heavy: bool = False


class DraftRenderer:
    def __init__(self, rendering: MarkdownRenderer, wake: Callable[[str], None]) -> None:
        """`wake`: whoever watches a room, when a draft's turn has come."""
        self._rendering, self._wake = rendering, wake
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._latest: OrderedDict[str, RenderedDraft] = OrderedDict()  # by session
        self._under_way: dict[str, asyncio.Task[RenderedDraft]] = {}

    async def show(self, draft: Draft) -> dict[str, Any] | None:
        """A draft as the page gets it, perhaps as it was a moment ago; None: its turn has not come yet."""
        about = {"room": draft.address, "thread": draft.thread, "session": draft.session, "name": draft.agent}
        if not draft.text:
            self._latest.pop(draft.session, None)
            return {**about, "text": "", "html": ""}
        done = await self._render(draft)
        if done is None or done.text != draft.text:
            self._wake_later(draft)
        return None if done is None else {**about, "text": done.text, "html": done.html}

    def _wake_later(self, draft: Draft) -> None:
        """Nobody may ring again: what comes last must be shown as well."""
        known = self._latest.get(draft.session)
        if known is None or draft.session in self._waiting:
            return
        loop = asyncio.get_running_loop()
        rest = max(0.0, known.next_at - time.monotonic())
        self._waiting[draft.session] = loop.call_later(rest, self._end_rest, draft.session, draft.address)

    def _end_rest(self, session: str, address: str) -> None:
        del self._waiting[session]
        self._wake(address)

    async def _render(self, draft: Draft) -> RenderedDraft | None:
        known = self._latest.get(draft.session)
        if known is not None and known.text == draft.text:
            return known
        if known is not None and time.monotonic() < known.next_at:
            return None
        task = self._under_way.get(draft.session)
        if task is None:
            heavy = known is not None and known.is_heavy and draft.text.startswith(known.text)
            task = self._under_way[draft.session] = asyncio.create_task(self._render_anew(draft, heavy))
            task.add_done_callback(lambda _: self._under_way.pop(draft.session, None))
        return await asyncio.shield(task)  # a reader that leaves takes nothing from the others

    async def _render_anew(self, draft: Draft, heavy: bool) -> RenderedDraft:
        if not self._rendering.is_started and not heavy:
            await self._rendering.html("-", remember=False)  # that it has to start is no fault of the draft
        begun = time.monotonic()
        html = render_plain_html(draft.text) if heavy else await self._rendering.html(draft.text, remember=False)
        took = time.monotonic() - begun
        done = RenderedDraft(draft.text, html, begun + took * (1 + SHARE), heavy or took > HEAVY_S)
        self._latest[draft.session] = done
        self._latest.move_to_end(draft.session)
        while len(self._latest) > MOST_DRAFTS:
            self._latest.popitem(last=False)
        return done


class DraftFeed:
    """Drafts that one reader was shown. One whose turn had not come is tried again with the next news."""

    def __init__(self, renderer: DraftRenderer) -> None:
        self._renderer = renderer
        self._late: list[Draft] = []

    async def show(self, changed: Sequence[Draft]) -> list[dict[str, Any]]:
        newer = {draft.session for draft in changed}
        due, self._late = [*(draft for draft in self._late if draft.session not in newer), *changed], []
        found = []
        for draft in due:
            shown = await self._renderer.show(draft)
            if shown is not None:
                found.append(shown)
            if shown is None or shown["text"] != draft.text:
                self._late.append(draft)
        return found
