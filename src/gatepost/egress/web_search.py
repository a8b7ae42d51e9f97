"""Search services: how each is asked, and what it answers. The operator's setting is what lets a query out to it.

A group that a rule denies the service's host does not search. The service may be on this machine, because the operator
named it; agents reach it by no other way. Its results are words of others.
"""

import asyncio
import html
import re
from collections.abc import Callable, Mapping
from itertools import islice
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from gatepost.core.errors import Invalid, SetupError, Unavailable
from gatepost.core.money import parse_usd
from gatepost.core.secret_scrubber import SecretScrubber
from gatepost.core.settings import Config, setting
from gatepost.egress.call_payments import CallPayments
from gatepost.egress.contract import CallBudget, CallCost, ModelKeys, Spender
from gatepost.egress.http import HttpRefusal
from gatepost.egress.upstream import Bill
from gatepost.egress.way_out import WayOut
from gatepost.egress.web_pages import WebPages, explain_refusal
from gatepost.egress.web_request import WebUrl, exchange, read_url
from gatepost.gate.policies import SEARCH_SERVICE, SearchKind
from gatepost.messages.visible_text import show_hidden_signs
from gatepost.store.money.costs import TokenCounts
from gatepost.store.rights.secret_rows import UNBOUND
from gatepost.tools.call import Caller, FoundPage

URL = setting(
    "search.url",
    "",
    help="Where the search service is, like http://localhost:8888 for SearXNG; it may be local."
    " Empty: the vendor's own.",
)
CONNECTOR_TOOL = setting(
    "search.tool",
    "",
    help="The tool that searches if search.service is connector, by the name that agents know: brave_web_search.",
)
PRICE = setting("search.price", "", help="The price of one query, in USD. Empty: what the vendor listed.")

SEARCH_API_KEY = "SEARCH_API_KEY"
SEARCH_WEB = "search_web"
LONGEST_TITLE, LONGEST_SNIPPET = 150, 400
LARGEST_ANSWER = 2 * 1024 * 1024
WHOLE_S = 20.0
_TAG = re.compile(r"<[^<>]{0,100}>")


class _Vendor(Struct, frozen=True):
    url: str
    price: str  # USD of one query, as listed in November 2026
    path: str
    query: Callable[[str, int], Mapping[str, object]]
    key: tuple[str, str] = ("", "")  # header and what stands before the key in it
    posts: bool = False


_VENDORS = {
    SearchKind.SEARXNG: _Vendor("", "0", "/search", lambda query, most: {"q": query, "format": "json"}),
    SearchKind.BRAVE: _Vendor(
        "https://api.search.brave.com",
        "0.005",
        "/res/v1/web/search",
        lambda query, most: {"q": query, "count": most, "text_decorations": "false"},
        ("x-subscription-token", ""),
    ),
    SearchKind.TAVILY: _Vendor(
        "https://api.tavily.com",
        "0.008",
        "/search",
        lambda query, most: {"query": query, "max_results": most, "search_depth": "basic"},
        ("authorization", "Bearer "),
        posts=True,
    ),
    SearchKind.KAGI: _Vendor(
        "https://kagi.com",
        "0.025",
        "/api/v0/search",
        lambda query, most: {"q": query, "limit": most},
        ("authorization", "Bot "),
    ),
}


class SearchService(Struct, frozen=True):
    """`connector`: the tool that searches; then there is no address."""

    kind: SearchKind
    url: WebUrl | None
    price: int  # micro-USD of one query
    connector: str = ""

    @property
    def needs_key(self) -> bool:
        return self.kind in _VENDORS and bool(_VENDORS[self.kind].key[0])

    @property
    def origins(self) -> tuple[str, ...]:
        """The endpoints that its key may have been given for."""
        return (f"{self.url.scheme}://{self.url.target}", UNBOUND) if self.url is not None else ()


class _QueryPrice(Struct, frozen=True):
    """The price of one query, all of it once the service may have read it."""

    model: str
    worst: int
    tokens: TokenCounts = TokenCounts()

    def actual(self, bill: Bill) -> CallCost:
        return CallCost(0 if bill.free else self.worst)


class _Found(Struct):
    url: str | None = None
    title: str | None = None
    content: str | None = None
    description: str | None = None
    snippet: str | None = None


class _BraveWeb(Struct):
    results: list[_Found] = []


class _Answer(Struct):
    """The answer of any service: each has its results under another name."""

    results: list[_Found] = []
    web: _BraveWeb | None = None
    data: list[_Found] = []


def find_search_service(config: Config) -> SearchService | None:
    """None: nobody has set one. Raises SetupError."""
    if not config[SEARCH_SERVICE]:
        return None
    kind = SearchKind(config[SEARCH_SERVICE])
    try:
        if kind is SearchKind.CONNECTOR:
            if not config[CONNECTOR_TOOL]:
                raise SetupError(f"{SEARCH_SERVICE.name} = connector needs {CONNECTOR_TOOL.name}: the name of the tool")
            return SearchService(kind, None, parse_usd(config[PRICE] or "0", PRICE.name), config[CONNECTOR_TOOL])
        vendor = _VENDORS[kind]
        url = config[URL].strip().rstrip("/") or vendor.url
        if not url:
            raise SetupError(
                f"{SEARCH_SERVICE.name} = {kind} needs {URL.name}: where it is, like http://localhost:8888"
            )
        return SearchService(
            kind, read_url(f"{url}{vendor.path}"), parse_usd(config[PRICE] or vendor.price, PRICE.name)
        )
    except Invalid as error:
        raise SetupError(f"{URL.name}, {PRICE.name}: {error}") from None


class WebSearch:
    """The operator's search service, for agents, and what it costs them."""

    def __init__(self, config: Config, pages: WebPages, purse: CallBudget, keys: ModelKeys) -> None:
        self._config, self._pages, self._keys = config, pages, keys
        self._payments = CallPayments(purse)

    async def search(self, caller: Caller, turn_id: str | None, query: str, most: int) -> list[FoundPage]:
        service = find_search_service(self._config)
        if service is None or service.url is None:
            raise Unavailable(SEARCH_WEB, "no search service is set")
        spender = Spender(caller.folder, caller.session_id or "", turn_id)
        way, key = await self._pages.find_way(caller), ""
        if service.needs_key:
            purpose = f"search at {service.url.target.host}"
            key = await self._keys.get(SEARCH_API_KEY, spender, purpose, service.origins) or ""
            if not key:
                raise SetupError(f"{service.kind} wants a key; the operator can: gatepost secret set {SEARCH_API_KEY}")
        try:
            async with self._payments.paid(spender, _QueryPrice(f"search:{service.kind}", service.price)) as bill:
                return await ask_service(way, service, key, query, most, bill)
        except HttpRefusal as no:
            raise explain_refusal(no, caller, SEARCH_WEB) from None


async def ask_service(
    way: WayOut, service: SearchService, key: str, query: str, most: int, bill: Bill
) -> list[FoundPage]:
    """Raises HttpRefusal, SetupError, Unavailable."""
    if service.url is None:
        raise SetupError(f"{SEARCH_SERVICE.name} = {service.kind} has no address")
    vendor, url, sent = _VENDORS[service.kind], service.url, {"accept": "application/json"}
    asked, body = vendor.query(query, most), b""
    if vendor.key[0]:
        sent[vendor.key[0]] = f"{vendor.key[1]}{key}"
    if vendor.posts:
        sent["content-type"], body = "application/json", msgspec.json.encode(asked)
    else:
        url = WebUrl(url.scheme, url.target, f"{url.path}?{urlencode(asked, quote_via=quote)}")
    try:
        async with asyncio.timeout(WHOLE_S):
            verdict = await way.judge_service(url.target)
            method = "POST" if vendor.posts else "GET"
            bill.free = False
            answer = await exchange(way, url, method, sent, body, LARGEST_ANSWER, verdict)
    except TimeoutError:
        raise Unavailable("the search service", f"it has not answered within {WHOLE_S:g} s") from None
    except HttpRefusal as no:
        way.record_refusal(no)
        raise
    bill.free = answer.status != 200
    if answer.status in (401, 403):
        raise SetupError(_explain_refusal(service))
    if answer.status != 200:
        raise Unavailable("the search service", f"{service.kind} answered {answer.status}")
    return await asyncio.to_thread(read_hits, answer.body, key, most)


def _explain_refusal(service: SearchService) -> str:
    if service.kind is SearchKind.SEARXNG:
        return "SearXNG refuses to answer in JSON; its operator lists json under search.formats in its settings.yml"
    return f"{service.kind} refuses the gateway's key; the operator can: gatepost secret set {SEARCH_API_KEY}"


def read_hits(raw: bytes, key: str, most: int) -> list[FoundPage]:
    try:
        answer = msgspec.json.decode(raw, type=_Answer)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise Unavailable("the search service", "it did not answer as its documentation says") from None
    scrub = SecretScrubber([key] if key else [])
    found = [*answer.results, *(answer.web.results if answer.web is not None else ()), *answer.data]
    pages = (each for each in found if each.url and each.url.startswith(("https://", "http://")))
    return [
        FoundPage(
            _read_words(each.title, LONGEST_TITLE, scrub),
            _read_words(each.url, LONGEST_SNIPPET, scrub),
            _read_words(each.content or each.description or each.snippet, LONGEST_SNIPPET, scrub),
        )
        for each in islice(pages, most)  # a service may send more than it was asked for, by far
    ]


def _read_words(text: str | None, longest: int, scrub: SecretScrubber) -> str:
    plain = scrub.text(html.unescape(_TAG.sub("", (text or "")[: 4 * longest])))
    return " ".join(show_hidden_signs(plain[:longest]).split())
