"""The HTML of answers while they are written, one rendering for all who watch.

A draft gives way to messages, which the same process renders: of its time it gets a part. One that takes long is shown
as it is written from then on.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from gatepost.messages.outbound import Draft
from gatepost.serve.web.markdown_renderer import MarkdownRenderer
from gatepost.serve.web.plain_html import render_plain

SHARE = 4  # a draft rests so many times as long as its last rendering took
HEAVY_S = 1.5
MOST = 200  # drafts that are remembered


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
        html = render_plain(draft.text) if heavy else await self._rendering.html(draft.text, remember=False)
        took = time.monotonic() - begun
        done = RenderedDraft(draft.text, html, begun + took * (1 + SHARE), heavy or took > HEAVY_S)
        self._latest[draft.session] = done
        self._latest.move_to_end(draft.session)
        while len(self._latest) > MOST:
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
