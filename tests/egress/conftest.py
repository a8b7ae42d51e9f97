"""A session's way out on a real unix socket, with upstreams on loopback and a purse that keeps books."""

import asyncio
import json
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gatepost.core.clock import SystemClock
from gatepost.core.process.thread_pools import BoundedThreadPool
from gatepost.core.settings import Config
from gatepost.egress.contract import BudgetRoom, BudgetShortage, CallCost, ReservationHandle, Spender
from gatepost.egress.egress_socket import EgressSocket
from gatepost.egress.model_proxy import ModelProxy
from gatepost.egress.prices import Price
from gatepost.egress.way_out import EgressDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.money.costs import TokenCounts
from gatepost.store.port import Db
from gatepost.store.rights import egress
from gatepost.store.sessions import groups
from gatepost.tools.call import Caller
from gatepost_testing.waiting import PATIENCE_S

KEY = "sk-ant-the-real-key-0123456789"
FOLDER = "acme/eng"
PRICE = Price(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000, cache_write_long=6_000_000)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}  # as in the daemon


@dataclass
class FakePurse:
    left: int | None = None
    busy: bool = False
    slow: asyncio.Event | None = None  # a reservation waits for it
    held: dict[int, int] = field(default_factory=dict)
    released: list[int] = field(default_factory=list)
    booked: list[tuple[int | None, TokenCounts]] = field(default_factory=list)
    estimated: list[bool] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)
    spenders: list[Spender] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def room(self, spender: Spender) -> BudgetRoom:
        in_flight = sum(self.held.values()) - sum(self.released)
        return BudgetRoom(self.left, None if self.left is None else self.left + in_flight)

    async def reserve(
        self, spender: Spender, model: str, worst: int, tokens: TokenCounts
    ) -> ReservationHandle | BudgetShortage:
        self.spenders.append(spender)
        self.asked.set()
        if self.slow is not None:
            await self.slow.wait()
        if self.left is not None and worst > self.left:
            return BudgetShortage("the budget of acme is spent", self.busy)
        self.held[len(self.held) + 1] = worst
        self.left = None if self.left is None else self.left - worst
        return ReservationHandle(len(self.held))

    async def find_counted(self, beginnings: Sequence[str]) -> Mapping[str, int]:
        return {each: self.counted[each] for each in beginnings if each in self.counted}

    async def keep_counted(self, beginnings: Sequence[str], tokens: int) -> None:
        self.counted.update(dict.fromkeys(beginnings, tokens))

    async def settle(self, held: ReservationHandle, cost: CallCost | None) -> None:
        worst = self.held[held.id]
        actual = cost.micro if cost is not None else None
        self.booked.append((actual, cost.usage if cost is not None else TokenCounts()))
        self.estimated.append(cost is None or not cost.measured)
        self.released.append(worst)
        if self.left is not None:
            self.left += worst - (worst if actual is None else actual)
        self.settled.set()


@dataclass
class FakeKeys:
    keys: dict[str, str] = field(default_factory=lambda: {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY})

    purposes: list[str] = field(default_factory=list)

    async def get(
        self, name: str, spender: Spender, purpose: str = "model", origins: tuple[str, ...] | None = None
    ) -> str | None:
        self.purposes.append(purpose)
        return self.keys.get(name)


@dataclass
class Upstream:
    """A host on loopback: keeps what it was sent and answers as told."""

    port: int = 0
    reply: bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    hang: bool = False  # after the reply
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head.decode())
            lines = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:-2])
            size = int(lines.get("content-length", "0"))
            self.bodies.append(await reader.readexactly(size))
            self.arrived.set()
            writer.write(self.reply)
            await writer.drain()
            if self.hang:
                await reader.read()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.left.set()
            writer.close()

    @property
    def asked(self) -> dict[str, Any]:
        """The last body."""
        found: dict[str, Any] = json.loads(self.bodies[-1])
        return found


@dataclass(frozen=True)
class Certified:
    """A host's certificate for `localhost`, and whoever trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@cache
def certified() -> Certified:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    begin, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), begin, end)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem + private)
        file.flush()
        server.load_cert_chain(file.name)
    return Certified(server, ssl.create_default_context(cadata=pem.decode()))


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def read_answer(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:])
    if headers.get("transfer-encoding") == "chunked":
        whole = b""
        while body:
            size, _, rest = body.partition(b"\r\n")
            whole, body = whole + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        body = whole
    return Answer(int(lines[0].split(" ")[1]), headers, body)


def connect_line(port: int) -> bytes:
    return f"CONNECT localhost:{port} HTTP/1.1\r\n\r\n".encode()


@dataclass
class FakeContact:
    """Of this gateway with its database."""

    held: bool = True

    def may_act(self) -> bool:
        return self.held


@dataclass
class Way:
    """The way out of one session."""

    socket: EgressSocket
    path: Path
    store: SqliteStore
    purse: FakePurse
    keys: FakeKeys
    vendor: Upstream  # of both models
    host: Upstream  # `localhost`, which must be allowed
    safe: Upstream  # the same over TLS
    models: ModelProxy
    names: dict[str, list[str]]  # what the resolver says
    looked_up: list[str] = field(default_factory=list)
    contact: FakeContact = field(default_factory=FakeContact)

    async def raw(self, data: bytes) -> bytes:
        """Everything that comes back until the gateway closes."""
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_unix_connection(self.path)
            writer.write(data)
            try:
                return await reader.read()
            finally:
                writer.close()

    async def send(self, data: bytes) -> Answer:
        return read_answer(await self.raw(data))

    async def post(self, path: str, body: object, headers: str = "") -> Answer:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.send(
            f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{headers}"
            f"content-length: {len(raw)}\r\n\r\n".encode()
            + raw
        )

    async def allow(self, host: str, port: int = 0, *, folder: str | None = None, allow: bool = True) -> None:
        def put(db: Db) -> None:
            egress.put(db, folder, host, port, allow=allow, local=allow and port != 0, by="operator", now=1)

        await self.store.write(put)

    async def log(self) -> list[egress.EgressAttempt]:
        lane = self.socket._caller.lane  # what was posted in it before is written before
        await self.store.write(lambda db: None, lane=lane)
        return await self.store.read(egress.list_attempts, 100)


@asynccontextmanager
async def listening(upstream: Upstream, tls: ssl.SSLContext | None = None) -> AsyncIterator[Upstream]:
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0, ssl=tls)
    upstream.port = server.sockets[0].getsockname()[1]
    try:
        yield upstream
    finally:
        server.close()


@pytest.fixture
async def way(store: SqliteStore, tmp_path: Path) -> AsyncIterator[Way]:
    def arrive(db: Db) -> None:
        for folder in ("root", "acme", FOLDER, "other"):
            groups.add(db, folder, folder, "scripted", 1)

    await store.write(arrive)
    async with AsyncExitStack() as stack:
        vendor, host = [await stack.enter_async_context(listening(Upstream())) for _ in range(2)]
        safe = await stack.enter_async_context(listening(Upstream(), certified().server))
        base = f"http://127.0.0.1:{vendor.port}"
        config = Config({"anthropic.base_url": base, "openai.base_url": f"{base}/v1", "google.base_url": base})
        purse, keys = FakePurse(), FakeKeys()
        contact = FakeContact()
        models = ModelProxy(
            config,
            purse,
            keys,
            lambda model: PRICE if model.startswith("known") else None,
            may_act=contact.may_act,
        )
        stack.push_async_callback(models.close)
        names = {"localhost": ["127.0.0.1"]}
        looked_up: list[str] = []

        async def resolve(name: str, port: int, threads: BoundedThreadPool) -> list[str]:
            looked_up.append(name)
            if name not in names:
                raise OSError("unknown")
            return names[name]

        deps = EgressDeps(
            store=store,
            clock=SystemClock(),
            models=models,
            keys=keys,
            may_act=contact.may_act,
            resolve=resolve,
            tls=lambda: certified().client,
        )
        opened = EgressSocket(deps, Caller(FOLDER, "s-1", "scripted"), lambda pid: pid == os.getpid())
        await opened.open(tmp_path / "egress.sock")
        stack.push_async_callback(opened.close)
        yield Way(
            opened, tmp_path / "egress.sock", store, purse, keys, vendor, host, safe, models, names, looked_up, contact
        )
