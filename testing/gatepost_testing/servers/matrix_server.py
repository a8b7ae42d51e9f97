"""Matrix for tests: a real Synapse, people who are matrix-nio clients, and a proxy before the bot that brings faults.

The room `team` and the private rooms are encrypted unless `encrypted=False`. Messages are seen as people's own programs
decrypt them. Not covered: federation, cross-signing, verification of devices by emoji. A second poller is nothing to
Matrix, the order of events is the server's own, and nothing is acknowledged: those faults do nothing.
"""

import asyncio
import itertools
import json
import math
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import httpx2
import peewee  # type: ignore[import-untyped]
from nio import AsyncClient, AsyncClientConfig, Event, MatrixRoom
from nio.crypto import decrypt_attachment
from nio.store import SqliteMemoryStore
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost_testing.platform_rules.matrix import BY_NAME
from gatepost_testing.platforms import pings
from gatepost_testing.platforms.base import Asgi, EmulatedPlatform, GivenFile, GivenMessage, PlatformFault
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.servers.matrix_view import read_shown, read_shown_text
from gatepost_testing.servers.synapse import SERVER_NAME, get_synapse
from gatepost_testing.waiting import PATIENCE_S, until

T = TypeVar("T")
ENCRYPTION = {"type": "m.room.encryption", "state_key": "", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}
_SENDS = re.compile(r"/_matrix/client/v3/rooms/[^/]+/(send|redact)/")
_RECEIPT = re.compile(r"/_matrix/client/v3/rooms/[^/]+/receipt/m\.read/([^/]+)")
_TYPING = re.compile(r"/_matrix/client/v3/rooms/([^/]+)/typing/")
PASSWORD = "password"
_NUMBERS = itertools.count(1)
_SEND_FAULTS = (PlatformFault.FORBIDDEN, PlatformFault.RATE_LIMIT, PlatformFault.BUSY, PlatformFault.NO_ANSWER)
_STORES = threading.RLock()


class _OneStoreAtATime(peewee._BoundModelsContext):  # type: ignore[misc]
    """Key stores of matrix-nio in several threads of one process: in tests alone, a gateway has one.

    matrix-nio points its tables, which all stores of a process share, at one store while it is used. The people here
    and the bot of a test run in different threads, so they take turns.
    """

    def __enter__(self) -> Any:
        _STORES.acquire()
        return super().__enter__()

    def __exit__(self, *error: object) -> Any:
        try:
            return super().__exit__(*error)
        finally:
            _STORES.release()


class MatrixServer(EmulatedPlatform):
    kind = "matrix"
    ping_rule = pings.MATRIX
    cannot = frozenset({"click"})

    def __init__(self, *, encrypted: bool = True) -> None:
        super().__init__()
        guard_stores()
        self._encrypted = encrypted
        self._mark = f"{os.getpid()}-{next(_NUMBERS)}"  # names of this instance, on a server that all share
        self._people: dict[str, AsyncClient] = {}
        self._rooms: dict[str, str] = {}  # short name → id
        self._syncs: list[asyncio.Task[None]] = []
        self._typing: list[str] = []
        self.receipts: list[tuple[str, str]] = []  # the bot's read marks: a message, and the thread
        self._keys: dict[str, str] = {}  # event → transaction id
        self._seen: set[str] = set()  # events that people's programs have shown
        self._bot: AsyncClient | None = None
        self._http: httpx2.AsyncClient | None = None
        self.folder: Path | None = None

    # How it is run.

    def start(self, port: int = 0) -> None:
        self._server_url = self.find_homeserver()
        self.folder = Path(tempfile.mkdtemp(prefix="gatepost-matrix-"))
        super().start(port)
        self._run_in_loop(self._prepare())

    def find_homeserver(self) -> str:
        """Return the address that people come to, without TLS; start it if it does not run."""
        return get_synapse().url

    def stop(self) -> None:
        self._run_in_loop(self._leave())
        super().stop()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def make_app(self) -> Asgi:
        return Starlette(routes=[Route("/{path:path}", self._forward, methods=["GET", "PUT", "POST", "DELETE"])])

    def _run_in_loop(self, work: Coroutine[Any, Any, T], patience: float = 3 * PATIENCE_S) -> T:
        return super()._run_in_loop(work, patience)  # several waits

    async def _prepare(self) -> None:
        self._http = httpx2.AsyncClient(base_url=self._server_url, timeout=None, trust_env=False)
        self._bot = await self._register("bot")
        for person in ("ann", "bob"):
            await self._add_person(person)
        await self._make_room("team", "ann", ["bob"])
        for person in ("ann", "bob"):
            await self._make_room(f"direct:{person}", person, [])
        # The first start of a bot publishes its keys. Before that nobody could write to it in an encrypted room.
        channel, deps = make_channel(self)
        async with listening(channel, ReceivedEvents()):
            await until(lambda: deps.cursor.saved, "the first sync of the bot")  # type: ignore[attr-defined]
            for name, client in self._people.items():
                await until(partial(self._has_joined, name), "the bot to accept its invitation")
                if self._encrypted:
                    await until(partial(self._has_keys, client), "the keys of the bot")
            await self._wait_for_direct()

    async def _wait_for_direct(self) -> None:
        """The bot has written down which rooms are private: it does so after it has joined them."""
        assert self._bot is not None and self._http is not None
        path = f"/_matrix/client/v3/user/{quote(self._bot.user_id, safe='')}/account_data/m.direct"
        wanted = {room_id for room, room_id in self._rooms.items() if room.startswith("direct:")}
        known: set[str] = set()
        async with asyncio.timeout(PATIENCE_S):
            while not wanted <= known:
                answer = await self._http.get(path, headers={"Authorization": f"Bearer {self._bot.access_token}"})
                known = {each for found in answer.json().values() if isinstance(found, list) for each in found}

    def _has_joined(self, person: str) -> bool:
        assert self._bot is not None
        member = self._people[person].rooms[self._rooms[f"direct:{person}"]].users.get(self._bot.user_id)
        return member is not None and not member.invited

    def _has_keys(self, client: AsyncClient) -> bool:
        assert self._bot is not None
        return any(client.device_store.active_user_devices(self._bot.user_id))

    async def _leave(self) -> None:
        for task in self._syncs:
            task.cancel()
        await asyncio.gather(*self._syncs, return_exceptions=True)
        clients = [*self._people.values(), *([self._bot] if self._bot else [])]
        for client in clients:
            await client.close()
        if self._http is not None:
            await self._http.aclose()

    async def _register(self, name: str) -> AsyncClient:
        config = AsyncClientConfig(
            store=SqliteMemoryStore,
            encryption_enabled=name != "bot",
            request_timeout=30,
            max_timeout_retry_wait_time=1,  # of a server that is away for a while
        )
        client = AsyncClient(self._server_url, f"{name}-{self._mark}", config=config)
        answer = await client.register(f"{name}-{self._mark}", PASSWORD, device_name=name)
        client.restore_login(answer.user_id, answer.device_id, answer.access_token)
        return client

    async def _add_person(self, name: str) -> AsyncClient:
        if name in self._people:
            return self._people[name]
        client = self._people[name] = await self._register(name)

        async def see(room: MatrixRoom, event: Event) -> None:
            await self._see(name, room.room_id, event)

        client.add_event_callback(see, (Event,))
        self._syncs.append(asyncio.create_task(client.sync_forever(timeout=30_000, full_state=True)))
        return client

    async def _make_room(self, room: str, owner: str, others: Sequence[str]) -> None:
        assert self._bot is not None
        direct = room.startswith("direct:")
        invited = [self._bot.user_id, *(self._people[each].user_id for each in others)]
        made = await self._people[owner].room_create(
            name="" if direct else room,
            invite=invited,
            is_direct=direct,
            initial_state=[ENCRYPTION] if self._encrypted else [],
            room_version="12",  # whose maker has every right, and whose id names no server
            power_level_override={"users": {self._bot.user_id: 50}},
        )
        with self.changed:
            self._rooms[room] = made.room_id
        for client in (*(self._people[each] for each in others), *(() if direct else (self._bot,))):
            await client.join(made.room_id)
        for client in (self._people[each] for each in (owner, *others)):
            await until(partial(client.rooms.__contains__, made.room_id), "the room")

    # How a channel is pointed at it.

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": self.url, "inviters": (f"*:{SERVER_NAME}",)}

    def get_secrets(self) -> dict[str, str]:
        assert self._bot is not None
        return {"token": self._bot.access_token}

    def get_address(self, room: str) -> str:
        return f"matrix:{self._rooms[room]}"

    def get_sender(self, person: str) -> str:
        return f"matrix:user/@{person}-{self._mark}:{SERVER_NAME}"

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        return self._run_in_loop(self._send(given))

    async def _send(self, given: GivenMessage) -> str:
        assert self._bot is not None
        content: dict[str, Any] = {"msgtype": "m.text", "body": given.text, "m.mentions": {}}
        if given.mention:
            content["body"] = f"{self._bot.user_id}: {given.text}"
            content["m.mentions"] = {"user_ids": [self._bot.user_id]}
        if given.thread:
            content["m.relates_to"] = {"rel_type": "m.thread", "event_id": given.thread, "is_falling_back": True}
            content["m.relates_to"]["m.in_reply_to"] = {"event_id": given.thread}
        elif given.reply_to:
            content["m.relates_to"] = {"m.in_reply_to": {"event_id": given.reply_to}}
        sent = ""
        for number, file in enumerate(given.files):
            shown = await self._upload(given.sender, file)
            whole = content | shown if number == 0 else {"m.mentions": {}, "body": file.name} | shown
            if not whole["body"]:
                whole["body"] = file.name
            event = await self._put(given.sender, given.room, "m.room.message", whole)
            sent = sent or event
        return sent or await self._put(given.sender, given.room, "m.room.message", content)

    async def _upload(self, sender: str, file: GivenFile) -> dict[str, Any]:
        client, kind = self._people[sender], file.mime.partition("/")[0]
        answer, keys = await client.upload(
            lambda *_: file.data, content_type=file.mime, encrypt=self._encrypted, filesize=len(file.data)
        )
        where = {"file": keys | {"url": answer.content_uri}} if keys else {"url": answer.content_uri}
        return {
            "msgtype": f"m.{kind}" if kind in ("image", "audio", "video") else "m.file",
            "filename": file.name,
            "info": {"mimetype": file.mime, "size": len(file.data)},
            **where,
        }

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        content = {
            "msgtype": "m.text",
            "body": f"* {text}",
            "m.new_content": {"msgtype": "m.text", "body": text},
            "m.relates_to": {"rel_type": "m.replace", "event_id": message},
        }
        self._run_in_loop(self._put(sender, room, "m.room.message", content))
        return message

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        self._run_in_loop(self._people[sender].room_redact(self._rooms[room], message))
        return message

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        relation = {"rel_type": "m.annotation", "event_id": message, "key": emoji}
        self._run_in_loop(self._put(sender, room, "m.reaction", {"m.relates_to": relation}))
        return message

    def join(self, room: str, *, sender: str = "ann") -> str:
        return self._run_in_loop(self._join(room, sender))

    async def _join(self, room: str, sender: str) -> str:
        room_id = self._rooms[room]
        client = await self._add_person(sender)
        if room_id in client.rooms:
            await client.room_leave(room_id)
        await self._people["bob" if sender == "ann" else "ann"].room_invite(room_id, client.user_id)
        await client.join(room_id)
        path = f"/_matrix/client/v3/rooms/{room_id}/state/m.room.member/{client.user_id}?format=event"
        answer = await client.send("GET", path, headers={"Authorization": f"Bearer {client.access_token}"})
        return str((await answer.json())["event_id"])

    async def _put(self, sender: str, room: str, kind: str, content: dict[str, Any]) -> str:
        client = await self._add_person(sender)
        answer = await client.room_send(self._rooms[room], kind, content, ignore_unverified_devices=True)
        return str(answer.event_id)

    # Visible state.

    def get_typing(self) -> list[str]:
        with self.changed:
            return list(self._typing)

    async def _see(self, observer: str, room_id: str, event: Event) -> None:
        room = next((name for name, each in self._rooms.items() if each == room_id), "")
        if observer != ("ann" if room == "team" else room.removeprefix("direct:")):
            return
        content = event.source.get("content") or {}
        files = await self._fetch(observer, content) if event.source.get("type") == "m.room.message" else []
        with self.changed:
            self._note(room, event, content, files)
            self._seen.add(event.event_id)
            self.changed.notify_all()

    def _note(self, room: str, event: Event, content: dict[str, Any], files: list[GivenFile]) -> None:
        known = {each.id: each for each in self.record}
        relation = content.get("m.relates_to") or {}
        target = known.get(relation.get("event_id", ""))
        sender = event.sender[1:].partition(":")[0].removesuffix(f"-{self._mark}")
        match event.source.get("type"):
            case "m.room.message" if relation.get("rel_type") == "m.replace" and target:
                target.text, target.edits = read_shown_text(content["m.new_content"]), target.edits + 1
                target.raw = content
            case "m.room.message" | "m.room.encrypted":
                shown = read_shown(event, room, sender, content, files)
                shown.key = self._keys.get(event.event_id, "")
                if event.event_id not in known:
                    self.record.append(shown)
            case "m.reaction" if target:
                target.reactions = [*target.reactions, (relation["key"], sender)]
            case "m.room.redaction":
                gone = known.get(content.get("redacts") or event.source.get("redacts", ""))
                if gone:
                    gone.deleted = True
            case "m.room.pinned_events":
                for each in self.record:
                    if each.room == room:
                        each.pinned = each.id in content.get("pinned", [])

    async def _fetch(self, observer: str, content: dict[str, Any]) -> list[GivenFile]:
        hidden = content.get("file") or {}
        url = hidden.get("url") or content.get("url")
        if not url:
            return []
        data = (await self._people[observer].download(url)).body
        if hidden:
            data = decrypt_attachment(data, hidden["key"]["k"], hidden["hashes"]["sha256"], hidden["iv"])
        name = content.get("filename") or content["body"]
        return [GivenFile(name, data, (content.get("info") or {}).get("mimetype", ""))]

    # The proxy between the bot and the server.

    async def _forward(self, request: Request) -> Response:
        path = request.scope["raw_path"].decode()
        try:
            body = await request.body()
        except ClientDisconnect:
            return Response()  # which nobody reads
        with self.changed:
            self.requests.append((request.method, unquote(path)))
        if self.is_faulty(PlatformFault.UNAUTHORIZED):
            return refuse("token", soft_logout=False)
        fault = self.claim_fault(*_SEND_FAULTS) if _SENDS.match(path) else None
        match fault:
            case PlatformFault.FORBIDDEN:
                return refuse("rights in a room")
            case PlatformFault.RATE_LIMIT:
                limited = refuse("pace", retry_after_ms=int(self.retry_after * 1000))
                limited.headers["Retry-After"] = str(math.ceil(self.retry_after))
                return limited
            case PlatformFault.BUSY:
                return refuse("a server that is busy")
        assert self._http is not None
        query = f"?{request.url.query}" if request.url.query else ""
        kept = {name: value for name, value in request.headers.items() if name not in ("host", "accept-encoding")}
        answer = await self._http.request(request.method, f"{path}{query}", content=body, headers=kept)
        await self._note_request(path, body, answer)
        await self._wait_until_seen(path, answer)
        if fault is PlatformFault.NO_ANSWER:
            self.abort_connection(request.scope)
        content = answer.content
        if path.endswith("/sync"):
            content = await self._spoil_sync(content)
        return Response(content, answer.status_code, media_type=answer.headers.get("content-type"))

    async def _note_request(self, path: str, body: bytes, answer: httpx2.Response) -> None:
        with self.changed:
            if _SENDS.match(path) and answer.status_code == 200:
                event = answer.json()["event_id"]
                self._keys[event] = path.rpartition("/")[2]
            if (found := _TYPING.match(path)) and json.loads(body).get("typing"):
                room_id = unquote(found[1])
                self._typing += [name for name, each in self._rooms.items() if each == room_id]
            if (found := _RECEIPT.match(path)) and answer.status_code == 200:
                self.receipts.append((unquote(found[1]), json.loads(body).get("thread_id", "")))
            self.changed.notify_all()

    async def _wait_until_seen(self, path: str, answer: httpx2.Response) -> None:
        """The bot is answered once people see it, so that a test need not wait for what they see."""
        room_id = unquote(path.split("/")[5]) if _SENDS.match(path) and answer.status_code == 200 else ""
        if room_id in self._rooms.values():
            event = answer.json()["event_id"]
            await until(lambda: event in self._seen, "people to see what the bot sent")

    async def _spoil_sync(self, content: bytes) -> bytes:
        while self.is_faulty(PlatformFault.HELD_POLL):  # noqa: ASYNC110  `changed` is of threads, not of this loop
            await asyncio.sleep(0.02)
        answer = json.loads(content)
        for room in (answer.get("rooms") or {}).get("join", {}).values():
            events = room["timeline"]["events"]
            if events and self.claim_fault(PlatformFault.DUPLICATE):
                events.append(events[-1])
        return json.dumps(answer).encode()


def refuse(name: str, **more: Any) -> Response:
    """The refusal of a rule, where the proxy makes it in the server's place."""
    code, _, error = BY_NAME[name].refusal.partition(": ")
    return JSONResponse({"errcode": code, "error": error, **more}, BY_NAME[name].status)


def guard_stores() -> None:
    peewee._BoundModelsContext = _OneStoreAtATime
