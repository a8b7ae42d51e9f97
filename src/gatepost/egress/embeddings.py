"""Embeddings: an OpenAI-shaped endpoint says what texts mean, as vectors. The gateway asks it, never a sandbox; the key
stays here."""

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from gatepost.core.errors import Invalid, SetupError, Unavailable
from gatepost.core.home import Home
from gatepost.core.money import parse_usd
from gatepost.core.process.fencing import FenceCheck, always
from gatepost.core.settings import Config, setting
from gatepost.egress import token_usage
from gatepost.egress.contract import CallCost
from gatepost.egress.endpoints import gateway_base
from gatepost.egress.prices import Price, find_price, load_own_prices
from gatepost.egress.upstream import Bill, VendorBaseUrl, parse_base_url, post_once
from gatepost.store.memory.memory_vectors import MOST_DIMENSIONS, Meaning, make_meaning
from gatepost.store.money.costs import TokenCounts
from gatepost.store.rights.secrets import OPENAI_API_KEY

BASE = setting(
    "embeddings.base_url",
    "",
    help="Where an OpenAI-shaped endpoint makes embeddings, like https://api.openai.com/v1; local ones too. With it,"
    " recall also finds what is said in other words. Its key is the secret EMBEDDING_API_KEY.",
)
MODEL = setting("embeddings.model", "text-embedding-3-small", help="The model that makes embeddings.")
DIMENSIONS = setting(
    "embeddings.dimensions",
    0,
    help=f"Numbers of one embedding, at most {MOST_DIMENSIONS}, for models that can make fewer; 0: the model's own.",
)
PRICE = setting(
    "embeddings.price",
    "",
    help="The price of a million tokens, in USD, or 0 if it is free. Empty: as the price list says.",
)
LEAST = setting(
    "embeddings.least",
    0.25,
    help="How near a memory must be to the words of recall, from 0 to 1. Models differ in what they call near.",
)

SETTINGS = (BASE, MODEL, DIMENSIONS, PRICE, LEAST)
EMBEDDING_API_KEY = "EMBEDDING_API_KEY"
LONGEST_QUERY = 4000  # characters


class EmbeddingEndpoint(Struct, frozen=True):
    base: VendorBaseUrl
    model: str
    dimensions: int
    least: float


class EmbeddingCostBound(Struct, frozen=True):
    """The most that embeddings may cost: a token has at least one byte."""

    model: str
    price: Price
    tokens: TokenCounts

    @property
    def worst(self) -> int:
        return self.price.worst(self.tokens.input, 0)

    def actual(self, bill: Bill) -> CallCost:
        """By the tokens that the endpoint counts, which are not believed beyond the bytes; all of it if it counts
        none."""
        usage = bill.measured.usage
        if bill.free:
            return CallCost(0)
        if usage is None:
            return CallCost(self.worst, measured=False)
        read = TokenCounts(input=min(usage.input, self.tokens.input))
        return CallCost(self.price.of(read), read)


class UnreadableTexts(Exception):
    """The endpoint makes no embeddings of these texts, or not of so many at once."""


class _Embedding(msgspec.Struct):
    embedding: list[float]
    index: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0


class _Answer(msgspec.Struct):
    data: list[_Embedding]
    usage: _Usage | None = None


_decode = msgspec.json.Decoder(_Answer).decode


def find_embedding_endpoint(config: Config) -> EmbeddingEndpoint | None:
    """None if no endpoint is set. Raises SetupError."""
    if not config[BASE].strip():
        return None
    if not config[MODEL].strip():
        raise SetupError(f"{MODEL.name} is empty; name the model that makes embeddings at {config[BASE]}")
    if not 0 <= config[DIMENSIONS] <= MOST_DIMENSIONS:
        raise SetupError(f"{DIMENSIONS.name} = {config[DIMENSIONS]}: is from 0 to {MOST_DIMENSIONS}")
    if not 0 <= config[LEAST] <= 1:
        raise SetupError(f"{LEAST.name} = {config[LEAST]:g}: is from 0 to 1")
    base = parse_base_url(BASE.name, config[BASE], default=False)
    return EmbeddingEndpoint(base, config[MODEL].strip(), config[DIMENSIONS], config[LEAST])


def find_embedding_price(home: Home, config: Config) -> Price:
    """Raises SetupError if nobody says what it costs."""
    if config[PRICE].strip():
        try:
            each = parse_usd(config[PRICE].strip(), PRICE.name)
        except Invalid as error:
            raise SetupError(str(error)) from None
        return Price(input=each, output=0, cache_read=each, cache_write=each, cache_write_long=each)
    found = find_price(config[MODEL].strip(), load_own_prices(home, config))
    if found is None:
        raise SetupError(f"the model {config[MODEL]!r} has no price, so it makes no embeddings; set {PRICE.name}")
    return found


def key_names(endpoint: EmbeddingEndpoint, config: Config) -> tuple[str, ...]:
    """The secrets that this endpoint may see, the first that there is: a model's key goes to its own host alone."""
    models = gateway_base(config, "openai")
    same = models.origin == endpoint.base.origin
    return (EMBEDDING_API_KEY, OPENAI_API_KEY) if same else (EMBEDDING_API_KEY,)


def bound_cost(model: str, price: Price, texts: Sequence[str]) -> EmbeddingCostBound:
    return EmbeddingCostBound(model, price, TokenCounts(input=sum(len(each.encode()) + 8 for each in texts)))


async def request_embeddings(
    endpoint: EmbeddingEndpoint,
    key: str,
    texts: Sequence[str],
    bill: Bill,
    *,
    wait_s: float,
    may_act: FenceCheck = always,
) -> list[Meaning]:
    """Return the meaning of each text. Raises Unavailable, or UnreadableTexts if it is about the texts."""
    body: dict[str, object] = {"model": endpoint.model, "input": list(texts), "encoding_format": "float"}
    if endpoint.dimensions:
        body["dimensions"] = endpoint.dimensions
    url = f"{endpoint.base.url}/embeddings"
    raw = await post_once(url, key, "application/json", body, bill, wait_s, may_act, _refuse)
    return await asyncio.to_thread(_read_answer, endpoint, raw, len(texts), bill)


def _refuse(status: int, why: str) -> Exception:
    if status in (401, 403):
        return _trouble(f"it refuses the gateway's key; set the secret {EMBEDDING_API_KEY}")
    return UnreadableTexts() if status in (400, 413, 422) else _trouble(why)


def _read_answer(endpoint: EmbeddingEndpoint, raw: bytes, count: int, bill: Bill) -> list[Meaning]:
    try:
        answer = _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise _trouble("it did not answer with embeddings") from None
    if answer.usage is not None and answer.usage.prompt_tokens > 0:
        bill.measured = token_usage.MeasuredUsage(TokenCounts(input=answer.usage.prompt_tokens), True)
    found = {each.index: each.embedding for each in answer.data}
    if sorted(found) != list(range(count)) or any(
        len(each) > MOST_DIMENSIONS or (endpoint.dimensions and len(each) != endpoint.dimensions)
        for each in found.values()
    ):
        raise _trouble(f"it did not answer with one embedding for each text, of at most {MOST_DIMENSIONS} numbers")
    return [make_meaning(endpoint.model, found[at]) for at in range(count)]


def _trouble(why: str) -> Unavailable:
    return Unavailable("the endpoint for embeddings", why)
