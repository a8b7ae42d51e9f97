"""`POST /hook/<token>`: the post of a program becomes a message in the link's room. It is durable before the answer.

Everybody who can reach the server can send here. Unknown, revoked and expired tokens look alike, and are looked for
before anything else is read. A post is proved by the token, and by its signature if the link asks for one. Until then
it is in the pool of strangers of `hook_admission`, and counts against nobody's link. A token stands in the path alone:
no log, no record and no answer has it.
"""

import asyncio
import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus

from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gatepost.core import ids, log
from gatepost.core.clock import SECOND, Clock
from gatepost.core.errors import Invalid, SetupError, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.settings import Config, setting
from gatepost.core.token_bucket import KeyedBuckets, Rate
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.links import LinkEnded, LinkInbox, LinkPost, RepeatedSignature
from gatepost.serve.rate_limit import PeerRateLimiter
from gatepost.serve.web.hook_admission import FULL_S, HookBusy, HookLoad, HookVisit, UnprovedVisits
from gatepost.serve.web.hooks import LARGEST, NOTHING, list_headers, read_body, render_wait
from gatepost.serve.web.links.posts import UnknownContent, read_post
from gatepost.serve.web.links.wait import LONGEST_S, LinkWaits, render_outcome
from gatepost.serve.web.trusted_proxies import make_client_addresses
from gatepost.store.port import Store
from gatepost.store.rights import tokens
from gatepost.store.rights.secrets import KeptSecrets, SecretReader
from gatepost.store.rights.tokens import SignatureScheme, Token, TokenKind

PER_MINUTE = setting(
    "web.hook_posts_per_minute",
    60,
    help="How many posts a webhook link takes in a minute; as many may come at once.",
)
PREFIX = "/hook"
LONGEST_TOKEN = 200  # characters
OF_ALL = Rate(per_second=100, burst=200, patience_s=float("inf"))  # posts of all links, and …
AT_ONCE = 32  # … how many are taken in at once
MOST_OF_LINK = AT_ONCE // 4  # of which one link has so many: half a post must not keep those of all others out
UNPROVED_AT_ONCE, UNPROVED_OF_PEER = 128, 16
FAILURES = Rate(per_second=1, burst=30, patience_s=float("inf"))  # proofs of one address that fail
BODY_S, ANSWER_S = 10.0, 20.0
MOST_LINKS = 2000  # whose rates are remembered, the latest
MOST_SECRETS = 500  # that are kept open
RETRY_AFTER_S = 5.0

_log = log.get("links")
WINDOW_S = 300
GITHUB, SLACK, SLACK_TIME, STRIPE = (
    "x-hub-signature-256",
    "x-slack-signature",
    "x-slack-request-timestamp",
    "stripe-signature",
)
MOST_V1 = 8  # of one header: services send two while a secret is changed
LONGEST_HEADER = 2000
_TIME = re.compile(r"[0-9]{1,12}\Z")
Headers = Mapping[str, str]


class HookDeps(Struct, frozen=True, kw_only=True):
    store: Store
    clock: Clock
    config: Config
    home: Home
    events: EventBus
    stopping: asyncio.Event
    channels: ChannelInstances
    pace: PeerRateLimiter | None = None  # holds whoever asks for links that are not there


class HookLinks:
    def __init__(self, deps: HookDeps, *, waits: LinkWaits | None = None) -> None:
        self._deps, self._rates = deps, LinkRates(deps.config[PER_MINUTE])
        self._inbox = LinkInbox(deps.store, deps.clock, deps.config, deps.events, deps.channels)
        self._waits = waits or LinkWaits(deps.store, deps.events, deps.stopping)
        reader = SecretReader(deps.store, Keyring(deps.home), deps.clock)
        self._secrets = SigningSecrets(KeptSecrets(reader, deps.store, deps.clock, MOST_SECRETS))
        self._load: HookLoad | None = None
        clients = make_client_addresses(deps.config)
        self._unproved = UnprovedVisits(UNPROVED_AT_ONCE, UNPROVED_OF_PEER, clients, FAILURES)

    def routes(self) -> list[Route]:
        return [Route(f"{PREFIX}/{{token}}", self.answer, methods=["POST"])]

    async def answer(self, request: Request) -> Response:
        with ExitStack() as place:
            try:
                taken = await self._receive(request, place)
            except HookBusy as error:
                return render_wait(429, error.retry_after or 0.0)
            except Unavailable as error:
                return render_wait(503, RETRY_AFTER_S if error.retry_after is None else error.retry_after)
            except TimeoutError:
                return render_wait(503, RETRY_AFTER_S)
            if isinstance(taken, Response):
                if taken.status_code == HTTPStatus.NOT_FOUND and self._deps.pace is not None:
                    await self._deps.pace.hold(request.scope)
                return taken
            if not taken.wait_s:
                return Response(status_code=204)
            outcome = await self._waits.wait(
                taken.address, taken.message_id, taken.wait_s, lambda: _find_disconnect(request)
            )
            return JSONResponse(render_outcome(outcome))

    async def _receive(self, request: Request, place: ExitStack) -> "Response | CommittedPost":
        """Everything up to the commit. `place`: gets the place of a program that waits."""
        if self._load is None:
            self._load = HookLoad(OF_ALL, AT_ONCE, _now())
        async with self._unproved.enter(request.scope, self._load, BODY_S, ANSWER_S) as visit:
            link = await self._find_link(request.path_params["token"])
            if link is None:
                await self._unproved.charge(visit)
                return PlainTextResponse(NOTHING, 404)
            self._rates.check(link.id)
            posted = await self._read(request, link, visit)
            if isinstance(posted, Response):
                return posted
            wait_s = _read_wait(request)
            if isinstance(wait_s, Response):
                return wait_s
            if wait_s:
                place.enter_context(self._waits.claim(link.id))
            return await self._accept(link, posted, wait_s)

    async def _find_link(self, secret: str) -> Token | None:
        if len(secret) > LONGEST_TOKEN:
            return None
        return await self._deps.store.read(tokens.find_valid, TokenKind.WEBHOOK, secret, self._deps.clock.now())

    async def _read(self, request: Request, link: Token, visit: HookVisit) -> Response | LinkPost:
        """Return what was posted, once it is proved; or what is answered in its place."""
        with ExitStack() as place:
            if link.signature is SignatureScheme.NONE:  # the address itself is the proof
                place.enter_context(self._rates.claim(link.id))
                visit.admit()
            try:
                body = await read_body(request, self._deps.config[LARGEST], visit.pace)
            except ClientDisconnect:
                return Response(status_code=400)
        if body is None:
            return _explain(413, f"the body has more than {self._deps.config[LARGEST]} bytes")
        headers, proof = list_headers(request.headers), ""
        if link.signature is not SignatureScheme.NONE:
            secret = await self._secrets.get(link)
            proof = find_proof(link.signature, secret, headers, body, self._deps.clock.now())
            if not proof:
                await self._unproved.charge(visit)
                return _explain(401, f"it has no valid signature of {link.signature}, or is too old")
        visit.admit()
        self._rates.charge(link.id)
        try:
            found = read_post(link.signature, headers, body)
        except UnknownContent as error:
            return _explain(415, str(error))
        except Invalid as error:
            return _explain(400, str(error))
        if found.challenge:
            return PlainTextResponse(found.challenge)
        own = found.delivery or (f"signature:{proof}" if proof else ids.new("post"))
        return LinkPost(
            secret=request.path_params["token"], delivery=own, text=found.text, event=found.event, signature=proof
        )

    async def _accept(self, link: Token, post: LinkPost, wait_s: int) -> "Response | CommittedPost":
        try:
            receipt = await self._inbox.receive(link, post)
        except LinkEnded:
            return PlainTextResponse(NOTHING, 404)
        except RepeatedSignature:
            return _explain(409, "this was signed once and sent before, under another id")
        except Invalid as error:
            return _explain(413, str(error))
        # A copied signed post learns nothing about the answer to the original.
        is_copy = not receipt.new and link.signature is not SignatureScheme.NONE
        return CommittedPost(link.address, receipt.message_id, 0 if is_copy else wait_s)


class CommittedPost(Struct, frozen=True):
    """A post that is committed."""

    address: str
    message_id: int
    wait_s: int


class LinkRates:
    """How often each link is used, the latest of them, and how many of its posts are on their way."""

    def __init__(self, per_minute: int) -> None:
        most = max(1, per_minute)
        rate = Rate(per_second=most / 60, burst=most, patience_s=float("inf"))
        self._buckets = KeyedBuckets(rate, MOST_LINKS)
        self._places: Counter[str] = Counter()

    @contextmanager
    def claim(self, link_id: str) -> Iterator[None]:
        """A place for a post whose body comes. Raises HookBusy."""
        if self._places[link_id] >= MOST_OF_LINK:
            raise HookBusy(FULL_S)
        self._places[link_id] += 1
        try:
            yield
        finally:
            self._places[link_id] -= 1
            if not self._places[link_id]:
                del self._places[link_id]

    def check(self, link_id: str) -> None:
        """Raises HookBusy."""
        if wait := self._buckets.get_wait(link_id, _now()):
            raise HookBusy(wait)

    def charge(self, link_id: str) -> None:
        """It may have been used up while the body came."""
        self.check(link_id)
        self._buckets.charge(link_id, _now())


class SigningSecrets:
    """A stranger who knows a link must not fill the record of uses: see KeptSecrets."""

    def __init__(self, kept: KeptSecrets) -> None:
        self._kept = kept

    async def get(self, link: Token) -> str:
        try:
            return await self._kept.get(link.signing_key, link.folder or "", purpose="webhook")
        except SetupError as error:
            _log.error("what signs a webhook cannot be read", link=link.id, error=str(error))
            raise Unavailable("the webhook", "its secret cannot be read") from None


def _read_wait(request: Request) -> int | Response:
    given = request.query_params.get("wait", "0")
    if not (given.isascii() and given.isdigit() and len(given) < 4 and int(given) <= LONGEST_S):
        return _explain(400, f"wait is not a number of seconds up to {LONGEST_S}")
    return int(given)


async def _find_disconnect(request: Request) -> None:
    """Returns when the client is gone. Its body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _explain(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status)


def _now() -> float:
    return asyncio.get_running_loop().time()


def find_proof(scheme: SignatureScheme, secret: str, headers: Headers, body: bytes, now: int) -> str:
    """Return the hash by which this proof is known from now on; '' if nothing is proved. `now`: microseconds.

        github  X-Hub-Signature-256: sha256=HEX of the body
        slack   X-Slack-Signature: v0=HEX of `v0:TIMESTAMP:body`, X-Slack-Request-Timestamp
        stripe  Stripe-Signature: t=TIMESTAMP,v1=HEX of `TIMESTAMP.body`; there may be several v1

    A timestamp is signed, so what is too old, or of the future, is refused. GitHub signs none.
    """
    if not secret:
        return ""
    signed = _READERS[scheme](secret, headers, body, now // SECOND) if scheme in _READERS else ""
    return hashlib.sha256(f"{scheme}:{signed}".encode()).hexdigest() if signed else ""


def _read_github(secret: str, headers: Headers, body: bytes, now_s: int) -> str:
    expected = "sha256=" + _sign(secret, body)
    return expected if _is_same(headers.get(GITHUB, ""), expected) else ""


def _read_slack(secret: str, headers: Headers, body: bytes, now_s: int) -> str:
    moment = headers.get(SLACK_TIME, "")
    if not _is_recent(moment, now_s):
        return ""
    expected = "v0=" + _sign(secret, f"v0:{moment}:".encode() + body)
    return expected if _is_same(headers.get(SLACK, ""), expected) else ""


def _read_stripe(secret: str, headers: Headers, body: bytes, now_s: int) -> str:
    header = headers.get(STRIPE, "")
    if len(header) > LONGEST_HEADER:
        return ""
    parts = [each.strip().partition("=") for each in header.split(",")]
    moments = [value for name, _, value in parts if name == "t"]
    if len(moments) != 1 or not _is_recent(moments[0], now_s):
        return ""
    expected = _sign(secret, f"{moments[0]}.".encode() + body)
    given = [value for name, _, value in parts if name == "v1"][:MOST_V1]
    return f"{moments[0]}:{expected}" if any(_is_same(each, expected) for each in given) else ""


_READERS: Mapping[SignatureScheme, Callable[[str, Headers, bytes, int], str]] = {
    SignatureScheme.GITHUB: _read_github,
    SignatureScheme.SLACK: _read_slack,
    SignatureScheme.STRIPE: _read_stripe,
}


def _sign(secret: str, signed: bytes) -> str:
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _is_recent(moment: str, now_s: int) -> bool:
    return bool(_TIME.match(moment)) and abs(now_s - int(moment)) <= WINDOW_S
