"""Serve the pages, their files and streams, and run the operations behind their buttons."""

import asyncio
import csv
import io
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from gatepost import __version__
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused, Unavailable
from gatepost.core.languages.calendar import render_local
from gatepost.core.languages.catalogue import translate
from gatepost.core.process.thread_pools import BoundedThreadPool
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.flow.group_files import open_file
from gatepost.flow.sender_rights import read_operation_rights
from gatepost.serve.control.arguments.groups import FindGroupFileArgs
from gatepost.serve.control.arguments.users import ViewAsUserArgs
from gatepost.serve.control.contract import OPERATIONS, Operation, OperationDeps, make_json
from gatepost.serve.control.rights import may_run
from gatepost.serve.web.browser_security import port_of
from gatepost.serve.web.chat_files import read_form, render_disposition
from gatepost.serve.web.dashboard.contract import PAGES, PREFIX, Page, PageRequest
from gatepost.serve.web.dashboard.form_values import fill_form
from gatepost.serve.web.dashboard.form_words import ALIASES, ANY_VERB, DEEDS, render_done, render_submit, render_title
from gatepost.serve.web.dashboard.live import ChangeStreams
from gatepost.serve.web.dashboard.operation_form import (
    find_result_link,
    is_local_link,
    is_question,
    is_read,
    list_facts,
    list_shown_once,
    make_form,
    parse_form,
    render_brief,
)
from gatepost.serve.web.dashboard.refusals import FormRefusal, KnownPlaces, make_refusal, render_refusal
from gatepost.serve.web.dashboard.renderer import render_apart
from gatepost.serve.web.dashboard.sidebar import Sidebar, get_heading, make_menu, make_tabs, read_sidebar
from gatepost.serve.web.dashboard.undo import make_undo
from gatepost.serve.web.dashboard.view import (
    AgentCards,
    Link,
    Note,
    PageView,
    TableBlock,
    TimelineBlock,
    Tone,
    find_rows,
    get_plain,
    make_card_table,
    make_timeline_table,
)
from gatepost.serve.web.file_response import OpenFileResponse, make_open_file
from gatepost.serve.web.signin.browser_login import is_secure
from gatepost.serve.web.signin.visitors import WebVisitor, find_visitor
from gatepost.store.people import identities, users
from gatepost.store.people.users import User
from gatepost.store.port import Db

LARGEST_FORM = 256 * 1024  # bytes
LARGEST_UPLOAD_MB = 4
FILE_THREADS = 4  # that read files of agents at once
DOWNLOADED = "application/octet-stream"
STATUS = {Invalid: 400, Refused: 403, NotFound: 404, Unavailable: 503}
VIEW_COOKIE = "gatepost-view"  # of an owner's browser: as whom the pages are shown
VIEW_OPERATION = ViewAsUserArgs.info.name
VIEW_ONLY = "You only see the page as somebody else does. Nothing can be done here."
BACK = Link("Back to the agents", f"{PREFIX}/")
MISSING = Note(
    text="There is nothing at this address.", hint="Find or do (Ctrl K) finds every page and operation.", link=BACK
)
FILE_KINDS = ("csv", "json")
LONGEST_QUERY = 200  # characters of a search
SHOWN_ROWS = 200  # of one table; more are read by nobody, and a browser is slow with them
START = "start."  # before the name of an input: what stands in it at first
FIRST = "from"  # in the address: the number of the first row
LONGEST_NUMBER = 9  # digits


class DashboardDeps(Struct, frozen=True, kw_only=True):
    """Parts that the dashboard works with."""

    operation_deps: OperationDeps
    pages: Registry[Page] = PAGES
    operations: Registry[Operation] = OPERATIONS


class Dashboard:
    """The app below the prefix. Its pages and their operations are imported for the first visitor, not at the start."""

    def __init__(self, deps: DashboardDeps, streams: ChangeStreams) -> None:
        self._deps, self._streams = deps, streams
        self._threads = BoundedThreadPool(FILE_THREADS)
        self._router: Router | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._router is None:
            await asyncio.to_thread(self._deps.operations.complete)
            self._router = await asyncio.to_thread(self._make_router)
        await self._router(scope, receive, send)

    def _make_router(self) -> Router:
        """Paths without holes come first (`/tasks/next` is no task), then the longer ones."""
        pages = [each for _, each in self._deps.pages.items()]
        ordered = sorted(pages, key=lambda each: ("{" in each.path, -each.path.count("/"), each.path))
        routes = [
            Route("/live", self.live, methods=["GET"]),
            Route("/palette", self.palette, methods=["GET"]),
            Route("/files/{folder:path}", self.download, methods=["GET"]),
            Route("/do/{operation}", self.form, methods=["GET"]),
            Route("/do/{operation}", self.run, methods=["POST"]),
            *(Route(_make_pattern(each.path), self._serve(each), methods=["GET"]) for each in ordered),
        ]
        return Router(routes)

    def _serve(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            await self._find_viewed(request)
            asked = self._make_request(request)
            try:
                view = await page.show(asked)
            except GatepostError as error:
                back = BACK if isinstance(error, NotFound) else None
                view = PageView(blocks=[Note(text=_render_error(error), tone=Tone.BAD, link=back)])
                return await self._render(request, page, view, _get_status(error))
            found = await asyncio.to_thread(find_words, view, request.query_params.get("q", ""))
            wanted = request.query_params.get("format", "")
            if wanted in FILE_KINDS:
                return await asyncio.to_thread(render_file, page, found, wanted)
            return await self._render(request, page, cut_tables(found, request.query_params))

        return serve

    async def show_missing(self, request: Request, visitor: WebVisitor) -> Response:
        """Show the page for an unknown path, with the way back."""
        request.state.visitor, request.state.user = visitor, visitor.user
        view = PageView(title="Not found", blocks=[MISSING])
        return await self._render(request, None, view, 404)

    async def _find_viewed(self, request: Request) -> None:
        """Show the page as an owner has chosen: by the rights of somebody else. Judged anew with each request; the
        cookie of anybody else means nothing."""
        visitor: WebVisitor = request.state.visitor
        chosen = unquote(request.cookies.get(_get_view_cookie(request), ""))
        if chosen and not visitor.room:
            found = await self._deps.operation_deps.store.read(_find_person, chosen)
            request.state.viewed, request.state.user = found, found.id if found else visitor.user
            request.state.is_view_lost = found is None

    def _make_request(self, request: Request) -> PageRequest:
        visitor: WebVisitor = request.state.visitor
        seen_by = visitor.user if _get_viewed(request) is not None else ""
        return PageRequest(
            operation_deps=replace(self._deps.operation_deps, login="" if seen_by else visitor.login, seen_by=seen_by),
            person=request.state.user,
            params=request.path_params,
            query=request.query_params,
            operations=self._deps.operations,
        )

    async def _render(self, request: Request, page: Page | None, view: PageView, status: int = 200) -> Response:
        if request.headers.get("hx-request"):
            context = await self._load_context(request, page, view)
            return HTMLResponse(await render_apart("fragment.html", **context, is_fragment=True), status)
        return await self._render_whole("page.html", request, page, view, status)

    async def _render_whole(
        self, template: str, request: Request, page: Page | None, view: PageView, status: int = 200, **more: Any
    ) -> Response:
        """With the navigation around it."""
        context = {**await self._load_context(request, page, view), **more}
        return HTMLResponse(await render_apart(template, **context, is_fragment=False), status)

    async def _read_sidebar(self, request: Request) -> Sidebar:
        operation_deps = self._deps.operation_deps
        return await operation_deps.store.read(
            read_sidebar, operation_deps.config, request.state.user, operation_deps.clock.now()
        )

    async def _load_context(self, request: Request, page: Page | None, view: PageView) -> dict[str, Any]:
        shown = await self._deps.operation_deps.store.read(self._list_shown, request.state.user)
        sidebar = await self._read_sidebar(request)
        return {
            "view": view,
            "menu": make_menu(shown, page, sidebar.waiting, sidebar.alerts),
            "tabs": view.tabs or make_tabs(shown, page),
            "sidebar": sidebar,
            "title": view.title or (translate(get_heading(shown, page)) if page else ""),
            "query": request.query_params,
            "address": request.url.path,
            "now": self._deps.operation_deps.clock.now(),
            "prefix": PREFIX,
            "version": __version__,
            "person": request.state.user,
            "viewed": _get_viewed(request),
            "export_query": lambda kind: urlencode({**request.query_params, "format": kind}),
        }

    def _list_shown(self, db: Db, person: str) -> list[Page]:
        """The pages of the navigation that this person may see."""
        rights, operations = read_operation_rights(db, person), self._deps.operations
        listed = [
            each
            for _, each in self._deps.pages.items()
            if each.listed and all(may_run(rights, operations[name].info) for name in each.reads)
        ]
        return sorted(listed, key=lambda each: (each.order, each.title))

    async def live(self, request: Request) -> Response:
        if self._streams.is_full:
            return PlainTextResponse("Too many pages are open.\n", 503, headers={"retry-after": "60"})
        return StreamingResponse(
            self._streams.follow(partial(self._may_see, request.state.browser)),
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )

    async def _may_see(self, browser: str) -> bool:
        operation_deps = self._deps.operation_deps
        return await operation_deps.store.read(find_visitor, browser, operation_deps.clock.now()) is not None

    async def download(self, request: Request) -> Response | OpenFileResponse:
        """A file of an agent. Never shown by the browser: whatever it says, it is the agent's."""
        await self._find_viewed(request)
        folder, path = request.path_params["folder"], request.query_params.get("file", "")
        try:
            await self._make_request(request).ask(FindGroupFileArgs(folder=folder, path=path))
            fd = await self._threads.run(partial(open_file, self._deps.operation_deps.home, folder, path))
        except GatepostError as error:
            view = PageView(title="Download", blocks=[Note(text=_render_error(error), tone=Tone.BAD, link=BACK)])
            return await self._render(request, None, view, _get_status(error))
        headers = {
            "content-type": DOWNLOADED,
            "content-disposition": render_disposition("attachment", path.rpartition("/")[2]),
            "cache-control": "private, no-cache",
        }
        return OpenFileResponse(make_open_file(fd, DOWNLOADED), headers, self._threads)

    async def palette(self, request: Request) -> Response:
        """Every page and operation that this person may open."""
        await self._find_viewed(request)
        pages = await self._deps.operation_deps.store.read(self._list_shown, request.state.user)
        operations = await self._deps.operation_deps.store.read(self._list_operations, request.state.user)
        entries = [*map(_make_page_entry, pages), *map(_make_operation_entry, operations)]
        return HTMLResponse(await render_apart("palette.html", entries=entries))

    def _list_operations(self, db: Db, person: str) -> list[Operation]:
        rights = read_operation_rights(db, person)
        return [each for _, each in self._deps.operations.items() if may_run(rights, each.info)]

    async def form(self, request: Request) -> Response:
        name = request.path_params["operation"]
        if name not in self._deps.operations:
            raise HTTPException(404)
        await self._find_viewed(request)
        operation = self._deps.operations[name]
        query = dict(request.query_params)
        given = {name: value for name, value in query.items() if not name.startswith(START)}
        start = {name.removeprefix(START): value for name, value in query.items() if name.startswith(START)}
        made = await fill_form(self._make_request(request), make_form(operation, given, start), given)
        if request.headers.get("hx-request"):
            return HTMLResponse(await render_apart("form.html", form=made, prefix=PREFIX))
        view = PageView(title=made.title, blocks=[])
        return await self._render_whole("form_page.html", request, None, view, form=made)

    async def _ask(self, request: Request, operation: Operation, args: dict[str, Any]) -> Any:
        try:
            return await make_json(await self._make_request(request).ask(operation.args, **args))
        except OverflowError:  # by what was made of a number
            raise Invalid(operation.info.name, "a number in it is larger than anything here") from None

    async def run(self, request: Request) -> Response:
        """Run an operation as this person. A wrong argument is said at its input, and the form keeps what was typed."""
        operation, sent = None, dict[str, str]()
        try:
            operation = self._deps.operations[request.path_params["operation"]]
            if operation.info.name != VIEW_OPERATION:
                await self._find_viewed(request)
            if _get_viewed(request) is not None or _is_view_lost(request):
                raise Refused(request.state.visitor.user, operation.info.name, "", VIEW_ONLY)
            sent, files = await _read_form(request)
            args = parse_form(operation, sent, files)
            answer = await self._ask(request, operation, args)
        except GatepostError as error:
            refusal = await self._refuse(request, operation, error, sent)
            return _leave_view(request, refusal) if _is_view_lost(request) else refusal
        if operation.info.name == VIEW_OPERATION:
            return _show_as(request, answer["id"])
        if _wants_json(request):
            body = msgspec.json.encode({"answer": answer}, enc_hook=str)
            return Response(body, media_type="application/json")
        shown = await render_apart("result.html", **await asyncio.to_thread(_make_result, operation, args, answer))
        return HTMLResponse(shown, headers={"hx-trigger": "gatepost:changed"})

    async def _refuse(
        self, request: Request, operation: Operation | None, error: GatepostError, sent: Mapping[str, str]
    ) -> Response:
        found = FormRefusal(text=render_refusal(error))
        if not isinstance(error, Unavailable):  # the store may be what is away
            store = self._deps.operation_deps.store
            found = await store.read(self._make_refusal, operation, error, sent, request.state.user)
        if _wants_json(request):
            said = {"error": _render_error(error), "field": found.field, "said": translate(found.text)}
            return JSONResponse(said, _get_status(error))
        shown = await render_apart("refusal.html", refusal=found)
        return HTMLResponse(shown, _get_status(error))

    def _make_refusal(
        self, db: Db, operation: Operation | None, error: GatepostError, sent: Mapping[str, str], person: str
    ) -> FormRefusal:
        rights = read_operation_rights(db, person)
        places = KnownPlaces(
            pages=self._list_shown(db, person),
            operations=self._deps.operations,
            may=lambda info: may_run(rights, info),
        )
        return make_refusal(operation, error, sent, places)


def _get_view_cookie(request: Request) -> str:
    """Browsers send cookies to every port of a host: two gateways never take each other's."""
    return f"{VIEW_COOKIE}-{port_of(request.headers.get('host', '')) or 'web'}"


def _get_viewed(request: Request) -> User | None:
    found: User | None = getattr(request.state, "viewed", None)
    return found


def _is_view_lost(request: Request) -> bool:
    """Return True if an owner saw the page as somebody who is gone. Their next press was meant for that page."""
    return bool(getattr(request.state, "is_view_lost", False))


def _leave_view(request: Request, answer: Response) -> Response:
    name, secure = _get_view_cookie(request), is_secure(request)
    answer.delete_cookie(name, httponly=True, samesite="strict", path=PREFIX, secure=secure)
    return answer


def _find_person(db: Db, named: str) -> User | None:
    return users.get(db, identities.get_person(db, named))


def _show_as(request: Request, person: str) -> Response:
    """Go on as somebody, or as oneself."""
    answer = Response(headers={"hx-redirect": f"{PREFIX}/"})
    if not person:
        return _leave_view(request, answer)
    name, secure = _get_view_cookie(request), is_secure(request)
    answer.set_cookie(name, quote(person, safe=""), httponly=True, samesite="strict", path=PREFIX, secure=secure)
    return answer


def _wants_json(request: Request) -> bool:
    """A form that runs several operations reads their answers itself."""
    return request.headers.get("accept", "") == "application/json"


def _make_pattern(path: str) -> str:
    """Make the route of a page. Its last parameter may have slashes: a group's folder, a person's address."""
    return f"{path[:-1]}:path}}" if path.endswith("}") else path


class PaletteEntry(Struct, frozen=True, kw_only=True):
    """`words`: by which it is found, besides what it shows. `operation` '': a page."""

    label: str
    about: str
    href: str
    words: str
    aliases: str
    operation: str = ""


def _make_page_entry(page: Page) -> PaletteEntry:
    return PaletteEntry(
        label=page.title, about="page", href=page.href, words=page.path, aliases=ALIASES.get(page.path, "")
    )


def _make_operation_entry(operation: Operation) -> PaletteEntry:
    name = operation.info.name
    return PaletteEntry(
        label=render_title(name) if is_question(operation.info) or name not in DEEDS else render_submit(name),
        about=render_brief(operation),
        href=f"{PREFIX}/do/{name}",
        words=f"{name} {render_title(name)} {operation.summary}",
        aliases=ALIASES.get(name, ""),
        operation=name,
    )


def _make_result(operation: Operation, args: Mapping[str, Any], answer: Any) -> dict[str, Any]:
    """`facts`: of an answer that somebody asked for. `stays`: what it says is to be read, so its dialog stays open."""
    name, is_trial = operation.info.name, bool(args.get("dry_run"))
    facts = list_facts(answer) if is_trial or is_read(operation.info) else []
    once = list_shown_once(name, answer)
    is_report = isinstance(answer, Mapping) and bool(answer.get("erased"))
    return {
        "operation": operation,
        "done": ANY_VERB[1] if is_trial else render_done(name, _list_words(args, answer), args.values()),
        "answer": answer,
        "facts": facts,
        "link": find_result_link(name, answer),
        "once": once,
        "is_local": any(is_local_link(value) for _, value in once),
        "undo": None if is_trial else make_undo(name, args, answer),
        "prefix": PREFIX,
        "stays": bool(facts or once or is_report),
    }


def _list_words(args: Mapping[str, Any], answer: Any) -> dict[str, Any]:
    """Return what a sentence about it may name."""
    found = {**args, **(answer if isinstance(answer, Mapping) else {})}
    return found | {"next": render_local(next_at)} if isinstance(next_at := found.get("next_local"), str) else found


async def _read_form(request: Request) -> tuple[dict[str, str], dict[str, bytes]]:
    """Return the texts and the files of a form."""
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        form = (await read_form(request, LARGEST_UPLOAD_MB)).multi_items()
        texts = [(name, value) for name, value in form if isinstance(value, str)]
        uploads = {name: await each.read() for name, each in form if not isinstance(each, str)}
        return _join_lines(texts), uploads
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > LARGEST_FORM:
            raise Invalid("form", f"it is larger than {LARGEST_FORM} bytes")
    try:
        pairs = parse_qsl(raw.decode(), keep_blank_values=True, strict_parsing=bool(raw), max_num_fields=200)
    except (ValueError, UnicodeDecodeError):
        raise Invalid("form", "it cannot be read") from None
    return _join_lines(pairs), {}


def _join_lines(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    sent: dict[str, str] = {}
    for name, value in pairs:  # inputs of one name are the lines of one argument
        sent[name] = f"{sent[name]}\n{value}" if name in sent else value
    return sent


def _render_error(error: GatepostError) -> str:
    """In words for whoever reads the page: not by the name of an operation, nor of themselves."""
    if type(error) is Refused and error.why:
        return f"You may not see or do this: {error.why}"
    return str(error)


def _get_status(error: GatepostError) -> int:
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 400)


def render_file(page: Page, view: PageView, kind: str) -> Response:
    """Render a page's first table as a file, with every row that was asked for."""
    table = next((each for each in view.blocks if isinstance(each, TableBlock | AgentCards | TimelineBlock)), None)
    if isinstance(table, AgentCards):
        table = make_card_table(table)
    if isinstance(table, TimelineBlock):
        table = make_timeline_table(table)
    if table is None:
        raise Invalid("format", "this page has no table")
    names = [column.name for column in table.columns]
    rows = [[get_plain(cell) for cell in row.cells] for row in table.rows]
    name = page.path.strip("/").replace("/", "-") or "overview"
    headers = {"content-disposition": f'attachment; filename="{name}.{kind}"'}
    if kind == "json":
        body = json.dumps([dict(zip(names, row, strict=True)) for row in rows], ensure_ascii=False, indent=1)
        return Response(body, media_type="application/json", headers=headers)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(names)
    writer.writerows([[_defuse(cell) for cell in row] for row in rows])
    return Response(out.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


def _defuse(cell: str | int | None) -> str | int | None:
    """Quote a cell that begins like a formula: a spreadsheet would run it."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def find_words(view: PageView, words: str) -> PageView:
    """Keep the rows of a page's tables that have the typed words, unless the page searches by itself."""
    if not words.strip() or view.searches:
        return view
    short = words[:LONGEST_QUERY]
    blocks = [find_rows(each, short) if isinstance(each, TableBlock) else each for each in view.blocks]
    return replace(view, blocks=blocks)


def cut_tables(view: PageView, query: Mapping[str, str]) -> PageView:
    """Cut long tables: from the row that the address names, with a link to the next ones."""
    first = _parse_first(query.get(FIRST, ""))
    blocks = [_cut(each, first, query) if isinstance(each, TableBlock) else each for each in view.blocks]
    return replace(view, blocks=blocks)


def _parse_first(given: str) -> int:
    return int(given) if given.isascii() and given.isdigit() and len(given) <= LONGEST_NUMBER else 0


def _cut(table: TableBlock, first: int, query: Mapping[str, str]) -> TableBlock:
    """A table that fits has all its rows, whatever the address says: it is another one that is long."""
    if len(table.rows) <= SHOWN_ROWS or first >= len(table.rows):
        first = 0
    end = first + SHOWN_ROWS
    further = f"?{urlencode({**query, FIRST: str(end)})}" if end < len(table.rows) else table.more
    return replace(table, rows=list(table.rows[first:end]), more=further)
