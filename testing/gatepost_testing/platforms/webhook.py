"""A program that speaks to the webhook channel: it posts what people say, and keeps what is posted to it.

It proves its posts by the secret, checks the signature of ours, and makes one message of two posts with the same key.
"""

import hashlib
import hmac
import json
from typing import Any, ClassVar

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost_testing.platform_rules.webhook import BY_NAME
from gatepost_testing.platforms.base import Asgi, GivenMessage, NotOffered, PlatformFault, ShownMessage
from gatepost_testing.platforms.hooked import Event, HookedPlatform
from gatepost_testing.platforms.rest import make_id

MOVED = "moved"  # a room whose program is elsewhere
REFUSALS = {
    PlatformFault.RATE_LIMIT: "pace",
    PlatformFault.BUSY: "a program that is busy",
    PlatformFault.FORBIDDEN: "rights in a room",
}


def refuse(name: str, headers: dict[str, str] | None = None) -> Response:
    """Return the refusal of a rule."""
    return JSONResponse({"error": BY_NAME[name].refusal}, BY_NAME[name].status, headers)


class WebhookPlatform(HookedPlatform):
    kind = "webhook"
    cannot: ClassVar[frozenset[str]] = frozenset({"edit", "delete", "react", "join", "click", "conflict", "no_rights"})
    reads_markdown = True

    def __init__(self) -> None:
        super().__init__()
        self.hook_secret = "a secret that both sides know"
        self._keys: dict[str, str] = {}  # of the bot's posts, with the message that was made of each
        self.running: set[str] = set()  # keys of posts that are not done

    def get_settings(self) -> dict[str, Any]:
        return {"url": f"{self.url}/in"}

    def get_secrets(self) -> dict[str, str]:
        return {"secret": self.hook_secret}

    def get_address(self, room: str) -> str:
        return f"webhook:{room.replace(':', '/')}"

    def get_sender(self, person: str) -> str:
        return f"webhook:user/{person}"

    def fault(self, *faults: PlatformFault) -> None:
        """A secret that is no longer valid is seen with the next post: no connection is held that could end."""
        if {PlatformFault.UNAUTHORIZED, PlatformFault.DROPPED} <= set(faults):
            raise NotOffered("webhook holds no connection")
        super().fault(*faults)

    def receive(self, given: GivenMessage) -> str:
        if given.files:
            raise NotOffered
        key = make_id()
        with self.changed:
            self.record.append(
                ShownMessage(
                    id=key,
                    room=given.room,
                    sender=given.sender,
                    text=given.text,
                    thread=given.thread,
                    reply_to=given.reply_to,
                )
            )
            direct = given.room.startswith("direct:")
            said = {"text": given.text, "sender": given.sender, "mention": given.mention, "direct": direct}
            answers = {name: value for name, value in (("thread", given.thread), ("reply_to", given.reply_to)) if value}
            self.emit({"key": key, "path": f"/{given.room.replace(':', '/')}", "body": {**said, **answers}})
        return key

    def render_delivery(self, event: Event) -> tuple[dict[str, str], bytes]:
        headers = {
            "authorization": f"Bearer {self.hook_secret}",
            "idempotency-key": event["key"],
            "content-type": "application/json",
        }
        return headers, json.dumps(event["body"]).encode()

    async def _deliver(self, client: httpx2.AsyncClient, event: Event) -> bool:
        self.hook_query = event["path"]  # events are delivered one after another
        return await super()._deliver(client, event)

    # Posts of the gateway.

    def make_app(self) -> Asgi:
        return Starlette(routes=[Route("/in", self._receive_post, methods=["POST"])])

    async def _receive_post(self, request: Request) -> Response:
        body, key = await request.body(), request.headers.get("idempotency-key", "")
        with self.changed:
            self.requests.append((request.method, request.url.path))
        try:
            post = json.loads(body)
        except ValueError:
            return refuse("post is JSON")
        if self.is_faulty(PlatformFault.UNAUTHORIZED) or not self._is_signed(request, post["room"], key, body):
            return refuse("signature" if "x-gatepost-signature" in request.headers else "some signature")
        if post["room"] == MOVED:
            return refuse("another place", {"Location": "https://elsewhere.test/in"})
        if wrong := self._check_key(key, post):
            return refuse(wrong)
        fault = self.claim_fault(*REFUSALS, PlatformFault.NO_ANSWER)
        if fault in REFUSALS:
            wait = None if fault is PlatformFault.FORBIDDEN else {"Retry-After": f"{self.retry_after:g}"}
            return refuse(REFUSALS[fault], wait)
        made = self._keep(key, post)
        if fault is PlatformFault.NO_ANSWER:
            self.abort_connection(request.scope)
        return JSONResponse({"id": made})

    def _check_key(self, key: str, post: dict[str, Any]) -> str:
        """Return the name of the rule that a key breaks, or ''."""
        if not key:
            return "some key"
        if key in self.running:
            return "a post that is under way"
        with self.changed:
            known = next((each for each in self.record if each.key == key), None)
        return "key of another post" if known is not None and known.raw != post else ""

    def _is_signed(self, request: Request, room: str, key: str, body: bytes) -> bool:
        signed = hmac.new(self.hook_secret.encode(), f"/{room}\n{key}\n".encode() + body, hashlib.sha256)
        return request.headers.get("x-gatepost-signature") == f"sha256={signed.hexdigest()}"

    def _keep(self, key: str, post: dict[str, Any]) -> str:
        with self.changed:
            if key not in self._keys:
                made = ShownMessage(
                    id=make_id(),
                    room=post["room"].replace("/", ":"),
                    sender="bot",
                    text=post["text"],
                    raw=post,
                    thread=post.get("thread", ""),
                    reply_to=post.get("reply_to", ""),
                    key=key,
                )
                self._keys[key] = made.id
                self.record.append(made)
                self.changed.notify_all()
            return self._keys[key]
