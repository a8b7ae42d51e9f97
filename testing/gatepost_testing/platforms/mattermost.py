"""An emulated Mattermost server: posts, threads, files, reactions, pins and the websocket of one bot in one team.

It keeps to REST v4 and the websocket for what our channel and mattermostautodriver use. It does not have: permissions
by role, search, message attachments with actions, ephemeral posts, several teams, or a websocket that resumes.
"""

import asyncio
import json
import math
import re
import time
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from gatepost.channels.slack.wire import NAMES
from gatepost_testing.platform_rules.mattermost import BY_NAME, UNKNOWN
from gatepost_testing.platforms.base import Asgi, GivenFile, PlatformFault
from gatepost_testing.platforms.rest import make_id
from gatepost_testing.platforms.wire.mattermost_state import BOT, TEAM, MattermostState

DEDUPLICATES_S = 30.0
OF_A_STATUS = {  # of faults that any request may have
    401: "session",
    403: "rights in a channel",
    503: "a server that is busy",
}
ID = re.compile(r"[a-z0-9]{26}")


class _Socket:
    def __init__(self) -> None:
        self.frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent = 0

    def put(self, event: dict[str, Any]) -> None:
        self.frames.put_nowait(event)


class MattermostPlatform(MattermostState):
    def __init__(self) -> None:
        super().__init__()
        self.largest_file = BY_NAME["file size"].limit  # as the server is set
        self._sockets: list[_Socket] = []
        self._pending: dict[str, tuple[str, float]] = {}  # posts by the client's id of them

    def render_error(self, status: int, words: str, headers: dict[str, str] | None = None) -> Response:
        if status == 429:
            reset = {"X-RateLimit-Reset": str(math.ceil(self.retry_after))}
            return PlainTextResponse(BY_NAME["pace"].refusal, BY_NAME["pace"].status, {**reset, **(headers or {})})
        return self.refuse(OF_A_STATUS[status])

    def refuse(self, name: str, **values: str) -> Response:
        """Return the refusal of a rule. `values` stand in place of those of its own call."""
        rule, words = BY_NAME[name], BY_NAME[name].refusal
        for old, new in values.items():
            words = words.replace(old, new)
        return self._render(rule.status, words)

    def _render(self, status: int, refusal: str) -> Response:
        ident, _, words = refusal.partition(": ")
        error = {"id": ident, "message": words, "detailed_error": "", "request_id": make_id()}
        return JSONResponse({**error, "status_code": status}, status)

    def count_sockets(self) -> int:
        with self.changed:
            return len(self._sockets)

    # The websocket.

    def push(self, event: dict[str, Any]) -> None:
        for socket in self._sockets:
            self.call_soon(socket.put, event)

    def deliver(self, event: Any) -> None:
        """Events are numbered as they were made: one that overtakes another has the higher number."""
        for socket in self._sockets:
            socket.sent += 1
            event = {**event, f"seq {id(socket)}": socket.sent}
        super().deliver(event)

    async def _serve_socket(self, websocket: WebSocket) -> None:
        await websocket.accept()
        challenge = await self._read_challenge(websocket)
        if challenge is None:
            await websocket.close()
            return
        socket = _Socket()
        with self.changed:
            self._sockets.append(socket)
            self.changed.notify_all()
        hello = {"event": "hello", "data": {"connection_id": make_id(), "server_version": "11.0.0"}, "broadcast": {}}
        await websocket.send_json({**hello, "seq": 0})
        await websocket.send_json({"status": "OK", "seq_reply": challenge})
        writing = asyncio.create_task(self._write(websocket, socket))
        try:
            while True:
                asked = await websocket.receive_json()
                if not self.is_faulty(PlatformFault.HELD_POLL):
                    data = {"text": "pong"} if asked.get("action") == "ping" else {}
                    await websocket.send_json({"status": "OK", "seq_reply": asked.get("seq"), "data": data})
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            writing.cancel()
            with self.changed:
                self._sockets.remove(socket)

    async def _read_challenge(self, websocket: WebSocket) -> int | None:
        """Its number, if the token is right."""
        try:
            asked = await websocket.receive_json()
        except WebSocketDisconnect:
            return None
        right = asked.get("data", {}).get("token") == self.token and not self.is_faulty(PlatformFault.UNAUTHORIZED)
        return int(asked.get("seq", 1)) if right else None

    async def _write(self, websocket: WebSocket, socket: _Socket) -> None:
        while True:
            event = dict(await socket.frames.get())
            number = event.pop(f"seq {id(socket)}", None)
            if number is None or self.is_faulty(PlatformFault.HELD_POLL):
                continue
            kept = {name: value for name, value in event.items() if name in ("event", "data", "broadcast")}
            await websocket.send_json({**kept, "seq": number})

    # REST.

    def make_app(self) -> Asgi:
        v4 = "/api/v4"
        routes = [
            self.route("GET", f"{v4}/users/me", self._get_me),
            self.route("GET", f"{v4}/users/me/teams", self._list_teams),
            self.route("GET", f"{v4}/users/{{user}}/channels", self._list_channels),
            self.route("POST", f"{v4}/users/{{user}}/typing", self._type),
            self.route("GET", f"{v4}/users/{{user}}", self._get_person),
            self.route("POST", f"{v4}/channels/direct", self._open_direct),
            self.route("GET", f"{v4}/channels/{{channel}}", self._read_channel),
            self.route("GET", f"{v4}/channels/{{channel}}/posts", self._list_posts),
            self.route("POST", f"{v4}/posts", self._create_post, sends=True),
            self.route("GET", f"{v4}/posts/{{post}}", self._get_post),
            self.route("PUT", f"{v4}/posts/{{post}}/patch", self._patch_post, sends=True),
            self.route("DELETE", f"{v4}/posts/{{post}}", self._remove_post, sends=True),
            self.route("POST", f"{v4}/posts/{{post}}/pin", self._pin_post, sends=True),
            self.route("POST", f"{v4}/posts/{{post}}/unpin", self._unpin_post, sends=True),
            self.route("POST", f"{v4}/reactions", self._react_to, sends=True),
            self.route("POST", f"{v4}/files", self._upload),
            self.route("GET", f"{v4}/files/{{file}}", self._download),
            WebSocketRoute(f"{v4}/websocket", self._serve_socket),
        ]
        return Starlette(routes=routes)

    def _describe_user(self, user: str) -> dict[str, Any]:
        return {"id": user, "username": self._people[user], "is_bot": user == BOT, "delete_at": 0}

    async def _get_me(self, request: Request) -> Response:
        return JSONResponse(self._describe_user(BOT))

    async def _get_person(self, request: Request) -> Response:
        user = request.path_params["user"]
        return JSONResponse(self._describe_user(user)) if user in self._people else self.refuse("known person")

    async def _list_teams(self, request: Request) -> Response:
        is_member = not self.is_faulty(PlatformFault.NO_RIGHTS)
        return JSONResponse([{"id": TEAM, "name": "team", "display_name": "Team"}] if is_member else [])

    async def _list_channels(self, request: Request) -> Response:
        with self.changed:
            return JSONResponse(list(self._channels.values()))

    async def _read_channel(self, request: Request) -> Response:
        channel = request.path_params["channel"]
        room = self._find_room(channel)
        return JSONResponse(self._channels[room]) if room else self.refuse("known channel", **{UNKNOWN: channel})

    async def _open_direct(self, request: Request) -> Response:
        other = next((each for each in await request.json() if each != BOT), "")
        if not ID.fullmatch(other):
            return self.refuse("ids of a direct channel")
        if other not in self._people:
            return self.refuse("person to write to")
        return JSONResponse(self._get_channel(f"direct:{self._people[other]}"), 201)

    async def _list_posts(self, request: Request) -> Response:
        channel, asked = request.path_params["channel"], request.query_params
        with self.changed:
            if not self._find_room(channel):
                return self.refuse("channel to read", **{UNKNOWN: channel})
            found = [each for each in self._posts.values() if each["channel_id"] == channel]
            if "since" in asked:
                found = [each for each in found if each["update_at"] > int(asked["since"])][-1000:]
            else:
                found = [each for each in found if not each["delete_at"]]
                if asked.get("before") in self._posts:
                    bound = self._posts[asked["before"]]["create_at"]
                    found = [each for each in found if each["create_at"] < bound]
                found = sorted(found, key=lambda each: int(each["create_at"]))[-int(asked.get("per_page", 60)) :]
            order = sorted(found, key=lambda each: -int(each["create_at"]))
            return JSONResponse(
                {"order": [each["id"] for each in order], "posts": {each["id"]: each for each in found}}
            )

    async def _create_post(self, request: Request) -> Response:
        asked = await request.json()
        pending = str(asked.get("pending_post_id") or "")
        with self.changed:
            room = self._find_room(str(asked.get("channel_id")))
            if wrong := self._check_post(asked):
                return self.refuse(wrong)
            known, until = self._pending.get(pending, ("", 0.0))
            if pending and until > time.monotonic():
                return JSONResponse(self._posts[known], 201)
            props = {**asked.get("props", {}), "from_bot": "true"}
            files = [each for each in asked.get("file_ids") or () if each in self._files]
            post = self._add_post(room, BOT, asked.get("message", ""), asked.get("root_id") or "", files, props=props)
            self._pending[pending] = (post["id"], time.monotonic() + DEDUPLICATES_S)
            return JSONResponse({**post, "pending_post_id": pending}, 201)

    def _check_post(self, asked: dict[str, Any]) -> str:
        """Return the name of the rule that a new post breaks, or ''."""
        root = self._posts.get(asked["root_id"]) if asked.get("root_id") else None
        if not self._find_room(str(asked.get("channel_id"))):
            return "rights in a channel"
        if len(asked.get("message", "")) > BY_NAME["post length"].limit:
            return "post length"
        if asked.get("root_id") and (root is None or root["delete_at"]):
            return "known root"
        if root and root["channel_id"] != asked["channel_id"]:
            return "root of the same channel"
        if root and root["root_id"]:
            return "root of a thread"
        if len(json.dumps(asked.get("file_ids") or [], separators=(",", ":"))) > BY_NAME["number of files"].limit:
            return "number of files"
        props = json.dumps(asked.get("props") or {}, ensure_ascii=False, separators=(",", ":"))
        return "size of the props" if len(props) > BY_NAME["size of the props"].limit else ""

    def _find_post(self, request: Request) -> dict[str, Any] | None:
        post = self._posts.get(request.path_params["post"])
        return None if post is None or post["delete_at"] else post

    async def _get_post(self, request: Request) -> Response:
        post = self._find_post(request)
        return JSONResponse(post) if post else self.refuse("post to read")

    async def _patch_post(self, request: Request) -> Response:
        asked = await request.json()
        with self.changed:
            post = self._find_post(request)
            if post is None or post["user_id"] != BOT:
                return self.refuse("edits of others" if post else "post to edit")
            if len(asked.get("message", "")) > BY_NAME["edit length"].limit:
                return self.refuse("edit length")
            self._edit_post(post, asked.get("message", post["message"]))
            return JSONResponse(post)

    async def _remove_post(self, request: Request) -> Response:
        if not ID.fullmatch(request.path_params["post"]):
            return self.refuse("id of a post")
        with self.changed:
            post = self._find_post(request)
            if post is None:
                return self.refuse("post to delete")
            if post["user_id"] != BOT:
                return self.refuse("deletions of others")
            self._delete_post(post)
            return JSONResponse({"status": "OK"})

    async def _pin_post(self, request: Request) -> Response:
        return self._set_pinned(request, True)

    async def _unpin_post(self, request: Request) -> Response:
        return self._set_pinned(request, False)

    def _set_pinned(self, request: Request, pinned: bool) -> Response:
        with self.changed:
            post = self._find_post(request)
            if post is None:
                return self.refuse("post to pin")
            post["is_pinned"] = self.find(post["id"]).pinned = pinned
            return JSONResponse({"status": "OK"})

    async def _react_to(self, request: Request) -> Response:
        asked = await request.json()
        with self.changed:
            if wrong := self._check_reaction(asked):
                return self.refuse(wrong)
            known = [each for each in self._reactions if {**each, **asked} == each]
            return JSONResponse(known[0] if known else self._add_reaction(BOT, asked["post_id"], asked["emoji_name"]))

    def _check_reaction(self, asked: dict[str, Any]) -> str:
        """Return the name of the rule that a reaction breaks, or ''."""
        name, post = str(asked.get("emoji_name") or ""), str(asked.get("post_id"))
        good = all(ID.fullmatch(each) for each in (post, str(asked.get("user_id"))))
        if not good or not 1 <= len(name.encode()) <= BY_NAME["reaction"].limit:
            return "reaction"
        if asked["user_id"] != BOT:
            return "reactions of others"
        if post not in self._posts or self._posts[post]["delete_at"]:
            return "post to react to"
        return "" if name in NAMES else "known emoji"

    async def _type(self, request: Request) -> Response:
        asked = await request.json()
        with self.changed:
            room = self._find_room(asked["channel_id"])
            if not room:
                return self.refuse("room of a typing sign")
            self._typing.append(room)
        return JSONResponse({"status": "OK"})

    async def _upload(self, request: Request) -> Response:
        async with request.form() as form:
            given = [each for each in form.getlist("files") if not isinstance(each, str)]
            made = []
            if not self._find_room(request.query_params.get("channel_id") or str(form.get("channel_id"))):
                return self.refuse("room of an upload")
            for each in given:
                mime, data = each.content_type or "application/octet-stream", await each.read()
                if len(data) > self.largest_file:
                    sizes = {"105": str(len(data)), "100": str(self.largest_file), "a.txt": str(each.filename)}
                    return self.refuse("file size", **sizes)
                made.append(self._add_file(GivenFile(each.filename or "file", data, mime)))
        infos = [self._describe_file(each) for each in made]
        return JSONResponse({"file_infos": infos, "client_ids": []}, 201)

    async def _download(self, request: Request) -> Response:
        file = self._files.get(request.path_params["file"])
        return Response(file.data, media_type=file.mime) if file else self.refuse("known file")
