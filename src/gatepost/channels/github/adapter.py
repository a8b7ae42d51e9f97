"""GitHub's REST API: comments out, webhooks in, and a list of what changed for what no webhook brought."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2

from gatepost.channels.contract import (
    MYSELF,
    BotIdentity,
    ChannelDeps,
    ChannelEnded,
    EndReason,
    HookRequest,
    HookResponse,
    Receive,
)
from gatepost.channels.github import API_URL, NAME, POLL_S, REPOSITORIES, TOKEN, WEBHOOK_SECRET, wire
from gatepost.channels.kit.hooks import SIGNATURE, HookInbox, has_signature, is_signed, parse_object
from gatepost.channels.kit.http import PlatformAnswer, PlatformHttp, PlatformRefusal
from gatepost.core import log
from gatepost.core.clock import SECOND
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.messages.inbound import Inbound
from gatepost.messages.markdown.markup import GITHUB, render
from gatepost.messages.outbound import Op, Outbound

WAY_OUT = "make a new token for the bot's account and set it with `gatepost channel set`"
HOOK_S = 8.0  # GitHub waits ten seconds for an answer
ASKED = "asked"  # the name of a cursor: when a gateway asked last
ROUND = 0.9  # of the time between two rounds, in which it is still the same one
PAGE = 100
MOST_PAGES = 20
LOOKED_BACK = timedelta(days=30)  # no effect waits for so long
SECONDARY_WAIT_S = 60.0  # GitHub's own advice where it names no time
LISTS: dict[str, wire.ReadListed] = {
    "issues/comments": wire.read_comment,
    "pulls/comments": wire.read_line_comment,
    "issues": wire.read_issue,
}
SCOPES = {"repo", "public_repo"}

GONE = (301, 404, 410)  # an issue that was moved to another repository, or deleted
SHUT = ("rate limit", "login attempts exceeded")  # also to a valid token, after others used wrong ones
_log = log.get("github")


def read_error(given: PlatformAnswer) -> Unavailable | PlatformRefusal | None:
    """Limits come as 403, too, and pass. A request that is not valid has its reason in `errors`."""
    if given.status == 422 and (why := wire.find_reason(given.body)):
        return PlatformRefusal("GitHub", given.action, given.status, given.body, why)
    headers, wait = given.response.headers, given.retry_after
    spent = headers.get("x-ratelimit-remaining") == "0"
    words = str(given.body.get("message", "")) if isinstance(given.body, dict) else ""
    shut = any(each in words.lower() for each in SHUT)
    if given.status not in (403, 429) or not (spent or "retry-after" in headers or shut):
        return None
    if wait is None:
        wait = _find_reset(given.response) if spent else SECONDARY_WAIT_S
    return Unavailable("GitHub", "it asks us to wait", retry_after=wait, everywhere=True)


class GitHubComments:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._config = deps, deps.config
        self._repositories = {name.casefold(): name for name in deps.config[REPOSITORIES]}
        self._inbox = HookInbox(deps)
        self._client: PlatformHttp | None = None
        self._bot: wire.BotNames | None = None
        self._catching_up = asyncio.Lock()

    @property
    def own_names(self) -> frozenset[str]:
        return frozenset({self._bot.mentioned, self._bot.login}) if self._bot else frozenset()

    async def listen(self, receive: Receive) -> None:
        self._check_repositories()
        is_first = True  # what was missed before goes before what comes now, whoever else asks

        async def catch_up() -> None:
            nonlocal is_first
            if await self._claim_round() or is_first:
                async with self._catching_up:
                    await self._catch_up_all()
            is_first = False

        await self._inbox.listen(receive, catch_up, self._config[POLL_S])

    async def check_hook_head(self, head: HookRequest) -> HookResponse | None:
        return None if has_signature(head, SIGNATURE) else HookResponse(status=403)

    async def answer_hook(self, request: HookRequest) -> HookResponse:
        secret = await self._deps.secret(WEBHOOK_SECRET)
        if request.method != "POST" or not is_signed(request, SIGNATURE, secret):
            return HookResponse(status=403)
        request.admit()
        payload = parse_object(request.body)
        if payload is None:
            return HookResponse(status=415, body=b"Set the webhook's content type to application/json.\n")
        event = wire.read_delivery(request.headers.get("x-github-event", ""), payload, await self._get_bot())
        if event is not None and self._find_room(event.address) is not None:
            await self._wait_for_missed()
            await self._inbox.receive([event])
        return HookResponse(status=202)

    async def _wait_for_missed(self) -> None:
        """Wait until missed events are read: they are older than those of a webhook now, so they go first."""
        try:
            async with asyncio.timeout(HOOK_S), self._catching_up:
                return
        except TimeoutError:
            raise Unavailable("GitHub", "it is still being asked for what was missed") from None

    async def _claim_round(self) -> bool:
        """False: another gateway asks, in this round. Several need no more requests than one."""
        now, least = self._deps.clock.now(), ROUND * self._config[POLL_S] * SECOND

        def claim(saved: str) -> str:
            return saved if saved.isdecimal() and now - int(saved) < least else str(now)

        return await self._deps.cursor.update(claim, ASKED) == str(now)

    async def _catch_up_all(self) -> None:
        for name in self._repositories.values():
            await self._catch_up_if_there(name)

    async def _catch_up_if_there(self, repository: str) -> None:
        """One repository that is gone, or closed to us, must not keep us from the others."""
        try:
            await self._catch_up(repository)
        except PlatformRefusal as error:
            _log.warning("a repository cannot be read", repository=repository, error=str(error))

    async def _catch_up(self, repository: str) -> None:
        """Comments and issues that were made or changed since the last time; the ledger knows those it has."""
        bot = await self._get_bot()
        for kind, read in LISTS.items():
            name = f"{kind} {repository.casefold()}"
            since = await self._deps.cursor.load(name)
            if not since:  # what was said before the bot came is not for it
                await self._advance(name, _render_time(self._deps.clock.now()), first=True)
                continue
            async for page in self._list_since(f"repos/{repository}/{kind}", since):
                for item in page:
                    # An issue is listed for every comment on it; it is new to us if it was made since we last asked.
                    if kind != "issues" or str(item.get("created_at")) >= since:
                        await self._receive_listed(item, read, repository, bot)
                    if kind == "issues" and isinstance(item.get("pull_request"), dict):
                        await self._receive_reviews(item, since, repository, bot)
                    if kind == "issues" and str(item.get("closed_at") or "") >= since:
                        await self._receive_closing(item, repository, bot)
                if page:
                    await self._advance(name, str(page[-1].get("updated_at") or since))

    async def _advance(self, name: str, to: str, *, first: bool = False) -> None:
        """Another gateway may be further, or may have begun earlier."""
        await self._deps.cursor.update(lambda saved: (saved or to) if first else max(saved, to), name)

    async def _receive_reviews(self, item: dict[str, Any], since: str, repository: str, bot: wire.BotNames) -> None:
        """No list has the reviews of a repository; a pull request that changed has those of its own."""
        number = item.get("number")
        try:
            async for page in self._list(f"repos/{repository}/pulls/{number}/reviews"):
                for review in page:
                    event = wire.read_review(repository, item, review, bot)
                    if event is not None and str(review.get("submitted_at")) >= since:
                        await self._inbox.receive_one(event)
        except PlatformRefusal as error:
            if error.status not in GONE:
                raise

    async def _receive_listed(
        self, item: dict[str, Any], read: wire.ReadListed, repository: str, bot: wire.BotNames
    ) -> None:
        event = read(repository, item, bot, edited=False)
        if event is None:
            return
        receipt = await self._inbox.receive_one(event)
        if receipt.new or event.own or not wire.is_edited(item) or event.platform_id.startswith("issue-"):
            return
        edit = read(repository, item, bot, edited=True)
        if edit is not None:
            await self._inbox.receive_one(edit)

    async def _receive_closing(self, item: dict[str, Any], repository: str, bot: wire.BotNames) -> None:
        """A list does not say who closed an issue; the issue itself does. One that was deleted or moved since does not
        keep us from what follows it."""
        room = wire.parse_room(f"github:{repository}/issue/{item.get('number')}")
        if room is None:
            return
        try:
            issue = await self._call("GET", room.path, action="read the issue")
        except PlatformRefusal as error:
            if error.status not in GONE:
                raise
            return
        event = wire.read_closing(repository, issue, bot) if isinstance(issue, dict) else None
        if event is not None:
            await self._inbox.receive_one(event)

    async def send(self, address: str, message: Outbound) -> str:
        room = self._get_room(address)
        match message.op:
            case Op.EDIT:
                body = {"body": render(message.text, GITHUB)}
                await self._call("PATCH", self._get_comment_path(room, message.target), action="edit", json=body)
                return message.target
            case Op.DELETE:
                await self._delete(self._get_comment_path(room, message.target))
                return message.target
            case Op.REACT:
                await self._react(room, message)
                return message.target
        text = wire.render_comment(message, render(message.text, GITHUB))
        answer = await self._call("POST", f"{room.path}/comments", action="comment", json={"body": text})
        found = answer.get("id") if isinstance(answer, dict) else None
        if not isinstance(found, int):
            raise Unavailable("GitHub", "its answer names no comment", uncertain=True)
        return str(found)

    async def _delete(self, path: str) -> None:
        try:
            await self._call("DELETE", path, action="delete")
        except PlatformRefusal as error:
            if error.status != 404:  # what is gone is deleted
                raise

    async def _react(self, room: wire.IssueRoom, message: Outbound) -> None:
        content = wire.find_reaction(message.reaction)
        if content is None:
            raise Unsupported(f"react with {message.reaction!r}", "github", wire.explain_reaction("", message.reaction))
        kind, number = wire.parse_target(message.target)
        if not number:
            raise NotFound("message", message.target)
        if kind == wire.REVIEW:
            raise Unsupported("react to a review", "github", "write a comment")
        path = {"issue": f"issues/{number}", "review": f"pulls/comments/{number}"}.get(
            kind, f"issues/comments/{number}"
        )
        full = f"repos/{room.repository}/{path}/reactions"
        await self._call("POST", full, action="react", json={"content": content})

    async def look_up(self, address: str, key: str) -> str | None:
        room, bot = self._get_room(address), await self._get_bot()
        now = datetime.fromtimestamp(self._deps.clock.now() / SECOND, UTC)
        since = (now - LOOKED_BACK).strftime("%Y-%m-%dT%H:%M:%SZ")
        pages = 0
        async for page in self._list(f"{room.path}/comments", since=since):
            pages += 1
            found = wire.find_marked(page, key, bot.login)
            if found is not None:
                return found
        if pages >= MOST_PAGES:
            raise Refused("this bot", "find the comment", address, f"there are more than {MOST_PAGES * PAGE} new ones")
        return None

    async def history(self, address: str, before: int | None, limit: int) -> list[Inbound]:
        room, bot = self._get_room(address), await self._get_bot()
        issue = await self._call("GET", room.path, action="read the issue")
        count = issue.get("comments") if isinstance(issue, dict) else 0
        last = max(1, -(-(count if isinstance(count, int) else 0) // PAGE))
        found: list[Inbound] = []
        for page in range(last, max(0, last - MOST_PAGES), -1):
            items = await self._get_page(f"{room.path}/comments", page, {})
            listed = (_read_past(room, item, bot) for item in items)
            found = [each for each in listed if each and (before is None or (each.at or 0) < before)] + found
            if len(found) >= limit:
                break
        return found[-limit:] if limit > 0 else []

    async def check(self) -> BotIdentity:
        self._check_repositories()
        http = await self._connect()
        response, user = await http.exchange("GET", "user", action="read who it is")
        login = str(user.get("login", "")) if isinstance(user, dict) else ""
        missing: list[str] = []
        scopes = {each.strip() for each in response.headers.get("x-oauth-scopes", "").split(",")} - {""}
        if scopes and not scopes & SCOPES:
            why = f"the token of @{login} lacks the scope repo (or public_repo), so that nothing can be said"
            raise ChannelEnded(EndReason.RIGHTS, why, "make one with it at https://github.com/settings/tokens")
        notes: list[str] = []
        for name in self._repositories.values():
            missing += await self._check_repository(name, notes)
        if len(missing) == len(self._repositories):
            why = f"the token of @{login} lacks the right to read {', '.join(self._repositories.values())}"
            raise ChannelEnded(EndReason.RIGHTS, why, "invite the account, or add the repository to the token")
        if not await self._deps.secret(WEBHOOK_SECRET):
            notes.append(f"no webhook secret is set: comments come by asking, every {self._config[POLL_S]:g} s")
        return BotIdentity(
            name=f"@{login}", link=f"https://github.com/{login}", missing=tuple(missing), notes=tuple(notes)
        )

    async def _check_repository(self, name: str, notes: list[str]) -> list[str]:
        try:
            found = await self._call("GET", f"repos/{name}", action=f"read {name}")
        except PlatformRefusal as error:
            if error.status not in (403, 404):
                raise
            return [f"the right to read {name}: invite the account, or add the repository to the token"]
        if isinstance(found, dict) and found.get("archived"):
            notes.append(f"{name} is archived: nothing can be said there")
        return []

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _check_repositories(self) -> None:
        wrong = [name for name in self._repositories.values() if not wire.is_repository(name)]
        if wrong or not self._repositories:
            why = f"{wrong[0]!r} is no repository" if wrong else "channels.github.repositories is empty"
            raise ChannelEnded(EndReason.SETTING, why, "write each as owner/name")

    def _find_room(self, address: str) -> wire.IssueRoom | None:
        """Only the repositories that the operator named are rooms, whatever else the token can reach."""
        room = wire.parse_room(address)
        return room if room is not None and room.repository.casefold() in self._repositories else None

    def _get_room(self, address: str) -> wire.IssueRoom:
        room = self._find_room(address)
        if room is None:
            hint = f"a room is github:<owner>/<name>/issue/<number> of: {', '.join(self._repositories.values())}"
            raise NotFound("room", address, hint)
        return room

    def _get_comment_path(self, room: wire.IssueRoom, target: str) -> str:
        kind, number = wire.parse_target(target)
        if kind or not number:
            raise Refused("this bot", "change what is not its own", target)
        return f"repos/{room.repository}/issues/comments/{number}"

    async def _get_bot(self) -> wire.BotNames:
        if self._bot is None:
            user = await self._call("GET", "user", action="read who it is")
            login = str(user.get("login", "")) if isinstance(user, dict) else ""
            self._bot = wire.BotNames(login, self._config[NAME].removeprefix("@") or login)
        return self._bot

    async def _list(self, path: str, **query: str) -> AsyncIterator[list[dict[str, Any]]]:
        """Pages of a list, at most so many."""
        for number in range(1, MOST_PAGES + 1):
            page = await self._get_page(path, number, query)
            yield page
            if len(page) < PAGE:
                return

    async def _list_since(self, path: str, since: str) -> AsyncIterator[list[dict[str, Any]]]:
        """Pages of what was changed, oldest first. The next one begins where the last ended: by its number, an edit
        between two pages would move others to a page that was read already."""
        number = 1
        for _ in range(MOST_PAGES):
            query = {"since": since, "sort": "updated", "direction": "asc", "state": "all"}
            page = await self._get_page(path, number, query)
            yield page
            if len(page) < PAGE:
                return
            last = str(page[-1].get("updated_at") or "")
            number = number + 1 if last <= since else 1  # a whole page of one second
            since = max(since, last)

    async def _get_page(self, path: str, number: int, query: dict[str, str]) -> list[dict[str, Any]]:
        params = {"per_page": str(PAGE), "page": str(number), **query}
        answer = await self._call("GET", path, action="list comments", params=params)
        return [each for each in answer if isinstance(each, dict)] if isinstance(answer, list) else []

    async def _call(self, method: str, path: str, **more: Any) -> Any:
        return await (await self._connect()).call(method, path, **more)

    async def _connect(self) -> PlatformHttp:
        if self._client is None:
            token = await self._deps.secret(TOKEN)
            if not token:
                raise ChannelEnded(EndReason.TOKEN, "channels.github.token is not set", WAY_OUT)
            headers = {
                "authorization": f"Bearer {token}",
                "accept": "application/vnd.github+json",
                "x-github-api-version": "2022-11-28",
                "user-agent": "gatepost",
            }
            self._client = PlatformHttp(
                "GitHub", self._config[API_URL], headers=headers, remedy=WAY_OUT, read_error=read_error
            )
        return self._client


def _read_past(room: wire.IssueRoom, item: dict[str, Any], bot: wire.BotNames) -> Inbound | None:
    event = wire.read_comment(room.repository, {**item, "issue_url": room.path}, bot)
    if event is None or not event.own:
        return event
    return Inbound(address=event.address, platform_id=event.platform_id, sender=MYSELF, text=event.text, at=event.at)


def _find_reset(response: httpx2.Response) -> float:
    """Seconds until the hour's requests are there again; GitHub names the moment by its own clock."""
    try:
        reset = float(response.headers.get("x-ratelimit-reset", ""))
        now = datetime.strptime(response.headers["date"], "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    except (ValueError, KeyError):
        return SECONDARY_WAIT_S
    return min(max(reset - now.timestamp(), 1.0), 3600.0)


def _render_time(now: int) -> str:
    return datetime.fromtimestamp(now // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
