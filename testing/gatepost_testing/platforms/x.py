"""An emulated X: posts in conversations, mentions in pages, likes; each request has to be signed by the four keys.

It keeps to the API v2 for what our channel uses. It does not have: media, direct messages, protected accounts, prices
and quotas, and OAuth 2.0. Every post here mentions the bot. A post is counted as twitter-text 3.1 does: 280 weighted
characters, of which a link is 23, also a bare one such as main.py. The sources are docs.x.com, "Counting characters",
and the library's `config/v3.json`. A longer post of somebody is cut in `text`; `note_tweet` has it whole if asked for
("Posts: fields").
"""

import hmac
import itertools
import re
import time
import unicodedata
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import quote, unquote, urlencode

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost_testing.platform_rules.x import BY_NAME
from gatepost_testing.platforms.base import Asgi, GivenMessage, NotOffered, PlatformFault, ShownMessage
from gatepost_testing.platforms.rest import RestPlatform

KEYS = {
    "api_key": "the-app-key",
    "api_secret": "the-app-secret",
    "token": "900-the-token",
    "token_secret": "the-token-secret",
}
ME, NAME = "900", "porter"
FEED = "feed"  # the room of what the bot posts on its own


LONGEST = BY_NAME["text length"].limit
FAULTS = {401: "keys", 403: "right to write", 429: "rate limit", 503: "service away"}  # by their rules
_CASHTAG = re.compile(r"(?:^|\s)\$[a-z]{1,6}(?:[._][a-z]{1,2})?(?=$|\s|[^\w\s])", re.IGNORECASE)
_SIGN = "[\u2600-\u27bf\U0001f000-\U0001faff]"
_EMOJI = re.compile(f"{_SIGN}(?:[\ufe0f\U0001f3fb-\U0001f3ff]|\u200d{_SIGN})*")
_BARE = re.compile(
    r"(?:https?://)?(?:[a-z0-9-]+\.)+(?:[a-z]{2}|com|org|net|info|dev|app)(?![a-z0-9-])(?:/[^\s]*)?", re.IGNORECASE
)


def refuse(name: str, headers: dict[str, str] | None = None) -> Response:
    """The refusal of a rule. A request that is not as documented has its reason in `errors`."""
    rule = BY_NAME[name]
    title = {400: "Invalid Request", 401: "Unauthorized", 404: "Not Found Error"}.get(rule.status, "Forbidden")
    body: dict[str, Any] = {"title": title, "detail": rule.refusal, "type": "about:blank", "status": rule.status}
    if rule.status == 400:
        body |= {"errors": [{"message": rule.refusal}], "type": "https://api.x.com/2/problems/invalid-request"}
        body["detail"] = "One or more parameters to your request was invalid."
    return JSONResponse(body, rule.status, headers)


def count_weighted(text: str) -> int:
    """As twitter-text counts, on its own: links, then emoji, then single signs."""
    text = unicodedata.normalize("NFC", text)
    links = len(_BARE.findall(text))
    rest = _BARE.sub("", text)
    emoji = len(_EMOJI.findall(rest))
    signs = _EMOJI.sub("", rest)
    light = sum(
        each <= "\u10ff" or "\u2000" <= each <= "\u200d" or "\u2010" <= each <= "\u201f" or "\u2032" <= each <= "\u2037"
        for each in signs
    )
    return 23 * links + 2 * emoji + light + 2 * (len(signs) - light)


def _shorten(post: dict[str, Any], *, noted: bool) -> dict[str, Any]:
    if count_weighted(post["text"]) <= LONGEST:
        return post
    whole = {"note_tweet": {"text": post["text"]}} if noted else {}
    return {**post, "text": f"{post['text'][:270]}… https://t.co/abc", **whole}


class XPlatform(RestPlatform):
    kind = "x"
    cannot: ClassVar[frozenset[str]] = frozenset({"edit", "delete", "react", "join", "click"})
    has_direct = False
    only_mentions = True
    faults = (RestPlatform.faults - {PlatformFault.DUPLICATE}) | {PlatformFault.NO_RIGHTS}

    def __init__(self) -> None:
        super().__init__()
        self._ids = itertools.count(1_900_000_000_000_000_001)
        self._people = {"bot": ME}
        self._rooms: dict[str, str] = {}  # room -> its first post
        self._posts: dict[str, dict[str, Any]] = {}
        self._nonces: set[str] = set()
        self.is_enrolled = True  # whether the app's tier has this API
        self.is_self_serve = False  # whether it is a tier without likes and quotes
        self.foreign: set[str] = set()  # rooms whose first post does not mention the bot

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": self.url, "poll_s": 0.1}

    def get_secrets(self) -> dict[str, str]:
        return dict(KEYS)

    def get_address(self, room: str) -> str:
        return f"x:conversation/{self._get_root(room)}"

    def get_sender(self, person: str) -> str:
        return f"x:user/{self._get_user(person)}"

    def _get_user(self, person: str) -> str:
        with self.changed:
            return self._people.setdefault(person, str(900 + len(self._people)))

    def _get_root(self, room: str) -> str:
        """Somebody began the conversation before the bot came, and mentioned it unless the room is `foreign`."""
        with self.changed:
            if room not in self._rooms:
                self._rooms[room] = str(next(self._ids))
            return self._rooms[room]

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        if given.files or given.room.startswith("direct:"):
            raise NotOffered
        with self.changed:
            return self._add(
                given.room, given.sender, f"@{NAME} {given.text}", given.reply_to or self._get_root(given.room)
            )

    def _add(self, room: str, sender: str, text: str, answered: str) -> str:
        number = str(next(self._ids))
        post: dict[str, Any] = {
            "id": number,
            "text": text,
            "author_id": self._get_user(sender),
            "conversation_id": self._get_root(room) if answered else number,
            "created_at": datetime.now(UTC).isoformat(),
        }
        if answered:
            post["referenced_tweets"] = [{"type": "replied_to", "id": answered}]
        self._posts[number] = post
        self.record.append(ShownMessage(id=number, room=room, sender=sender, text=text, reply_to=answered))
        self.changed.notify_all()
        return number

    # The API.

    def make_app(self) -> Asgi:
        routes = [
            self.route("GET", "/2/users/me", self._get_me),
            self.route("GET", f"/2/users/{ME}/mentions", self._list_mentions),
            self.route("POST", "/2/tweets", self._create, sends=True),
            self.route("DELETE", "/2/tweets/{number}", self._remove, sends=True),
            self.route("POST", f"/2/users/{ME}/likes", self._like, sends=True),
            self.route("POST", f"/2/users/{ME}/retweets", self._repost, sends=True),
            self.route("DELETE", f"/2/users/{ME}/retweets/{{number}}", self._remove_repost, sends=True),
        ]
        return Starlette(routes=routes)

    def is_authorized(self, request: Request) -> bool:
        """By RFC 5849, read here once more: the keys, the signature, and a nonce that was never used."""
        listed = re.findall(r'(oauth_\w+)="([^"]*)"', request.headers.get("authorization", ""))
        fields = {name: unquote(value) for name, value in listed}
        given, nonce = fields.pop("oauth_signature", ""), fields.get("oauth_nonce", "")
        with self.changed:
            if not nonce or nonce in self._nonces:
                return False
            self._nonces.add(nonce)
        known = (fields.get("oauth_consumer_key"), fields.get("oauth_token")) == (KEYS["api_key"], KEYS["token"])
        pairs = sorted({**request.query_params, **fields}.items())
        words = urlencode(pairs, quote_via=quote, safe="-._~")
        address = f"{self.url}{request.url.path}"
        base = "&".join(quote(part, safe="-._~") for part in (request.method, address, words))
        secret = f"{KEYS['api_secret']}&{KEYS['token_secret']}".encode()
        return known and given == b64encode(hmac.digest(secret, base.encode(), "sha1")).decode()

    def render_error(self, status: int, words: str, headers: dict[str, str] | None = None) -> Response:
        reset = {"x-rate-limit-reset": str(int(time.time() + self.retry_after))} if status == 429 else None
        return refuse(FAULTS[status], reset)

    async def _get_me(self, request: Request) -> Response:
        level = "read" if self.is_faulty(PlatformFault.NO_RIGHTS) else "read-write"
        if not self.is_enrolled:
            told = {"title": "Client Forbidden", "reason": "client-not-enrolled", "required_enrollment": "Basic"}
            rule = BY_NAME["project of the app"]
            return JSONResponse({**told, "detail": rule.refusal}, rule.status)
        return JSONResponse({"data": {"id": ME, "username": NAME, "name": "Porter"}}, headers={"x-access-level": level})

    async def _list_mentions(self, request: Request) -> Response:
        query = request.query_params
        if not 5 <= int(query.get("max_results", "10")) <= BY_NAME["size of a page"].limit:
            return refuse("size of a page")
        since, size, start = int(query.get("since_id", "0")), int(query["max_results"]), query.get("pagination_token")
        with self.changed:
            noted = "note_tweet" in query.get("tweet.fields", "")
            named = [each for each in self._posts.values() if f"@{NAME}" in each["text"] and int(each["id"]) > since]
            posts = [_shorten(each, noted=noted) for each in named]
            names = [{"id": user, "username": name, "name": name} for name, user in self._people.items()]
        posts.sort(key=lambda each: int(each["id"]), reverse=True)
        first = int(start or 0)
        meta = {"result_count": len(posts[first : first + size])}
        if len(posts) > first + size:
            meta["next_token"] = str(first + size)  # type: ignore[assignment]
        page = {"data": posts[first : first + size], "includes": {"users": names}} if posts else {}
        return JSONResponse({**page, "meta": meta})

    async def _create(self, request: Request) -> Response:
        body = await request.json()
        answered, quoted = body.get("reply", {}).get("in_reply_to_tweet_id", ""), body.get("quote_tweet_id", "")
        with self.changed:
            if wrong := self._check(body["text"], answered, quoted):
                return refuse(wrong)
            room = next((each for each, root in self._rooms.items() if root == answered), FEED)
            known = [each.room for each in self.record if each.id == answered]
            number = self._add(known[0] if known else room, "bot", body["text"], answered)
        return JSONResponse({"data": {"id": number, "text": body["text"]}}, 201)

    def _check(self, text: str, answered: str, quoted: str) -> str:
        """Return the name of the rule that a post breaks."""
        if count_weighted(text) > LONGEST:
            return "text length"
        if not text.strip():
            return "empty post"
        if len(_CASHTAG.findall(text)) > BY_NAME["number of cashtags"].limit:
            return "number of cashtags"
        if quoted and quoted not in self._posts:
            return "quoted post"
        if quoted and self.is_self_serve:
            return "quotes of self-serve apps"
        if answered and (wrong := self._check_answered(answered)):
            return wrong
        same = [each for each in self.record if (each.sender, each.text, each.reply_to) == ("bot", text, answered)]
        return "duplicate post" if any(not each.deleted for each in same) else ""

    def _check_answered(self, answered: str) -> str:
        if re.fullmatch("[0-9]{1,19}", answered) is None:
            return "id of an answered post"
        begun = [room for room, root in self._rooms.items() if root == answered]
        if not begun and answered not in self._posts:
            return "answered post"
        post = self._posts.get(answered, {"text": "" if begun[:1] and begun[0] in self.foreign else f"@{NAME}"})
        return "" if f"@{NAME}" in post["text"] or post.get("author_id") == ME else "answers to who called"

    async def _repost(self, request: Request) -> Response:
        shared = (await request.json())["tweet_id"]
        with self.changed:
            if shared not in self._posts:
                return refuse("post to repost")
            about = self.find(shared)
            self.record.append(ShownMessage(id=f"repost:{shared}", room=FEED, sender="bot", text=about.text))
        return JSONResponse({"data": {"retweeted": True}})

    async def _remove_repost(self, request: Request) -> Response:
        with self.changed:
            self.find(f"repost:{request.path_params['number']}").deleted = True
        return JSONResponse({"data": {"retweeted": False}})

    async def _remove(self, request: Request) -> Response:
        number = request.path_params["number"]
        with self.changed:
            if self._posts.get(number, {}).get("author_id") != ME:
                return refuse("deletions of others")
            self.find(number).deleted = True
        return JSONResponse({"data": {"deleted": True}})

    async def _like(self, request: Request) -> Response:
        liked = (await request.json())["tweet_id"]
        with self.changed:
            if liked not in self._posts:
                return refuse("post to like")
            if self.is_self_serve:
                return refuse("likes of self-serve apps")
            shown = self.find(liked)
            if ("❤️", "bot") not in shown.reactions:
                shown.reactions = [*shown.reactions, ("❤️", "bot")]
        return JSONResponse({"data": {"liked": True}})
