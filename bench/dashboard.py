"""The first screen of a large gateway: 1,000 groups, 100,000 messages, 10,000 open requests. The page's server time,
and how many statements it takes: as many as with ten groups."""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import httpx2
from starlette.types import ASGIApp, Receive, Scope, Send

from gatepost.core.clock import HOUR, SECOND, Period, SystemClock
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.serve.control.arguments.overview import ShowOverviewArgs
from gatepost.serve.control.contract import OperationDeps
from gatepost.serve.control.operations.overview import get_defaults, read_overview
from gatepost.serve.web.dashboard.handlers import Dashboard, DashboardDeps
from gatepost.serve.web.dashboard.live import ChangeStreams
from gatepost.serve.web.signin.visitors import WebVisitor
from gatepost.store.engine.migrate import migrate
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.money import budgets
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.counting import CountingDb
from measure import Figure, at_most, within

GROUPS, MESSAGES, REQUESTS, TIMES = 1000, 100_000, 10_000, 20
LIMIT_MS = 200.0
OWNER = "web:user/owner"


async def figures(
    groups: int = GROUPS, messages: int = MESSAGES, asked: int = REQUESTS, times: int = TIMES
) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        small, *_ = await measure_overview(Path(folder) / "few", 10, 200, 20, 1)
    with tempfile.TemporaryDirectory() as folder:
        large, taken_ms, busy_ms = await measure_overview(Path(folder) / "many", groups, messages, asked, times)
    return [
        at_most("dashboard_overview_ms", taken_ms, "ms", LIMIT_MS, LIMIT_MS),
        at_most("dashboard_overview_cpu_ms", busy_ms, "ms", LIMIT_MS, LIMIT_MS),
        within("dashboard_overview_statements", large, "", small, 1),
    ]


async def measure_overview(place: Path, groups: int, messages: int, asked: int, times: int) -> tuple[int, float, float]:
    """Statements of what the page shows, the median time in which the whole page is served, and how much of that is
    work: on a busy machine the rest is waiting for a processor."""
    home, now = Home(place), SystemClock().now()
    home.prepare()
    await asyncio.get_running_loop().run_in_executor(None, build, home.store, groups, messages, asked, now)
    store = SqliteStore(home.store)
    try:
        return await store.read(_count_statements, now), *await _serve_ms(home, store, times)
    finally:
        store.close()


def _count_statements(db: Db, now: int) -> int:
    counted = CountingDb(db)
    found = read_overview(counted, OWNER, ShowOverviewArgs(), now, [], get_defaults(Config()))
    if not found.agents or not found.counts["waiting"]:
        raise RuntimeError("the page would be empty")
    return counted.statements


async def _serve_ms(home: Home, store: SqliteStore, times: int) -> tuple[float, float]:
    operation_deps = OperationDeps(home=home, store=store, clock=SystemClock(), config=Config(), events=EventBus())
    dashboard = Dashboard(
        DashboardDeps(operation_deps=operation_deps),
        ChangeStreams(operation_deps.events, asyncio.Event()),
    )
    transport = httpx2.ASGITransport(_SignedIn(dashboard))
    taken, busy = list[float](), list[float]()
    async with httpx2.AsyncClient(transport=transport, base_url="http://bench") as browser:
        for _ in range(times + 1):
            begun, worked = time.perf_counter(), time.process_time()
            answer = await browser.get("/")
            taken.append((time.perf_counter() - begun) * 1000)
            busy.append((time.process_time() - worked) * 1000)
            if answer.status_code != 200 or "Waiting, " not in answer.text:
                raise RuntimeError(answer.text)
    return statistics.median(taken[1:]), statistics.median(busy[1:])


class _SignedIn:
    """In place of the cookie: everybody is the owner."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {"user": OWNER, "visitor": WebVisitor(OWNER, "")}
        await self._app(scope, receive, send)


def build(path: Path, groups: int, messages: int, asked: int, now: int) -> None:
    migrate(path, SystemClock())
    connection = connect(path)
    connection.execute("PRAGMA synchronous=OFF")
    db = SqliteDb(connection)
    db.run("BEGIN")
    users.add(db, OWNER, "Owner", now)
    users.add_role(db, OWNER, users.UserRole.OWNER, "", OWNER, now)
    rooms = [_add_group(db, number, now) for number in range(groups)]
    for first in range(0, messages, 2 * groups):
        _add_messages(db, rooms, first, now)
    for number in range(asked):
        folder, session = rooms[number % (groups // 2 or 1)]
        requests.add(db, _make_request(folder, session, number), now - number * SECOND)
    db.run("COMMIT")
    connection.close()


def _add_group(db: Db, number: int, now: int) -> tuple[str, str]:
    folder = f"acme{number % 20}/team{number}"
    groups.add(db, folder, f"Team {number}", "claude", now)
    budgets.put(db, BudgetScope(BudgetScopeKind.GROUP, folder), Period.DAY, 2_000_000, OWNER, now)
    budgets.add_spending(db, folder, OWNER, now, spent=number * 1000)
    session = sessions.find_or_add(db, SessionMode.SHARED, folder, "fake", f"fake:room/{number}", "", now - number)
    return folder, session.id


def _add_messages(db: Db, rooms: list[tuple[str, str]], first: int, now: int) -> None:
    """One question and one answer in each room."""
    at = now - HOUR + first
    for number, (folder, session) in enumerate(rooms):
        address, seq = f"fake:room/{number}", first + 1
        for way, table in (("in", "inbox"), ("out", "outbox")):
            row = db.row(
                "INSERT INTO messages (instance, address, direction, platform_id, kind, sender, text, folder, at,"
                " accepted_at) VALUES ('fake', ?, ?, ?, 'chat', 'fake:user/1', ?, ?, ?, ?) RETURNING id",
                (address, way, f"{first}-{number}", f"{way} {first} " + "words " * 20, folder, at, at),
            )
            assert row is not None
            if table == "inbox":
                state = "failed" if number % 50 == 0 else "queued" if number % 10 == 1 and not first else "answered"
                db.run(
                    "INSERT INTO inbox (message_id, session_id, folder, seq, state, next_at, created_at, updated_at)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (row[0], session, folder, seq, state, now if state == "queued" else None, at, at),
                )
            else:
                db.run(
                    "INSERT INTO outbox (key, message_id, session_id, seq, origin, op, instance, address, payload,"
                    " state, created_at, updated_at)"
                    " VALUES (?, ?, ?, ?, 'result', 'send', 'fake', ?, '{}', 'sent', ?, ?)",
                    (f"{first}-{number}", row[0], session, seq + 1, address, at, at),
                )


def _make_request(folder: str, session: str, number: int) -> NewRequest:
    return NewRequest(
        kind=RequestKind.CALL,
        name=f"call-{number}",
        digest=str(number),
        folder=folder,
        session_id=session,
        turn_id=f"t-{number}",
        tool="post",
        input={"text": "x" * 500},
        why="a rule holds it",
    )


if __name__ == "__main__":
    for each in asyncio.run(figures()):
        print(each)
