"""An account at X: mentions by asking, posts by one request each.

X neither takes a key of ours nor lets one look for a post without paying for it. A post whose answer got lost is
uncertain, and is never made again on suspicion.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx2
from msgspec import Struct

from gatepost.channels.contract import BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.kit.backoff import Backoff, stay_connected
from gatepost.channels.kit.http import PlatformAnswer, PlatformHttp, PlatformRefusal
from gatepost.channels.kit.receiving import receive_batch
from gatepost.channels.x import API_KEY, API_SECRET, API_URL, POLL_S, TOKEN, TOKEN_SECRET, wire
from gatepost.core import log
from gatepost.core.clock import SECOND
from gatepost.core.errors import Unavailable, Unsupported
from gatepost.messages.inbound import Inbound
from gatepost.messages.outbound import Op, Outbound

LOG = log.get("channels")
PAGE, MOST_PAGES = 100, 8  # X lists the newest 800 mentions
ACCESS = "x-access-level"  # what the keys may do: read, read-write, or messages, too
NO_TIER = frozenset({"client-not-enrolled", "user-not-enrolled"})
WAY_OUT = "make new keys for the app and the account at developer.x.com, and set them with `gatepost channel set`"
FIELDS = {
    "tweet.fields": "author_id,conversation_id,created_at,referenced_tweets,note_tweet",
    "expansions": "author_id",
    "user.fields": "username",
}
MOST_ROOMS = 500
NEWEST = "newest"  # the name of a cursor: of each conversation the last mention
FEED = frozenset({Op.POST, Op.QUOTE, Op.REPOST})  # what goes to the account's own feed, whatever room is named


class AccountKeys(Struct, frozen=True):
    """Keys of OAuth 1.0a: they hold until they are revoked.

    Those of OAuth 2.0 would be replaced at each use, and be lost with a crash.
    """

    key: str
    secret: str
    token: str
    token_secret: str


def _quote(text: str) -> str:
    return quote(text, safe="-._~")


def sign(method: str, url: str, params: Mapping[str, str], keys: AccountKeys, nonce: str, at_s: int) -> str:
    """Return the Authorization header of a request, signed as RFC 5849 says, with HMAC-SHA1.

    `params`: those of the query, and of a form; a JSON body is not signed.
    """
    own = {
        "oauth_consumer_key": keys.key,
        "oauth_nonce": nonce,
        "oauth_signature_method": "HMAC-SHA1",
        "oauth_timestamp": str(at_s),
        "oauth_token": keys.token,
        "oauth_version": "1.0",
    }
    listed = sorted((_quote(name), _quote(value)) for name, value in {**params, **own}.items())
    joined = "&".join(f"{name}={value}" for name, value in listed)
    base = "&".join((method.upper(), _quote(url), _quote(joined)))
    secret = f"{_quote(keys.secret)}&{_quote(keys.token_secret)}"
    signature = base64.b64encode(hmac.new(secret.encode(), base.encode(), hashlib.sha1).digest()).decode()
    fields = sorted({**own, "oauth_signature": signature}.items())
    return "OAuth " + ", ".join(f'{name}="{_quote(value)}"' for name, value in fields)


class XAccount:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._config = deps, deps.config
        self._http: PlatformHttp | None = None
        self._me, self._name = "", ""

    # Receiving.

    async def listen(self, receive: Receive) -> None:
        async def poll(backoff: Backoff) -> None:
            await self._receive_mentions(receive)
            self._deps.beat()
            backoff.reset()
            await asyncio.sleep(self._config[POLL_S])

        await stay_connected(poll, partial(LOG.info, "X did not answer", instance=self._deps.instance))

    async def _receive_mentions(self, receive: Receive) -> None:
        me, since = await self._get_me(), await self._deps.cursor.load()
        if not since:  # what was said before the bot came is not for it
            posts = wire.read_posts(await self._call("GET", f"2/users/{me}/mentions", params={"max_results": "5"}))
            await self._deps.cursor.save(max((each["id"] for each in posts), key=int, default="1"))
            return
        events, newest = await self._list_mentions(me, since)
        if events:  # before they are received: an answer may come at once, also of another process
            found = {each.address: each.platform_id for each in events}
            await self._deps.cursor.update(partial(_add_newest, found), NEWEST, durable=True)
        await receive_batch(events, receive)
        if int(newest) > int(since):
            await self._deps.cursor.save(newest)

    async def _list_mentions(self, me: str, since: str) -> tuple[list[Inbound], str]:
        """All that is new, the oldest first: X lists the newest first, so the cursor moves only with all of it."""
        events: list[Inbound] = []
        newest, following = since, ""
        for _ in range(MOST_PAGES):
            asked = {"since_id": since, "max_results": str(PAGE), **FIELDS}
            page = await self._call(
                "GET",
                f"2/users/{me}/mentions",
                params=asked | ({"pagination_token": following} if following else {}),
                action="read mentions",
            )
            posts, names = wire.read_posts(page), wire.read_names(page)
            read = [wire.read_mention(each, me, names) for each in posts]
            events += [each for each in read if each is not None]
            newest = max([newest, *(str(each["id"]) for each in posts)], key=int)
            meta = page.get("meta") if isinstance(page, Mapping) else None
            following = str(meta.get("next_token") or "") if isinstance(meta, Mapping) else ""
            if not following:
                break
        return events[::-1], newest

    # Sending.

    async def send(self, address: str, message: Outbound) -> str:
        conversation = wire.parse_address(address) if message.op not in FEED else ""
        match message.op:
            case Op.QUOTE:
                quoted = {"quote_tweet_id": wire.check_post_id(message.target)}
                return await self._post({"text": wire.break_names(message.text), **quoted})
            case Op.REPOST:
                shared = {"tweet_id": wire.check_post_id(message.target)}
                path = f"2/users/{await self._get_me()}/retweets"
                await self._call("POST", path, action="repost a post", json=shared)
                return wire.render_repost(message.target)
            case Op.POST:
                return await self._post({"text": wire.break_names(message.text)})
            case Op.SEND | Op.FILE | Op.CARD | Op.VOICE:
                about = message.reply_to or await self._find_newest(address, conversation)
                reply = {"in_reply_to_tweet_id": wire.check_post_id(about)}
                return await self._post({"text": wire.break_names(message.text), "reply": reply})
            case Op.DELETE if reposted := wire.parse_repost(message.target):
                path = f"2/users/{await self._get_me()}/retweets/{reposted}"
                await self._call("DELETE", path, action="take back a repost")
                return message.target
            case Op.DELETE:
                path = f"2/tweets/{wire.check_post_id(message.target)}"
                await self._call("DELETE", path, action="delete a post")
                return message.target
            case Op.REACT:
                wire.check_like(address, message.reaction)
                liked = {"tweet_id": wire.check_post_id(message.target)}
                await self._call("POST", f"2/users/{await self._get_me()}/likes", action="like a post", json=liked)
                return message.target
        raise Unsupported(message.op.value, "x", "use send with the same text")

    async def _find_newest(self, address: str, conversation: str) -> str:
        """The last mention of a conversation: X takes answers to posts that mention this account, and the one that
        began the conversation need not."""
        saved = await self._deps.cursor.load(NEWEST)
        return str(json.loads(saved).get(address, conversation)) if saved else conversation

    async def _post(self, body: dict[str, Any]) -> str:
        answer = await self._call("POST", "2/tweets", action="make a post", json=body)
        made = answer.get("data") if isinstance(answer, Mapping) else None
        sent = made.get("id") if isinstance(made, Mapping) else None
        if not wire.is_id(sent):
            raise Unavailable("X", "its answer names no post", uncertain=True)
        return str(sent)

    # The connection.

    async def check(self) -> BotIdentity:
        try:
            response, answer = await self._exchange("GET", "2/users/me", action="read its own account")
        except PlatformRefusal as refusal:
            raise (_find_missing_right(refusal) or refusal) from None
        self._read_self(answer)
        if response.headers.get(ACCESS) == "read":
            why = f"the keys of @{self._name} may read only"
            raise ChannelEnded(EndReason.RIGHTS, why, "set the app to Read and write, then make its access token anew")
        notes = ["X bills each post that is read or made"]
        if ACCESS not in response.headers:
            notes.append("whether the keys may write is seen with the first post")
        return BotIdentity(name=f"@{self._name}", link=f"https://x.com/{self._name}", notes=tuple(notes))

    async def _get_me(self) -> str:
        if not self._me:
            self._read_self(await self._call("GET", "2/users/me", action="read its own account"))
        return self._me

    def _read_self(self, answer: Any) -> None:
        found = answer.get("data") if isinstance(answer, Mapping) else None
        if not isinstance(found, Mapping) or not wire.is_id(found.get("id")):
            raise Unavailable("X", "it does not say whose keys these are")
        self._me, self._name = str(found["id"]), str(found.get("username") or "")

    async def _call(self, method: str, path: str, **more: Any) -> Any:
        return (await self._exchange(method, path, **more))[1]

    async def _exchange(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, **more: Any
    ) -> tuple[httpx2.Response, Any]:
        if self._http is None:
            find = self._find_retry_after
            self._http = PlatformHttp(
                "X", self._config[API_URL], remedy=WAY_OUT, find_retry_after=find, read_error=_read_error
            )
        url, asked = self._http.base_url + path, dict(params or {})
        keys, now_s = await self._get_keys(), self._deps.clock.now() // SECOND
        signed = {"Authorization": sign(method, url, asked, keys, secrets.token_hex(16), now_s)}
        try:
            return await self._http.exchange(method, path, headers=signed, params=asked, **more)
        except Unavailable as error:
            error.everywhere |= error.retry_after is not None  # X counts by account, not by conversation
            raise

    async def _get_keys(self) -> AccountKeys:
        values = [await self._deps.secret(each) for each in (API_KEY, API_SECRET, TOKEN, TOKEN_SECRET)]
        if not all(values):
            raise ChannelEnded(EndReason.TOKEN, "one of the four keys of X is not set", WAY_OUT)
        return AccountKeys(*values)

    def _find_retry_after(self, response: httpx2.Response, answer: Any) -> float | None:
        """X names the moment at which its window begins anew."""
        reset_at = response.headers.get("x-rate-limit-reset", "")
        if not reset_at.isdecimal() or len(reset_at) > 12:
            return None
        return max(int(reset_at) - self._deps.clock.now() / SECOND, 1.0)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None


def _add_newest(found: Mapping[str, str], saved: str) -> str:
    known = [(each, post) for each, post in (json.loads(saved) if saved else {}).items() if each not in found]
    return json.dumps(dict([*known, *found.items()][-MOST_ROOMS:]))


def _read_error(given: PlatformAnswer) -> PlatformRefusal | None:
    """A request that is not as documented has its reason in `errors`; its detail says only that something is wrong."""
    listed = given.body.get("errors") if given.status == 400 and isinstance(given.body, Mapping) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    why = first.get("message") if isinstance(first, Mapping) else None
    if not isinstance(why, str) or not why:
        return None
    return PlatformRefusal("X", given.action, given.status, given.body, why)


def _find_missing_right(refusal: PlatformRefusal) -> ChannelEnded | None:
    """A refusal that no other key would change."""
    reason = refusal.answer.get("reason") if isinstance(refusal.answer, Mapping) else None
    if refusal.status == 402:
        why, remedy = "X has no credits of this app left", "buy some at developer.x.com"
    elif reason in NO_TIER:
        why, remedy = f"X does not offer its API to this app ({reason})", "attach it to a project at developer.x.com"
    else:
        return None
    return ChannelEnded(EndReason.RIGHTS, why, remedy)
