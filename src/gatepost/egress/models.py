"""Model endpoints: the one place where a key and a budget meet a request of a sandbox.

Listed (method, path) pairs alone, nothing near them. A call is judged, clamped, paid for in advance, made, measured and
settled, whatever ends it. The key goes out in one header and comes back in nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec

from gatepost.core import log
from gatepost.core.settings import Config, setting
from gatepost.core.threads import Threads
from gatepost.core.values import has_few_values
from gatepost.egress import audio, bodies, tool_costs
from gatepost.egress.bodies import CHAT, MESSAGES, RESPONSES, Asked, Shape
from gatepost.egress.contract import Keys, Prices, Purse, Spender
from gatepost.egress.endpoints import gateway_bases
from gatepost.egress.http import Client, Head, Refusal
from gatepost.egress.paying import Till
from gatepost.egress.prices import Price
from gatepost.egress.rules import Target
from gatepost.egress.tool_costs import ToolCosts
from gatepost.egress.upstream import (
    NO_KEY,
    Base,
    Bill,
    Key,
    Upstream,
    give_back,
    request_headers,
    stream_back,
)
from gatepost.store.costs import Usage

T = TypeVar("T")

MAX_OUTPUT = setting("egress.max_output", 16_000, help="Tokens that one model call may answer with at most.")

COUNT_S = 15.0  # longer than that nobody waits for a number
LARGEST_COUNT = 64 * 1024  # bytes of an answer that is one number
BIG = 64 * 1024  # bytes; a body above that is judged and written off the loop …
FEW = 1000  # … and one of more values, too: each is several microseconds of work
MOST_JUDGES = 2  # of such bodies at once, of all sessions
COUNTING = "count_tokens"  # what a key is used for, where that is no call
NO_MODEL = "this is no model endpoint; there are: "

_log = log.get("egress")


@dataclass(frozen=True, slots=True)
class Endpoint:
    vendor: str
    path: str
    shape: Shape | None = None  # None: no body
    counts: bool = False  # answers with a number of tokens, and costs nothing
    hears: bool = False  # takes a recording in a form


ENDPOINTS: Mapping[tuple[str, str], Endpoint] = {
    ("POST", "/anthropic/v1/messages"): Endpoint("anthropic", "/messages", MESSAGES),
    ("POST", "/anthropic/v1/messages/count_tokens"): Endpoint("anthropic", "/messages/count_tokens", MESSAGES, True),
    ("GET", "/anthropic/v1/models"): Endpoint("anthropic", "/models"),
    ("POST", "/openai/v1/chat/completions"): Endpoint("openai", "/chat/completions", CHAT),
    ("POST", "/openai/v1/responses"): Endpoint("openai", "/responses", RESPONSES),
    ("POST", "/openai/v1/audio/transcriptions"): Endpoint("openai", "/audio/transcriptions", hears=True),
    ("GET", "/openai/v1/models"): Endpoint("openai", "/models"),
}
_QUERIES = ("", "beta=true")  # Claude Code says the latter; it changes nothing


def find(head: Head) -> Endpoint:
    """By the exact bytes of the path: no dots, no encoded signs, no second slash. Raises Refusal."""
    path, _, query = head.target.partition("?")
    found = ENDPOINTS.get((head.method, path))
    if found is None:
        known = ", ".join(f"{method} {each}" for method, each in ENDPOINTS)
        raise Refusal(404, NO_MODEL + known, f"{head.method} {path[:200]}")
    if head.method == "POST" and query not in _QUERIES:
        raise Refusal(400, "a model endpoint takes no query", f"{head.method} {path}")
    return found


@dataclass(frozen=True, slots=True)
class Deal:
    """What a call may come to."""

    asked: Asked
    price: Price
    output: int  # tokens at most
    worst: int

    @property
    def model(self) -> str:
        return self.asked.model

    def actual(self, bill: Bill) -> tuple[int | None, Usage]:
        """What is booked: as measured; else what it may have been, and without any number (None) all of it."""
        measured = bill.measured
        if bill.free:
            return 0, Usage()
        if measured.usage is None:
            return None, Usage()
        told = measured.usage if measured.whole else replace(measured.usage, output=self.output)
        fee = self.asked.surcharge.fee_of(measured.used if measured.whole else None)
        return self.price.of(told, measured.written_long) + fee, told


def strike(asked: Asked, price: Price, room: int | None) -> Deal:
    """Clamp the answer to what the budget still buys, but not to what is of no use: the purse says no to that."""
    output, billed, fee = asked.output, asked.billed, asked.surcharge.fee
    if room is not None:
        prompt, each = price.worst(billed, 0) + fee, price.output_beyond(billed)
        bought = max(room - prompt - 1, 0) * 1_000_000 // each if each else output  # 1: what is rounded up
        output = min(output, max(bought, min(output, bodies.LEAST_OUTPUT)))
    return Deal(asked, price, output, price.worst(billed, output) + fee)


def with_count(asked: Asked, counted: int) -> Asked:
    """The prompt as its endpoint counts it, with a margin: a count is an estimate. Never more than its bytes allow."""
    return replace(asked, prompt=min(asked.prompt, counted + counted // 10 + 500))


def is_cramped(deal: Deal, room: int | None) -> bool:
    """Whether the bound by bytes cuts the answer short or forbids the call, and a shorter prompt could help."""
    if room is None or (deal.worst <= room and deal.output >= deal.asked.output):
        return False
    return deal.price.worst(0, min(deal.asked.output, bodies.LEAST_OUTPUT)) <= room


class _Count(msgspec.Struct):
    input_tokens: int


@dataclass(frozen=True, slots=True)
class Order:
    """One request on its way."""

    client: Client
    head: Head
    endpoint: Endpoint
    spender: Spender
    features: frozenset[str]
    base: Base


class Models:
    """One for the whole gateway, so that connections to the vendors are kept."""

    def __init__(
        self, config: Config, purse: Purse, keys: Keys, prices: Prices, tools: ToolCosts = tool_costs.shipped
    ) -> None:
        self._config, self._purse, self._keys, self._prices, self._tools = config, purse, keys, prices, tools
        self._bases = gateway_bases(config)
        self._upstream = Upstream()
        self._till = Till(purse)
        self._every_judge = Threads(MOST_JUDGES)
        self._judges: WeakValueDictionary[str, Threads] = WeakValueDictionary()

    @property
    def targets(self) -> frozenset[Target]:
        """The endpoints' own hosts, which nobody reaches by another way."""
        return frozenset(base.target for base in self._bases.values() if base.target is not None)

    def move(self, config: Config) -> None:
        """The vendors are elsewhere from now on."""
        self._bases = gateway_bases(config)

    async def close(self) -> None:
        """When no socket is open any more."""
        await self._till.close()
        await self._upstream.close()

    async def answer(
        self, client: Client, head: Head, spender: Spender, features: frozenset[str], own: Mapping[str, Base]
    ) -> str:
        """One request, from its body to the last byte of its answer; what it was, for the log. `own`: the endpoints of
        the group itself, by vendor. Raises Refusal."""
        endpoint = find(head)
        name = f"{endpoint.vendor} {endpoint.path}"
        try:
            base = own.get(endpoint.vendor) or self._bases[endpoint.vendor]
            order = Order(client, head, endpoint, spender, features, base)
            await _while_there(client, self._serve(order, await _read(client, head)))
        except Refusal as no:
            no.target = no.target or name
            raise
        return name

    async def _serve(self, order: Order, raw: bytes) -> None:
        shape, features = order.endpoint.shape, order.features
        if order.endpoint.hears:
            await self._hear(order, raw)
            return
        if shape is None:
            await self._call(order, await self._key(order), None, Bill())
            return
        if order.endpoint.counts:
            body = await self._judge(order, raw, lambda: bodies.count(bodies.decode(raw), features, self._tools))
            await self._call(order, await self._key(order, COUNTING), body, Bill())
            return
        most, tools = self._config[MAX_OUTPUT], self._tools
        asked = await self._judge(order, raw, lambda: bodies.judge(shape, bodies.decode(raw), features, most, tools))
        price = self._price(asked.model)
        if price.minute:
            raise Refusal(400, f"{asked.model[:100]!r} is priced by the minute: it transcribes, and answers nothing")
        deal = await self._strike(order, raw, asked, price)
        body = await self._judge(
            order, raw, lambda: bodies.clamped(shape, asked, deal.output, at_vendor=order.base.default)
        )
        async with self._till.paid(order.spender, deal) as bill:
            await self._call(order, await self._key(order), body, bill, drop_usage=asked.adds_usage)

    async def _strike(self, order: Order, raw: bytes, asked: Asked, price: Price) -> Deal:
        """By the bytes of the prompt; where these do not fit, by what the endpoint counts, if it does."""
        room = await self._purse.room(order.spender)
        deal = strike(asked, price, room)
        if order.endpoint.shape is not MESSAGES or order.features or not is_cramped(deal, room):
            return deal  # what the vendor fetches or runs for a group that may have it stands in no count
        counted = await self._count(order, await self._judge(order, raw, lambda: bodies.to_count(asked)))
        if counted is None:
            return deal
        return strike(with_count(asked, counted), price, await self._purse.room(order.spender))

    async def _count(self, order: Order, body: bytes) -> int | None:
        """The prompt's tokens, which its endpoint tells for nothing; None: it does not."""
        try:
            key = await self._key(order, COUNTING)
            url = f"{order.base.url}/messages/count_tokens"
            headers = request_headers(order.head, order.endpoint.vendor, key) | {"accept": "application/json"}
            async with (
                asyncio.timeout(COUNT_S),
                self._upstream.ask("POST", url, headers, body, Bill()) as response,
            ):
                raw = bytearray()
                async for piece in response.aiter_bytes():
                    raw += piece
                    await order.client.pace.spend(len(piece))
                    if len(raw) > LARGEST_COUNT:
                        return None
                counted = msgspec.json.decode(raw, type=_Count).input_tokens if response.status_code == 200 else -1
        except (Refusal, TimeoutError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return counted if counted > 0 else None

    async def _hear(self, order: Order, raw: bytes) -> None:
        recording = await self._judge(order, raw, lambda: audio.read_form(order.head.get("content-type"), raw))
        hearing = audio.strike(recording, self._price(recording.model))
        async with self._till.paid(order.spender, hearing) as bill:
            body = await self._judge(order, raw, recording.render)
            await self._call(order, await self._key(order), body, bill, kind=recording.kind)

    async def _judge(self, order: Order, raw: bytes, work: Callable[[], T]) -> T:
        """A body that is much work off the loop: one at a time of a session, few of all."""
        if len(raw) <= BIG and has_few_values(raw, FEW):
            return work()
        judge = self._judges.setdefault(order.spender.session_id, Threads(1, self._every_judge))
        return await judge.run(work)

    def _price(self, model: str) -> Price:
        price = self._prices(model)
        if price is None:
            raise Refusal(
                400, f"{model[:100]!r} has no price, so it is not called; the operator can add one (connect --price)"
            )
        return price

    async def _call(
        self, order: Order, key: Key, body: bytes | None, bill: Bill, *, drop_usage: bool = False, kind: str = ""
    ) -> None:
        """`kind`: what the body is, where that is not as the client said."""
        endpoint, client = order.endpoint, order.client
        url = order.base.url + endpoint.path
        headers = request_headers(order.head, endpoint.vendor, key) | ({"content-type": kind} if kind else {})
        async with self._upstream.ask(order.head.method, url, headers, body, bill) as response:
            told = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if response.status_code == 200 and told == "text/event-stream":
                await stream_back(client, response, key.value, bill, drop_usage=drop_usage)
            else:
                await give_back(client, response, key.value, bill)

    async def _key(self, order: Order, purpose: str = "model") -> Key:
        return await find_key(self._keys, order.endpoint.vendor, order.spender, order.base, purpose)


async def find_key(keys: Keys, vendor: str, spender: Spender, base: Base, purpose: str) -> Key:
    """Asked for when it is about to be sent: what is asked for is on record as used."""
    wanted = "ANTHROPIC_API_KEY" if vendor == "anthropic" else "OPENAI_API_KEY"
    key = await keys.get(wanted, spender, purpose, base.origins)
    if key:
        return Key(key, {"x-api-key": key} if vendor == "anthropic" else {"authorization": f"Bearer {key}"})
    if vendor == "anthropic":
        token = await keys.get("ANTHROPIC_AUTH_TOKEN", spender, purpose, base.origins)
        if token:
            return Key(token, {"authorization": f"Bearer {token}"}, beta="oauth-2025-04-20")
    if base.default:
        raise Refusal(401, f"there is no key for this model; the operator can: gatepost secret set {wanted}")
    return NO_KEY


async def _read(client: Client, head: Head) -> bytes:
    raw = bytearray()
    async for piece in client.body(head, bodies.LARGEST_BODY):
        raw += piece
    return bytes(raw)


async def _while_there(client: Client, work: Coroutine[Any, Any, None]) -> None:
    """Nobody pays for an answer that nobody waits for: if the client hangs up, the call is cut."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(client.gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        working.cancel()
        await asyncio.wait({working, leaving})
    try:
        if not working.cancelled():
            working.result()
    finally:
        del working  # an error that held itself would keep the body, too
