"""A program's post becomes an event, and our message becomes a post. No I/O."""

import hashlib
import hmac
import json
import re
from typing import Any

from gatepost.channels.contract import HookRequest
from gatepost.channels.kit.hooks import is_same, parse_object
from gatepost.core.errors import Invalid
from gatepost.messages.inbound import Inbound, MessageKind, Quote, Verb
from gatepost.messages.outbound import Outbound

SIGNATURE, KEY = "x-gatepost-signature", "idempotency-key"
SHORTEST_SECRET = 16
LONGEST_TEXT = 100_000
_ROOM = re.compile(r"/[A-Za-z0-9_-]{1,64}(?:/[A-Za-z0-9_-]{1,64}){0,3}\Z")
_NAME = re.compile(r"[A-Za-z0-9_.@+-]{1,100}\Z")
_ID = re.compile(r"[\x21-\x7e]{1,200}\Z")


def sign_post(secret: str, room: str, key: str, body: bytes) -> str:
    """The room and the key are signed, too: who copies a post cannot send it elsewhere, nor a second time."""
    signed = f"{room}\n{key}\n".encode() + body
    return "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def is_proved(request: HookRequest, secret: str) -> bool:
    """By the secret itself, or by a signature. A secret that is too short proves nothing."""
    if len(secret) < SHORTEST_SECRET:
        return False
    if is_by_token(request):
        return is_same(request.headers["authorization"].partition(" ")[2].strip(), secret)
    expected = sign_post(secret, request.path, request.headers.get(KEY, ""), request.body)
    return is_same(request.headers.get(SIGNATURE, ""), expected)


def may_be_proved(head: HookRequest, secret: str) -> bool:
    """Return False if no body can make it a proved one."""
    if len(secret) < SHORTEST_SECRET:
        return False
    return is_proved(head, secret) if is_by_token(head) else bool(head.headers.get(SIGNATURE))


def is_by_token(request: HookRequest) -> bool:
    """Return True if it is the secret itself that proves it, and no signature. Asked in one place: what proves a post
    also decides by what it is known."""
    return request.headers.get("authorization", "").partition(" ")[0].lower() == "bearer"


def parse_room(address: str) -> str | None:
    """The path of a room, `/office` for `webhook:office`."""
    path = "/" + address.removeprefix("webhook:")
    return path if address.startswith("webhook:") and _ROOM.match(path) else None


def read_post(request: HookRequest, fresh_id: str) -> Inbound:
    """`fresh_id`: of a post that says nothing by which a second one would be known. Invalid names what is wrong."""
    if not _ROOM.match(request.path):
        raise Invalid("path", "name a room, such as /office: letters, digits, - and _, at most four parts")
    identity = _find_identity(request, fresh_id)
    content = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content == "application/json":
        given = parse_object(request.body)
        if given is None:
            raise Invalid("body", "it is no JSON object")
        return _read_object(request.path, identity, given)
    if content not in ("", "text/plain"):
        raise Invalid("content-type", "post application/json or text/plain")
    return _make_event(request.path, identity, _decode(request.body), {})


def _find_identity(request: HookRequest, fresh_id: str) -> str:
    """A signed post without a key is known by its signature, so that nobody can send a copy of it."""
    key = request.headers.get(KEY, "")
    if key:
        if not _ID.match(key):
            raise Invalid("Idempotency-Key", "at most 200 visible signs of ASCII")
        return key
    if SIGNATURE in request.headers and not is_by_token(request):
        return hashlib.sha256(request.body).hexdigest()[:32]
    return fresh_id


def _read_object(path: str, identity: str, given: dict[str, Any]) -> Inbound:
    if "text" in given:
        if not isinstance(given["text"], str):
            raise Invalid("text", "it is no text")
        return _make_event(path, identity, given["text"], given)
    # A program that was not written for us posts what it posts. Agents read JSON.
    return _make_event(path, identity, json.dumps(given, indent=1, ensure_ascii=False), {}, MessageKind.WEBHOOK)


def _make_event(
    path: str, identity: str, text: str, given: dict[str, Any], kind: MessageKind = MessageKind.CHAT
) -> Inbound:
    if not text.strip():
        raise Invalid("text", "it is empty")
    if len(text) > LONGEST_TEXT:
        raise Invalid("text", f"it has more than {LONGEST_TEXT} signs")
    sender = _get_text(given, "sender") or "caller"
    if not _NAME.match(sender):
        raise Invalid("sender", "letters, digits and . _ @ + - only, at most 100")
    quoted, thread = _get_text(given, "reply_to"), _get_text(given, "thread")
    for name, value in (("reply_to", quoted), ("thread", thread)):
        if value and not _ID.match(value):
            raise Invalid(name, "at most 200 visible signs of ASCII")
    mention = given.get("mention") is True
    return Inbound(
        address=f"webhook:{path[1:]}",
        platform_id=identity,
        sender=f"webhook:user/{sender}",
        sender_name=_get_text(given, "sender_name")[:100] or sender,
        text=text,
        kind=kind,
        verb=Verb.MENTION if mention else Verb.REPLY if quoted else Verb.MESSAGE,
        thread=thread,
        direct=given.get("direct") is True,
        room_name=_get_text(given, "room_name")[:100],
        reply_to=Quote(platform_id=quoted) if quoted else None,
    )


def render_post(room: str, message: Outbound) -> dict[str, Any]:
    post: dict[str, Any] = {"room": room[1:], "key": message.key, "text": message.text}
    if message.thread:
        post["thread"] = message.thread
    if message.reply_to:
        post["reply_to"] = message.reply_to
    return post


def read_answer(answer: Any, key: str) -> str:
    """The id that the program gives the message, else one that is made of our key."""
    given = answer.get("id") if isinstance(answer, dict) else None
    if isinstance(given, str) and _ID.match(given):
        return given
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _decode(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise Invalid("body", "it is not UTF-8") from None


def _get_text(given: dict[str, Any], name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise Invalid(name, "it is no text")
    return value
