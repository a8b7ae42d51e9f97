"""An emulated Bot Framework with Microsoft Teams behind it: signed activities, conversations, cards, and the login.

It keeps to the documented REST API for what our channel uses. It does not have: files, several tenants, meetings,
message extensions, rights of the app package, pages of members, and rendering of markdown other than to
plain words. A group chat is a channel here, whose posts are threads.
"""

import base64
import itertools
import json
import threading
import time
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar
from uuid import NAMESPACE_DNS, uuid5

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost_testing.markdown_scanner import strip_markdown
from gatepost_testing.platform_rules.teams import BY_NAME
from gatepost_testing.platforms.base import Asgi, GivenMessage, NotOffered, PlatformFault, ShownMessage
from gatepost_testing.platforms.hooked import Event, HookedPlatform
from gatepost_testing.platforms.rest import RestPlatform, make_id

APP_ID, TENANT = "5a0f0f5e-1111-4222-8333-444455556666", "7b1c0a4e-aaaa-4bbb-8ccc-ddddeeeeffff"
SECRET, BOT, KEY_ID = "the~client~secret", f"28:{APP_ID}", "key-1"
ISSUER = "https://api.botframework.com"
ACTIVITIES = "/emea/v3/conversations/{conversation}/activities"
NAME = "Porter of the Lab"
FAULTS = {401: "token", 403: "bot in the conversation", 429: "rate limit", 503: "service away"}  # by their rules
REACTIONS = {"👍": "like", "❤️": "heart", "😆": "laugh", "😢": "sad"}


class TeamsPlatform(HookedPlatform, RestPlatform):
    kind = "teams"
    cannot: ClassVar[frozenset[str]] = frozenset()
    faults = RestPlatform.faults | {
        PlatformFault.HELD_POLL,
        PlatformFault.REORDER,
        PlatformFault.FORGOTTEN,
        PlatformFault.NO_RIGHTS,
    }

    def __init__(self) -> None:
        super().__init__()
        self._ids = itertools.count(1_700_000_000_001)
        self._rooms: dict[str, str] = {}  # conversation -> room, of those in which the app is
        self._typing: list[str] = []
        self.contended: set[str] = set()  # conversations in which something else is under way
        self.bot_name, self.behind_mention = NAME, "&nbsp;"  # how people mention it

    def get_settings(self) -> dict[str, Any]:
        return {
            "app_id": APP_ID,
            "tenant": TENANT,
            "service_urls": (self.url,),
            "login_url": self.url,
            "openid_url": f"{self.url}/v1/.well-known/openidconfiguration",
            "check_s": 0.2,
        }

    def get_secrets(self) -> dict[str, str]:
        return {"app_secret": SECRET}

    def get_address(self, room: str) -> str:
        kind = "direct" if room.startswith("direct:") else "channel"
        return f"teams:{kind}/{self.get_conversation(room)}"

    def get_conversation(self, room: str) -> str:
        name = make_id(room, length=20)
        conversation = f"a:{name}" if room.startswith("direct:") else f"19:{name}@thread.tacv2"
        with self.changed:
            self._rooms[conversation] = room
        return conversation

    def get_sender(self, person: str) -> str:
        return f"teams:user/{uuid5(NAMESPACE_DNS, person)}"

    @property
    def service_url(self) -> str:
        return f"{self.url}/emea/"

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        """Take a message of a person. An answer in a channel goes below a post."""
        direct = given.room.startswith("direct:")
        if given.files or (direct and given.thread):
            raise NotOffered
        number = str(next(self._ids))
        post = "" if direct else given.thread or given.reply_to or number
        activity = self.make_activity("message", given.room, given.sender, post)
        activity |= {"id": number, "text": given.text, "textFormat": "plain"}
        if given.mention:
            activity["text"] = f"<at>{self.bot_name}</at>{self.behind_mention}{given.text}"
            named = {"id": BOT, "name": self.bot_name}
            activity["entities"] = [{"type": "mention", "mentioned": named, "text": f"<at>{self.bot_name}</at>"}]
        with self.changed:
            self.record.append(
                ShownMessage(id=number, room=given.room, sender=given.sender, text=given.text, thread=post)
            )
            self.emit(activity)
        return number

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        with self.changed:
            shown = self.find(message)
            shown.text, shown.edits = text, shown.edits + 1
            activity = self.make_activity("messageUpdate", room, sender, shown.thread)
            activity["channelData"]["eventType"] = "editMessage"
            self.emit(activity | {"id": message, "text": text})
        return message

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        with self.changed:
            shown = self.find(message)
            shown.deleted = True
            if shown.sender == "bot":  # a bot is told of the messages of people alone
                return message
            activity = self.make_activity("messageDelete", room, sender, shown.thread)
            activity["channelData"]["eventType"] = "softDeleteMessage"
            self.emit(activity | {"id": message})
        return message

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        with self.changed:
            shown = self.find(message)
            shown.reactions = [*shown.reactions, (emoji, sender)]
            activity = self.make_activity("messageReaction", room, sender, shown.thread)
            self.emit(activity | {"replyToId": message, "reactionsAdded": [{"type": REACTIONS[emoji]}]})
        return message

    def join(self, room: str, *, sender: str = "ann") -> str:
        activity = self.make_activity("conversationUpdate", room, sender, "")
        number = f"f:{make_id(length=20)}"
        self.emit(activity | {"id": number, "membersAdded": [self._describe(sender), {"id": BOT}]})
        return number

    def click(self, room: str, message: str, label: str, *, sender: str = "ann") -> str:
        with self.changed:
            shown = self.find(message)
            actions = shown.raw["attachments"][0]["content"].get("actions", [])
            pressed = next((each for each in actions if each["title"] == label), None)
            if pressed is None:
                raise NotOffered
            activity = self.make_activity("message", room, sender, shown.thread)
            self.emit(activity | {"id": str(next(self._ids)), "value": pressed["data"], "replyToId": message})
        return message

    def get_typing(self) -> list[str]:
        with self.changed:
            return list(self._typing)

    def make_activity(self, kind: str, room: str, sender: str, post: str) -> dict[str, Any]:
        direct, conversation = room.startswith("direct:"), self.get_conversation(room)
        where = {"id": f"{conversation};messageid={post}" if post and not direct else conversation}
        return {
            "type": kind,
            "channelId": "msteams",
            "serviceUrl": self.service_url,
            "timestamp": datetime.now(UTC).isoformat(),
            "from": self._describe(sender),
            "recipient": {"id": BOT, "name": self.bot_name},
            "conversation": {
                **where,
                "conversationType": "personal" if direct else "channel",
                "isGroup": not direct,
                "tenantId": TENANT,
            },
            "channelData": {"tenant": {"id": TENANT}},
        }

    def _describe(self, person: str) -> dict[str, Any]:
        return {"id": f"29:{make_id(person)}", "name": person, "aadObjectId": str(uuid5(NAMESPACE_DNS, person))}

    # Activities, and their proof.

    def render_delivery(self, event: Event) -> tuple[dict[str, str], bytes]:
        headers = {"content-type": "application/json", "authorization": f"Bearer {self.sign()}"}
        return headers, json.dumps(event).encode()

    def sign(self, *, header: dict[str, Any] | None = None, key: RSAPrivateKey | None = None, **claims: Any) -> str:
        """A token as the Bot Framework makes it, with other claims if they are named."""
        now = int(time.time())
        body = {"iss": ISSUER, "aud": APP_ID, "nbf": now - 10, "exp": now + 3600, "serviceurl": self.service_url}
        parts = [{"typ": "JWT", "alg": "RS256", "kid": KEY_ID} | (header or {}), body | claims]
        signed = ".".join(_encode(json.dumps(each).encode()) for each in parts)
        return f"{signed}.{_encode((key or make_key()).sign(signed.encode(), PKCS1v15(), SHA256()))}"

    # The API.

    def make_app(self) -> Asgi:
        routes = [
            self.route("POST", f"/{TENANT}/oauth2/v2.0/token", self._give_token, open_to_all=True),
            self.route("GET", "/v1/.well-known/openidconfiguration", self._get_openid, open_to_all=True),
            self.route("GET", "/v1/.well-known/keys", self._list_keys, open_to_all=True),
            self.route("POST", ACTIVITIES, self._create, sends=True),
            self.route("PUT", f"{ACTIVITIES}/{{message}}", self._update, sends=True),
            self.route("DELETE", f"{ACTIVITIES}/{{message}}", self._remove, sends=True),
        ]
        return Starlette(routes=routes)

    def render_error(self, status: int, words: str, headers: dict[str, str] | None = None) -> Response:
        return refuse(FAULTS[status], headers)

    async def _give_token(self, request: Request) -> Response:
        asked = await request.form()
        if self.is_faulty(PlatformFault.NO_RIGHTS):
            return _refuse_login("known application")
        known = asked.get("client_id") == APP_ID and asked.get("client_secret") == SECRET
        if not known or self.is_faulty(PlatformFault.UNAUTHORIZED):
            return _refuse_login("client secret")
        return JSONResponse({"token_type": "Bearer", "expires_in": 3599, "access_token": self.token})

    async def _get_openid(self, request: Request) -> Response:
        return JSONResponse({"issuer": ISSUER, "jwks_uri": f"{self.url}/v1/.well-known/keys"})

    async def _list_keys(self, request: Request) -> Response:
        numbers = make_key().public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "kid": KEY_ID, "endorsements": ["msteams"]}
        key |= {"n": _encode(numbers.n.to_bytes(256, "big")), "e": _encode(numbers.e.to_bytes(3, "big"))}
        return JSONResponse({"keys": [key]})

    async def _create(self, request: Request) -> Response:
        try:
            body = await request.json()
        except ValueError:
            return refuse("body of an activity")
        conversation, _, post = request.path_params["conversation"].partition(";messageid=")
        with self.changed:
            room = self._rooms.get(conversation)
            if room is None:
                return refuse("known conversation")
            if conversation in self.contended:
                return refuse("several calls at once")
            if wrong := _check(body, "size of a message"):
                return refuse(wrong)
            if body["type"] == "typing":
                self._typing.append(room)
                return JSONResponse({"id": str(next(self._ids))}, 201)
            shown = ShownMessage(id=str(next(self._ids)), room=room, sender="bot", text="", thread=post)
            self._show(shown, body)
            self.record.append(shown)
        return JSONResponse({"id": shown.id}, 201)

    async def _update(self, request: Request) -> Response:
        body = await request.json()
        with self.changed:
            shown = self._find(request.path_params["message"])
            if shown is None:
                return refuse("message to edit")
            if shown.sender != "bot":
                return refuse("edits of others")
            if wrong := _check(body, "size of an edit"):
                return refuse(wrong)
            self._show(shown, body)
            shown.edits += 1
        return JSONResponse({"id": shown.id})

    async def _remove(self, request: Request) -> Response:
        with self.changed:
            shown = self._find(request.path_params["message"])
            if shown is None:
                return refuse("message to delete")
            if shown.sender != "bot":
                return refuse("deletions of others")
            shown.deleted = True
        return Response(status_code=200)

    def _find(self, message: str) -> ShownMessage | None:
        return next((each for each in self.record if each.id == message and not each.deleted), None)

    def _show(self, shown: ShownMessage, body: dict[str, Any]) -> None:
        cards = [each["content"] for each in body.get("attachments", [])]
        lines = [strip_markdown(body.get("text", ""))]
        for block in (block for card in cards for block in card["body"]):
            lines += [strip_markdown(block.get("text", ""))]
            lines += [strip_markdown(f"{each['title']}: {each['value']}") for each in block.get("facts", ())]
        shown.text, shown.raw = "\n".join(line for line in lines if line), body
        shown.buttons = [each["title"] for card in cards for each in card.get("actions", ())]


def refuse(name: str, headers: dict[str, str] | None = None) -> Response:
    """The refusal of a rule."""
    rule = BY_NAME[name]
    return JSONResponse({"error": {"code": rule.refusal, "message": f"Refused: {name}."}}, rule.status, headers)


def _refuse_login(name: str) -> Response:
    error, why = BY_NAME[name].refusal.replace("$app", APP_ID).replace("$tenant", TENANT).split(" ", 1)
    return JSONResponse({"error": error, "error_description": why}, BY_NAME[name].status)


def _check(body: dict[str, Any], size: str) -> str:
    """Return the name of the rule that an activity breaks. `size`: of the rule about its size."""
    if not body.get("type"):
        return "kind of an activity"
    if body["type"] == "message" and not body.get("text") and not body.get("attachments"):
        return "empty message"
    return size if len(json.dumps(body, ensure_ascii=False).encode("utf-16-le")) > BY_NAME[size].limit else ""


_MAKING = threading.Lock()  # each platform has a thread of its own


def make_key() -> RSAPrivateKey:
    """One for all: making it takes a while."""
    with _MAKING:
        return _generate_key()


@cache
def _generate_key() -> RSAPrivateKey:
    return generate_private_key(public_exponent=65537, key_size=2048)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
