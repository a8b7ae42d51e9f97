"""Shared fixtures. Tests use real SQLite files, the doubles of `gatepost_testing`, and a clock that stands still."""

import gc
import os
import re
import shutil
import signal
import tempfile
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import hypothesis
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gatepost.core.clock import SystemClock
from gatepost.store.engine.migrate import migrate
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db, Store

from .bytecode import compile_share

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext

    from gatepost_testing.empty_database import EmptyDatabase

    from .kept_stores import KeptStores

FAST = "not slow and not alone"  # as `make test` has it
WHOLLY_SLOW = re.compile(r"^pytestmark = (?:\[[^\]]*?)?pytest\.mark\.(?:slow|alone)\b", re.MULTILINE)

WALLED = frozenset({"contracts", "flows", "sandboxes"})
ENGINES = ("sqlite", "postgres")
ON_BOTH_ENGINES = frozenset({"store", "flow", "tools", "gate"})
WHOLLY_ON_BOTH = frozenset({"store"})  # what speaks SQL; of the others, a test is quick on one of the two
# How long an example takes to draw or to run says nothing: the machine may be busy.
# The same few examples in every run: a change is refused for what it does. `make test-all` draws new ones, and more.
NEW_EXAMPLES = "NEW_EXAMPLES" in os.environ
hypothesis.settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize=not NEW_EXAMPLES,
    max_examples=100 if NEW_EXAMPLES else 40,
)
hypothesis.settings.load_profile("patient")

MEMORY = Path("/dev/shm")
ROOM = 1 << 30  # for a few workers; a test removes what it made
NOON = 1_800_000_000_000_000  # a fixed moment, microseconds


def pytest_configure() -> None:
    """A shell has what it runs in the background ignore Ctrl-C, and so all that a test starts and would stop by it.
    What a gateway has its machine remember is not for the state folder of whoever runs the tests."""
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="gatepost-state-")
    os.environ.setdefault("USERS_CERT_FILE", os.environ.get("SSL_CERT_FILE", ""))  # a worker has it of who started it
    os.environ["SSL_CERT_FILE"] = str(_add_certificate(Path(os.environ["XDG_STATE_HOME"])))
    gc.disable()  # while tests are collected, which each worker does: an eighth of that was the search for garbage
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _add_certificate(folder: Path) -> Path:
    """In the place of the system's, of which each client of each test would read 150, which takes 40 ms."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    begin, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, end).sign(key, hashes.SHA256())
    path = folder / "authority.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    worker = getattr(session.config, "workerinput", None)  # what xdist has told this process, if it is one of several
    if worker is not None:
        compile_share(session.config, int(worker["workerid"].removeprefix("gw")), worker["workercount"])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file whose tests are all slow need not be imported, by each worker, to be left out."""
    if config.option.markexpr != FAST or collection_path.suffix != ".py":
        return None
    return True if WHOLLY_SLOW.search(collection_path.read_text(encoding="utf-8")) else None


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["XDG_STATE_HOME"], ignore_errors=True)


def pytest_collection_finish() -> None:
    gc.freeze()  # what was imported stays, and is searched no more
    gc.enable()


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """A test has an event loop of its own, of the kind that the daemon has; those that share an asynchronous fixture of
    their module share its loop."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator["Browser"]:
    from .browsers import start_browser

    async with start_browser() as started:
        yield started


@pytest.fixture(scope="module")
async def window(browser: "Browser") -> AsyncIterator["BrowserContext"]:
    from .browsers import add_context

    context = await add_context(browser)
    yield context
    await context.close()


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Migrated once in a run; a test gets a copy."""
    path = tmp_path_factory.mktemp("store") / "gatepost.db"
    migrate(path, SystemClock())
    return path


@pytest.fixture(scope="session")
def in_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A place where a sync costs nothing, if there is one with room. No agent may be shown what lies below /dev, so
    it is not for everything."""
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < ROOM:
        yield tmp_path_factory.mktemp("memory")
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="gatepost-", ignore_cleanup_errors=True) as made:
        yield Path(made)


@pytest.fixture
def quick_path(in_memory: Path) -> Iterator[Path]:
    """As `tmp_path`, in memory: for what is written often."""
    path = Path(tempfile.mkdtemp(dir=in_memory))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, in_memory: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """In memory, unless an agent behind walls is shown what lies there: see WALLED and the mark `on_disk`. Slow tests,
    of which many show something to agents, keep the disk."""
    suite = request.path.relative_to(Path(__file__).parent).parts[0]
    if suite in WALLED or any(request.node.get_closest_marker(each) for each in ("on_disk", "slow")):
        factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
        yield factory.mktemp("walled")
        return
    path = Path(tempfile.mkdtemp(dir=in_memory))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def store_path(quick_path: Path, empty_store: Path) -> Path:
    return Path(shutil.copy(empty_store, quick_path / "gatepost.db"))  # its mode, too


@pytest.fixture(scope="session")
def database() -> Iterator["EmptyDatabase"]:
    """One server and one database for a worker; a test finds it empty. Skipped where PostgreSQL is not installed."""
    from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs

    if find_programs() is None:
        pytest.skip(f"PostgreSQL is not installed: apt-get install {PACKAGE}")
    from gatepost.store.postgres.migrate import migrate_postgres
    from gatepost_testing.empty_database import EmptyDatabase

    with PostgresServer() as server:
        url = server.add_database("tests")
        migrate_postgres(url, SystemClock())
        made = EmptyDatabase(url)
        yield made
        made.close()


@pytest.fixture(scope="session")
def kept_stores(database: "EmptyDatabase") -> Iterator["KeptStores"]:
    from .kept_stores import KeptStores

    kept = KeptStores(database.url)
    yield kept
    kept.close()


@pytest.fixture
def emptied(database: "EmptyDatabase") -> "EmptyDatabase":
    """Emptied once for a test, however many of its fixtures stand on it."""
    database.reset()
    return database


@pytest.fixture
def engine() -> str:
    """Where `pytest_generate_tests` does not say otherwise."""
    return "sqlite"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Some suites run on both engines; a test that asks for the file is about the file."""
    names, path = metafunc.fixturenames, metafunc.definition.path
    if "engine" not in names or "store_path" in names or next(metafunc.definition.iter_markers("sqlite"), None):
        return
    suite = path.relative_to(Path(__file__).parent).parts[0]
    if suite not in ON_BOTH_ENGINES:
        return
    later = "" if suite in WHOLLY_ON_BOTH else choose_later_engine(f"{path.stem}::{metafunc.definition.originalname}")
    engines = [pytest.param(each, marks=pytest.mark.slow if each == later else ()) for each in ENGINES]
    metafunc.parametrize("engine", engines)


def choose_later_engine(test: str) -> str:
    """The engine on which only `make test-all` runs it: always the same for a test, and of many each about as often."""
    return ENGINES[zlib.crc32(test.encode()) % len(ENGINES)]


@pytest.fixture
def readers() -> int:
    """Connections of a SQLite store that read; a test that needs more is parametrized with their number. Each parses
    the schema as it opens, which is a fifth of the time of a store that most tests read once."""
    return 1


@pytest.fixture
async def store(engine: str, readers: int, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """Every unit is run twice, the first time undone: it has no effect but its writes. Not in a test that is marked
    `runs_once`, because it counts how often they run, or the ids that they draw."""
    twice = request.node.get_closest_marker("runs_once") is None
    if engine == "sqlite":
        opened = SqliteStore(request.getfixturevalue("store_path"), readers=readers, rehearse=twice)
        yield opened
        opened.close()
        return
    request.getfixturevalue("emptied")
    kept: KeptStores = request.getfixturevalue("kept_stores")
    lent = kept.get_store(rehearse=twice)
    yield lent
    kept.put_back(lent, rehearse=twice)


@pytest.fixture
def db(engine: str, request: pytest.FixtureRequest) -> Iterator[Db]:
    """A transaction-less connection for entity tests: each statement commits by itself."""
    if engine == "sqlite":
        connection: apsw.Connection = connect(request.getfixturevalue("store_path"))
        yield SqliteDb(connection)
        connection.close()
        return
    request.getfixturevalue("emptied")
    kept: KeptStores = request.getfixturevalue("kept_stores")
    yield kept.get_db()
    kept.put_db_back()


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Say a line in the summary of the run. It travels with the test's report, so it also comes from a worker."""
    return lambda line: request.node.user_properties.append(("figure", line))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]
    lines = [value for report in reports for name, value in report.user_properties if name == "figure"]
    if lines:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)
