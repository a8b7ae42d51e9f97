"""Runs on the host, as root or as an ordinary user: a whole gateway, whose agent tries everything in the table.

Reads what it is given from stdin and prints what was found, inside and out. A program of its own, because the resolver
is exchanged for one that knows the names of the attempts, and because it may have to be another user.
"""

import asyncio
import json
import os
import secrets as random
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gatepost.app import Gateway
from gatepost.core.keyring import Keyring
from gatepost.flow.groups import make_folder
from gatepost.flow.sessions.host.host_uids import sandbox_uid
from gatepost.messages.outbound import Outbound
from gatepost.store.port import Db
from gatepost.store.rights import audit, egress, secret_rows, secrets
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.rooms import routes
from gatepost.store.sessions import groups
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled

KEY = f"sk-ant-{random.token_hex(16)}"
BOUND, OTHERS = (f"bound-{random.token_hex(16)}" for _ in range(2))
SECRET = f"secret-{random.token_hex(16)}"
PRIVATE = {"key": KEY, "secret": SECRET, "bound secret": BOUND, "another group's secret": OTHERS}
RUN = random.token_hex(6)
ROOM, VICTIM, KID = (f"fake:room/{number}" for number in (1, 2, 3))
PATIENCE = 100.0

# Runs inside, in the place of a model.
PROVIDER = """
import asyncio, json, os, sys
from gatepost.inside.bridge import get_python_variables
from gatepost.inside.providers.contract import TurnResult, ConversationStarted, Text, provider


@provider("prober")
class Prober:
    takes_pushes = False

    def __init__(self, place):
        pass

    async def query(self, batch, resume):
        yield ConversationStarted(resume or "c-1")
        for item in batch.items:
            if item.kind != "system":
                yield Text(await self.answer(item.text), item.seq)
        yield TurnResult()

    async def answer(self, text):
        if not text.startswith("{"):
            return "echo: " + text
        asked = json.dumps({"given": json.loads(text), "attempts": ATTEMPTS}).encode()
        pipe, command = asyncio.subprocess.PIPE, (sys.executable, "-I", "-S", "-c", INSIDE)
        env = {**os.environ, **get_python_variables()}
        pipes = {"stdin": pipe, "stdout": pipe, "stderr": pipe}
        probe = await asyncio.create_subprocess_exec(*command, cwd="/workspace/agent", env=env, **pipes)
        out, words = await probe.communicate(asked)
        with open("/workspace/out/report.json", "wb") as report:
            report.write(out or json.dumps({"broken": words.decode()}).encode())
        return "done"

    async def push(self, batch):
        raise NotImplementedError

    async def interrupt(self):
        pass

    async def close(self):
        pass
"""


@dataclass
class Listener:
    """Somebody on the host's loopback: keeps every byte, and answers as asked."""

    port: int = 0
    heard: bytearray = field(default_factory=bytearray)
    elsewhere: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").lower().split("\r\n")
                size = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0)
                body = await reader.readexactly(size)
                self.heard += head + body + b"\n"
                for piece in self._answer(head, body):
                    writer.write(piece)
                    await writer.drain()
                if b"connection: close" in head.lower():
                    break
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
            self.heard += getattr(error, "partial", b"")
        finally:
            writer.close()

    def _answer(self, head: bytes, body: bytes) -> list[bytes]:
        key = KEY.encode()
        if b"/echo" in head:
            if b"range:" in head.lower():
                return [_reply(206, BOUND[:20].encode())]
            if b"/chunks" in head:
                start = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
                return [f"{start}8\r\n{BOUND[:8]}\r\n{len(BOUND) - 8:x}\r\n{BOUND[8:]}\r\n0\r\n\r\n".encode()]
            return [_reply(200, head, f"x-told: {BOUND}\r\n")]
        if b"/redirect" in head or b"go-elsewhere" in body:
            return [_reply(302, b"", f"location: {self.elsewhere}\r\n")]
        for status in (400, 401, 200):
            if b"echo-%d" % status in body:
                text = b'{"error":{"message":"bad key %b"},"usage":{}}' % key
                return [_reply(status, text, f"request-id: {KEY}\r\nx-key: {KEY}\r\nset-cookie: {KEY}\r\n")]
        if b"echo-stream" in body:
            event = b'data: {"text":"%b"}\n\n' % key
            start = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(event)}\r\n\r\n"
            return [start.encode(), event[:20], event[20:]]
        return [_reply(200, b'{"content":[],"usage":{"input_tokens":1,"output_tokens":1}}')]


def _reply(status: int, body: bytes, headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status} Word\r\ncontent-type: application/json\r\n{headers}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def listening(listener: Listener, host: str = "127.0.0.1") -> AsyncIterator[Listener]:
    server = await asyncio.start_server(listener.serve, host, listener.port)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()


NAMES = {
    "allowed.test": ["127.0.0.1"],
    "denied.test": ["127.0.0.1"],
    "rebound.test": ["127.0.0.1"],
    "mixed.test": ["8.8.8.8", "127.0.0.1"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "nat64.test": ["64:ff9b::7f00:1"],
    "sixtofour.test": ["2002:7f00:1::"],
    "metadata.test": ["169.254.169.254"],
    "localhost": ["127.0.0.1", "::1"],
}


def know_names() -> list[str]:
    """The resolver of this process knows these names, and keeps what it was asked."""
    real, asked = socket.getaddrinfo, []

    def look_up(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host in NAMES:
            asked.append(str(host))
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in NAMES[host]]
        if str(host).replace(".", "").isdigit():
            return real(host, port, *args, **kwargs)
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    socket.getaddrinfo = look_up
    return asked


class Reader(FakeChannel):
    """A platform that keeps what stands in the files that it was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    async def send(self, address: str, message: Outbound) -> str:
        self.read += [Path(file.path).read_text(errors="replace") for file in message.files]
        return await super().send(address, message)


@dataclass
class World:
    given: dict[str, Any]
    home: Path
    vendor: Listener
    allowed: Listener
    denied: Listener
    channel: Reader = field(default_factory=Reader)
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def outside(self) -> Path:
        """A folder of the host's own."""
        return self.home / "media" / "own"

    def rules(self, db: Db) -> None:
        """As open as an operator can make it."""
        for host, port, allow, local in (
            ("allowed.test", self.allowed.port, True, True),
            ("metadata.test", self.denied.port, True, True),
            ("*", self.denied.port, True, False),
            ("*", 443, True, False),
            ("denied.test", 0, False, False),
        ):
            egress.put(db, "home" if allow else None, host, port, allow=allow, local=local, by="operator", now=1)

    def people(self, db: Db) -> None:
        for folder in ("other", "home/kid"):
            groups.add(db, folder, folder, "", 1)
        for seq, room, folder in ((1, VICTIM, "other"), (2, KID, "home/kid")):
            match = f"chat_jid={room}"
            routes.add(
                db, routes.Route(seq=seq, match=match, target=folder, folder=folder, created_by="x", created_at=1)
            )

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[Gateway]:
        settings = {
            "sandbox__kind": self.given["kind"],
            "sessions__provider": "prober",
            "sessions__tries": 1,
            "anthropic__base_url": f"http://127.0.0.1:{self.vendor.port}",
            "openai__base_url": f"http://127.0.0.1:{self.vendor.port}/v1",
        }
        async with running_gateway(self.home, {"fake": (self.channel.kind, self.channel)}, **settings) as gateway:
            yield gateway

    async def ask(self, room: str, text: str, wanted: str) -> None:
        await self.channel.say(text, address=room)
        told = lambda sent: any(each.address == room and wanted in each.message.text for each in sent)  # noqa: E731
        await self.channel.wait_for(told, timeout=PATIENCE)


async def settle_in(world: World, gateway: Gateway) -> None:
    """Rules, keys, a neighbour, and things that only the host may see."""
    for room in (ROOM, VICTIM, KID):
        await open_room(gateway, "fake", room)
    await gateway.store.write(world.rules)
    await gateway.store.write(world.people)
    uid = sandbox_uid(gateway.config)
    for folder in ("other", "home/kid"):
        make_folder(gateway.home, folder, uid)
    keyring = Keyring(gateway.home)
    for name in (secrets.ANTHROPIC_API_KEY, secrets.OPENAI_API_KEY):
        await gateway.store.write(secrets.put, keyring, SecretOwner(), name, KEY, 1)
    for folder, name, value in (("home", "MINE", BOUND), ("other", "OTHERS", OTHERS)):
        await gateway.store.write(secrets.put, keyring, SecretOwner(folder=folder), name, value, 1)
        place = ("http", "allowed.test", world.allowed.port)
        await gateway.store.write(secret_rows.put_binding, folder, name, place, "x-bound", "{}", "operator", 1)
    world.outside.mkdir()
    (world.outside / "secret").write_text(SECRET)
    (gateway.home.group("other") / "secret.md").write_text(SECRET)
    world.found["own"] = [snapshot(world.outside)]


def lay_bare(gateway: Gateway, victim: Path) -> None:
    """The neighbour's sockets where the agent can see them, as if a mount had gone wrong."""
    place = gateway.home.group("home") / "victim"
    place.mkdir()
    for name in ("egress.sock", "router.sock", "runner.sock"):
        os.link(victim / name, place / name)


async def first(world: World) -> None:
    """Everything is tried once."""
    async with world.gateway() as gateway:
        await settle_in(world, gateway)
        await world.ask(VICTIM, "hello", "echo: hello")
        (neighbour,) = gateway.sessions.awake
        victim = gateway.home.sockets_of(neighbour.session.id)
        lay_bare(gateway, victim)
        told = {
            "run": RUN,
            "allowed": world.allowed.port,
            "denied": world.denied.port,
            "vendor": world.vendor.port,
            "abstract": world.given["abstract"],
            "secret": str(world.outside / "secret"),
            "marker": str(world.outside / "marker"),
            "victim": str(victim),
            "control": str(gateway.home.run),
            "host_pid": os.getpid(),
        }
        await world.ask(ROOM, json.dumps(told), "done")
        await world.ask(VICTIM, "again", "echo: again")
        mine = next(each.session.id for each in gateway.sessions.awake if each.session.folder == "home")
        out = gateway.home.session(mine) / "out"
        world.found["attempts"] = json.loads((out / "report.json").read_bytes())
        heard = (out / "heard").read_bytes()
        world.found["told"] = private_in(heard.decode("latin-1"))
        await gateway.store.write(lambda db: None)  # what was posted before is written before
        tried = await gateway.store.read(egress.list_attempts, 10_000)
        world.found["denied"] = [plain(each.reason) for each in tried if each.verdict == "denied"]


async def second(world: World) -> None:
    """A new start meets what was planted; whatever becomes of the planter, its neighbour is answered."""
    async with world.gateway() as gateway:
        rows = await gateway.store.read(audit.list_latest, 10_000)
        refused = [json.loads(row[5]) for row in rows if row[3] == "egress" and row[4] == "refused"]
        world.found["audited"] = sum(each.get("repeated", 1) for each in refused)  # of many, the rest is one number
        for room in (ROOM, KID):
            await world.channel.say("and now?", address=room)
        await world.ask(VICTIM, "still", "echo: still")
        account = await wait_until_settled(gateway, PATIENCE)
        world.found["unaccounted"] = account.unaccounted
        world.found["kid"] = world.channel.texts(KID)


def look_around(world: World) -> None:
    """What the host has afterwards."""
    found, listeners = world.found, {"vendor": world.vendor, "allowed": world.allowed, "denied": world.denied}
    found["heard"] = {name: bytes(each.heard).decode("latin-1") for name, each in listeners.items()}
    said = "\n".join([*world.channel.texts(), *world.channel.read])
    found["said"] = private_in(said)
    found["put_in"] = [BOUND in found["heard"]["allowed"], OTHERS in found["heard"]["allowed"]]
    found["sent_files"] = len(world.channel.read)
    found["own"].append(snapshot(world.outside))
    found["setuid"] = [
        str(path)
        for tree in ("groups", "sessions")
        for path in (world.home / tree).rglob("*")
        if not path.is_symlink() and path.is_file() and path.lstat().st_mode & 0o6000
    ]


def plain(reason: str) -> str:
    """As it is told in a header."""
    return "".join(sign if " " <= sign <= "~" else "?" for sign in reason)


def private_in(text: str) -> list[str]:
    """Whole, or in parts that somebody could put together."""
    return [what for what, value in PRIVATE.items() if value[:20] in text or value[8:] in text]


def snapshot(folder: Path) -> dict[str, Any]:
    facts = {str(path): path.lstat() for path in (folder, *folder.rglob("*"))}
    return {name: [each.st_mode, each.st_uid, each.st_size] for name, each in facts.items()} | {
        "text": (folder / "secret").read_text()
    }


async def main(given: dict[str, Any]) -> dict[str, Any]:
    home = Path(given["home"])
    asked = know_names()
    plugins = home / "plugins" / "providers"
    plugins.mkdir(parents=True)
    constants = f"INSIDE = {given['inside']!r}\nATTEMPTS = {given['attempts']!r}\n"
    (plugins / "prober.py").write_text(constants + PROVIDER)
    async with AsyncExitStack() as stack:
        vendor, allowed, denied = [await stack.enter_async_context(listening(Listener())) for _ in range(3)]
        with_v6 = Listener(port=denied.port, heard=denied.heard)
        if socket.has_ipv6 and Path("/proc/net/if_inet6").exists():
            await stack.enter_async_context(listening(with_v6, "::1"))
        allowed.elsewhere = vendor.elsewhere = f"http://denied.test:{denied.port}"
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind("\0" + given["abstract"])
        abstract.listen()
        abstract.setblocking(False)
        world = World(given, home, vendor, allowed, denied)
        await first(world)
        await second(world)
        look_around(world)
        try:
            abstract.accept()
            world.found["abstract"] = "somebody came"
        except BlockingIOError:
            world.found["abstract"] = ""
        world.found |= {"run": RUN, "looked_up": asked}
    return world.found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))  # noqa: T201
