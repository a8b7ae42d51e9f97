"""JSON-RPC and server-sent events of signal-cli's daemon: one reading of what went wrong, and a stream of events."""

import itertools
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from msgspec import Struct

from gatepost.channels.contract import ChannelEnded, EndReason
from gatepost.channels.kit.http import PlatformHttp
from gatepost.core.errors import GatepostError, Refused, Unavailable

WAY_OUT = "start it with `signal-cli -a <account> daemon --http`, or correct channels.signal.url"
LINK = "register or link the account again with signal-cli"
USER_ERROR, IO_ERROR, UNTRUSTED_KEY, RATE_LIMIT, INVALID_PARAMS = -1, -3, -4, -5, -32602
LARGEST_LINE = 1024 * 1024
KEEPALIVE_S = 60.0  # the daemon sends one every 15 seconds
DEFAULT_WAIT_S = 60.0
INTERNAL_ERROR = -32603  # what the daemon did not foresee, such as a link that broke
# The bot's own account; "The user <name> is not registered." is about a recipient.
LOST_ACCOUNT = re.compile(
    r"\Auser (?:\S+ )?is not registered|authorization failed|account does not exist", re.IGNORECASE
)
BAD_FILE = "AttachmentInvalidException"
NO_LINK = "NETWORK_FAILURE"  # the result of a recipient


class DaemonEvent(Struct, frozen=True):
    """`data` is '' for a sign of life."""

    id: str = ""
    data: str = ""


class SignalRpc:
    def __init__(self, url: str, account: str, ca_file: str) -> None:
        self._http = PlatformHttp("signal-cli", url, remedy=WAY_OUT, ca_file=ca_file)
        self._account, self._ids = account, itertools.count(1)
        self._patience = httpx2.Timeout(25.0, read=KEEPALIVE_S)

    async def close(self) -> None:
        await self._http.close()

    async def call(self, method: str, params: dict[str, Any], *, reads: bool = False, timeout: float = 25.0) -> Any:
        body = json.dumps(self._make_request(method, params)).encode()
        return await self.call_raw(method, body, reads=reads, timeout=timeout)

    async def call_raw(
        self, method: str, body: bytes | AsyncIterator[bytes], *, reads: bool = False, timeout: float = 25.0
    ) -> Any:
        answer = await self._http.call(
            "POST",
            "api/v1/rpc",
            action=method,
            reads=reads,
            timeout=timeout,
            content=body,
            headers={"content-type": "application/json"},
        )
        if not isinstance(answer, dict):
            raise Unavailable("signal-cli", "its answer is no JSON-RPC", uncertain=not reads)
        if isinstance(error := answer.get("error"), dict):
            raise explain(method, error, reads)
        return answer.get("result")

    def render_call(self, method: str, params: dict[str, Any]) -> bytes:
        return json.dumps(self._make_request(method, params)).encode()

    def _make_request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        named = {"account": self._account, **params}
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": named}

    async def stream_call(self, method: str, params: dict[str, Any]) -> AsyncIterator[bytes]:
        """The answer as it comes, for one that is large."""
        body, headers = self.render_call(method, params), {"content-type": "application/json"}
        async with self._http.stream(
            "POST", "api/v1/rpc", broken="the file broke off", content=body, headers=headers, timeout=self._patience
        ) as response:
            async for chunk in response.aiter_bytes():
                yield chunk

    async def list_events(self, after: str) -> AsyncIterator[DaemonEvent]:
        """Events as they come, from behind a known one. Ends with Unavailable when the connection does."""
        # An id that the daemon does not know brings all that it keeps; without one, what came meanwhile would be lost.
        headers = {"accept": "text/event-stream", "last-event-id": after or "0"}
        async with self._http.stream(
            "GET", "api/v1/events", params={"account": self._account}, headers=headers, timeout=self._patience
        ) as response:
            if response.status_code == 400:
                why = f"signal-cli has no account {self._account}"
                raise ChannelEnded(EndReason.SETTING, why, "correct channels.signal.account, or link it")
            if response.status_code != 200:
                raise Unavailable("signal-cli", f"it answers {response.status_code} to a request for events")
            yield DaemonEvent()
            async for event in parse_events(response.aiter_bytes()):
                yield event
        raise Unavailable("signal-cli", "it closed the connection")


async def parse_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[DaemonEvent]:
    """Server-sent events. A line that is too long is an error: nobody writes such messages."""
    pending, event = b"", ""
    data: list[str] = []
    async for chunk in chunks:
        *lines, pending = (pending + chunk).split(b"\n")
        if len(pending) > LARGEST_LINE:
            raise Unavailable("signal-cli", "it sent an overlong line")
        for raw in lines:
            line = raw.rstrip(b"\r").decode(errors="replace")
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                if data:
                    yield DaemonEvent(event, "\n".join(data))
                event, data = "", []
            elif not name:
                yield DaemonEvent()
            elif name == "id":
                event = value[:200]
            elif name == "data":
                data.append(value)


def explain(method: str, error: dict[str, Any], reads: bool) -> GatepostError:
    """Return what an error of the daemon means to us."""
    code, words = error.get("code"), " ".join(str(error.get("message", "")).split())[:300]
    if LOST_ACCOUNT.search(words):
        return ChannelEnded(EndReason.TOKEN, f"Signal no longer accepts the account ({words[:120]})", LINK)
    if code == RATE_LIMIT:
        return Unavailable("Signal", "it asks us to wait", retry_after=find_wait(error), everywhere=True)
    broken = code == INTERNAL_ERROR and BAD_FILE not in words
    if code == IO_ERROR or broken or NO_LINK in [each.get("type") for each in list_results(error)]:
        return Unavailable("Signal", words, uncertain=not reads)
    if code == UNTRUSTED_KEY:
        why = f"{words}; the person's safety number changed: check it and run `signal-cli trust`"
        return Refused("this bot", method, "Signal", why)
    return Refused("this bot", method, "Signal", words or f"error {code}")


def list_results(error: dict[str, Any]) -> list[dict[str, Any]]:
    """List what became of a message for each recipient."""
    data = error.get("data")
    response = data.get("response") if isinstance(data, dict) else None
    results = response.get("results") if isinstance(response, dict) else None
    return [each for each in results if isinstance(each, dict)] if isinstance(results, list) else []


def find_wait(error: dict[str, Any]) -> float:
    waits = [each.get("retryAfterSeconds") for each in list_results(error)]
    known = [float(each) for each in waits if isinstance(each, int | float) and each > 0]
    return max(known, default=DEFAULT_WAIT_S)
