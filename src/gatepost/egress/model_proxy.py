"""Model endpoints: the one place where a key and a budget meet a request of a sandbox.

Listed (method, path) pairs alone, nothing near them. A call is judged, clamped, paid for in advance, made, measured and
settled, whatever ends it. The key goes out in one header and comes back in nothing.
"""

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from gatepost.core import log
from gatepost.core.clock import to_microseconds
from gatepost.core.durations import Durations, TimedStep
from gatepost.core.errors import Unavailable
from gatepost.core.json_limits import bound_values, has_few_values
from gatepost.core.process.fencing import FenceCheck, always, check_contact
from gatepost.core.process.thread_pools import BoundedThreadPool
from gatepost.core.records import replace
from gatepost.core.secret_scrubber import SHORTEST_SECRET, render_too_short
from gatepost.core.settings import Config, setting
from gatepost.egress import audio, endpoints, google_bodies, request_bodies, token_usage, tool_costs
from gatepost.egress.call_payments import CallPayments
from gatepost.egress.contract import CallBudget, CallCost, ModelKeys, PriceAsker, Prices, Spender
from gatepost.egress.endpoints import gateway_bases
from gatepost.egress.google_bodies import GoogleCall
from gatepost.egress.http import EgressClient, HttpRefusal, HttpRequestHead
from gatepost.egress.prices import Price
from gatepost.egress.prompt_sizes import CountedPrompts, bound_by_beginning, list_shared
from gatepost.egress.request_bodies import CHAT, MESSAGES, RESPONSES, BodySchema, CheckedBody
from gatepost.egress.rules import EgressTarget
from gatepost.egress.tool_costs import ToolCosts
from gatepost.egress.upstream import (
    NO_KEY,
    Bill,
    Upstream,
    VendorBaseUrl,
    VendorKey,
    request_headers,
    send_response,
    stream_response,
)
from gatepost.store.money.costs import TokenCounts
from gatepost.store.rights.secrets import OPENAI_API_KEY

T = TypeVar("T")

MAX_OUTPUT = setting("egress.max_output", 16_000, help="Tokens that one model call may answer with at most.")

COUNT_S = 15.0  # longer than that nobody waits for a number
LARGEST_COUNT = 64 * 1024  # bytes of an answer that is one number
BIG = 64 * 1024  # bytes; a body above that, or with many values, is judged and written off the loop
VALUE_CHARGE = 256  # bytes of a session's pace: to judge a value is as much work as to move so many
MOST_JUDGES = 2  # of such bodies at once, of all sessions
COUNTING = "count_tokens"  # what a key is used for, where that is no call
COUNTED_AT = {"/messages": "/messages/count_tokens", "/responses": "/responses/input_tokens"}  # at no cost
NO_MODEL = "this is no model endpoint; there are: "

_log = log.get("egress")


class VendorEndpoint(Struct, frozen=True):
    vendor: str
    path: str
    shape: BodySchema | None = None  # None: no body
    counts: bool = False  # answers with a number of tokens, and costs nothing
    hears: bool = False  # takes a recording in a form
    google: GoogleCall | None = None  # in the place of a shape


ENDPOINTS: Mapping[tuple[str, str], VendorEndpoint] = {
    ("POST", "/anthropic/v1/messages"): VendorEndpoint("anthropic", "/messages", MESSAGES),
    ("POST", "/anthropic/v1/messages/count_tokens"): VendorEndpoint(
        "anthropic", "/messages/count_tokens", MESSAGES, True
    ),
    ("GET", "/anthropic/v1/models"): VendorEndpoint("anthropic", "/models"),
    ("POST", "/openai/v1/chat/completions"): VendorEndpoint("openai", "/chat/completions", CHAT),
    ("POST", "/openai/v1/responses"): VendorEndpoint("openai", "/responses", RESPONSES),
    ("POST", "/openai/v1/audio/transcriptions"): VendorEndpoint("openai", "/audio/transcriptions", hears=True),
    ("GET", "/openai/v1/models"): VendorEndpoint("openai", "/models"),
    ("GET", "/google/v1beta/models"): VendorEndpoint("google", "/models"),
    ("POST", "/transcribe/v1/audio/transcriptions"): VendorEndpoint(audio.VENDOR, "/audio/transcriptions", hears=True),
}
GENERATE = "POST /google/v1beta/models/MODEL:streamGenerateContent?alt=sse"
KEYS = {**endpoints.KEYS, audio.VENDOR: audio.TRANSCRIBE_API_KEY}
_QUERIES = ("", "beta=true")  # Claude Code says the latter; it changes nothing
_KEY_HEADERS = {"anthropic": "x-api-key", "google": "x-goog-api-key"}  # of the others it is a bearer's


def find_endpoint(head: HttpRequestHead) -> VendorEndpoint:
    """By the exact bytes of the path: no dots, no encoded signs, no second slash. Raises Refusal."""
    path, _, query = head.target.partition("?")
    if (call := google_bodies.read_call(head)) is not None:
        return VendorEndpoint(google_bodies.VENDOR, call.path, counts=call.counts, google=call)
    found = ENDPOINTS.get((head.method, path))
    if found is None:
        known = ", ".join((*(f"{method} {each}" for method, each in ENDPOINTS), GENERATE))
        raise HttpRefusal(404, NO_MODEL + known, f"{head.method} {path[:200]}")
    if head.method == "POST" and query not in _QUERIES:
        raise HttpRefusal(400, "a model endpoint takes no query", f"{head.method} {path}")
    return found


class TokenCostBound(Struct, frozen=True):
    """The most that a call may cost."""

    asked: CheckedBody
    price: Price
    output: int  # tokens at most
    worst: int

    @property
    def model(self) -> str:
        return self.asked.model

    @property
    def tokens(self) -> TokenCounts:
        return TokenCounts(input=self.asked.billed, output=self.output)

    def actual(self, bill: Bill) -> CallCost:
        """Return the cost as measured, or, of an answer that was cut, the most that it can have come to by then."""
        measured = bill.measured
        if bill.free:
            return CallCost(0)
        if measured.usage is not None and measured.whole:
            fee = self.asked.surcharge.fee_of(measured.used)
            return CallCost(self.price.of(measured.usage, measured.written_long) + fee, measured.usage)
        if any(each.uses for each in self.asked.surcharge.tools):
            return CallCost(self.worst, self.tokens, measured=False)  # nobody knows what the vendor ran meanwhile
        unseen_s = bill.seconds if self.asked.hides else bill.unread_seconds
        said = token_usage.bound_cut_output(bill.arrived, unseen_s)
        output = min(said, self.output)
        if measured.usage is None:
            read = self.asked.billed
            cost = self.price.worst(read, output, self.asked.writes_cache)
            return CallCost(cost, TokenCounts(input=read, output=output), measured=False)
        usage = replace(measured.usage, output=max(output, min(measured.usage.output, self.output)))
        return CallCost(self.price.of(usage, measured.written_long), usage, measured=False)


def make_token_cost_bound(asked: CheckedBody, price: Price, room: int | None) -> TokenCostBound:
    """Clamp the answer to what the budget still buys, but not to what is of no use: the purse says no to that."""
    output, billed, fee, writes = asked.output, asked.billed, asked.surcharge.fee, asked.writes_cache
    if room is not None:
        prompt, each = price.worst(billed, 0, writes) + fee, price.output_beyond(billed)
        bought = max(room - prompt - 1, 0) * 1_000_000 // each if each else output  # 1: what is rounded up
        output = min(output, max(bought, min(output, request_bodies.LEAST_OUTPUT)))
    return TokenCostBound(asked, price, output, price.worst(billed, output, writes) + fee)


def with_count(asked: CheckedBody, counted: int) -> CheckedBody:
    """The prompt as its endpoint counts it, with a margin: a count is an estimate. Never more than its bytes allow."""
    return replace(asked, prompt=min(asked.prompt, counted + counted // 10 + 500))


def needs_closer_bound(deal: TokenCostBound, room: int | None) -> bool:
    """Return True if the bound by bytes cuts the answer short or forbids the call, and a shorter prompt could help."""
    if room is None or (deal.worst <= room and deal.output >= deal.asked.output):
        return False
    return deal.price.worst(0, min(deal.asked.output, request_bodies.LEAST_OUTPUT)) <= room


class _TokenCount(msgspec.Struct):
    input_tokens: int = 0
    totalTokens: int = 0  # Google's word

    @property
    def found(self) -> int:
        return self.input_tokens or self.totalTokens


class ModelRequest(Struct, frozen=True):
    """One request on its way."""

    client: EgressClient
    head: HttpRequestHead
    endpoint: VendorEndpoint
    spender: Spender
    features: frozenset[str]
    base: VendorBaseUrl


def check_body(order: ModelRequest, raw: bytes, most: int, tools: ToolCosts) -> CheckedBody:
    """Return the part of a body that is sent, by its vendor's rules. Raises Refusal."""
    endpoint, given, origin = order.endpoint, request_bodies.decode(raw), order.base.origin
    if endpoint.google is not None:
        return google_bodies.check_body(endpoint.google, given, most, origin)
    assert endpoint.shape is not None
    return request_bodies.check_body(endpoint.shape, given, order.features, most, tools, origin)


def check_count_body(order: ModelRequest, raw: bytes, tools: ToolCosts) -> bytes:
    given = request_bodies.decode(raw)
    if order.endpoint.google is not None:
        return google_bodies.check_count_body(order.endpoint.google, given)
    return request_bodies.check_count_body(given, order.features, tools)


def render_clamped_body(order: ModelRequest, asked: CheckedBody, output: int) -> bytes:
    if order.endpoint.shape is None:
        return google_bodies.render_clamped_body(asked, output)
    return request_bodies.render_clamped_body(order.endpoint.shape, asked, output, at_vendor=order.base.default)


class ModelProxy:
    """One for the whole gateway, so that connections to the vendors are kept."""

    def __init__(
        self,
        config: Config,
        purse: CallBudget,
        keys: ModelKeys,
        prices: Prices,
        tools: ToolCosts = tool_costs.find_shipped_cost,
        may_act: FenceCheck = always,
        asker: PriceAsker | None = None,
    ) -> None:
        self._asker = asker
        self._config, self._purse, self._keys, self._prices, self._tools = config, purse, keys, prices, tools
        self.move(config)
        self._may_act, self._upstream = may_act, Upstream(may_act)
        self.durations = Durations()
        self._till = CallPayments(purse)
        self._counted = CountedPrompts()
        self._every_judge = BoundedThreadPool(MOST_JUDGES)
        self._judges: WeakValueDictionary[str, BoundedThreadPool] = WeakValueDictionary()

    @property
    def targets(self) -> frozenset[EgressTarget]:
        """The endpoints' own hosts, which nobody reaches by another way."""
        return frozenset(base.target for base in self._bases.values() if base.target is not None)

    def move(self, config: Config) -> None:
        """The vendors are elsewhere from now on."""
        self._transcription = audio.find_transcription_endpoint(config)
        others = {audio.VENDOR: self._transcription.base} if self._transcription is not None else {}
        self._bases = gateway_bases(config) | others

    async def close(self) -> None:
        """When no socket is open any more."""
        await self._till.close()
        await self._upstream.close()

    async def answer(
        self,
        client: EgressClient,
        head: HttpRequestHead,
        spender: Spender,
        features: frozenset[str],
        own: Mapping[str, VendorBaseUrl],
    ) -> str:
        """One request, from its body to the last byte of its answer; what it was, for the log. `own`: the endpoints of
        the group itself, by vendor. Raises Refusal."""
        endpoint = find_endpoint(head)
        check_contact(self._may_act)  # before anything is set aside for it; the vendor's connection asks again
        name = f"{endpoint.vendor} {endpoint.path}"
        try:
            base = own.get(endpoint.vendor) or self._bases.get(endpoint.vendor)
            if base is None:
                raise HttpRefusal(404, f"no endpoint makes transcripts here; the operator can set {audio.BASE.name}")
            order = ModelRequest(client, head, endpoint, spender, features, base)
            await _run_while_connected(client, self._serve(order, await _read(client, head)))
        except HttpRefusal as no:
            no.target = no.target or name
            raise
        return name

    async def _serve(self, order: ModelRequest, raw: bytes) -> None:
        endpoint = order.endpoint
        if endpoint.hears:
            await self._send_recording(order, raw)
            return
        if endpoint.shape is None and endpoint.google is None:
            await self._call(order, await self._key(order), None, Bill())
            return
        if endpoint.counts:
            body = await self._judge(order, raw, lambda: check_count_body(order, raw, self._tools))
            await self._call(order, await self._key(order, COUNTING), body, Bill())
            return
        asked = await self._judge(order, raw, lambda: check_body(order, raw, self._config[MAX_OUTPUT], self._tools))
        price = await self._price(order, asked.model)
        if price.minute:
            raise HttpRefusal(
                400, f"{asked.model[:100]!r} is priced by the minute: it transcribes, and answers nothing"
            )
        async with self._paid(order, raw, asked, price) as (deal, bill):
            body = await self._judge(order, raw, lambda: render_clamped_body(order, asked, deal.output))
            try:
                await self._call(order, await self._key(order), body, bill, drop_usage=asked.adds_usage)
            finally:  # clients hang up as soon as they have the end
                self._count_call(order, bill)
                self._learn(asked, bill)

    def _count_call(self, order: ModelRequest, bill: Bill) -> None:
        """Count how long a call took that was made, whatever ended it."""
        if bill.started_at is not None:
            self.durations.note((TimedStep.MODEL_CALL, order.endpoint.vendor, to_microseconds(bill.seconds)))

    @asynccontextmanager
    async def _paid(
        self, order: ModelRequest, raw: bytes, asked: CheckedBody, price: Price
    ) -> AsyncIterator[tuple[TokenCostBound, Bill]]:
        """Set aside what the call may come to. Money that calls in flight have set aside may be free soon. Wait for it
        before making do with a shorter answer. Raises Refusal."""
        room = await self._purse.room(order.spender)
        asked = await self._size(order, raw, asked, price, room.now)
        async with AsyncExitStack() as stack:
            deal = make_token_cost_bound(asked, price, room.when_settled)
            bill = await stack.enter_async_context(self._till.paid_in_turn(order.spender, deal))
            if bill is None:
                room = await self._purse.room(order.spender)
                deal = make_token_cost_bound(asked, price, room.now)
                bill = await stack.enter_async_context(self._till.paid(order.spender, deal))
            yield deal, bill

    async def _size(
        self, order: ModelRequest, raw: bytes, asked: CheckedBody, price: Price, room: int | None
    ) -> CheckedBody:
        """By the bytes of the prompt; where these do not fit, by what was counted for others that begin like it, or by
        what the endpoint counts."""
        if order.features or not needs_closer_bound(make_token_cost_bound(asked, price, room), room):
            return asked  # what the vendor fetches or runs for a group that may have it stands in no count
        known = self._counted.find(asked.parts) or await self._purse.find_counted(list_shared(asked.parts))
        closer = replace(asked, prompt=min(asked.prompt, bound_by_beginning(asked.parts, known)))
        call = order.endpoint.google
        where = COUNTED_AT.get(order.endpoint.path) if call is None else call.count_path
        if where is None or not needs_closer_bound(make_token_cost_bound(closer, price, room), room):
            return closer
        render = request_bodies.render_count_body if call is None else google_bodies.render_count_body
        counted = await self._count(order, where, await self._judge(order, raw, lambda: render(asked)))
        return closer if counted is None else with_count(closer, counted)

    def _learn(self, asked: CheckedBody, bill: Bill) -> None:
        """Keep what the endpoint counted, for prompts that begin in the same way."""
        usage = bill.measured.usage
        if usage is None or not bill.measured.whole or not asked.is_read_whole:
            return
        tokens = usage.input + usage.cache_read + usage.cache_write
        news = self._counted.learn(asked.parts, tokens)
        if news:
            self._till.run_kept(self._keep_counted(news, tokens))

    async def _keep_counted(self, beginnings: tuple[str, ...], tokens: int) -> None:
        with suppress(Unavailable):  # it is learnt anew with the next call
            await self._purse.keep_counted(beginnings, tokens)

    async def _count(self, order: ModelRequest, path: str, body: bytes) -> int | None:
        """The prompt's tokens, which its endpoint tells for nothing; None: it does not."""
        try:
            key = await self._key(order, COUNTING)
            url = f"{order.base.url}{path}"
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
                counted = msgspec.json.decode(raw, type=_TokenCount).found if response.status_code == 200 else -1
        except (HttpRefusal, TimeoutError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return counted if counted > 0 else None

    async def _send_recording(self, order: ModelRequest, raw: bytes) -> None:
        recording = await self._judge(order, raw, lambda: audio.read_form(order.head.get("content-type"), raw))
        common, price = self._transcription if order.endpoint.vendor == audio.VENDOR else None, None
        if common is not None:  # which model it is, is not said from inside
            recording, price = replace(recording, model=common.model), common.price
        hearing = audio.make_transcript_cost_bound(
            recording, price or await self._price(order, recording.model), listed=price is None
        )
        async with self._till.paid(order.spender, hearing) as bill:
            body = await self._judge(order, raw, recording.render)
            try:
                await self._call(order, await self._key(order), body, bill, kind=recording.kind)
            finally:
                self._count_call(order, bill)

    async def _judge(self, order: ModelRequest, raw: bytes, work: Callable[[], T]) -> T:
        """A body that is much work off the loop: one at a time of a session, few of all."""
        if len(raw) <= BIG and has_few_values(raw, request_bodies.FEW_VALUES):
            return work()
        judge = self._judges.setdefault(order.spender.session_id, BoundedThreadPool(1, self._every_judge))
        return await judge.run(work)

    async def _price(self, order: ModelRequest, model: str) -> Price:
        price = self._prices(model)
        if price is None:
            said = await self._asker.ask(order.spender, model) if self._asker is not None else ""
            if said:
                raise HttpRefusal(400, f"{model[:100]!r} has no price, so it is not called; {said}")
            command = f"gatepost price set {shlex.quote(model[:100])} IN/OUT"
            raise HttpRefusal(
                400, f"{model[:100]!r} has no price, so it is not called; an operator can give it one: `{command}`"
            )
        return price

    async def _call(
        self,
        order: ModelRequest,
        key: VendorKey,
        body: bytes | None,
        bill: Bill,
        *,
        drop_usage: bool = False,
        kind: str = "",
    ) -> None:
        """`kind`: what the body is, where that is not as the client said."""
        endpoint, client = order.endpoint, order.client
        url = order.base.url + endpoint.path
        headers = request_headers(order.head, endpoint.vendor, key) | ({"content-type": kind} if kind else {})
        async with self._upstream.ask(order.head.method, url, headers, body, bill) as response:
            content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if response.status_code == 200 and content_type == "text/event-stream":
                await stream_response(client, response, key.value, bill, drop_usage=drop_usage)
            else:
                await send_response(client, response, key.value, bill)

    async def _key(self, order: ModelRequest, purpose: str = "model") -> VendorKey:
        return await find_key(self._keys, order.endpoint.vendor, order.spender, order.base, purpose)


async def find_key(keys: ModelKeys, vendor: str, spender: Spender, base: VendorBaseUrl, purpose: str) -> VendorKey:
    """Asked for when it is about to be sent: what is asked for is on record as used."""
    wanted = KEYS[vendor]
    key = await keys.get(wanted, spender, purpose, base.origins)
    if not key and vendor == audio.VENDOR and base.default:  # that key is for the same endpoint
        wanted = OPENAI_API_KEY
        key = await keys.get(wanted, spender, purpose, base.origins)
    if key and len(key) < SHORTEST_SECRET:
        raise HttpRefusal(502, render_too_short(wanted))
    if key:
        header = _KEY_HEADERS.get(vendor)
        return VendorKey(key, {header: key} if header else {"authorization": f"Bearer {key}"})
    if vendor == "anthropic":
        token = await keys.get("ANTHROPIC_AUTH_TOKEN", spender, purpose, base.origins)
        if token:
            return VendorKey(token, {"authorization": f"Bearer {token}"}, beta="oauth-2025-04-20")
    if base.default:
        raise HttpRefusal(401, f"there is no key for this model; the operator can: gatepost secret set {wanted}")
    return NO_KEY


async def _read(client: EgressClient, head: HttpRequestHead) -> bytes:
    """Read a body at the session's pace. Values beyond those that a body may hold are not charged: they cost nothing,
    because it is refused."""
    raw, left = bytearray(), request_bodies.MOST_VALUES
    async for piece in client.body(head, request_bodies.LARGEST_BODY):
        raw += piece
        values = min(bound_values(piece), left)
        left -= values
        await client.pace.spend(values * VALUE_CHARGE)
    return bytes(raw)


async def _run_while_connected(client: EgressClient, work: Coroutine[Any, Any, None]) -> None:
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
