"""GitHub, emulated: one repository with issues, their comments, reactions of the bot, and signed webhooks.

Covered: the REST endpoints for comments, issues, reactions and the account; pages with Link headers; secondary rate
limits. It has webhooks for issues and pull requests (opened, closed, merged, reopened, pushed to), issue comments,
reviews and their comments on lines. As on GitHub, a delivery that fails is not repeated, and people's reactions bring
no webhook. Not covered: discussions, apps and their keys, permissions of people, the redelivery API.

The text of a review is in `pull_request_review`; comments on lines are `pull_request_review_comment`, and have a list
of their own. See "Webhook events and payloads" and "REST API endpoints for pull request review comments" at
docs.github.com.

Every room is an issue of `acme/site`: `team` is number 1. None is private.
"""

import asyncio
import hashlib
import itertools
import json
import time
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from gatepost.channels.kit.hooks import sign
from gatepost_testing.markdown_scanner import strip_markdown
from gatepost_testing.platform_rules.github import BY_NAME, INVALID
from gatepost_testing.platforms import pings
from gatepost_testing.platforms.base import Asgi, GivenMessage, NotOffered, PlatformFault, ShownMessage
from gatepost_testing.platforms.hooked import Event, HookedPlatform

TOKEN, SECRET, LOGIN, REPOSITORY = "github_pat_x", "hook-secret", "gatebot", "acme/site"
TRIED_OFTEN = "tried-often"  # a token of somebody who had wrong ones before
HOLD_S = 0.02
LONG_AGO = "2020-01-01T00:00:00Z"
FAULTS = (PlatformFault.RATE_LIMIT, PlatformFault.BUSY, PlatformFault.FORBIDDEN, PlatformFault.NO_ANSWER)
CONTENTS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")
EMOJI = dict(zip(CONTENTS, "👍👎😄😕❤🎉🚀👀", strict=True))


class ApiError(Exception):
    """The refusal of a rule."""

    def __init__(self, name: str, headers: dict[str, str] | None = None) -> None:
        self.rule, self.headers = BY_NAME[name], headers or {}
        super().__init__(self.rule.refusal)


refuse = ApiError


def make_user_id(login: str) -> int:
    """Make the id of a person, which stays if the login changes."""
    return zlib.crc32(login.encode())


class GitHubPlatform(HookedPlatform):
    kind = "github"
    hook_secret = SECRET
    ping_rule = pings.GITHUB
    cannot = frozenset({"react", "join", "click", "get_typing"})
    has_direct = False
    redelivers = False

    def __init__(self) -> None:
        super().__init__()
        self._ids = itertools.count(4_100_000_001)
        self._rooms = {"team": 1}
        self.scopes = ""  # of a classic token
        self.is_spent = False  # whether the hour's requests are used up
        self.locked: set[int] = set()  # issues on which only some may comment
        self.deleted: set[int] = set()  # issues that are gone when they are asked for
        self.moved: set[int] = set()  # issues that are in another repository now
        self._issues: dict[int, dict[str, Any]] = {1: self._make_old_issue(1, "The site")}
        self._comments: dict[int, dict[str, Any]] = {}
        self._line_comments: dict[int, dict[str, Any]] = {}
        self._reviews: dict[int, list[dict[str, Any]]] = {}  # by pull request

    # How a channel is pointed at it.

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": self.url, "repositories": (REPOSITORY,), "poll_s": 0.1}

    def get_secrets(self) -> dict[str, str]:
        return {"token": TOKEN, "webhook_secret": self.hook_secret}

    def get_address(self, room: str) -> str:
        with self.changed:
            number = self._rooms.setdefault(room, len(self._rooms) + 1)
            if number not in self._issues:
                self._issues[number] = self._make_old_issue(number, room)
        return f"github:{REPOSITORY}/issue/{number}"

    def get_sender(self, person: str) -> str:
        return f"github:user/{make_user_id(person)}"

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        if given.thread or given.reply_to or given.files:
            raise NotOffered
        comment = self._add_comment(self._get_number(given.room), given.render_named(f"@{LOGIN}"), given.sender)
        return str(comment["id"])

    def open_issue(self, title: str, body: str, *, sender: str = "ann") -> int:
        return self._open_numbered("issues", title, body, sender)

    def open_pull_request(self, title: str, body: str, *, sender: str = "ann") -> int:
        """It shares its number with the issues, and its room is `issue <number>`, too."""
        return self._open_numbered("pull_request", title, body, sender)

    def _open_numbered(self, event: str, title: str, body: str, sender: str) -> int:
        with self.changed:
            number = max(self._issues) + 1
            self._rooms[f"issue {number}"] = number
            issue = self._issues[number] = self._make_issue(number, title, body, sender)
            if event == "pull_request":
                issue["pull_request"] = {"merged_at": None}
        self._emit(event, "opened", issue)
        return number

    def close(self, number: int, *, sender: str = "ann", merge: bool = False) -> None:
        """Close an issue or a pull request; only the latter can be merged."""
        with self.changed:
            issue = self._touch(number)
            user = {"login": sender, "id": make_user_id(sender), "type": "User"}
            issue |= {"state": "closed", "closed_at": issue["updated_at"], "closed_by": user}
            if merge:
                issue["pull_request"] = {"merged_at": issue["closed_at"]}
        self._emit_change("closed", issue, sender)

    def reopen(self, number: int, *, sender: str = "ann") -> None:
        with self.changed:
            issue = self._touch(number)
            issue |= {"state": "open", "closed_at": None, "closed_by": None}
        self._emit_change("reopened", issue, sender)

    def push(self, number: int, commit: str, *, sender: str = "ann") -> None:
        """New commits of a pull request. `commit`: any word, of which the newest one's hash is made."""
        with self.changed:
            issue = self._touch(number)
            before, issue["head"] = issue.get("head", _make_commit("")), _make_commit(commit)
        self._emit_change("synchronize", issue, sender, before=before, after=issue["head"])

    def _touch(self, number: int) -> dict[str, Any]:
        issue = self._issues[number]
        issue["updated_at"] = max(_render_now(), _render_next(issue["updated_at"]))
        return issue

    def _emit_change(self, action: str, issue: dict[str, Any], sender: str, **more: str) -> None:
        event = "pull_request" if "pull_request" in issue else "issues"
        self._emit(event, action, issue, sender=sender, more=more)

    def review(self, text: str, *, room: str = "team", sender: str = "ann", path: str = "src/main.py") -> str:
        """A comment on a line of a pull request."""
        number = self._get_number(room)
        comment = {**self._make_item(next(self._ids), text, sender), "path": path}
        comment["pull_request_url"] = f"{self.url}/repos/{REPOSITORY}/pulls/{number}"
        with self.changed:
            self._line_comments[comment["id"]] = comment
        self._emit("pull_request_review_comment", "created", self._issues[number], comment)
        return f"review-{comment['id']}"

    def submit_review(self, number: int, text: str, *, state: str = "commented", sender: str = "ann") -> str:
        """A review as a whole, with its verdict."""
        made = self._make_item(next(self._ids), text, sender)
        review = {name: made[name] for name in ("id", "body", "user")}
        with self.changed:
            issue = self._touch(number)
            review |= {"state": state.upper(), "submitted_at": issue["updated_at"]}
            self._reviews.setdefault(number, []).append(review)
        told = {"review": {**review, "state": state}}  # in capitals in the list alone
        self._emit("pull_request_review", "submitted", issue, sender=sender, more=told)
        return f"submitted-review-{review['id']}"

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        with self.changed:
            comment = self._change(int(message), text)
        self._emit("issue_comment", "edited", self._issues[comment["number"]], comment)
        return message

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        with self.changed:
            comment = self._comments.pop(int(message))
            self.find(message).deleted = True
        self._emit("issue_comment", "deleted", self._issues[comment["number"]], comment)
        return message

    # State.

    def _get_number(self, room: str) -> int:
        self.get_address(room)
        return self._rooms[room]

    def _make_old_issue(self, number: int, title: str) -> dict[str, Any]:
        """Opened long before the bot came."""
        return {**self._make_issue(number, title, "", "ann"), "created_at": LONG_AGO, "updated_at": LONG_AGO}

    def _make_issue(self, number: int, title: str, body: str, login: str) -> dict[str, Any]:
        state = {"state": "open", "closed_at": None, "closed_by": None}
        return {**self._make_item(number, body, login), **state, "number": number, "title": title, "comments": 0}

    def _make_item(self, item: int, body: str, login: str) -> dict[str, Any]:
        now, kind = _render_now(), "Bot" if login == LOGIN else "User"
        user = {"login": login, "id": make_user_id(login), "type": kind}
        return {"id": item, "body": body, "user": user, "created_at": now, "updated_at": now}

    def _add_comment(self, number: int, body: str, login: str) -> dict[str, Any]:
        with self.changed:
            issue = self._issues[number]
            comment = self._make_item(next(self._ids), body, login)
            comment |= {"number": number, "issue_url": f"{self.url}/repos/{REPOSITORY}/issues/{number}"}
            self._comments[comment["id"]] = comment
            issue["comments"] += 1
            issue["updated_at"] = comment["updated_at"]
            room = next(name for name, known in self._rooms.items() if known == number)
            self.record.append(
                ShownMessage(
                    id=str(comment["id"]),
                    room=room,
                    sender="bot" if login == LOGIN else login,
                    text=_strip(body),
                    raw=body,
                )
            )
            self.changed.notify_all()
        self._emit("issue_comment", "created", issue, comment, faulty=login != LOGIN)
        return comment

    def _change(self, comment_id: int, body: str) -> dict[str, Any]:
        comment = self._comments[comment_id]
        comment["body"] = body
        # Whole seconds, but a later one than before: people do not write twice within one.
        comment["updated_at"] = max(_render_now(), _render_next(comment["updated_at"]))
        shown = self.find(str(comment_id))
        shown.text, shown.raw, shown.edits = _strip(body), body, shown.edits + 1
        self.changed.notify_all()
        return comment

    def _emit(
        self,
        event: str,
        action: str,
        issue: dict[str, Any],
        comment: dict[str, Any] | None = None,
        *,
        faulty: bool = True,
        sender: str = "",
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """`sender`: who did it, if not who wrote what it is about."""
        name = "pull_request" if event.startswith("pull_request") else "issue"
        login = sender or (comment or issue)["user"]["login"]
        by = {"login": login, "id": make_user_id(login), "type": "Bot" if login == LOGIN else "User"}
        payload: dict[str, Any] = {"action": action, name: dict(issue), "sender": by}
        payload["repository"] = {"full_name": REPOSITORY}
        if event == "pull_request":
            merged = issue["pull_request"]["merged_at"]
            payload[name] |= {"merged": merged is not None, "merged_at": merged}
        payload |= more or {}
        if comment is not None:
            payload["comment"] = dict(comment)
        self.emit({"event": event, "payload": payload, "delivery": f"d-{next(self._ids)}"}, faulty=faulty)

    def render_delivery(self, event: Event) -> tuple[dict[str, str], bytes]:
        body = json.dumps(event["payload"]).encode()
        headers = {
            "content-type": "application/json",
            "x-github-event": event["event"],
            "x-github-delivery": event["delivery"],
            "x-hub-signature-256": sign(self.hook_secret, body),
            "user-agent": "GitHub-Hookshot/044aadd",
        }
        return headers, body

    # The API.

    def make_app(self) -> Asgi:
        base = f"/repos/{REPOSITORY}"
        return Starlette(
            routes=[
                Route("/user", self._answer_user, methods=["GET"]),
                Route(base, self._answer_repository, methods=["GET"]),
                Route(f"{base}/issues", self._answer_issues, methods=["GET"]),
                Route(f"{base}/issues/comments", self._answer_all_comments, methods=["GET"]),
                Route(f"{base}/issues/comments/{{id:int}}", self._answer_change, methods=["PATCH", "DELETE"]),
                Route(f"{base}/issues/comments/{{id:int}}/reactions", self._answer_reaction, methods=["POST"]),
                Route(f"{base}/pulls/comments", self._answer_line_comments, methods=["GET"]),
                Route(f"{base}/pulls/{{number:int}}/reviews", self._answer_reviews, methods=["GET"]),
                Route(f"{base}/pulls/comments/{{id:int}}/reactions", self._answer_reaction, methods=["POST"]),
                Route(f"{base}/issues/{{number:int}}", self._answer_issue, methods=["GET"]),
                Route(f"{base}/issues/{{number:int}}/reactions", self._answer_reaction, methods=["POST"]),
                Route(f"{base}/issues/{{number:int}}/comments", self._answer_comments, methods=["GET", "POST"]),
            ],
            exception_handlers={ApiError: _render_error, 404: _render_missing},
        )

    async def _begin_answer(self, request: Request) -> None:
        with self.changed:
            self.requests.append((request.method, request.url.path))
            self.changed.notify_all()
        given = request.headers.get("authorization", "")
        if given == f"Bearer {TRIED_OFTEN}":
            raise refuse("log-ins that failed")
        if given not in (f"Bearer {TOKEN}", f"token {TOKEN}"):
            raise refuse("token")
        if self.is_faulty(PlatformFault.UNAUTHORIZED):
            raise refuse("token")
        if not request.headers.get("user-agent"):
            raise refuse("name of the program")
        if self.is_spent:
            reset = str(int(time.time()) + 60)
            raise refuse("primary rate limit", {"x-ratelimit-remaining": "0", "x-ratelimit-reset": reset})
        while request.method == "GET" and self.is_faulty(PlatformFault.HELD_POLL):  # noqa: ASYNC110  until heal
            await asyncio.sleep(HOLD_S)

    async def _answer_user(self, request: Request) -> Response:
        await self._begin_answer(request)
        headers = {"x-oauth-scopes": self.scopes} if self.scopes else None  # a fine-grained token has none
        return JSONResponse({"login": LOGIN, "id": make_user_id(LOGIN), "type": "User"}, headers=headers)

    async def _answer_repository(self, request: Request) -> Response:
        await self._begin_answer(request)
        if self.is_faulty(PlatformFault.NO_RIGHTS):
            raise refuse("repository that can be seen")
        return JSONResponse({"full_name": REPOSITORY, "private": True, "archived": False, "has_issues": True})

    async def _answer_issue(self, request: Request) -> Response:
        await self._begin_answer(request)
        number = request.path_params["number"]
        if number in self.deleted:
            raise refuse("issue that was deleted")
        if number in self.moved:
            raise refuse("issue that was moved", {"location": f"{self.url}/repositories/7/issues/{number}"})
        if number not in self._issues:
            raise refuse("known issue")
        return JSONResponse(self._issues[number])

    async def _answer_issues(self, request: Request) -> Response:
        await self._begin_answer(request)
        return self._render_page(request, [_without_closer(each) for each in list(self._issues.values())])

    async def _answer_all_comments(self, request: Request) -> Response:
        await self._begin_answer(request)
        return self._render_page(request, list(self._comments.values()))

    async def _answer_line_comments(self, request: Request) -> Response:
        await self._begin_answer(request)
        return self._render_page(request, list(self._line_comments.values()))

    async def _answer_reviews(self, request: Request) -> Response:
        await self._begin_answer(request)
        listed = self._reviews.get(request.path_params["number"], [])
        return self._render_page(request, [{**each, "updated_at": each["submitted_at"]} for each in listed])

    async def _answer_comments(self, request: Request) -> Response:
        await self._begin_answer(request)
        number = request.path_params["number"]
        if number not in self._issues:
            raise refuse("known issue" if request.method == "GET" else "issue to comment on")
        if request.method == "GET":
            return self._render_page(request, [each for each in self._comments.values() if each["number"] == number])
        fault = self.claim_fault(*FAULTS)
        if fault is PlatformFault.RATE_LIMIT:
            raise refuse("secondary rate limit", {"retry-after": str(self.retry_after)})
        if fault is PlatformFault.BUSY:
            raise refuse("service away")
        if fault is PlatformFault.FORBIDDEN:
            raise refuse("right to comment")
        if number in self.locked:
            raise refuse("locked issue")
        body = await _read_body(request, "comment length")
        comment = self._add_comment(number, body, LOGIN)
        if fault is PlatformFault.NO_ANSWER:
            await self.drop_connections()
        return JSONResponse(comment, 201)

    async def _answer_change(self, request: Request) -> Response:
        await self._begin_answer(request)
        found = request.path_params["id"]
        comment, edits = self._comments.get(found), request.method == "PATCH"
        if comment is None:
            raise refuse("comment to edit" if edits else "comment to delete")
        if comment["user"]["login"] != LOGIN:
            raise refuse("edits of others" if edits else "deletions of others")
        if edits:
            body = await _read_body(request, "length of an edit")
            with self.changed:
                self._change(found, body)
            self._emit("issue_comment", "edited", self._issues[comment["number"]], comment, faulty=False)
            return JSONResponse(comment)
        with self.changed:
            del self._comments[found]
            self.find(str(found)).deleted = True
            self.changed.notify_all()
        return Response(status_code=204)

    async def _answer_reaction(self, request: Request) -> Response:
        await self._begin_answer(request)
        content = (await request.json()).get("content")
        if content not in CONTENTS:
            raise refuse("kind of a reaction")
        target = request.path_params.get("id")
        with self.changed:
            if target is not None and target not in {**self._comments, **self._line_comments}:
                raise refuse("comment to react to")
            if target in self._comments:
                reactions = self.find(str(target)).reactions
                if (EMOJI[content], "bot") not in reactions:
                    reactions.append((EMOJI[content], "bot"))
                self.changed.notify_all()
        return JSONResponse({"id": next(self._ids), "content": content, "user": {"login": LOGIN}}, 201)

    def _render_page(self, request: Request, items: list[dict[str, Any]]) -> Response:
        query = request.query_params
        size, page = min(int(query.get("per_page", "30")), 100), int(query.get("page", "1"))
        with self.changed:
            found = [dict(each) for each in items if each["updated_at"] >= query.get("since", "")]
        if query.get("sort") == "updated":
            found.sort(key=lambda each: (each["updated_at"], each["id"]), reverse=query.get("direction") != "asc")
        headers = {}
        if len(found) > page * size:
            following = request.url.include_query_params(page=page + 1)
            headers["link"] = f'<{following}>; rel="next"'
        return JSONResponse(found[(page - 1) * size : page * size], headers=headers)


def _strip(body: str) -> str:
    """Return what people see: marks are resolved, comments in HTML are hidden."""
    return strip_markdown(body.partition("<!--")[0]).strip()


def _without_closer(issue: dict[str, Any]) -> dict[str, Any]:
    """Lists do not say who closed an issue."""
    return {name: value for name, value in issue.items() if name != "closed_by"}


def _make_commit(word: str) -> str:
    return hashlib.sha1(word.encode(), usedforsecurity=False).hexdigest()


def _render_now() -> str:
    return datetime.fromtimestamp(int(time.time()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _render_next(moment: str) -> str:
    later = datetime.fromisoformat(moment).timestamp() + 1
    return datetime.fromtimestamp(later, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _read_body(request: Request, length: str) -> str:
    """The words of a comment. `length`: the name of the rule about theirs."""
    try:
        given = await request.json()
    except ValueError:
        raise refuse("body of a request") from None
    if not isinstance(given, dict):
        raise refuse("object of a request")
    body = given.get("body")
    if not isinstance(body, str):
        raise refuse("kind of a body")
    if not body.strip():
        raise refuse("empty comment" if request.method == "POST" else "empty edit")
    if len(body) > BY_NAME[length].limit:
        raise refuse(length)
    return body


async def _render_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    if error.rule.name == "name of the program":  # refused before the API, by a page
        return HTMLResponse(error.rule.refusal, error.rule.status)
    told: dict[str, Any] = {"message": error.rule.refusal, "documentation_url": "https://docs.github.com/rest"}
    if error.rule.refusal.startswith(f"{INVALID}: "):
        _, place, words = error.rule.refusal.split(": ", 2)
        resource, field, code = place.split()
        told["message"], found = INVALID, {"resource": resource, "field": field, "code": code, "message": words}
        told["errors"] = [found]
    return JSONResponse(told, error.rule.status, headers=error.headers)


async def _render_missing(request: Request, error: Exception) -> Response:
    return await _render_error(request, refuse("known address"))
