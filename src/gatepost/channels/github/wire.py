"""GitHub's words and ours: what it sends or lists becomes events, keys become hidden marks. No I/O."""

import hashlib
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from gatepost.channels.kit.json_values import read_object, read_text
from gatepost.core.clock import SECOND
from gatepost.messages.inbound import Inbound, Verb
from gatepost.messages.outbound import Outbound

REVIEW = "submitted-review"  # how the ids of reviews as a whole begin
STATES = {"approved": "approved", "changes_requested": "requests changes", "commented": "", "dismissed": "dismissed"}
REACTIONS = {
    "👍": "+1",
    "👎": "-1",
    "😄": "laugh",
    "😕": "confused",
    "❤": "heart",
    "🎉": "hooray",
    "🚀": "rocket",
    "👀": "eyes",
}
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}\Z")
_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(\[bot\])?\Z")
_ADDRESS = re.compile(r"github:([^/]+/[^/]+)/issue/([1-9][0-9]{0,9})\Z")
_COMMIT = re.compile(r"[0-9a-f]{40,64}\Z")
_VARIANTS = dict.fromkeys((0xFE0F, *range(0x1F3FB, 0x1F400)))  # presentation and skin tone


class IssueRoom(Struct, frozen=True):
    """An issue or a pull request; they share their numbers."""

    repository: str
    number: int

    @property
    def address(self) -> str:
        return f"github:{self.repository}/issue/{self.number}"

    @property
    def path(self) -> str:
        return f"repos/{self.repository}/issues/{self.number}"


class ReadListed(Protocol):
    """Reads an item of a list of a repository. `edited`: as an edit of what is known."""

    def __call__(
        self, repository: str, item: dict[str, Any], bot: "BotNames", /, *, edited: bool = False
    ) -> Inbound | None: ...


class BotNames(Struct, frozen=True):
    """`login`: of the account that writes; `mentioned`: by which people call it."""

    login: str
    mentioned: str


def is_repository(name: str) -> bool:
    return bool(_REPOSITORY.match(name)) and name.partition("/")[2] not in (".", "..")


def parse_room(address: str) -> IssueRoom | None:
    found = _ADDRESS.match(address)
    return IssueRoom(found[1].lower(), int(found[2])) if found and is_repository(found[1]) else None


def parse_target(target: str) -> tuple[str, str]:
    """Return the kind of a message and its number; ('', '') if it is none. The kinds: `issue`, `review` for a comment
    on a line, `REVIEW`, and '' for a comment."""
    kind, _, number = target.rpartition("-")
    known = kind in ("", "issue", "review", REVIEW) and number.isascii() and number.isdecimal() and len(number) <= 20
    return (kind, number) if known else ("", "")


def find_reaction(emoji: str) -> str | None:
    """GitHub's word for an emoji; None if it has none."""
    bare = emoji.translate(_VARIANTS)
    return REACTIONS.get(bare) or (bare if bare in REACTIONS.values() else None)


def explain_reaction(address: str, reaction: str) -> str:
    """Return what to use in place of a reaction that GitHub does not have, or ''."""
    return "" if find_reaction(reaction) is not None else f"use one of {' '.join(REACTIONS)}"


def render_mark(key: str) -> str:
    """A comment in HTML that nobody sees. Issues are public, so it holds no key, only what a key is known by."""
    return f"<!-- gatepost:{hashlib.sha256(key.encode()).hexdigest()[:32]} -->"


def render_comment(message: Outbound, text: str) -> str:
    return f"{text}\n\n{render_mark(message.key)}"


def find_reason(answer: Any) -> str:
    """The first error of a refused request, in words; '' if there is none."""
    listed = answer.get("errors") if isinstance(answer, dict) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    if isinstance(first, str):
        return first
    parts = [read_text(read_object(first).get(name)) for name in ("message", "field", "code")]
    return parts[0] or " ".join(filter(None, parts))


def strip_mark(text: str) -> str:
    return re.sub(r"\s*<!-- gatepost:[0-9a-f]{32} -->\s*\Z", "", text)


def read_delivery(event: str, payload: dict[str, Any], bot: BotNames) -> Inbound | None:
    """Return what a webhook brings; None if it is nothing that anybody said, or did to the issue."""
    repository = read_text(read_object(payload.get("repository")).get("full_name"))
    action = read_text(payload.get("action"))
    name = {"issue_comment": "issue", "issues": "issue"}.get(event, "pull_request")
    if event not in ("issue_comment", "issues", "pull_request", "pull_request_review", "pull_request_review_comment"):
        return None
    subject = read_object(payload.get(name))
    room = _read_room(repository, subject)
    if room is None:
        return None
    title = read_text(subject.get("title"))
    if event == "pull_request_review":
        review = read_object(payload.get("review"))
        known = {"submitted": "opened", "edited": "edited"}.get(action, "")
        return _read_review(room, title, review, known, bot)
    if event in ("issue_comment", "pull_request_review_comment"):
        prefix = "review-" if event == "pull_request_review_comment" else ""
        comment = read_object(payload.get("comment"))
        return _read_event(room, title, comment, prefix, {"created": "opened"}.get(action, action), bot)
    what = "pull request" if event == "pull_request" else "issue"
    change = _read_change(action, subject, what, payload)
    if change is not None:
        return _read_subject_event(room, title, change, payload.get("sender"), bot)
    return _read_event(room, title, subject, "issue-", action, bot)


def read_closing(repository: str, issue: dict[str, Any], bot: BotNames) -> Inbound | None:
    """Read from an issue or pull request itself that it was closed. The event is the same as that of the webhook."""
    room, pull = _read_room(repository, issue), issue.get("pull_request")
    given = {**issue, "merged": bool(read_object(pull).get("merged_at"))}
    change = _read_change("closed", given, "pull request" if isinstance(pull, dict) else "issue", {})
    if room is None or change is None:
        return None
    return _read_subject_event(room, read_text(issue.get("title")), change, issue.get("closed_by"), bot)


def read_comment(repository: str, comment: dict[str, Any], bot: BotNames, *, edited: bool = False) -> Inbound | None:
    """Read an entry of a repository's list of comments. The end of a URL names its issue."""
    number = read_text(comment.get("issue_url")).rpartition("/")[2]
    room = _read_room(repository, {"number": int(number) if number.isascii() and number.isdecimal() else 0})
    return _read_event(room, "", comment, "", "edited" if edited else "opened", bot) if room else None


def read_line_comment(
    repository: str, comment: dict[str, Any], bot: BotNames, *, edited: bool = False
) -> Inbound | None:
    """Read one of the list of comments on lines of a repository's pull requests."""
    number = read_text(comment.get("pull_request_url")).rpartition("/")[2]
    room = _read_room(repository, {"number": int(number) if number.isascii() and number.isdecimal() else 0})
    return _read_event(room, "", comment, "review-", "edited" if edited else "opened", bot) if room else None


def read_review(repository: str, pull: dict[str, Any], review: dict[str, Any], bot: BotNames) -> Inbound | None:
    """Read one of the list of reviews of a pull request."""
    room = _read_room(repository, pull)
    return _read_review(room, read_text(pull.get("title")), review, "opened", bot) if room else None


def _read_review(room: IssueRoom, title: str, review: dict[str, Any], action: str, bot: BotNames) -> Inbound | None:
    """A review without words or a verdict only holds comments on lines, which come by themselves."""
    state = STATES.get(read_text(review.get("state")).lower())
    body, at = strip_mark(read_text(review.get("body"))), review.get("submitted_at")
    text = " ".join(filter(None, (f"[{state}]" if state else "", body)))
    if state is None or not text:
        return None
    item = {**review, "body": text, "created_at": at, "updated_at": review.get("updated_at") or at}
    return _read_event(room, title, item, f"{REVIEW}-", action, bot)


def read_issue(repository: str, issue: dict[str, Any], bot: BotNames, *, edited: bool = False) -> Inbound | None:
    """Read an entry of a repository's list of issues, which has the pull requests, too."""
    room = _read_room(repository, issue)
    title = read_text(issue.get("title"))
    return _read_event(room, title, issue, "issue-", "edited" if edited else "opened", bot) if room else None


def is_edited(item: dict[str, Any]) -> bool:
    return item.get("created_at") != item.get("updated_at")


def find_marked(comments: Iterable[dict[str, Any]], key: str, login: str) -> str | None:
    """The comment of this account with the mark of a key. Others can copy a mark."""
    mark = render_mark(key)
    for each in comments:
        author = read_text(read_object(each.get("user")).get("login"))
        if mark in read_text(each.get("body")) and author.casefold() == login.casefold():
            return str(each.get("id"))
    return None


def is_mentioned(text: str, name: str) -> bool:
    bare = re.escape(name.removesuffix("[bot]"))
    return bool(name) and re.search(rf"(?<![\w/@-])@{bare}(?![\w-])", text, re.IGNORECASE) is not None


def parse_time(raw: Any) -> int | None:
    """Microseconds UTC."""
    try:
        return int(datetime.fromisoformat(read_text(raw)).timestamp()) * SECOND
    except (ValueError, OverflowError):
        return None


def _read_room(repository: str, subject: dict[str, Any]) -> IssueRoom | None:
    number = subject.get("number")
    if not is_repository(repository) or not isinstance(number, int) or not 0 < number < 10**10:
        return None
    return IssueRoom(repository.lower(), number)  # GitHub finds it in any case; for us it is one room


def _read_event(
    room: IssueRoom, title: str, item: dict[str, Any], prefix: str, action: str, bot: BotNames
) -> Inbound | None:
    number = room.number if prefix == "issue-" else item.get("id")
    user = read_object(item.get("user"))
    login, person = read_text(user.get("login")), user.get("id")
    if action not in ("opened", "edited", "deleted") or not isinstance(number, int) or not _LOGIN.match(login):
        return None
    if not isinstance(person, int):
        return None
    body = strip_mark(read_text(item.get("body")))
    text = f"{title}\n\n{body}".strip() if prefix == "issue-" else body
    if prefix == "review-" and (where := read_text(item.get("path"))):
        text = f"[{where}] {text}"
    verb, event = Verb.MENTION if is_mentioned(text, bot.mentioned) else Verb.MESSAGE, "message"
    if action == "edited":
        verb, event = Verb.EDIT, f"edit:{_find_revision(item, text)}"
    elif action == "deleted":
        verb, event, text = Verb.DELETE, "delete", ""
    return Inbound(
        address=room.address,
        platform_id=f"{prefix}{number}",
        sender=f"github:user/{person}",  # a login may be given up, and taken by somebody else
        sender_name=login,
        text=text,
        event=event,
        verb=verb,
        own=login.casefold() == bot.login.casefold(),
        room_name=f"{room.repository}#{room.number}" + (f" {title}" if title else ""),
        at=parse_time(item.get("created_at" if event == "message" else "updated_at")),
    )


class SubjectChange(Struct, frozen=True):
    """A change of an issue, in our words. `moment`: GitHub's; with `mark` it tells two of a kind apart."""

    verb: Verb
    text: str
    moment: str
    mark: str = ""


def _read_change(action: str, subject: dict[str, Any], what: str, payload: dict[str, Any]) -> SubjectChange | None:
    closed, updated = read_text(subject.get("closed_at")), read_text(subject.get("updated_at"))
    if action == "closed" and parse_time(closed) is not None:
        if subject.get("merged") is True:
            return SubjectChange(Verb.MERGE, f"merged this {what}", closed)
        return SubjectChange(Verb.CLOSE, f"closed this {what}", closed)
    if action == "reopened" and parse_time(updated) is not None:
        return SubjectChange(Verb.REOPEN, f"reopened this {what}", updated)
    before, after = read_text(payload.get("before")), read_text(payload.get("after"))
    if action == "synchronize" and parse_time(updated) is not None and _COMMIT.match(after):
        was = f" (before: {before[:12]})" if _COMMIT.match(before) else ""
        return SubjectChange(Verb.PUSH, f"pushed commits; the newest is {after[:12]}{was}", updated, f".{after[:12]}")
    return None


def _read_subject_event(room: IssueRoom, title: str, change: SubjectChange, user: Any, bot: BotNames) -> Inbound | None:
    login, person = read_text(read_object(user).get("login")), read_object(user).get("id")
    if not _LOGIN.match(login) or not isinstance(person, int):
        return None
    return Inbound(
        address=room.address,
        platform_id=f"issue-{room.number}",
        sender=f"github:user/{person}",
        sender_name=login,
        text=change.text,
        event=f"{change.verb}:{change.moment[:40]}{change.mark}",
        verb=change.verb,
        own=login.casefold() == bot.login.casefold(),
        room_name=f"{room.repository}#{room.number}" + (f" {title}" if title else ""),
        at=parse_time(change.moment),
    )


def _find_revision(item: dict[str, Any], text: str) -> str:
    """GitHub's times have whole seconds; two edits within one differ by their words."""
    return f"{read_text(item.get('updated_at'))[:40]}.{hashlib.sha256(text.encode()).hexdigest()[:8]}"
