"""Errors that a model's endpoint, or the gateway before it, can answer: one of a few classes. Pure."""

import re
from typing import Any

import msgspec

from gatepost.inside.model.overflow_errors import ContextOverflow, find_overflow
from gatepost.mailbox.runner_frames import TurnErrorClass

AUTH = frozenset({"authentication_error", "invalid_api_key", "invalid_authentication"})
QUOTA = frozenset({"billing_error", "insufficient_quota", "budget_exceeded", "billing_hard_limit_reached"})
AGAIN = frozenset({"rate_limit_error", "overloaded_error", "api_error", "timeout_error", "rate_limit_exceeded"})
BUSY = frozenset({"rate_limit_error", "overloaded_error", "rate_limit_exceeded"})
# Patterns are compiled when an error comes, because each start of a sandbox would pay for them.
_BUDGET = (
    r"(?:(?:Today's|This month's) budget of|The limit of (?:one answer|one run of this task|this conversation)) "
    r".{1,400}?`gatepost (?:budget|task) set[^`]{0,200}`"
)
REFUSED_KEY = "refuses the gateway's key"
_OURS = r"gatepost: (.*(?:price|passed on|takes no query).*)"
# A model that sees nothing. An error about one picture, such as its format, is none of these.
_NO_PICTURES = (
    r"(?:image|vision|multi-?modal).{0,100}(?:not support|unsupported|only supported|not a multi)"
    r"|(?:not support|not accept|unsupported|only supports? text|missing data required for|no endpoints found).{0,80}"
    r"(?:image|vision|multi-?modal)|not a multi-?modal|unknown variant .?image"
)
_ONE_PICTURE = r"format|media.?type|mime|too large|dimension|exceed|base64"
_EMPTY = r"credit balance is too low|prepayment credits are depleted"  # Anthropic, Google
LONGEST = 500  # characters of what the endpoint says about it
LONGEST_BODY = 2000  # bytes of an answer whose words are looked at
_NO_OVERFLOW = frozenset({401, 403, 404, 529})  # whatever they say, nothing is too large


class ProviderError(Exception):
    """A turn cannot go on. `about_input`: what was asked is wrong; `overflow`: it is more than the model can read;
    `no_pictures`: the model takes none."""

    def __init__(
        self,
        message: str,
        kind: TurnErrorClass = TurnErrorClass.FATAL,
        retry_after: float | None = None,
        *,
        about_input: bool = False,
        overflow: ContextOverflow | None = None,
        no_pictures: bool = False,
    ) -> None:
        super().__init__(message)
        self.message, self.kind, self.retry_after, self.about_input = message, kind, retry_after, about_input
        self.overflow, self.no_pictures = overflow, no_pictures


class _Error(msgspec.Struct):
    message: str = ""
    type: str | None = None
    code: Any = None


class _Body(msgspec.Struct):
    error: _Error | str | None = None


def find_budget(said: str) -> str:
    """Return the gateway's own no, as it comes back from agents that put words of theirs around it; '': there is none.
    It is about no account."""
    found = re.search(_BUDGET, said)
    return found[0] if found else ""


def _matches(pattern: str, said: str) -> bool:
    return re.search(pattern, said, re.IGNORECASE) is not None


def parse_provider_error(status: int, body: bytes, retry_after: float | None = None) -> ProviderError:
    """From an answer that is none; status 0: it stood in the middle of a stream."""
    error = _read(body)
    names = {str(error.type), str(error.code)}
    said = " ".join(error.message.split())[:LONGEST]
    if budget := find_budget(said):
        return ProviderError(budget, TurnErrorClass.BUDGET)
    if status == 402 or names & QUOTA or _matches(_EMPTY, said):
        return ProviderError(said or "the model's account has no quota left", TurnErrorClass.QUOTA, retry_after)
    if status == 401 or names & AUTH or REFUSED_KEY in said:
        return ProviderError(said or "the model's account was not accepted", TurnErrorClass.AUTH)
    overflow = find_overflow(f"{names} {said} {body[:LONGEST_BODY].decode(errors='replace')}")
    if overflow is not None and status not in _NO_OVERFLOW:
        if overflow.answer:
            return ProviderError(f"the model's endpoint refused the request: {said}", overflow=overflow)
        why = f"the conversation is larger than the model's context ({said or f'status {status}'})"
        return ProviderError(why, TurnErrorClass.OVERFLOW, overflow=overflow)
    if status not in (403, 429) and _matches(_NO_PICTURES, said) and not _matches(_ONE_PICTURE, said):
        why = f"the model's endpoint refused the request: {said}"
        return ProviderError(why, about_input=status in (400, 413, 422), no_pictures=True)
    if status in (408, 409, 425, 429) or status >= 500 or (status == 0 and (names & AGAIN or not error.type)):
        why = said or f"status {status}"
        kind = TurnErrorClass.OVERLOAD if status in (429, 503, 529) or names & BUSY else TurnErrorClass.RETRYABLE
        return ProviderError(f"the model cannot answer just now ({why})", kind, retry_after)
    if found := re.search(_OURS, said):
        return ProviderError(f"the gateway does not pass this on: {found[1]}")
    return ProviderError(
        f"the model's endpoint refused the request: {said or f'status {status}'}", about_input=status in (400, 413, 422)
    )


def _read(body: bytes) -> _Error:
    try:
        found = msgspec.json.decode(body, type=_Body).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Error(body[:LONGEST].decode(errors="replace"))
    if isinstance(found, str):
        return _Error(found)
    return found or _Error()
