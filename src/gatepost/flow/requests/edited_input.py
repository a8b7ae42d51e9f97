"""Arguments that a person puts in place of those that were asked for: how they are read, and when they are taken."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from gatepost.core.errors import Invalid
from gatepost.core.json_limits import has_few_values
from gatepost.messages.text import one_line
from gatepost.store.rights.requests import AnswerLasts, Request, RequestKind
from gatepost.tools.contract import TOOLS

LONGEST = 20_000  # bytes of them, as JSON
# Kinds of which that is the answer itself.
ANSWERED = frozenset({RequestKind.QUESTION, RequestKind.ROOM, RequestKind.BUDGET, RequestKind.PRICE})
MOST_NAMED, LONGEST_NAME = 20, 100  # parameters that the audit names, and characters of each

_encode = msgspec.json.Encoder(order="sorted").encode


def parse_edited(text: str) -> dict[str, Any]:
    raw = text.encode(errors="replace")
    if len(raw) > LONGEST or not has_few_values(raw):
        raise Invalid("input", f"other arguments may have {LONGEST} bytes at most")
    try:
        given = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid("input", f'other arguments are one JSON object, such as {{"text": "hello"}}: {error}') from None
    if not given:
        raise Invalid("input", "an empty object says nothing; leave it out to allow what was asked")
    return given


def is_editable(request: Request) -> bool:
    """Return True if a form for editing can be offered. It is not if `check_edited` would refuse any change."""
    asked = request.kind in (RequestKind.CALL, RequestKind.TOOL) and bool(request.input)
    return asked and request.editable and not request.cut and request.quorum == 1


def check_edited(request: Request, given: Mapping[str, Any], lasts: AnswerLasts) -> dict[str, Any]:
    """Return the new arguments of a request, empty if they stay as they are. An edit decides alone and for this one
    call: nobody else has seen it. A room that they leave out is the one on the card."""
    if not given or dict(given) == request.input:
        return {}
    if request.kind in ANSWERED:
        return dict(given)  # its answers, who answers there, the model with which it goes on, or a price
    given = {**given, **{name: request.input[name] for name in _list_rooms_left_out(request, given)}}
    if given == request.input:
        return {}
    if request.cut:
        raise Invalid("input", f"of {request.id} only an excerpt is shown; allow it as it is, or deny it")
    if not request.editable:
        raise Invalid("input", f"what {request.id} asks cannot be edited; allow it as it is, or deny it")
    if request.quorum > 1:
        raise Invalid("input", f"{request.quorum} people must agree to {request.id} as it was asked; deny it instead")
    if lasts is not AnswerLasts.ONCE:
        raise Invalid("input", f"{request.id} with other arguments can be allowed once, and no longer")
    raw = _encode(given)
    if len(raw) > LONGEST:
        raise Invalid("input", f"other arguments may have {LONGEST} bytes at most")
    _check_fit(request, raw)
    return given


def _list_rooms_left_out(request: Request, given: Mapping[str, Any]) -> list[str]:
    """Return the parameters that name a room on the card and none in an edit: a tool would take the turn's room."""
    return [name for name in request.rooms if request.input.get(name) and not given.get(name)]


def _check_fit(request: Request, raw: bytes) -> None:
    """A call that its tool would refuse must not use the request up: nobody would know until the agent says so."""
    tool = TOOLS.get(request.tool) if request.kind is RequestKind.CALL else None
    if tool is None:  # of a connector, which judges its calls itself
        return
    try:
        tool.read(raw)
    except ValueError as error:
        raise Invalid("input", f"it does not fit {tool.name}: {error}") from None


def describe_edit(request: Request) -> dict[str, Any]:
    """For the audit: which arguments were changed, and the digest of what was allowed. Their words stay with the
    request, which can be erased; a call of ours has a row of its own, with the arguments that ran."""
    names = [name for name in {**request.input, **request.answer} if _differs(request, name)]
    changed = [one_line(name)[:LONGEST_NAME] for name in sorted(names)][:MOST_NAMED]
    return {"changed": changed, "digest": hashlib.sha256(_encode(request.answer)).hexdigest()}


def _differs(request: Request, name: str) -> bool:
    missing = object()
    return bool(request.input.get(name, missing) != request.answer.get(name, missing))
