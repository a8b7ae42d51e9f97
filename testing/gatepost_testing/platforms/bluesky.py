"""An emulated Bluesky: the server of one bot's account, what it shows of posts, and private conversations.

It keeps to XRPC for what our channel and the atproto library use. It does not have: signed repositories, the firehose,
timelines, moderation, or records of others beyond posts. Hashes of records are made up.
"""

import base64
import json
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost.messages.text_size import is_boundary
from gatepost_testing.platform_rules.bluesky import BY_NAME
from gatepost_testing.platforms import pings
from gatepost_testing.platforms.base import Asgi, GivenFile, GivenMessage, NotOffered, PlatformFault, ShownMessage
from gatepost_testing.platforms.rest import RestPlatform, make_id

BOT_HANDLE = "porter.test"
POST, LIKE, REPOST = "app.bsky.feed.post", "app.bsky.feed.like", "app.bsky.feed.repost"
FAULTS = {403: "right to post", 429: "rate limit", 503: "server away"}  # by their rules
SNIFFED = {b"\x89PNG": "image/png", b"\xff\xd8": "image/jpeg", b"<?xml": "application/xml"}  # before what is said
_KEY, _TID = re.compile(r"[\w.~:-]{1,512}"), re.compile(r"[2-7a-z]{13}")


class BlueskyPlatform(RestPlatform):
    kind = "bluesky"
    ping_rule = pings.BLUESKY
    cannot: ClassVar[frozenset[str]] = frozenset({"click", "edit"})
    only_mentions = True
    sample_file = ("data.png", "image/png")
    faults = RestPlatform.faults | {PlatformFault.HELD_POLL, PlatformFault.NO_RIGHTS}
    token = "an-app-password"

    def __init__(self) -> None:
        super().__init__()
        self._handles = {self._get_did("bot"): BOT_HANDLE}
        self._records: dict[str, dict[str, Any]] = {}  # by their address
        self._notes: list[dict[str, Any]] = []
        self._logs: list[dict[str, Any]] = []
        self._blobs: dict[str, GivenFile] = {}
        self._accesses: set[str] = set()
        self._last_moment = 0

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": self.url, "handle": BOT_HANDLE, "poll_s": 0.05}

    def get_secrets(self) -> dict[str, str]:
        return {"app_password": self.token}

    def get_address(self, room: str) -> str:
        return f"bluesky:direct/{self._get_convo(room)}" if room.startswith("direct:") else "bluesky:feed"

    def get_sender(self, person: str) -> str:
        return f"bluesky:user/{self._get_did(person)}"

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        """A post that reaches the bot names it, or answers it. Only pictures can be posted."""
        pictures = [each for each in given.files if each.mime.startswith("image/")]
        with self.changed:
            if given.room.startswith("direct:"):
                return self._add_chat(given.room, given.sender, given.text, given.reply_to)
            record: dict[str, Any] = {"$type": POST, "text": f"@{BOT_HANDLE} {given.text}", "createdAt": self._now()}
            answered = given.reply_to or given.thread
            if answered:
                record["reply"] = self._render_reply(answered)
            if pictures:
                images = [{"alt": each.name, "image": self._add_blob(each)} for each in pictures]
                record["embed"] = {"$type": "app.bsky.embed.images", "images": images}
            uri = self._add_record(given.sender, POST, make_id(length=13), record)
            self._show(uri, "team", given.sender, given.text, pictures)
            self._add_note("reply" if answered else "mention", given.sender, uri, record)
            return uri

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        if not room.startswith("direct:"):
            raise NotOffered("nobody is told that a post was deleted")
        with self.changed:
            self.find(message).deleted = True
            self._add_log("logDeleteMessage", room, message=self._view_chat(message))
        return message

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        with self.changed:
            self.find(message).reactions.append((emoji, sender))
            if room.startswith("direct:"):
                made = {"value": emoji, "sender": {"did": self._get_did(sender)}, "createdAt": self._now()}
                self._add_log("logAddReaction", room, message=self._view_chat(message), reaction=made)
            else:
                uri = f"at://{self._get_did(sender)}/{LIKE}/{make_id(length=13)}"
                record = {"$type": LIKE, "subject": self._get_ref(message), "createdAt": self._now()}
                self._add_note("like", sender, uri, record, message)
        return message

    def join(self, room: str, *, sender: str = "ann") -> str:
        key = make_id(length=13)
        with self.changed:
            uri = f"at://{self._get_did(sender)}/app.bsky.graph.follow/{key}"
            self._add_note("follow", sender, uri, {"$type": "app.bsky.graph.follow", "createdAt": self._now()})
        return f"follow-{key}"

    def expire_tokens(self) -> None:
        with self.changed:
            self._accesses.clear()

    # Effects on the server. Called with `changed` held.

    def _now(self) -> str:
        self._last_moment = max(int(time.time() * 1000), self._last_moment + 1)
        moment = datetime.fromtimestamp(self._last_moment / 1000, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _get_did(self, person: str) -> str:
        did = f"did:plc:{make_id('did', person, length=24)}"
        if person != "bot":
            self._handles.setdefault(did, f"{person}.test")
        return did

    def _get_convo(self, room: str) -> str:
        self._get_did(room.partition(":")[2])
        return make_id("convo", room, length=13)

    def _find_room(self, convo: str) -> str:
        people = [handle.partition(".")[0] for handle in self._handles.values() if handle != BOT_HANDLE]
        return next((f"direct:{each}" for each in people if self._get_convo(f"direct:{each}") == convo), "")

    def _describe(self, did: str) -> dict[str, Any]:
        handle = self._handles[did]
        return {"did": did, "handle": handle, "displayName": handle.partition(".")[0].title()}

    def _add_record(self, person: str, collection: str, key: str, record: dict[str, Any]) -> str:
        uri = f"at://{self._get_did(person)}/{collection}/{key}"
        self._records[uri] = {"uri": uri, "cid": f"bafyrei{make_id(uri, length=52)}", "value": record}
        return uri

    def _get_ref(self, uri: str) -> dict[str, str]:
        return {"uri": uri, "cid": self._records[uri]["cid"]}

    def _render_reply(self, uri: str) -> dict[str, Any]:
        reply = self._records[uri]["value"].get("reply")
        return {"root": reply["root"] if reply else self._get_ref(uri), "parent": self._get_ref(uri)}

    def _add_blob(self, file: GivenFile) -> dict[str, Any]:
        cid = f"bafkrei{make_id(length=52)}"
        self._blobs[cid] = file
        return {"$type": "blob", "ref": {"$link": cid}, "mimeType": file.mime, "size": len(file.data)}

    def _show(self, uri: str, room: str, sender: str, text: str, files: Sequence[GivenFile] = ()) -> None:
        record = self._records[uri]["value"] if uri in self._records else {}
        reply = record.get("reply") or {"root": {"uri": ""}, "parent": {"uri": ""}}
        self.record.append(
            ShownMessage(
                id=uri,
                room=room,
                sender=sender,
                text=text,
                raw=record,
                thread=reply["root"]["uri"],
                reply_to=reply["parent"]["uri"],
                files=list(files),
                key=uri.rpartition("/")[2],
            )
        )

    def _add_note(self, reason: str, sender: str, uri: str, record: dict[str, Any], subject: str = "") -> None:
        note = {
            "uri": uri,
            "cid": f"bafyrei{make_id(uri, length=52)}",
            "author": self._describe(self._get_did(sender)),
            "reason": reason,
            "record": record,
            "isRead": False,
            "indexedAt": self._now(),
            **({"reasonSubject": subject} if subject else {}),
        }
        self.deliver(note)

    def push(self, event: dict[str, Any]) -> None:
        (self._logs if "convoId" in event else self._notes).append(event)

    def _view_chat(self, message: str) -> dict[str, Any]:
        shown = self.find(message)
        sender = {"did": self._get_did(shown.sender)}
        return {"id": message, "rev": make_id(length=13), "sender": sender, "text": shown.text, "sentAt": self._now()}

    def _add_chat(self, room: str, sender: str, text: str, reply_to: str = "") -> str:
        message = make_id(length=13)
        self._show(message, room, sender, text)
        self.record[-1].reply_to = reply_to
        self._add_log("logCreateMessage", room, message=self._view_chat(message))
        return message

    def _add_log(self, name: str, room: str, **told: Any) -> None:
        entry = {"$type": f"chat.bsky.convo.defs#{name}", "convoId": self._get_convo(room), **told}
        self.deliver({**entry, "rev": f"3{len(self._logs):012d}"})

    # XRPC.

    def make_app(self) -> Asgi:
        x = "/xrpc"
        routes = [
            self.route("POST", f"{x}/com.atproto.server.createSession", self._log_in, open_to_all=True),
            self.route("POST", f"{x}/com.atproto.server.refreshSession", self._log_in_again, open_to_all=True),
            self.route("GET", f"{x}/app.bsky.actor.getProfile", self._get_profile),
            self.route("GET", f"{x}/app.bsky.notification.listNotifications", self._list_notes),
            self.route("GET", f"{x}/app.bsky.feed.getPosts", self._get_posts),
            self.route("POST", f"{x}/com.atproto.repo.createRecord", self._create_record, sends=True),
            self.route("GET", f"{x}/com.atproto.repo.getRecord", self._get_record),
            self.route("POST", f"{x}/com.atproto.repo.deleteRecord", self._delete_record, sends=True),
            self.route("POST", f"{x}/com.atproto.repo.uploadBlob", self._upload),
            self.route("GET", "/img/{cid}", self._download, open_to_all=True),
            self.route("GET", f"{x}/chat.bsky.convo.getLog", self._get_log),
            self.route("GET", f"{x}/chat.bsky.convo.listConvos", self._list_convos),
            self.route("GET", f"{x}/chat.bsky.convo.getConvoForMembers", self._get_convo_for),
            self.route("POST", f"{x}/chat.bsky.convo.sendMessage", self._send_chat, sends=True),
            self.route("POST", f"{x}/chat.bsky.convo.addReaction", self._react_chat, sends=True),
        ]
        return Starlette(routes=routes)

    def is_authorized(self, request: Request) -> bool:
        return request.headers.get("authorization", "").removeprefix("Bearer ") in self._accesses

    def render_error(self, status: int, words: str, headers: dict[str, str] | None = None) -> Response:
        if status == 401:
            return refuse("revoked token" if self.is_faulty(PlatformFault.UNAUTHORIZED) else "token")
        reset = {"ratelimit-reset": str(int(time.time() + self.retry_after))} if status == 429 else None
        return refuse(FAULTS[status], reset)

    def _make_token(self) -> str:
        """Three readable parts, as clients look into them."""
        times = {"iat": int(time.time()), "exp": int(time.time()) + 7200, "jti": make_id()}
        parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": self._get_did("bot"), "scope": "com.atproto.access", **times})
        return ".".join(
            [*(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts), "c2ln"]
        )

    def _open_session(self) -> Response:
        access = self._make_token()
        with self.changed:
            self._accesses.add(access)
        did = self._get_did("bot")
        told = {"accessJwt": access, "refreshJwt": self._make_token(), "did": did, "handle": BOT_HANDLE}
        is_active = not self.is_faulty(PlatformFault.NO_RIGHTS)
        return JSONResponse({**told, "active": is_active, **({} if is_active else {"status": "deactivated"})})

    async def _log_in(self, request: Request) -> Response:
        asked = await request.json()
        if self.is_faulty(PlatformFault.UNAUTHORIZED) or asked.get("password") != self.token:
            return refuse("password")
        return self._open_session()

    async def _log_in_again(self, request: Request) -> Response:
        if self.is_faulty(PlatformFault.UNAUTHORIZED):
            return refuse("revoked token")
        return self._open_session()

    async def _get_profile(self, request: Request) -> Response:
        actor = request.query_params["actor"]
        did = next((did for did, handle in self._handles.items() if actor in (did, handle)), "")
        return JSONResponse(self._describe(did)) if did else refuse("known profile")

    async def _hold(self) -> None:
        if self.is_faulty(PlatformFault.HELD_POLL):
            await self.wait_until(lambda: not self.is_faulty(PlatformFault.HELD_POLL), 600.0)

    async def _list_notes(self, request: Request) -> Response:
        await self._hold()
        asked = request.query_params
        start, limit = int(asked.get("cursor", "0")), int(asked.get("limit", "50"))
        with self.changed:
            newest_first = self._notes[::-1]
            page = newest_first[start : start + limit]
            more = {"cursor": str(start + limit)} if start + limit < len(newest_first) else {}
            return JSONResponse({"notifications": page, **more})

    async def _get_posts(self, request: Request) -> Response:
        if len(request.query_params.getlist("uris")) > BY_NAME["number of posts to read"].limit:
            return refuse("number of posts to read")
        with self.changed:
            found = [each for each in request.query_params.getlist("uris") if each in self._records]
            return JSONResponse({"posts": [self._view_post(each) for each in found]})

    def _view_post(self, uri: str) -> dict[str, Any]:
        kept = self._records[uri]
        author = self._describe(uri.split("/")[2])
        images = kept["value"].get("embed", {}).get("images", [])
        shown = [{"alt": each["alt"], "thumb": f"{self.url}/img/{each['image']['ref']['$link']}"} for each in images]
        view = {"uri": uri, "cid": kept["cid"], "author": author, "record": kept["value"], "indexedAt": self._now()}
        if shown:
            full = [{**each, "fullsize": each["thumb"]} for each in shown]
            view["embed"] = {"$type": "app.bsky.embed.images#view", "images": full}
        return view

    async def _create_record(self, request: Request) -> Response:
        asked = await request.json()
        collection, record, key = asked["collection"], asked["record"], asked.get("rkey") or make_id(length=13)
        with self.changed:
            known = [each for each in self._records.values() if collection == LIKE and self._is_same_like(each, record)]
            if known:  # a second like of the same post is the first
                return JSONResponse({"uri": known[0]["uri"], "cid": known[0]["cid"]})
            if f"at://{self._get_did('bot')}/{collection}/{key}" in self._records:
                return refuse("one record for each key")
            if wrong := self._check_record(asked["repo"], collection, asked.get("rkey"), record):
                return refuse(wrong)
            uri = self._add_record("bot", collection, key, record)
            if collection == POST:
                images = record.get("embed", {}).get("images", [])
                blobs = [(each["alt"], self._blobs[each["image"]["ref"]["$link"]]) for each in images]
                shown = [GivenFile(alt, blob.data, blob.mime) for alt, blob in blobs]
                self._show(uri, "team", "bot", record["text"], shown)
            elif collection == REPOST:
                self._show(uri, "team", "bot", f"reposts {record['subject']['uri']}")
            elif collection == LIKE:
                self.find(record["subject"]["uri"]).reactions.append(("❤", "bot"))
            return JSONResponse({"uri": uri, "cid": self._records[uri]["cid"], "validationStatus": "valid"})

    def _check_record(self, repo: str, collection: str, key: str | None, record: dict[str, Any]) -> str:
        """Return the name of the rule that a record breaks."""
        text, images = str(record.get("text", "")), (record.get("embed") or {}).get("images") or []
        blobs = [self._blobs.get(each["image"]["ref"]["$link"]) for each in images]
        size = BY_NAME["size of a picture"].limit
        wrong = {
            "own account": repo not in (self._get_did("bot"), BOT_HANDLE),
            "kind of a record": record.get("$type", collection) != collection,
            "key of a record": key is not None and _KEY.fullmatch(key) is None,
            "key of a post": key is not None and _TID.fullmatch(key) is None,
            "moment of a post": not record.get("createdAt"),
            "bytes of a text": len(text.encode()) > BY_NAME["bytes of a text"].limit,
            "text length": _count_graphemes(text) > BY_NAME["text length"].limit,
            "number of pictures": len(images) > BY_NAME["number of pictures"].limit,
            "known blob": any(each is None for each in blobs),
            "size of a picture": any(each is not None and len(each.data) > size for each in blobs),
            "type of a picture": any(each is not None and not each.mime.startswith("image/") for each in blobs),
        }
        return next((name for name, holds in wrong.items() if holds), "")

    def _is_same_like(self, kept: dict[str, Any], record: dict[str, Any]) -> bool:
        liked = kept["value"].get("subject", {}).get("uri")
        return f"/{LIKE}/" in kept["uri"] and bool(liked == record.get("subject", {}).get("uri"))

    async def _get_record(self, request: Request) -> Response:
        asked = request.query_params
        uri = f"at://{asked['repo']}/{asked['collection']}/{asked['rkey']}"
        if uri not in self._records:
            return refuse("known record", f"Could not locate record: {uri}")
        return JSONResponse(self._records[uri])

    async def _delete_record(self, request: Request) -> Response:
        asked = await request.json()
        uri = f"at://{asked['repo']}/{asked['collection']}/{asked['rkey']}"
        with self.changed:
            if self._records.pop(uri, None) is not None and asked["collection"] != LIKE:
                self.find(uri).deleted = True
        return JSONResponse({})

    async def _upload(self, request: Request) -> Response:
        mime = request.headers.get("content-type", "application/octet-stream")
        data = await request.body()
        if len(data) > BY_NAME["size of an upload"].limit:
            return refuse("size of an upload")
        found = next((each for start, each in SNIFFED.items() if data.startswith(start)), mime)
        with self.changed:
            return JSONResponse({"blob": self._add_blob(GivenFile("image", data, found))})

    async def _download(self, request: Request) -> Response:
        file = self._blobs[request.path_params["cid"]]
        return Response(file.data, media_type=file.mime)

    # Private conversations.

    async def _get_log(self, request: Request) -> Response:
        await self._hold()
        cursor = request.query_params.get("cursor")
        with self.changed:
            found = [each for each in self._logs if cursor and each["rev"] > cursor]
            newest = self._logs[-1]["rev"] if self._logs else cursor
            return JSONResponse({"logs": found, **({"cursor": newest} if newest else {})})

    async def _list_convos(self, request: Request) -> Response:
        with self.changed:
            newest = {each["convoId"]: each["rev"] for each in self._logs}
            convos = [{"id": each, "rev": rev, "members": [], "muted": False} for each, rev in newest.items()]
            return JSONResponse({"convos": [{**each, "unreadCount": 0} for each in convos]})

    async def _get_convo_for(self, request: Request) -> Response:
        did = next((each for each in request.query_params.getlist("members") if each in self._handles), "")
        if not did:
            return refuse("person to write to")
        room = f"direct:{self._handles[did].partition('.')[0]}"
        members = [self._describe(did), self._describe(self._get_did("bot"))]
        told = {"id": self._get_convo(room), "rev": "2222222222222", "members": members, "muted": False}
        return JSONResponse({"convo": {**told, "unreadCount": 0}})

    async def _send_chat(self, request: Request) -> Response:
        asked = await request.json()
        with self.changed:
            room = self._find_room(asked["convoId"])
            if not room:
                return refuse("known conversation")
            answered = asked["message"].get("replyTo", {}).get("messageId", "")
            if answered and not any(each.id == answered for each in self.record):
                return refuse("answered private message")
            if _count_graphemes(asked["message"]["text"]) > BY_NAME["length of a private message"].limit:
                return refuse("length of a private message")
            return JSONResponse(self._view_chat(self._add_chat(room, "bot", asked["message"]["text"], answered)))

    async def _react_chat(self, request: Request) -> Response:
        asked = await request.json()
        with self.changed:
            if not any(each.id == asked["messageId"] for each in self.record):
                return refuse("message to react to")
            if asked["value"].isascii() or _count_graphemes(asked["value"]) != 1:
                return refuse("emoji of a reaction")
            shown = self.find(asked["messageId"])
            if (asked["value"], "bot") not in shown.reactions:
                shown.reactions.append((asked["value"], "bot"))
            return JSONResponse({"message": self._view_chat(asked["messageId"])})


def refuse(name: str, told: dict[str, str] | str | None = None) -> Response:
    """The refusal of a rule. `told`: headers, or other words than the rule's."""
    error, words = BY_NAME[name].refusal.split(" ", 1)
    body = {"error": error, "message": told if isinstance(told, str) else words}
    return JSONResponse(body, BY_NAME[name].status, told if isinstance(told, dict) else None)


def _count_graphemes(text: str) -> int:
    return sum(is_boundary(text, at) for at in range(1, len(text))) + bool(text)
