"""An emulated ntfy server: publishing as JSON, the JSON stream of topics with `since` and `poll`, and attachments.

It keeps to the documented API for what our channel uses. It does not have: SSE, websockets and raw streams, scheduled
messages, actions, priorities, e-mail, filters, accounts, or an end to what is cached.
"""

import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from gatepost.testing.platforms.base import Asgi, GivenFile, NotOffered, PlatformFault, ShownMessage
from gatepost.testing.platforms.rest import RestPlatform, make_id

KEEPALIVE_S = 45.0
TOPICS = ("team", "alerts")
LIMIT = 4096


class NtfyPlatform(RestPlatform):
    kind = "ntfy"
    cannot: ClassVar[frozenset[str]] = frozenset({"edit", "delete", "react", "join", "click"})
    has_direct: ClassVar[bool] = False
    faults = RestPlatform.faults | {PlatformFault.HELD_POLL, PlatformFault.REORDER}
    token = "tk_emulated"

    def __init__(self) -> None:
        super().__init__()
        self._cache: list[dict[str, Any]] = []  # as they are delivered
        self._files: dict[str, GivenFile] = {}

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": self.url, "topics": TOPICS, "protected": True}

    def get_secrets(self) -> dict[str, str]:
        return {"token": self.token}

    def get_address(self, room: str) -> str:
        return f"ntfy:{room}"

    def get_sender(self, person: str) -> str:
        """Nobody signs."""
        return "ntfy:user/anybody"

    # What people do.

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
    ) -> str:
        if room.startswith("direct:"):
            raise NotOffered
        if len(files) > 1:  # a message has at most one
            for each in files[:-1]:
                self._publish(room, sender, "", [], each)
        return str(self._publish(room, sender, text, [], files[-1] if files else None)["id"])

    def _publish(
        self, topic: str, sender: str, text: str, tags: list[str], file: GivenFile | None = None
    ) -> dict[str, Any]:
        with self.changed:
            made: dict[str, Any] = {
                "id": make_id(length=12),
                "time": int(time.time()),
                "expires": int(time.time()) + 12 * 3600,
                "event": "message",
                "topic": topic,
                "message": text,
            }
            if tags:
                made["tags"] = tags
            if file is not None:
                self._files[made["id"]] = file
                made["message"] = text or f"You received a file: {file.name}"
                url = f"{self.url}/file/{made['id']}.bin"
                made["attachment"] = {"name": file.name, "type": file.mime, "size": len(file.data), "url": url}
            shown = ShownMessage(id=made["id"], room=topic, sender=sender, text=text, raw=made)
            shown.files = [file] if file is not None else []
            self.record.append(shown)
            self.deliver(made)
            return made

    def push(self, event: Any) -> None:
        self._cache.append(event)

    # What the bot asks for.

    def make_app(self) -> Asgi:
        return Starlette(
            routes=[
                self.route("POST", "/", self._post, sends=True),
                self.route("GET", "/{topics}/json", self._subscribe),
                self.route("GET", "/file/{name}", self._get_file),
            ]
        )

    def render_error(self, status: int, words: str, headers: dict[str, str] | None = None) -> Response:
        return JSONResponse({"code": status * 100 + 1, "http": status, "error": words}, status, headers)

    async def _post(self, request: Request) -> Response:
        try:
            given = await request.json()
            topic, text = str(given["topic"]), str(given.get("message", "triggered"))
        except (ValueError, KeyError, TypeError, AttributeError):
            return self.render_error(400, "invalid request: request body must be valid JSON")
        if len(text.encode()) > LIMIT:
            return self.render_error(413, "a message of this size would become an attachment, which is not emulated")
        return JSONResponse(self._publish(topic, "bot", text, list(given.get("tags", ()))))

    async def _subscribe(self, request: Request) -> Response:
        topics = set(request.path_params["topics"].split(","))
        since, poll = request.query_params.get("since", ""), request.query_params.get("poll") == "1"
        with self.changed:
            start = self._find_start(since or ("all" if poll else ""))
            names = ",".join(sorted(topics))
        if poll:
            with self.changed:
                found = [each for each in self._cache[start:] if each["topic"] in topics]
            return Response("".join(_render(each) for each in found), media_type="application/x-ndjson")
        return StreamingResponse(self._stream(topics, names, start), media_type="application/x-ndjson")

    def _find_start(self, since: str) -> int:
        """`all`, a moment, a duration in seconds, or the id of the last message that was seen; an id that is not
        cached any more counts as `all`."""
        if since in ("", "all"):
            return 0 if since else len(self._cache)
        ids = [each["id"] for each in self._cache]
        if since in ids:
            return len(ids) - ids[::-1].index(since)
        seconds = since.removesuffix("s")
        if seconds.isdecimal():
            moment = int(seconds) if seconds == since else int(time.time()) - int(seconds)
            return next((at for at, each in enumerate(self._cache) if each["time"] >= moment), len(self._cache))
        return 0

    async def _stream(self, topics: set[str], names: str, start: int) -> AsyncIterator[str]:
        if not self.is_faulty(PlatformFault.HELD_POLL):
            yield _render({"id": make_id(length=12), "time": int(time.time()), "event": "open", "topic": names})
        at = start
        while True:
            with self.changed:
                held = self.is_faulty(PlatformFault.HELD_POLL)
                found = [] if held else self._cache[at:]
                at += len(found)
            for each in found:
                if each["topic"] in topics:
                    yield _render(each)
            news = await self.wait_until(lambda at=at: self._has_news(at), KEEPALIVE_S)  # type: ignore[misc]
            if not news and not held:
                yield _render(
                    {"id": make_id(length=12), "time": int(time.time()), "event": "keepalive", "topic": names}
                )

    def _has_news(self, at: int) -> bool:
        with self.changed:
            return len(self._cache) > at and not self.is_faulty(PlatformFault.HELD_POLL)

    async def _get_file(self, request: Request) -> Response:
        with self.changed:
            file = self._files.get(request.path_params["name"].removesuffix(".bin"))
        return Response(file.data, media_type=file.mime) if file else self.render_error(404, "page not found")


def _render(event: dict[str, Any]) -> str:
    return json.dumps(event) + "\n"
