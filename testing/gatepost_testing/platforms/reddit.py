"""An emulated Reddit: posts with comments in one subreddit, private messages, an inbox that is read and marked as read.

It keeps to the documented API for what our channel uses, and gives access tokens by a password or a refresh token. It
does not have: votes, moderators and their removals, posts by the bot, media, the chat, and limits by karma. A message
in a room mentions the bot, unless `quiet` is set or it answers the bot.
"""

import base64
import time
from collections.abc import Iterable
from typing import Any, ClassVar
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost_testing.platform_rules.reddit import BY_NAME
from gatepost_testing.platforms import pings
from gatepost_testing.platforms.base import Asgi, GivenMessage, NotOffered, PlatformFault
from gatepost_testing.platforms.rest import Answer
from gatepost_testing.platforms.wire.reddit_state import NAME, SUBREDDIT, RedditState

CLIENT_ID = "the-app"
SECRETS = {"client_secret": "the-app-secret", "password": "the-password"}
REFRESH_TOKEN = "the-refresh-token"
FAULTS = {401: "token", 403: "right to comment", 429: "rate limit", 503: "service away"}  # by their rules


class RedditPlatform(RedditState):
    kind = "reddit"
    cannot: ClassVar[frozenset[str]] = frozenset({"edit", "delete", "react", "join", "click"})
    only_mentions = True
    reads_markdown = True
    ping_rule = pings.REDDIT
    faults = RedditState.faults | {
        PlatformFault.HELD_POLL,
        PlatformFault.FORGOTTEN,
        PlatformFault.REORDER,
        PlatformFault.NO_RIGHTS,
    }

    def __init__(self) -> None:
        super().__init__()
        self.quiet = False  # people do not mention the bot
        self.scopes = "*"
        self.suspended = False
        self.locked: set[str] = set()  # names of things that nobody may answer
        self.archived: set[str] = set()  # the same, because they are too old
        self.may_post = True
        self.window = (99.0, 300)  # requests that are left, and seconds until there are more
        self.lifetime = 86_400  # of a token, in seconds
        self.agents: set[str] = set()
        self._unread: list[str] = []
        self._tokens: set[str] = set()
        self._refusals: list[tuple[str, str]] = []

    def get_settings(self) -> dict[str, Any]:
        urls = {"api_url": self.url, "token_url": self.url}
        return {**urls, "client_id": CLIENT_ID, "username": NAME, "poll_s": 0.05, "settle_s": 0.2}

    def get_secrets(self) -> dict[str, str]:
        return dict(SECRETS)

    def get_address(self, room: str) -> str:
        if room.startswith("direct:"):
            return f"reddit:direct/{room.removeprefix('direct:')}"
        return f"reddit:{SUBREDDIT.lower()}/post/{self._get_post(room)['id']}"

    def get_sender(self, person: str) -> str:
        return f"reddit:user/{NAME if person == 'bot' else person}"

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        if given.files:
            raise NotOffered
        with self.changed:
            if given.room.startswith("direct:"):
                name = self._add_message(given.sender, NAME, "hello", given.text, given.reply_to)
                self.deliver(name)
                return name
            parent = given.reply_to or given.thread or str(self._get_post(given.room)["name"])
            answers = self._things[parent]["author"] == NAME
            named = given.mention or not (self.quiet or answers)
            name = self._add_comment(given.sender, parent, f"u/{NAME} {given.text}" if named else given.text)
            self._things[name]["type"] = "comment_reply" if answers else "username_mention"
            if answers or named:
                self.deliver(name)
            return name

    def submit(self, title: str, text: str, *, room: str, sender: str = "ann") -> str:
        """Somebody makes a post, which is a new room."""
        with self.changed:
            return str(self._add_post(room, sender, title, text)["name"])

    def refuse_next(self, code: str, words: str) -> None:
        """The next thing that the bot says is refused as Reddit does it: with the status 200."""
        with self.changed:
            self._refusals.append((code, words))

    def revoke_tokens(self) -> None:
        """Those that are out. The bot can get another one."""
        with self.changed:
            self._tokens.clear()

    def push(self, event: Any) -> None:
        self._unread.append(event)

    # The API. The library writes a slash behind most paths, the documentation none.

    def make_app(self) -> Asgi:
        routes = [
            *self._routes("POST", "/api/v1/access_token", self._give_token, open_to_all=True),
            *self._routes("GET", "/api/v1/me", self._get_me),
            *self._routes("GET", "/message/unread", self._list_unread),
            *self._routes("GET", "/message/inbox", self._list_inbox),
            *self._routes("GET", "/message/sent", self._list_sent),
            *self._routes("POST", "/api/read_message", self._mark_read),
            *self._routes("POST", "/api/comment", self._comment, sends=True),
            *self._routes("POST", "/api/compose", self._compose, sends=True),
            *self._routes("POST", "/api/submit", self._submit, sends=True),
            *self._routes("POST", "/api/editusertext", self._edit, sends=True),
            *self._routes("POST", "/api/del", self._remove, sends=True),
            *self._routes("GET", "/api/info", self._list_named),
            *self._routes("GET", "/comments/{post}", self._get_thread),
            *self._routes("GET", "/user/{name}/comments", self._list_by),
            *self._routes("GET", "/user/{name}/submitted", self._list_submitted),
            *self._routes("GET", "/user/{name}/about", self._get_person),
            *self._routes("GET", "/r/{names}/comments", self._list_comments),
            *self._routes("GET", "/r/{names}/new", self._list_posts),
            *self._routes("GET", "/r/{names}/about", self._get_subreddit),
        ]
        return Starlette(routes=routes)

    def _routes(self, method: str, path: str, answer: Answer, **more: bool) -> list[Route]:
        async def count(request: Request) -> Response:
            with self.changed:
                self.agents.add(request.headers.get("user-agent", ""))
                left, reset = self.window
            response = await answer(request)
            response.headers.update(_render_window(left, f"{reset:g}"))
            return response

        return [self.route(method, each, count, **more) for each in (path, f"{path}/")]

    def is_authorized(self, request: Request) -> bool:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        with self.changed:
            return kind.lower() == "bearer" and token in self._tokens

    def render_error(self, status: int, words: str, headers: dict[str, str] | None = None) -> Response:
        return refuse(FAULTS[status], headers)

    def _render_fault(self, fault: PlatformFault | None) -> Response | None:
        if fault is PlatformFault.RATE_LIMIT:
            return self.render_error(429, "Too Many Requests", _render_window(0.0, f"{self.retry_after:g}"))
        return super()._render_fault(fault)

    async def _give_token(self, request: Request) -> Response:
        given = base64.b64encode(f"{CLIENT_ID}:{SECRETS['client_secret']}".encode()).decode()
        if self.is_faulty(PlatformFault.UNAUTHORIZED) or request.headers.get("authorization") != f"Basic {given}":
            return refuse("secret of the app")
        form = await _read_form(request)
        match form.get("grant_type"):
            case "password":
                if (form.get("username"), form.get("password")) != (NAME, SECRETS["password"]):
                    return JSONResponse({"error": BY_NAME["password"].refusal})
            case "refresh_token":
                if form.get("refresh_token") != REFRESH_TOKEN:
                    return refuse("refresh token")
            case _:
                return JSONResponse({"error": BY_NAME["kind of a grant"].refusal})
        with self.changed:
            token = f"token-{next(self._numbers)}"
            self._tokens.add(token)
        scope = "identity privatemessages" if self.is_faulty(PlatformFault.NO_RIGHTS) else self.scopes
        told = {"access_token": token, "token_type": "bearer", "expires_in": self.lifetime, "scope": scope}
        return JSONResponse(told)

    async def _get_me(self, request: Request) -> Response:
        karma = {"total_karma": 1200, "link_karma": 200, "comment_karma": 1000}
        me = {"id": "2b", "name": NAME, "is_suspended": self.suspended, "has_verified_email": True}
        return JSONResponse({**me, **karma})

    # The inbox.

    async def _list_unread(self, request: Request) -> Response:
        await self.wait_until(lambda: not self.is_faulty(PlatformFault.HELD_POLL), 3600.0)
        if self.suspended:
            return refuse("suspended account")
        with self.changed:
            return self._render_page(request, [self._things[name] for name in self._unread][::-1], inbox=True)

    async def _list_inbox(self, request: Request) -> Response:
        with self.changed:
            mine = [each for each in self._things.values() if each.get("dest") == NAME]
            return self._render_page(request, mine[::-1], inbox=True)

    async def _list_sent(self, request: Request) -> Response:
        with self.changed:
            mine = [each for each in self._things.values() if each.get("dest") and each["author"] == NAME]
            return self._render_page(request, mine[::-1])

    async def _mark_read(self, request: Request) -> Response:
        names = (await _read_form(request)).get("id", "").split(",")
        if len(names) > BY_NAME["number of messages to mark"].limit:
            return refuse("number of messages to mark")
        if self.claim_fault(PlatformFault.FORGOTTEN) is None:
            with self.changed:
                self._unread = [each for each in self._unread if each not in names]
        return JSONResponse({})

    # Messages of the bot.

    async def _comment(self, request: Request) -> Response:
        form = await _read_form(request)
        parent, text = form.get("thing_id", ""), form.get("text", "")
        with self.changed:
            refused = self._refuse(text, "empty comment", "comment length")
            if refused is not None:
                return refused
            found = self._things.get(parent)
            if found is None:
                return refuse("id of an answered comment")
            if found.get("deleted"):
                return refuse("answered comment")
            if self.archived & {parent, str(found.get("link_id"))}:
                return refuse("age of a thread")
            if self.locked & {parent, str(found.get("link_id"))}:
                return refuse("locked thread")
            if parent.startswith("t4_"):
                to = found["author"] if found["author"] != NAME else found["dest"]
                name = self._add_message(NAME, to, str(found["subject"]).removeprefix("re: "), text, parent)
            else:
                name = self._add_comment(NAME, parent, text)
            return self._render_made(name)

    async def _submit(self, request: Request) -> Response:
        form = await _read_form(request)
        title = form.get("title", "")
        with self.changed:
            if self.suspended:
                return refuse("words of a suspended account")
            if self._refusals:
                return _render_errors(*self._refusals.pop(0))
            if form.get("sr", "").lower() != SUBREDDIT.lower():
                return refuse("known subreddit")
            if not self.may_post:
                return refuse("right to post")
            if not title:
                return refuse("title of a post")
            if len(title) > BY_NAME["length of a title"].limit:
                return refuse("length of a title")
            if len(form.get("text", "")) > BY_NAME["post length"].limit:
                return refuse("post length")
            post = self._add_post(f"post {title}", "bot", title, form.get("text", ""))
            post["author"] = NAME
        made = {"id": post["id"], "name": post["name"], "url": f"{self.url}/r/{SUBREDDIT}/comments/{post['id']}/"}
        return JSONResponse({"json": {"errors": [], "data": made}})

    async def _compose(self, request: Request) -> Response:
        """The answer does not name the message."""
        form = await _read_form(request)
        with self.changed:
            refused = self._refuse(form.get("text", ""), "empty private message", "message length")
            if refused is not None:
                return refused
            if form.get("to", "") in ("", "nobody"):
                return refuse("person to write to" if form.get("to") else "named person")
            if not form.get("subject"):
                return refuse("subject of a message")
            if len(form["subject"]) > BY_NAME["length of a subject"].limit:
                return refuse("length of a subject")
            self._add_message(NAME, form["to"], form["subject"], form["text"], "")
        return JSONResponse({"json": {"errors": []}})

    async def _edit(self, request: Request) -> Response:
        form = await _read_form(request)
        name, text = form.get("thing_id", ""), form.get("text", "")
        with self.changed:
            refused = self._check_scope("edit") or self._refuse(text, "empty edit", "length of an edit")
            if refused is not None:
                return refused
            if self._things.get(name, {}).get("author") != NAME or name.startswith("t4_"):
                return refuse("edits of others")
            self._things[name] |= {"body": text, "edited": float(int(time.time()))}
            shown = self.find(name)
            shown.text = shown.raw = text
            shown.edits += 1
            return self._render_made(name)

    async def _remove(self, request: Request) -> Response:
        """Remove a thing of the bot. For others Reddit does nothing and reports no error."""
        name = (await _read_form(request)).get("id", "")
        with self.changed:
            if refused := self._check_scope("edit"):
                return refused
            if self._things.get(name, {}).get("author") == NAME:
                self.remove_thing(name)
        return JSONResponse({})

    def _check_scope(self, needed: str) -> Response | None:
        if {needed, "*"} & set(self.scopes.split()):
            return None
        return refuse("scope of a token", {"www-authenticate": 'Bearer realm="reddit", error="insufficient_scope"'})

    def _refuse(self, text: str, empty: str, length: str) -> Response | None:
        """`empty`, `length`: the names of the rules about it."""
        if self.suspended:
            return refuse("words of a suspended account")
        if self._refusals:
            return _render_errors(*self._refusals.pop(0))
        if not text.strip():
            return refuse(empty)
        return refuse(length) if len(text) > BY_NAME["comment length"].limit else None

    def _render_made(self, name: str) -> Response:
        return JSONResponse({"json": {"errors": [], "data": {"things": [self._render(self._things[name])]}}})

    # Lists.

    def _render(self, thing: dict[str, Any], *, inbox: bool = False) -> dict[str, Any]:
        """In the inbox a comment names its post by a path alone."""
        kind, data = thing["name"][:2], dict(thing)
        if kind == "t1":
            path = f"/r/{SUBREDDIT}/comments/{thing['link_id'][3:]}/about/{thing['id']}/?context=3"
            data |= {"context": path, "was_comment": True, "dest": NAME} if inbox else {"replies": ""}
            if inbox:
                del data["link_id"]
            else:
                data.pop("type", None)
        return {"kind": kind, "data": data}

    def _render_page(self, request: Request, things: list[dict[str, Any]], *, inbox: bool = False) -> Response:
        """Newest first. `after` names the last thing of the page before."""
        asked = request.query_params
        limit, names = min(int(asked.get("limit", "25")), 100), [each["name"] for each in things]
        first = names.index(asked["after"]) + 1 if asked.get("after") in names else 0
        page = things[first : first + limit]
        more = page[-1]["name"] if page and len(things) > first + limit else None
        return JSONResponse(_render_listing([self._render(each, inbox=inbox) for each in page], more))

    def _is_watched(self, request: Request) -> bool:
        return SUBREDDIT.lower() in request.path_params["names"].lower().split("+")

    async def _list_comments(self, request: Request) -> Response:
        return self._render_watched(request, "t1_")

    async def _list_posts(self, request: Request) -> Response:
        return self._render_watched(request, "t3_")

    def _render_watched(self, request: Request, kind: str) -> Response:
        if not self._is_watched(request):
            return refuse("private subreddit")
        with self.changed:
            return self._render_page(request, self._list_there(kind))

    async def _get_subreddit(self, request: Request) -> Response:
        if not self._is_watched(request):
            return refuse("subreddit to watch")
        return JSONResponse({"kind": "t5", "data": {"display_name": SUBREDDIT}})

    async def _list_by(self, request: Request) -> Response:
        with self.changed:
            mine = [each for each in self._list_there("t1_") if each["author"] == request.path_params["name"]]
            return self._render_page(request, mine)

    async def _list_submitted(self, request: Request) -> Response:
        with self.changed:
            mine = [each for each in self._list_there("t3_") if each["author"] == request.path_params["name"]]
            return self._render_page(request, mine)

    async def _get_person(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name == "nobody":
            return refuse("known person")
        return JSONResponse({"kind": "t2", "data": {"name": name, "id": "2c", "is_suspended": False}})

    async def _list_named(self, request: Request) -> Response:
        names = request.query_params.get("id", "").split(",")
        with self.changed:
            found = [self._render(self._things[name]) for name in names if name in self._things]
        return JSONResponse(_render_listing(found, None))

    async def _get_thread(self, request: Request) -> Response:
        """The post, and a tree of comments: all, or one comment with those above it and below."""
        post, wanted = f"t3_{request.path_params['post']}", request.query_params.get("comment", "")
        with self.changed:
            if post not in self._things:
                return refuse("known post")
            top = [each["name"] for each in self._things.values() if each.get("parent_id") == post]
            if wanted:
                top = [self._find_above(f"t1_{wanted}", int(request.query_params.get("context", "0")))]
            tree = _render_listing(list(self._render_tree(top)), None)
            return JSONResponse([_render_listing([self._render(self._things[post])], None), tree])

    def _render_tree(self, names: Iterable[str]) -> Iterable[dict[str, Any]]:
        for name in names:
            below = [each["name"] for each in self._things.values() if each.get("parent_id") == name]
            shown = self._render(self._things[name])
            shown["data"]["replies"] = _render_listing(list(self._render_tree(below)), None) if below else ""
            yield shown


def _render_listing(children: list[dict[str, Any]], after: str | None) -> dict[str, Any]:
    data = {"children": children, "after": after, "before": None, "dist": len(children), "modhash": None}
    return {"kind": "Listing", "data": data}


def refuse(name: str, headers: dict[str, str] | None = None) -> Response:
    """The refusal of a rule: in a list of errors, or by the status."""
    rule = BY_NAME[name]
    if rule.status == 302:  # a page
        return Response(rule.refusal, rule.status, {"location": "/subreddits/search"}, "text/html")
    if rule.status == 200:
        return _render_errors(*rule.refusal.split(" ", 1))
    return JSONResponse({"message": rule.refusal, "error": rule.status}, rule.status, headers)


def _render_errors(code: str, words: str) -> Response:
    return JSONResponse({"json": {"errors": [[code, words, "text"]]}})


def _render_window(left: float, reset: str) -> dict[str, str]:
    return {"x-ratelimit-remaining": f"{left}", "x-ratelimit-used": "1", "x-ratelimit-reset": reset}


async def _read_form(request: Request) -> dict[str, str]:
    return dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
