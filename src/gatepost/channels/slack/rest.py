"""Slack's Web API: answers are 200 with `ok`, and the error is a word."""

from typing import Any
from urllib.parse import urlsplit

from gatepost.channels.contract import ChannelEnded, EndReason
from gatepost.channels.kit.http import PlatformAnswer, PlatformHttp, PlatformRefusal
from gatepost.core.errors import GatepostError, Unavailable

APPS = "https://api.slack.com/apps"
SLACK_HOST, FILE_HOST = "slack.com", "files.slack.com"
BAD_TOKEN = frozenset(
    {"invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive", "not_allowed_token_type"}
)
MOVING = frozenset({"team_added_to_org", "org_login_required", "external_channel_migrating"})
BUSY = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout", "update_failed"}) | MOVING
LIMITED = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})


class SlackHttp(PlatformHttp):
    def __init__(self, base_url: str, token: str, what: str) -> None:
        """`what`: which token it is, for an error."""
        self._what = what
        self._mend = f"copy the {what} of the app at {APPS} and set it with `gatepost channel set`"
        super().__init__(
            "Slack",
            base_url,
            headers={"authorization": f"Bearer {token}"},
            remedy=self._mend,
            read_error=self._read_word,
            is_own_place=self.is_own_place,
        )

    async def ask(self, method: str, action: str = "", **arguments: Any) -> dict[str, Any]:
        """A method that reads; its arguments go as a form, which all of them take."""
        given = {name: value for name, value in arguments.items() if value not in ("", None)}
        answer = await self.call("POST", method, data=given, reads=True, action=action or method)
        return _check_object(answer)

    async def act(self, method: str, body: dict[str, Any], action: str = "", *, reads: bool = False) -> dict[str, Any]:
        """A method that changes something."""
        headers = {"content-type": "application/json; charset=utf-8"}
        answer = await self.call("POST", method, json=body, headers=headers, reads=reads, action=action or method)
        return _check_object(answer, uncertain=not reads)

    def is_own_place(self, url: str) -> bool:
        """Return True if files of the platform lie there: the token goes to no other place."""
        parts, own = urlsplit(url), urlsplit(self.base_url)
        real = own.hostname == SLACK_HOST and own.scheme == "https"
        return (parts.scheme, parts.netloc) == (own.scheme, own.netloc) or (
            real and parts.scheme == "https" and parts.netloc == FILE_HOST
        )

    def _read_word(self, given: PlatformAnswer) -> GatepostError | None:
        answer = given.body
        if given.status >= 300 or not isinstance(answer, dict) or answer.get("ok") is not False:
            return None
        error = str(answer.get("error") or "unknown_error")[:100]
        if error in BAD_TOKEN:
            return ChannelEnded(EndReason.TOKEN, f"Slack no longer accepts the {self._what} ({error})", self._mend)
        if error == "missing_scope":
            needed = str(answer.get("needed") or "?")[:100]
            remedy = f"add it at {APPS} under OAuth & Permissions, and install the app again"
            return ChannelEnded(EndReason.RIGHTS, f"the app lacks the scope {needed} to {given.action}", remedy)
        if error in LIMITED:
            return Unavailable(self.platform, "it asks us to wait", retry_after=given.retry_after)
        if error in BUSY:
            return Unavailable(self.platform, f"it answers {error}", uncertain=given.effect)
        return PlatformRefusal(self.platform, given.action, given.status, answer, error)


def _check_object(answer: Any, *, uncertain: bool = False) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise Unavailable("Slack", "its answer is no JSON object", uncertain=uncertain)
    return answer
