"""Pages for agents: asked for over the agent's own way out, read in a process of its own, kept for a moment.

A text is kept so that its parts are of one page, and are not asked for one by one.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from gatepost.core import log
from gatepost.core.errors import Refused, Unavailable
from gatepost.core.process.worker_process import WorkerProcess
from gatepost.core.records import replace
from gatepost.egress.endpoints import own_bases
from gatepost.egress.http import HttpRefusal
from gatepost.egress.page_text import LARGEST_RICH, PageText, UnreadPage
from gatepost.egress.rules import EgressTarget
from gatepost.egress.way_out import EgressDeps, WayOut
from gatepost.egress.web_request import WebAnswer, fetch_page, read_url
from gatepost.store.port import Db
from gatepost.store.sessions import groups
from gatepost.tools.call import Caller, WebPage

TOOL = "fetch"
MOST_AT_ONCE = 4  # requests of one session; others wait
MOST_WAITING = 16
MOST_TOGETHER = 8  # of all sessions; beyond these each session has one
MOST_SESSIONS = 256  # that are remembered
KEPT_S = 600.0
MOST_KEPT, LARGEST_KEPT = 64, 8_000_000  # texts, and characters of all of them
LARGEST_PICTURE = 1_400_000  # bytes; encoded it is a third more, and an answer has its bound
_MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,50}/[a-z0-9.+_-]{1,80}\Z")
_PICTURES = ((b"\x89PNG\r\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
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
    """Read pages off the loop: a process of its own reads one at a time, within a deadline.

    It is started when it is first needed and ended when it was idle, or when a page was too much for it. At most one
    page of each group waits for it, so a group with pages that take long keeps no other from it.
    """

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


class _KeptPage(Struct, frozen=True):
    until: float
    page: WebPage
    targets: tuple[EgressTarget, ...]  # that was asked, and that answered


class _Session:
    """One session's share."""

    def __init__(self, way: WayOut) -> None:
        self.way = way
        self.requests, self.reading, self.waiting = asyncio.Semaphore(MOST_AT_ONCE), asyncio.Lock(), 0
        self.single = asyncio.Lock()


class WebPages:
    def __init__(self, deps: EgressDeps, reader: PageReader | None = None) -> None:
        self._deps, self._reader = deps, reader or PageReader()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._kept: OrderedDict[tuple[str, str], _KeptPage] = OrderedDict()
        self._together = 0

    async def find_way(self, caller: Caller) -> WayOut:
        """Return the way out of the caller's sandbox, or one that obeys the same rules if no sandbox is awake."""
        return (await self._find_session(caller)).way

    async def fetch(self, caller: Caller, url: str, *, kept: bool) -> WebPage:
        asked = read_url(url)
        key, now = (caller.lane, str(asked)), asyncio.get_running_loop().time()
        known = self._kept.get(key)
        if kept and known is not None and known.until > now:
            await self._judge_kept(caller, key, known)
            return known.page
        session = await self._find_session(caller)
        if session.waiting >= MOST_WAITING:
            raise Unavailable("the web", f"{MOST_WAITING} requests of this conversation are under way; wait for them")
        session.waiting += 1
        try:
            async with session.requests, self._hold_place(session):
                answer = await fetch_page(session.way, asked)
                page = await self._read(session, answer, caller.folder)
        except HttpRefusal as no:
            raise explain_refusal(no, caller, TOOL) from None
        finally:
            session.waiting -= 1
        self._keep(key, _KeptPage(now + KEPT_S, page, (asked.target, answer.url.target)))
        return page

    @asynccontextmanager
    async def _hold_place(self, session: _Session) -> AsyncIterator[None]:
        """A page is in memory until it was its turn to be read. Few sessions may have several there, and none is kept
        out by those of others."""
        async with session.single if self._together >= MOST_TOGETHER else nullcontext():
            self._together += 1
            try:
                yield
            finally:
                self._together -= 1

    async def _judge_kept(self, caller: Caller, key: tuple[str, str], known: _KeptPage) -> None:
        """By the rules of now: a host that was denied since then is not read on."""
        way = await self.find_way(caller)
        for target in dict.fromkeys(known.targets):
            verdict = await way.judge(target)
            if not verdict.allowed:
                self._kept.pop(key, None)
                no = HttpRefusal(403, verdict.reason, str(target))
                way.record_refusal(no)
                raise explain_refusal(no, caller, TOOL)

    async def _read(self, session: _Session, answer: WebAnswer, folder: str) -> WebPage:
        kind, _, parameters = answer.headers.get("content-type", "").partition(";")
        charset = parameters.lower().partition("charset=")[2].partition(";")[0].strip("\"' ")
        kind = kind.strip().lower()
        kind = kind if _MEDIA_TYPE.match(kind) else ""  # it is shown before the words of others begin
        page = WebPage(url=str(answer.url), code=answer.status, media_type=kind)
        picture = find_picture_type(answer.body)
        if picture and len(answer.body) > LARGEST_PICTURE:
            problem = f"it is a picture of {len(answer.body)} bytes; at most {LARGEST_PICTURE} are shown"
            return replace(page, problem=problem)
        if picture:
            return replace(page, picture=picture, data=answer.body)
        async with session.reading:  # the others of this session wait, and those of other sessions do not
            found = await self._reader.read(UnreadPage(page.url, kind, charset, answer.body), folder)
        return replace(page, title=found.title, text=found.text, problem=found.problem, cut=found.cut)

    async def _find_session(self, caller: Caller) -> _Session:
        lane = caller.lane
        session = self._sessions.get(lane)
        way = self._deps.ways.get(lane) or (session.way if session is not None else None)
        if way is None:
            own = own_bases(await self._deps.store.read(_list_options, caller.folder))
            way = self._deps.ways.get(lane) or WayOut(self._deps, caller, own)
            session = self._sessions.get(lane)
        if session is None:
            session = self._sessions[lane] = _Session(way)
        session.way = way
        self._sessions.move_to_end(lane)
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)[1].way.close()
        return session

    def _keep(self, key: tuple[str, str], fresh: _KeptPage) -> None:
        self._kept.pop(key, None)
        if fresh.page.text:
            self._kept[key] = fresh
        size = sum(len(each.page.text) for each in self._kept.values())
        while len(self._kept) > MOST_KEPT or size > LARGEST_KEPT:
            size -= len(self._kept.popitem(last=False)[1].page.text)


def find_picture_type(body: bytes) -> str:
    """By how it begins, whatever it is called; '' for what no model is shown."""
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _PICTURES if body.startswith(mark)), "")


def explain_refusal(no: HttpRefusal, caller: Caller, tool: str) -> Refused | Unavailable:
    """In the words of the way out."""
    if no.status < 500:
        return Refused(caller.folder, tool, why=no.reason)
    return Unavailable(no.target or "the web", no.reason)


def _list_options(db: Db, folder: str) -> list[dict[str, object]]:
    own = groups.get(db, folder)
    return [dict(each.options) for each in ([own] if own else []) + groups.list_ancestors(db, folder)]
