"""A program's post by a webhook link, read: its text, and the id by which its sender knows it. Pure.

A body is given to the agent as it came. It is parsed only to see that it is what it says, and to find the id.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from gatepost.core.errors import GatepostError, Invalid
from gatepost.store.rights.tokens import SignatureScheme

MOST_FIELDS = 500  # of a form
LONGEST_CHALLENGE = 500
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
IDEMPOTENCY, GITHUB_DELIVERY = "idempotency-key", "x-github-delivery"
EVENTS = ("x-github-event", "x-gitlab-event", "x-event-key")  # headers that name what happened
_ID = re.compile(r"[\x21-\x7e]{1,200}\Z")
_EVENT = re.compile(r"[A-Za-z0-9_.:/-]{1,64}\Z")

Headers = Mapping[str, str]


class UnknownContent(GatepostError):
    """A kind of body that is not read."""


class ReadPost(Struct, frozen=True):
    """`delivery`: the sender's own id of it, '' if there is none. `challenge`: what Slack wants to read back before it
    sends anything; nobody else gets it."""

    text: str
    delivery: str = ""
    event: str = ""
    challenge: str = ""


def read_post(scheme: SignatureScheme, headers: Headers, body: bytes) -> ReadPost:
    """Invalid names what is wrong; UnknownContent: nothing of this kind is read."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnknownContent("a body that is packed is not read; send it as it is")
    text, given = _read_body(kind, _decode(body))
    if not text.strip():
        raise Invalid("body", "it is empty")
    challenge = given.get("challenge") if given.get("type") == "url_verification" else None
    return ReadPost(
        text,
        _find_delivery(scheme, headers, given),
        _find_event(headers, given),
        challenge[:LONGEST_CHALLENGE] if scheme is SignatureScheme.SLACK and isinstance(challenge, str) else "",
    )


def _read_body(kind: str, text: str) -> tuple[str, dict[str, Any]]:
    """The text for the agent, and the object that it is, if it is one."""
    if kind == JSON or kind.endswith("+json"):
        return text, _parse_object(text)
    if kind == FORM:
        return _read_form(text)
    if kind == "" or kind.startswith("text/"):
        return text, {}
    raise UnknownContent("post application/json, a form, or text")


def _read_form(text: str) -> tuple[str, dict[str, Any]]:
    """Return a form as JSON, because agents read that.

    A single field `payload` is JSON already, as GitHub and Slack send it. A form without names is text: curl sends that
    for `-d`.
    """
    try:
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Invalid("body", f"the form has more than {MOST_FIELDS} fields, or cannot be read") from None
    if "=" not in text:
        return text, {}
    if len(fields) == 1 and fields[0][0] == "payload":
        return fields[0][1], _parse_object(fields[0][1])
    named: dict[str, Any] = {}
    for name, value in fields:
        known = named.get(name)
        named[name] = value if known is None else [*known, value] if isinstance(known, list) else [known, value]
    return msgspec.json.encode(named).decode(), named


def _parse_object(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError):
        raise Invalid("body", "it is no JSON, though its content type says so") from None
    return value if isinstance(value, dict) else {}


def _decode(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise Invalid("body", "it is not UTF-8") from None


def _find_delivery(scheme: SignatureScheme, headers: Headers, given: dict[str, Any]) -> str:
    """Find the id of a delivery. A signed post has only the id of its service, so that a copy cannot get another id."""
    slack = given.get("event_id") if given.get("type") == "event_callback" else None
    stripe = given.get("id") if given.get("object") == "event" else None
    found: dict[SignatureScheme, tuple[tuple[str, object], ...]] = {
        SignatureScheme.GITHUB: (("github", headers.get(GITHUB_DELIVERY)),),
        SignatureScheme.SLACK: (("slack", slack),),
        SignatureScheme.STRIPE: (("stripe", stripe),),
    }
    anybody = (
        ("key", headers.get(IDEMPOTENCY)),
        ("github", headers.get(GITHUB_DELIVERY)),
        ("slack", slack),
        ("stripe", stripe),
    )
    name, value = next((each for each in found.get(scheme, anybody) if each[1]), ("", ""))
    if not value:
        return ""
    if not isinstance(value, str) or not _ID.match(value):
        raise Invalid(f"the delivery's id ({name})", "it is not a text of at most 200 visible signs of ASCII")
    return f"{name}:{value}"


def _find_event(headers: Headers, given: dict[str, Any]) -> str:
    """Return what happened, as the sender calls it: a word, or nothing."""
    named = [headers.get(each) for each in EVENTS]
    found = next((each for each in (*named, given.get("type")) if isinstance(each, str) and each), "")
    return found if _EVENT.match(found) else ""
