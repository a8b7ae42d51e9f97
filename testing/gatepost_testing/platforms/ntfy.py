"""An emulated ntfy server: topics, a cache, streams of JSON lines, sequences that renew and remove messages.

It keeps to the HTTP API for what our channel uses. It does not have: schedules, actions, priorities, uploads by PUT,
e-mail, phones, limits by visitor, web push, accounts other than one, and a cache that forgets.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from gatepost_testing.markdown_scanner import strip_markdown
from gatepost_testing.platform_rules.ntfy import BY_NAME
from gatepost_testing.platforms.base import Asgi, GivenFile, NotOffered, PlatformFault, ShownMessage
from gatepost_testing.platforms.rest import RestPlatform, make_id

KEEPALIVE_S = 5.0
TOPIC = re.compile(r"[-_A-Za-z0-9]{1,64}")
RESERVED = frozenset({"docs", "static", "file", "app", "metrics", "account", "settings", "signup", "login", "v1"})
SINCE = re.compile(r"all|latest|none|[A-Za-z0-9]{12}|-?[0-9]+|(?:[0-9.]+(?:ns|us|ms|s|m|h))+")
OF_A_STATUS = {  # of faults that any request may have
    401: "token",
    403: "right to publish",
    429: "pace",
    503: "a server that is busy",
}
USER = "porter"


class NtfyPlatform(RestPlatform):
    kind = "ntfy"
    cannot: ClassVar[frozenset[str]] = frozenset({"react", "click", "join"})
    has_direct = False
    faults = RestPlatform.faults | {PlatformFault.HELD_POLL, PlatformFault.REORDER, PlatformFault.NO_RIGHTS}
    names_sequences = True  # False: as a server before 2.16

    def __init__(self) -> None:
        super().__init__()
        self.token = "tk_portertoken"
        self._lines: list[dict[str, Any]] = []  # of all topics, as the cache has them
        self._files: dict[str, GivenFile] = {}

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": self.url, "topics": ("team", "other")}

    def get_secrets(self) -> dict[str, str]:
        return {"token": self.token}

    def get_address(self, room: str) -> str:
        return f"ntfy:topic/{room}"

    def get_sender(self, person: str) -> str:
        """Nobody is proved, so all are one."""
        return "ntfy:user/anybody"

    # Actions of people.

    def send(
        self,
        text: str,
        *,
        room: str = "team",
        sender: str = "ann",
        thread: str = "",
        reply_to: str = "",
        files: Sequence[GivenFile] = (),
        mention: bool = False,
        sequence: str = "",
    ) -> str:
        """`sequence`: as a script gives it, to renew its own message later."""
        if room.startswith("direct:") or len(files) > 1:
            raise NotOffered
        with self.changed:
            more: dict[str, Any] = {}
            for file in files:
                name = f"{make_id(length=12)}.bin"
                self._files[name] = file
                url = f"{self.url}/file/{name}"
                more["attachment"] = {"name": file.name, "type": file.mime, "size": len(file.data), "url": url}
            return self._publish(room, sender, text, sequence, more)

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        with self.changed:
            return self._publish(room, sender, text, message)

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        with self.changed:
            self._remove(room, message)
        return message

    # Effects on the server. Called with `changed` held.

    def _publish(self, topic: str, sender: str, text: str, sequence: str, more: dict[str, Any] | None = None) -> str:
        number = make_id(length=12)
        line = {"id": number, "time": int(time.time()), "expires": int(time.time()) + 43_200, "event": "message"}
        line |= {"topic": topic, "message": text, **(more or {})}
        if sequence and self.names_sequences:
            line["sequence_id"] = sequence
        name = sequence if "sequence_id" in line else number
        shown = next((each for each in self.record if (each.room, each.id) == (topic, name)), None)
        words = strip_markdown(text) if sender == "bot" else text
        if shown is None:
            self.record.append(ShownMessage(id=name, room=topic, sender=sender, text=words, raw=line, key=sequence))
        else:
            shown.text, shown.raw, shown.edits, shown.deleted = words, line, shown.edits + 1, False
        self.deliver(line)
        return name

    def _remove(self, topic: str, sequence: str) -> dict[str, Any]:
        for each in self.record:
            if (each.room, each.id) == (topic, sequence):
                each.deleted = True
        line = {"id": make_id(length=12), "time": int(time.time()), "event": "message_delete", "topic": topic}
        self.deliver(line | {"sequence_id": sequence})
        return line | {"sequence_id": sequence}

    def push(self, event: dict[str, Any]) -> None:
        self._lines.append(event)

    # The API.

    def make_app(self) -> Asgi:
        routes = [
            self.route("GET", "/v1/health", self._get_health, open_to_all=True),
            self.route("GET", "/v1/account", self._get_account),
            self.route("GET", "/file/{name}", self._get_file),
            self.route("GET", "/{topic}/auth", self._get_auth),
            self.route("GET", "/{topic}/json", self._stream),
            self.route("POST", "/", self._create, sends=True),
            self.route("DELETE", "/{topic}/{sequence}", self._delete, sends=True),
            self.route("GET", "/{path:path}", self._get_nothing, open_to_all=True),
        ]
        return Starlette(routes=routes)

    def render_error(self, status: int, words: str, headers: dict[str, str] | None = None) -> Response:
        return self.refuse(OF_A_STATUS[status])

    def refuse(self, name: str) -> Response:
        """Return the refusal of a rule."""
        rule = BY_NAME[name]
        code, _, words = rule.refusal.partition(": ")
        told = {"code": int(code), "http": rule.status, "error": words, "link": "https://ntfy.sh/docs/"}
        return JSONResponse(told, rule.status)

    async def _get_health(self, request: Request) -> Response:
        return JSONResponse({"healthy": True})

    async def _get_account(self, request: Request) -> Response:
        return JSONResponse({"username": USER, "role": "user"})

    async def _get_auth(self, request: Request) -> Response:
        if self.is_faulty(PlatformFault.NO_RIGHTS):
            return self.refuse("rights in a topic")
        return JSONResponse({"success": True})

    async def _get_file(self, request: Request) -> Response:
        file = self._files.get(request.path_params["name"])
        return Response(file.data, media_type=file.mime) if file else self.refuse("known file")

    async def _create(self, request: Request) -> Response:
        try:
            body = json.loads(await request.body())
        except ValueError:
            return self.refuse("message is JSON")
        if wrong := _check_message(body, len(await request.body())):
            return self.refuse(wrong)
        with self.changed:
            name = self._publish(body["topic"], "bot", body.get("message", ""), str(body.get("sequence_id", "")))
            return JSONResponse(self.find(name).raw)

    async def _get_nothing(self, request: Request) -> Response:
        return self.refuse("known page")

    async def _delete(self, request: Request) -> Response:
        with self.changed:
            return JSONResponse(self._remove(request.path_params["topic"], request.path_params["sequence"]))

    async def _stream(self, request: Request) -> Response:
        topic, since = request.path_params["topic"], request.query_params.get("since", "none")
        if not SINCE.fullmatch(since):
            return self.refuse("place in a topic")
        with self.changed:
            place = self._find_place(since)
        if request.query_params.get("poll") == "1":
            with self.changed:
                lines = [each for each in self._lines[place:] if each["topic"] == topic]
            return Response("".join(f"{json.dumps(each)}\n" for each in lines), media_type="application/x-ndjson")
        return StreamingResponse(self._write_lines(topic, place), media_type="application/x-ndjson")

    def _find_place(self, since: str) -> int:
        """An id that the cache does not know means all of it."""
        if since == "none":
            return len(self._lines)
        if since.isdecimal() and len(since) < 12:
            return next((at for at, each in enumerate(self._lines) if each["time"] >= int(since)), len(self._lines))
        return next((at + 1 for at, each in enumerate(self._lines) if each["id"] == since), 0)

    async def _write_lines(self, topic: str, place: int) -> AsyncIterator[str]:
        yield self._render(topic, "open")

        def has_news() -> bool:
            return len(self._lines) > place and not self.is_faulty(PlatformFault.HELD_POLL)

        try:
            while True:
                if not await self.wait_until(has_news, KEEPALIVE_S):
                    if not self.is_faulty(PlatformFault.HELD_POLL):
                        yield self._render(topic, "keepalive")
                    continue
                with self.changed:
                    lines, place = self._lines[place:], len(self._lines)
                for each in lines:
                    if each["topic"] == topic:
                        yield json.dumps(each) + "\n"
        except asyncio.CancelledError:
            return

    def _render(self, topic: str, event: str) -> str:
        line = {"id": make_id(length=12), "time": int(time.time()), "event": event, "topic": topic}
        return json.dumps(line) + "\n"


def _check_message(body: dict[str, Any], size: int) -> str:
    """Return the name of the rule that a message breaks, or ''."""
    topic = str(body.get("topic", ""))
    if size > BY_NAME["size of the request"].limit:
        return "size of the request"
    if not TOPIC.fullmatch(topic):
        return "length of a topic" if len(topic) > BY_NAME["length of a topic"].limit else "name of a topic"
    if topic in RESERVED:
        return "names of the server's own"
    if not 0 <= int(body.get("priority", 0)) <= BY_NAME["priority"].limit:
        return "priority"
    return "message size" if len(str(body.get("message", "")).encode()) > BY_NAME["message size"].limit else ""
