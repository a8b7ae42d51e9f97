"""An emulated Mastodon server with one bot account: posts, notifications, the stream, media, favourites and boosts.

It keeps to the REST API and the stream (server-sent events) for what our channel and Mastodon.py use. It does not have:
other servers, timelines, polls, content filters, time limits, or a stream for people whom the bot does not follow.
"""

import html
import re
import time
import unicodedata
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from gatepost_testing.platform_rules.mastodon import BY_NAME, TAKEN
from gatepost_testing.platforms import pings
from gatepost_testing.platforms.base import Asgi, GivenFile, GivenMessage, PlatformFault, ShownMessage
from gatepost_testing.platforms.rest import RestPlatform, make_id
from gatepost_testing.platforms.wire.mastodon_objects import BOT_NAME, describe_account, read_form, render_json

KEEPS_KEYS_S = 3600.0
LIMIT = BY_NAME["text length"].limit
FAULTS = {401: "token", 403: "right to post", 429: "rate limit", 503: "server away"}  # by their rules
_LINK, _SERVER = re.compile(r"https?://[^\s]+"), re.compile(r"(@\w+)@[\w.-]+")
THUMP_S = 15.0


class MastodonPlatform(RestPlatform):
    kind = "mastodon"
    ping_rule = pings.MASTODON
    cannot: ClassVar[frozenset[str]] = frozenset({"click"})
    only_mentions: ClassVar[bool] = True
    sample_file = ("data.png", "image/png")
    faults = RestPlatform.faults | {PlatformFault.HELD_POLL, PlatformFault.REORDER, PlatformFault.NO_RIGHTS}

    def __init__(self) -> None:
        super().__init__()
        self._people = {"bot": "1"}
        self._statuses: dict[str, dict[str, Any]] = {}
        self._notes: list[dict[str, Any]] = []
        self._media: dict[str, GivenFile] = {}
        self._keys: dict[str, tuple[str, float]] = {}
        self._events: list[str] = []  # of the stream, as they are written
        self._streams = 0
        self.processing = 0  # so many looks until an uploaded file is ready

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": self.url}

    def get_secrets(self) -> dict[str, str]:
        return {"token": self.token}

    def get_address(self, room: str) -> str:
        if room.startswith("direct:"):
            return f"mastodon:direct/{self._get_account(room.partition(':')[2])}"
        return "mastodon:feed"

    def get_sender(self, person: str) -> str:
        return f"mastodon:account/{self._get_account(person)}"

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        """Every post that reaches the bot names it."""
        visibility = "direct" if given.room.startswith("direct:") else "public"
        with self.changed:
            media = [self._add_media(each) for each in given.files]
            status = self._add_status(
                given.room,
                given.sender,
                f"@{BOT_NAME} {given.text}",
                visibility,
                given.reply_to or given.thread or None,
                media,
                given.text,
            )
            self._add_note("mention", given.sender, status)
            return str(status["id"])

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        with self.changed:
            status = self._statuses[message]
            self._edit_status(status, f"@{BOT_NAME} {text}", text)
            self.deliver(f"event: status.update\ndata: {render_json(status)}\n\n")
        return message

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        with self.changed:
            del self._statuses[message]
            self.find(message).deleted = True
            self.deliver(f"event: delete\ndata: {message}\n\n")
        return message

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        with self.changed:
            self.find(message).reactions.append(("⭐", sender))
            self._add_note("favourite", sender, self._statuses[message])
        return message

    def join(self, room: str, *, sender: str = "ann") -> str:
        with self.changed:
            return f"follow-{self._add_note('follow', sender, None)['id']}"

    def count_streams(self) -> int:
        with self.changed:
            return self._streams

    # Effects on the server. Called with `changed` held.

    def _get_account(self, person: str) -> str:
        return self._people.setdefault(person, str(len(self._people) + 1))

    def _describe(self, person: str) -> dict[str, Any]:
        return describe_account(self._get_account(person), BOT_NAME if person == "bot" else person, self.url)

    def _add_media(self, file: GivenFile) -> str:
        media = make_id(length=18)
        self._media[media] = file
        return media

    def _describe_media(self, media: str, ready: bool = True) -> dict[str, Any]:
        file = self._media[media]
        url = f"{self.url}/media/{media}/{file.name}" if ready else None
        kind = file.mime.partition("/")[0]
        known = kind if kind in ("image", "video", "audio") else "unknown"
        return {"id": media, "type": known, "url": url, "preview_url": url, "description": None, "meta": {}}

    def _add_status(
        self,
        room: str,
        sender: str,
        text: str,
        visibility: str,
        answers: str | None = None,
        media: Sequence[str] = (),
        shown: str | None = None,
        quoted: str | None = None,
    ) -> dict[str, Any]:
        number = str(len(self.record) + 1000)
        named = [each for each in self._people if f"@{BOT_NAME if each == 'bot' else each}" in text]
        parent = self._statuses.get(answers or "")
        status: dict[str, Any] = {
            "id": number,
            "uri": f"{self.url}/statuses/{number}",
            "url": f"{self.url}/@{sender}/{number}",
            "created_at": _now(),
            "edited_at": None,
            "account": self._describe(sender),
            "content": f"<p>{html.escape(text)}</p>".replace("\n", "<br />"),
            "visibility": visibility,
            "in_reply_to_id": answers,
            "in_reply_to_account_id": parent["account"]["id"] if parent else None,
            "mentions": [self._describe(each) for each in named],
            "media_attachments": [self._describe_media(each) for each in media],
            "spoiler_text": "",
            "sensitive": False,
            "tags": [],
            "emojis": [],
            "reblog": None,
            "favourites_count": 0,
            "quote": {"state": "accepted", "quoted_status": self._statuses[quoted]} if quoted else None,
        }
        self._statuses[number] = status
        self._show(status, room, sender, text if shown is None else shown, media)
        return status

    def _show(self, status: dict[str, Any], room: str, sender: str, text: str, media: Sequence[str]) -> None:
        self.record.append(
            ShownMessage(
                id=status["id"],
                room=room,
                sender=sender,
                text=text,
                raw=status,
                thread=self._find_root(status) if status["in_reply_to_id"] else "",
                reply_to=status["in_reply_to_id"] or "",
                files=[self._media[each] for each in media],
            )
        )

    def _find_root(self, status: dict[str, Any]) -> str:
        while status["in_reply_to_id"] in self._statuses:
            status = self._statuses[status["in_reply_to_id"]]
        return str(status["id"])

    def _edit_status(self, status: dict[str, Any], text: str, shown: str) -> None:
        status["content"], status["edited_at"] = f"<p>{html.escape(text)}</p>", _now()
        found = self.find(status["id"])
        found.text, found.edits = shown, found.edits + 1

    def _add_note(self, name: str, sender: str, status: dict[str, Any] | None) -> dict[str, Any]:
        note = {"id": str(len(self._notes) + 1), "type": name, "created_at": _now(), "account": self._describe(sender)}
        self._notes.append({**note, **({"status": dict(status)} if status else {})})
        self.deliver(f"event: notification\ndata: {render_json(self._notes[-1])}\n\n")
        return self._notes[-1]

    # The stream.

    def push(self, event: str) -> None:
        self._events.append(event)

    async def _serve_stream(self, request: Request) -> Response:
        return StreamingResponse(self._write_stream(), media_type="text/event-stream")

    async def _write_stream(self) -> AsyncIterator[str]:
        with self.changed:
            place = len(self._events)
            self._streams += 1
        try:
            yield ":)\n"
            while True:
                held = self.is_faulty(PlatformFault.HELD_POLL)
                if not held and len(self._events) > place:
                    place += 1
                    yield self._events[place - 1]
                    continue
                at = place

                def has_news(at: int = at, held: bool = held) -> bool:
                    now_held = self.is_faulty(PlatformFault.HELD_POLL)
                    return now_held != held or (not now_held and len(self._events) > at)

                if not await self.wait_until(has_news, THUMP_S) and not held:
                    yield ":thump\n"
        finally:
            with self.changed:
                self._streams -= 1

    # REST.

    def make_app(self) -> Asgi:
        v1 = "/api/v1"
        routes = [
            self.route("GET", f"{v1}/accounts/verify_credentials", self._get_me),
            self.route("GET", f"{v1}/accounts/{{account}}", self._get_person),
            self.route("GET", "/api/v2/instance", self._get_instance, open_to_all=True),
            self.route("GET", f"{v1}/instance", self._get_instance, open_to_all=True),
            self.route("GET", f"{v1}/notifications", self._list_notes),
            self.route("GET", f"{v1}/streaming/user", self._serve_stream),
            self.route("GET", f"{v1}/streaming/health", self._get_health, open_to_all=True),
            self.route("POST", f"{v1}/statuses", self._create_status, sends=True),
            self.route("GET", f"{v1}/statuses/{{status}}", self._get_status),
            self.route("PUT", f"{v1}/statuses/{{status}}", self._put_status, sends=True),
            self.route("DELETE", f"{v1}/statuses/{{status}}", self._remove_status, sends=True),
            self.route("GET", f"{v1}/statuses/{{status}}/context", self._get_context),
            self.route("POST", f"{v1}/statuses/{{status}}/favourite", self._favourite, sends=True),
            self.route("POST", f"{v1}/statuses/{{status}}/reblog", self._reblog, sends=True),
            self.route("POST", "/api/v2/media", self._upload),
            self.route("GET", f"{v1}/media/{{media}}", self._get_media),
            self.route("GET", "/media/{media}/{name}", self._download, open_to_all=True),
        ]
        return Starlette(routes=routes)

    def render_error(self, status: int, words: str, headers: dict[str, str] | None = None) -> Response:
        if status == 429:  # the moment at which its window ends
            end = datetime.fromtimestamp(time.time() + self.retry_after, UTC).isoformat().replace("+00:00", "Z")
            headers = {"X-RateLimit-Limit": "300", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": end}
        return refuse(FAULTS[status], headers)

    async def _get_health(self, request: Request) -> Response:
        return Response("OK", media_type="text/plain")

    async def _get_me(self, request: Request) -> Response:
        return JSONResponse({**self._describe("bot"), "source": {"privacy": "public"}})

    async def _get_person(self, request: Request) -> Response:
        account = request.path_params["account"]
        person = next((each for each, number in self._people.items() if number == account), "")
        return JSONResponse(self._describe(person)) if person else refuse("known account")

    async def _get_instance(self, request: Request) -> Response:
        stream = self.url.replace("http", "ws")
        limits = {"max_characters": LIMIT, "max_media_attachments": 4}
        told = {"urls": {"streaming": stream}, "statuses": limits}
        more = {"version": "4.5.0", "api_versions": {"mastodon": 7}, "urls": {"streaming_api": stream}}
        return JSONResponse({"domain": "mastodon.test", "title": "Emulated", "configuration": told, **more})

    async def _list_notes(self, request: Request) -> Response:
        asked = request.query_params
        limit = int(asked.get("limit", 40))
        with self.changed:
            wanted = asked.getlist("types[]")
            found = [each for each in self._notes if not wanted or each["type"] in wanted]
            if "min_id" in asked:
                found = [each for each in found if int(each["id"]) > int(asked["min_id"])][:limit]
            return JSONResponse(found[::-1][:limit])

    async def _create_status(self, request: Request) -> Response:
        if self.is_faulty(PlatformFault.NO_RIGHTS):
            return refuse("scope")
        asked = await read_form(request)
        key, text = request.headers.get("idempotency-key", ""), str(asked.get("status") or "")
        media = [str(each) for each in asked.get("media_ids") or []]
        with self.changed:
            known, until = self._keys.get(key, ("", 0.0))
            if key and until > time.monotonic() and known in self._statuses:
                return JSONResponse(self._statuses[known])
            answers, quoted = asked.get("in_reply_to_id"), asked.get("quoted_status_id")
            visibility = str(asked.get("visibility") or "public")
            if wrong := self._check(text, media, str(answers or ""), str(quoted or ""), visibility):
                return refuse(wrong)
            named = [each for each in self._people if each != "bot" and f"@{each}" in text]
            room = f"direct:{named[0]}" if visibility == "direct" and named else "team"
            plain = " ".join(each for each in text.split(" ") if each.removeprefix("@") not in named)
            status = self._add_status(room, "bot", text, visibility, answers, media, plain, quoted)
            self.find(status["id"]).key = key
            if key:
                self._keys[key] = (status["id"], time.monotonic() + KEEPS_KEYS_S)
            return JSONResponse(status)

    def _check(self, text: str, media: list[str], answers: str, quoted: str, visibility: str) -> str:
        """Return the name of the rule that a post breaks."""
        if answers and answers not in self._statuses:
            return "answered post"
        if quoted and quoted not in self._statuses:
            return "quoted post"
        if len(media) > BY_NAME["number of files"].limit:
            return "number of files"
        if any(each not in self._media for each in media):
            return "known file"
        if len(media) > 1 and any(not self._media[each].mime.startswith("image/") for each in media):
            return "pictures or one film"
        if self.processing and media:
            return "file that is ready"
        if visibility not in ("public", "unlisted", "private", "direct"):
            return "kind of visibility"
        if not text.strip() and not media and not quoted:
            return "empty post"
        return "text length" if count_shown(text) > LIMIT else ""

    def _find_status(self, request: Request) -> dict[str, Any] | None:
        return self._statuses.get(request.path_params["status"])

    async def _get_status(self, request: Request) -> Response:
        status = self._find_status(request)
        return JSONResponse(status) if status else refuse("known post")

    async def _put_status(self, request: Request) -> Response:
        asked = await read_form(request)
        with self.changed:
            status = self._find_status(request)
            if status is None or status["account"]["id"] != "1":
                return refuse("post to edit")
            text = str(asked["status"])
            if not text.strip() and not status["media_attachments"]:
                return refuse("empty edit")
            if count_shown(text) > LIMIT:
                return refuse("length of an edit")
            plain = " ".join(each for each in text.split(" ") if each.removeprefix("@") not in self._people)
            self._edit_status(status, text, plain)
            return JSONResponse(status)

    async def _remove_status(self, request: Request) -> Response:
        with self.changed:
            status = self._find_status(request)
            if status is None or status["account"]["id"] != "1":
                return refuse("post to delete")
            del self._statuses[status["id"]]
            self.find(status["id"]).deleted = True
            return JSONResponse(status)

    async def _get_context(self, request: Request) -> Response:
        with self.changed:
            status = self._find_status(request)
            before: list[dict[str, Any]] = []
            if status is None:
                return refuse("known post")
            while status["in_reply_to_id"] in self._statuses:
                status = self._statuses[status["in_reply_to_id"]]
                before.insert(0, status)
            return JSONResponse({"ancestors": before, "descendants": []})

    async def _favourite(self, request: Request) -> Response:
        with self.changed:
            status = self._find_status(request)
            if status is None:
                return refuse("post to favourite")
            shown = self.find(status["id"])
            if ("⭐", "bot") not in shown.reactions:
                shown.reactions.append(("⭐", "bot"))
            return JSONResponse({**status, "favourited": True})

    async def _reblog(self, request: Request) -> Response:
        with self.changed:
            status = self._find_status(request)
            if status is None or status["visibility"] == "direct":
                return refuse("known post" if status is None else "post to boost")
            known = [
                each for each in self._statuses.values() if each["reblog"] and each["reblog"]["id"] == status["id"]
            ]
            made = known[0] if known else self._add_status("team", "bot", "", "public", shown=f"boosts {status['id']}")
            made["reblog"] = status
            return JSONResponse(made)

    async def _upload(self, request: Request) -> Response:
        async with request.form() as form:
            given = next(each for each in form.values() if not isinstance(each, str))
            mime = given.content_type or "application/octet-stream"
            file = GivenFile(given.filename or "file", await given.read(), mime)
        if file.mime not in TAKEN:
            return refuse("type of a file")
        if file.mime.startswith("image/") and len(file.data) >= BY_NAME["size of a picture"].limit:
            return refuse("size of a picture")
        with self.changed:
            media = self._add_media(file)
        ready = self.processing == 0
        return JSONResponse(self._describe_media(media, ready), 200 if ready else 202)

    async def _get_media(self, request: Request) -> Response:
        media = request.path_params["media"]
        if media not in self._media:
            return refuse("known upload")
        with self.changed:
            self.processing = max(self.processing - 1, 0)
            ready = self.processing == 0
        return JSONResponse(self._describe_media(media, ready), 200 if ready else 206)

    async def _download(self, request: Request) -> Response:
        file = self._media[request.path_params["media"]]
        return Response(file.data, media_type=file.mime)


def refuse(name: str, headers: dict[str, str] | None = None) -> Response:
    """The refusal of a rule."""
    return JSONResponse({"error": BY_NAME[name].refusal}, BY_NAME[name].status, headers)


def count_shown(text: str) -> int:
    """As the server counts: a link is 23, a name has no server, and signs that are joined are one."""
    plain = _SERVER.sub(r"\1", _LINK.sub("x" * 23, text))
    return sum(not unicodedata.combining(each) and each not in "\u200d\ufe0f" for each in plain)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
