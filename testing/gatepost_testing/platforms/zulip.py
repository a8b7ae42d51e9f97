"""An emulated Zulip server: channels with topics, direct messages, an event queue per client, uploads and reactions.

It keeps to the REST API for what our channel and the zulip library use. It does not have: permissions and time limits
of edits, rendering of markdown, group direct messages that people begin, narrows other than of a room.
"""

import base64
import json
import time
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from gatepost_testing.platform_rules.zulip import BY_NAME
from gatepost_testing.platforms import pings
from gatepost_testing.platforms.base import Asgi, GivenFile, GivenMessage, PlatformFault, ShownMessage
from gatepost_testing.platforms.rest import RestPlatform, make_id

BOT, BOT_EMAIL = 9, "porter-bot@zulip.test"
POLL_S = 20.0
EMOJI = {"1f44d": ["+1", "thumbs_up"], "1f389": ["tada"], "2764": ["heart"], "1f440": ["eyes"], "1f44e": ["-1"]}
NOBODY = "somebody to write to"
CUT = "\n[message truncated]"
OF_A_STATUS = {401: "key", 403: "right to post", 503: "a server that is busy"}  # of faults that any request may have


def refuse(name: str, **values: str) -> Response:
    """Return the refusal of a rule. `values` stand in place of those of its own call."""
    rule, words = BY_NAME[name], BY_NAME[name].refusal
    for old, new in values.items():
        words = words.replace(old, new)
    if words.startswith("<"):
        return HTMLResponse(words, rule.status)
    code, mark, said = words.partition(": ")
    told = {"msg": said, "code": code} if mark else {"msg": words}
    return JSONResponse({"result": "error", **told}, rule.status)


def cut(text: str, limit: int, mark: str) -> str:
    """A long text is no error."""
    return text if len(text) <= limit else text[: limit - len(mark)] + mark


def check_content(asked: Mapping[str, Any]) -> str:
    """Return the name of the rule that the text of a message breaks, or ''."""
    if "content" not in asked:
        return "text of a message"
    if not str(asked["content"]).strip():
        return "empty text"
    return "no null bytes" if "\0" in str(asked["content"]) else ""


class ZulipPlatform(RestPlatform):
    kind = "zulip"
    ping_rule = pings.ZULIP
    cannot: ClassVar[frozenset[str]] = frozenset({"click", "join"})
    reads_markdown = True
    faults = RestPlatform.faults | {PlatformFault.HELD_POLL, PlatformFault.FORGOTTEN, PlatformFault.NO_RIGHTS}

    def __init__(self) -> None:
        super().__init__()
        self._people = {"bot": BOT}
        self._streams: dict[str, int] = {"team": 1}
        self._messages: dict[int, dict[str, Any]] = {}
        self._queues: dict[str, list[dict[str, Any]]] = {}
        self._files: dict[str, GivenFile] = {}
        self._typing: list[str] = []
        self.receipts: list[str] = []  # messages that people see as read by the bot
        self.largest_file_mib = BY_NAME["file size"].limit  # as the server is set

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": self.url, "email": BOT_EMAIL}

    def get_secrets(self) -> dict[str, str]:
        return {"api_key": self.token}

    def get_address(self, room: str) -> str:
        if room.startswith("direct:"):
            return f"zulip:direct/{self._get_user(room.partition(':')[2])}"
        return f"zulip:stream/{self._get_stream(room)}"

    def get_sender(self, person: str) -> str:
        return f"zulip:user/{self._get_user(person)}"

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        with self.changed:
            links = [f"[{each.name}]({self._add_file(each)})" for each in given.files]
            said = "\n".join([given.render_named("@**Porter**"), *links])
            topic = (
                f"about message {given.thread}" if given.thread.isdecimal() else given.thread
            )  # a topic begins with its name
            return self._add_message(given.room, given.sender, said, topic or "general", given.files)

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        with self.changed:
            self._edit_message(int(message), text)
        return message

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        with self.changed:
            self._delete_message(int(message))
        return message

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        with self.changed:
            code = "-".join(f"{ord(each):04x}" for each in emoji if each != "\ufe0f")
            self._add_reaction(int(message), EMOJI[code][0], code, self._get_user(sender))
        return message

    def get_typing(self) -> list[str]:
        with self.changed:
            return list(self._typing)

    def forget_queues(self) -> None:
        """As after ten minutes without a poll, or a restart of the server."""
        with self.changed:
            self._queues.clear()
        self.wake()

    def count_queues(self) -> int:
        with self.changed:
            return len(self._queues)

    # Effects on the server. Called with `changed` held.

    def _get_user(self, person: str) -> int:
        return self._people.setdefault(person, BOT + len(self._people))

    def _get_name(self, user: int) -> str:
        return next(name for name, each in self._people.items() if each == user)

    def _get_stream(self, room: str) -> int:
        return self._streams.setdefault(room, len(self._streams) + 1)

    def _add_file(self, file: GivenFile) -> str:
        path = f"/user_uploads/2/{make_id(length=4)}/{make_id()}/{file.name}"
        self._files[path] = file
        return path

    def _describe_user(self, user: int) -> dict[str, Any]:
        name = self._get_name(user)
        return {
            "id": user,
            "user_id": user,
            "full_name": "Porter" if user == BOT else name,
            "email": f"{name}@zulip.test",
        }

    def _add_message(self, room: str, sender: str, text: str, topic: str = "", files: Sequence[GivenFile] = ()) -> str:
        user, number = self._get_user(sender), len(self._messages) + 1
        direct = room.startswith("direct:")
        people = sorted({BOT, self._get_user(room.partition(":")[2])}) if direct else []
        self._messages[number] = {
            "id": number,
            "sender_id": user,
            "sender_full_name": self._describe_user(user)["full_name"],
            "sender_email": self._describe_user(user)["email"],
            "type": "private" if direct else "stream",
            "display_recipient": [self._describe_user(each) for each in people] if direct else room,
            "subject": "" if direct else topic,
            "content": text,
            "content_type": "text/x-markdown",
            "timestamp": int(time.time()),
            "reactions": [],
            "flags": ["mentioned"] if "@**Porter**" in text else [],
            **({} if direct else {"stream_id": self._get_stream(room)}),
        }
        self.record.append(
            ShownMessage(id=str(number), room=room, sender=sender, text=text, raw=text, thread="" if direct else topic)
        )
        if files:
            self.record[-1].files = list(files)
        message = self._messages[number]
        self.deliver({"type": "message", "message": dict(message), "flags": message["flags"]})
        return str(number)

    def _edit_message(self, number: int, text: str) -> None:
        message = self._messages[number]
        told = {"message_id": number, "message_ids": [number], "user_id": message["sender_id"], "flags": []}
        told |= {"orig_content": message["content"], "content": text, "edit_timestamp": int(time.time())}
        message["content"] = text
        shown = self.find(str(number))
        shown.text, shown.raw, shown.edits = text, text, shown.edits + 1
        stream = {"stream_id": message["stream_id"]} if "stream_id" in message else {}
        self.deliver({"type": "update_message", "rendering_only": False, **told, **stream})

    def _delete_message(self, number: int) -> None:
        message = self._messages.pop(number)
        self._messages[number] = {**message, "gone": True}
        self.find(str(number)).deleted = True
        self.deliver({"type": "delete_message", "message_id": number, "message_type": message["type"]})

    def _add_reaction(self, number: int, name: str, code: str, user: int) -> None:
        made = {"emoji_name": name, "emoji_code": code, "reaction_type": "unicode_emoji", "user_id": user}
        self._messages[number]["reactions"].append(made)
        sign = "".join(chr(int(each, 16)) for each in code.split("-"))
        self.find(str(number)).reactions.append((sign, self._get_name(user)))
        self.deliver({"type": "reaction", "op": "add", "message_id": number, **made})

    # The event queue.

    def push(self, event: dict[str, Any]) -> None:
        for events in self._queues.values():
            events.append({**event, "id": len(events)})

    async def _register(self, request: Request) -> Response:
        queue = make_id()
        with self.changed:
            self._queues[queue] = []
            self.changed.notify_all()
        emoji = {"server_emoji_data_url": f"{self.url}/static/generated/emoji/emoji_api.json"}
        return self._answer(queue_id=queue, last_event_id=-1, zulip_feature_level=300, **emoji)

    async def _deregister(self, request: Request) -> Response:
        asked = await request.form()
        with self.changed:
            self._queues.pop(str(asked.get("queue_id")), None)
        return self._answer()

    async def _list_events(self, request: Request) -> Response:
        queue, last = request.query_params["queue_id"], int(request.query_params["last_event_id"])
        if self.claim_fault(PlatformFault.FORGOTTEN):
            last = -1

        def has_news() -> bool:
            with self.changed:
                held = self.is_faulty(PlatformFault.HELD_POLL)
                return queue not in self._queues or (len(self._queues[queue]) > last + 1 and not held)

        wait = 0.0 if request.query_params.get("dont_block") == "true" else POLL_S
        if not await self.wait_until(has_news, wait) and self.is_faulty(PlatformFault.HELD_POLL):
            await self.wait_until(lambda: not self.is_faulty(PlatformFault.HELD_POLL), 10 * POLL_S)
        with self.changed:
            if queue not in self._queues:
                return refuse("event queue", **{"4242": queue})
            found = self._queues[queue][last + 1 :]
            if not found and wait:
                self._queues[queue].append({"type": "heartbeat", "id": len(self._queues[queue])})
                found = self._queues[queue][-1:]
        return self._answer(events=found, queue_id=queue)

    # The rest of the API.

    def make_app(self) -> Asgi:
        v1 = "/api/v1"
        routes = [
            self.route("GET", f"{v1}/server_settings", self._get_server, open_to_all=True),
            self.route("GET", f"{v1}/users/me", self._get_me),
            self.route("GET", f"{v1}/users/me/subscriptions", self._list_subscriptions),
            self.route("GET", f"{v1}/users/{{user:int}}", self._get_person),
            self.route("POST", f"{v1}/register", self._register),
            self.route("GET", f"{v1}/events", self._list_events),
            self.route("DELETE", f"{v1}/events", self._deregister),
            self.route("GET", f"{v1}/messages", self._list_messages),
            self.route("POST", f"{v1}/messages", self._create_message, sends=True),
            self.route("GET", f"{v1}/messages/{{number:int}}", self._get_message),
            self.route("PATCH", f"{v1}/messages/{{number:int}}", self._patch_message, sends=True),
            self.route("DELETE", f"{v1}/messages/{{number:int}}", self._remove_message, sends=True),
            self.route("POST", f"{v1}/messages/{{number:int}}/reactions", self._react_to, sends=True),
            self.route("POST", f"{v1}/messages/flags", self._set_flags),
            self.route("POST", f"{v1}/typing", self._type),
            self.route("POST", f"{v1}/user_uploads", self._upload),
            self.route("GET", f"{v1}/user_uploads/{{path:path}}", self._sign_file),
            self.route("GET", "/user_uploads/temporary/{path:path}", self._download, open_to_all=True),
            self.route("GET", "/static/generated/emoji/emoji_api.json", self._list_emoji, open_to_all=True),
        ]
        return Starlette(routes=routes)

    def is_authorized(self, request: Request) -> bool:
        wanted = base64.b64encode(f"{BOT_EMAIL}:{self.token}".encode()).decode()
        return request.headers.get("authorization") == f"Basic {wanted}"

    def render_error(self, status: int, words: str, headers: dict[str, str] | None = None) -> Response:
        if status != 429:
            return refuse(OF_A_STATUS[status])
        code, _, said = BY_NAME["pace"].refusal.partition(": ")
        told = {"result": "error", "msg": said, "code": code, "retry-after": self.retry_after}
        return JSONResponse(told, BY_NAME["pace"].status, headers)

    def _answer(self, **told: Any) -> Response:
        return JSONResponse({"result": "success", "msg": "", **told})

    async def _get_server(self, request: Request) -> Response:
        return self._answer(zulip_version="11.0", zulip_feature_level=421, realm_url=self.url)

    async def _get_me(self, request: Request) -> Response:
        if self.is_faulty(PlatformFault.NO_RIGHTS):
            return refuse("kind of a bot")
        return self._answer(**{**self._describe_user(BOT), "email": BOT_EMAIL, "is_bot": True})

    async def _get_person(self, request: Request) -> Response:
        user = request.path_params["user"]
        if user not in self._people.values():
            return refuse("known person")
        return self._answer(user=self._describe_user(user))

    async def _list_subscriptions(self, request: Request) -> Response:
        listed = [{"name": name, "stream_id": number} for name, number in self._streams.items()]
        return self._answer(subscriptions=listed)

    async def _list_messages(self, request: Request) -> Response:
        asked = request.query_params
        if int(asked["num_before"]) + int(asked["num_after"]) > BY_NAME["number of messages"].limit:
            return refuse("number of messages")
        with self.changed:
            found = [each for _, each in sorted(self._messages.items()) if "gone" not in each]
            for term in json.loads(asked.get("narrow", "[]")):
                found = [each for each in found if self._is_within(each, term)]
            anchor = asked["anchor"]
            if anchor == "newest":
                return self._answer(messages=found[-int(asked["num_before"]) or None :], found_newest=True)
            after = [each for each in found if each["id"] > int(anchor)][: int(asked["num_after"])]
            return self._answer(messages=after, found_newest=True)

    def _is_within(self, message: dict[str, Any], term: dict[str, Any]) -> bool:
        if term["operator"] in ("stream", "channel"):
            return bool(message.get("stream_id") == term["operand"])
        people = {each["id"] for each in message["display_recipient"]} if message["type"] == "private" else set()
        return people - {BOT} == set(term["operand"])

    async def _create_message(self, request: Request) -> Response:
        asked = await request.form()
        to = str(asked.get("to", ""))
        if wrong := check_content(asked):
            return refuse(wrong)
        text = cut(str(asked["content"]), BY_NAME["message length"].limit, CUT)
        with self.changed:
            if asked.get("type") in ("stream", "channel"):
                return self._post_in_channel(to, str(asked.get("topic", "(no topic)")), text)
            if asked.get("type") not in ("private", "direct"):
                return refuse("kind of a message")
            people = json.loads(to)
            unknown = [each for each in people if each not in self._people.values()]
            if unknown or not people:
                return refuse("person to write to", **{"4242": str(unknown[0])}) if unknown else refuse(NOBODY)
            return self._answer(id=int(self._add_message(f"direct:{self._get_name(people[0])}", "bot", text)))

    def _post_in_channel(self, to: str, topic: str, text: str) -> Response:
        name = next((each for each, number in self._streams.items() if to in (str(number), each)), "")
        if not name:
            return refuse("known channel", **{"4242": to})
        bad = next((at for at, sign in enumerate(topic, 1) if unicodedata.category(sign) in ("Cc", "Cs")), 0)
        if bad:
            return refuse("signs of a topic", **{"position 2": f"position {bad}"})
        files = [file for path, file in self._files.items() if path in text]
        shown = "\n".join(line for line in text.split("\n") if "(/user_uploads/" not in line)
        made = self._add_message(name, "bot", text, cut(topic, BY_NAME["topic length"].limit, "..."), files)
        self.find(made).text = shown
        return self._answer(id=int(made))

    def _find_message(self, request: Request) -> dict[str, Any] | None:
        message = self._messages.get(request.path_params["number"])
        return None if message is None or "gone" in message else message

    async def _get_message(self, request: Request) -> Response:
        message = self._find_message(request)
        return self._answer(message=message) if message else refuse("message to read")

    async def _patch_message(self, request: Request) -> Response:
        asked = await request.form()
        with self.changed:
            message = self._find_message(request)
            if message is None or message["sender_id"] != BOT:
                return refuse("edits of others" if message else "message to edit")
            if "content" not in asked:
                return refuse("content of an edit")
            content = str(asked["content"]) if str(asked["content"]).strip() else "(deleted)"
            if wrong := check_content({"content": content}):
                return refuse(wrong)
            self._edit_message(message["id"], cut(content, BY_NAME["edit length"].limit, CUT))
            return self._answer()

    async def _remove_message(self, request: Request) -> Response:
        with self.changed:
            message = self._find_message(request)
            if message is None or message["sender_id"] != BOT:
                return refuse("deletions of others" if message else "message to delete")
            self._delete_message(message["id"])
            return self._answer()

    async def _react_to(self, request: Request) -> Response:
        name = str((await request.form()).get("emoji_name"))
        with self.changed:
            message = self._find_message(request)
            code = next((code for code, names in EMOJI.items() if name in names), "")
            if message is None:
                return refuse("message to react to")
            if not code:
                return refuse("known emoji", no_such_sign=name)
            if any(each["user_id"] == BOT and each["emoji_code"] == code for each in message["reactions"]):
                return refuse("one reaction of a kind")
            self._add_reaction(message["id"], name, code, BOT)
            return self._answer()

    async def _set_flags(self, request: Request) -> Response:
        asked = await request.form()
        numbers = json.loads(str(asked["messages"]))
        with self.changed:
            if (asked.get("op"), asked.get("flag")) == ("add", "read"):
                self.receipts += [str(number) for number in numbers]
        return self._answer(messages=numbers, ignored_because_not_subscribed_channels=[])

    async def _type(self, request: Request) -> Response:
        asked = await request.form()
        with self.changed:
            if "stream_id" in asked:
                room = next((n for n, s in self._streams.items() if str(s) == asked["stream_id"]), "")
                if not room:
                    return refuse("channel of a typing sign")
            else:
                user = json.loads(str(asked["to"]))[0]
                if user not in self._people.values():
                    return refuse("person of a typing sign", **{"4242": str(user)})
                room = f"direct:{self._get_name(user)}"
            if asked.get("op") == "start":
                self._typing.append(room)
        return self._answer()

    async def _upload(self, request: Request) -> Response:
        async with request.form() as form:
            given = next((each for each in form.values() if not isinstance(each, str)), None)
            if given is None:
                return refuse("file of an upload")
            mime = given.content_type or "application/octet-stream"
            file = GivenFile(given.filename or "file", await given.read(), mime)
        if len(file.data) > self.largest_file_mib * 1024 * 1024:
            return refuse("file size", **{"0 MiB": f"{self.largest_file_mib} MiB"})
        with self.changed:
            path = self._add_file(file)
        return self._answer(url=path, uri=path, filename=file.name)

    async def _sign_file(self, request: Request) -> Response:
        path = request.path_params["path"]
        if f"/user_uploads/{path}" not in self._files:
            return refuse("known file")
        return self._answer(url=f"/user_uploads/temporary/{path}")

    async def _download(self, request: Request) -> Response:
        file = self._files[f"/user_uploads/{request.path_params['path']}"]
        return Response(file.data, media_type=file.mime)

    async def _list_emoji(self, request: Request) -> Response:
        return JSONResponse({"code_to_names": EMOJI})
