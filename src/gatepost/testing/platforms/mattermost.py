"""An emulated Mattermost server: posts, threads, files, reactions, pins and the websocket of one bot in one team.

It keeps to REST v4 and the websocket for what our channel and mattermostautodriver use. It does not have: permissions
by role, search, message attachments with actions, ephemeral posts, several teams, or a websocket that resumes.
"""

import asyncio
import time
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from gatepost.testing.platforms.base import Asgi, GivenFile, PlatformFault
from gatepost.testing.platforms.mattermost_state import BOT, TEAM, MattermostState
from gatepost.testing.platforms.rest import make_id

DEDUPLICATES_S = 30.0


class _Socket:
    def __init__(self) -> None:
        self.frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent = 0

    def put(self, event: dict[str, Any]) -> None:
        self.frames.put_nowait(event)


class MattermostPlatform(MattermostState):
    def __init__(self) -> None:
        super().__init__()
        self._sockets: list[_Socket] = []
        self._pending: dict[str, tuple[str, float]] = {}  # posts by the client's id of them

    def render_error(self, status: int, words: str, headers: dict[str, str] | None = None) -> Response:
        error = {"id": f"api.emulated.{status}", "message": words, "detailed_error": "", "request_id": make_id()}
        return JSONResponse({**error, "status_code": status}, status, headers)

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
        return JSONResponse(self._describe_user(user)) if user in self._people else self.render_error(404, "no user")

    async def _list_teams(self, request: Request) -> Response:
        is_member = not self.is_faulty(PlatformFault.NO_RIGHTS)
        return JSONResponse([{"id": TEAM, "name": "team", "display_name": "Team"}] if is_member else [])

    async def _list_channels(self, request: Request) -> Response:
        with self.changed:
            return JSONResponse(list(self._channels.values()))

    async def _read_channel(self, request: Request) -> Response:
        room = self._find_room(request.path_params["channel"])
        return JSONResponse(self._channels[room]) if room else self.render_error(404, "Unable to find the channel.")

    async def _open_direct(self, request: Request) -> Response:
        other = next((each for each in await request.json() if each != BOT), "")
        if other not in self._people:
            return self.render_error(400, "Invalid or missing user_id in request body.")
        return JSONResponse(self._get_channel(f"direct:{self._people[other]}"), 201)

    async def _list_posts(self, request: Request) -> Response:
        channel, asked = request.path_params["channel"], request.query_params
        with self.changed:
            if not self._find_room(channel):
                return self.render_error(403, "You do not have the appropriate permissions.")
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
            if not room:
                return self.render_error(403, "You do not have the appropriate permissions.")
            if len(asked.get("message", "")) > 16_383 or (asked.get("root_id") or "0") not in {*self._posts, "0"}:
                return self.render_error(400, "Invalid post: too long, or an unknown root.")
            known, until = self._pending.get(pending, ("", 0.0))
            if pending and until > time.monotonic():
                return JSONResponse(self._posts[known], 201)
            props = {**asked.get("props", {}), "from_bot": "true"}
            files = [each for each in asked.get("file_ids") or () if each in self._files]
            post = self._add_post(room, BOT, asked.get("message", ""), asked.get("root_id") or "", files, props=props)
            self._pending[pending] = (post["id"], time.monotonic() + DEDUPLICATES_S)
            return JSONResponse({**post, "pending_post_id": pending}, 201)

    def _find_post(self, request: Request) -> dict[str, Any] | None:
        post = self._posts.get(request.path_params["post"])
        return None if post is None or post["delete_at"] else post

    async def _get_post(self, request: Request) -> Response:
        post = self._find_post(request)
        return JSONResponse(post) if post else self.render_error(404, "Unable to get the post.")

    async def _patch_post(self, request: Request) -> Response:
        asked = await request.json()
        with self.changed:
            post = self._find_post(request)
            if post is None or post["user_id"] != BOT:
                return self.render_error(403, "You do not have the appropriate permissions.")
            self._edit_post(post, asked.get("message", post["message"]))
            return JSONResponse(post)

    async def _remove_post(self, request: Request) -> Response:
        with self.changed:
            post = self._find_post(request)
            if post is None:
                return self.render_error(404, "Unable to get the post.")
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
                return self.render_error(404, "Unable to get the post.")
            post["is_pinned"] = self.find(post["id"]).pinned = pinned
            return JSONResponse({"status": "OK"})

    async def _react_to(self, request: Request) -> Response:
        asked = await request.json()
        with self.changed:
            if asked.get("post_id") not in self._posts or asked.get("user_id") != BOT:
                return self.render_error(403, "You do not have the appropriate permissions.")
            known = [each for each in self._reactions if {**each, **asked} == each]
            return JSONResponse(known[0] if known else self._add_reaction(BOT, asked["post_id"], asked["emoji_name"]))

    async def _type(self, request: Request) -> Response:
        asked = await request.json()
        with self.changed:
            self._typing.append(self._find_room(asked["channel_id"]))
        return JSONResponse({"status": "OK"})

    async def _upload(self, request: Request) -> Response:
        async with request.form() as form:
            given = [each for each in form.getlist("files") if not isinstance(each, str)]
            made = []
            for each in given:
                mime = each.content_type or "application/octet-stream"
                made.append(self._add_file(GivenFile(each.filename or "file", await each.read(), mime)))
        infos = [self._describe_file(each) for each in made]
        return JSONResponse({"file_infos": infos, "client_ids": []}, 201)

    async def _download(self, request: Request) -> Response:
        file = self._files.get(request.path_params["file"])
        return Response(file.data, media_type=file.mime) if file else self.render_error(404, "Unable to find the file.")
