"""GitHub: comments that are taken twice, or never."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from gatepost.channels.contract import MemoryCursor
from gatepost.channels.github.adapter import ASKED
from gatepost.core.clock import HOUR
from gatepost_testing.platforms.base import Asgi
from gatepost_testing.platforms.github import REPOSITORY, TOKEN, GitHubPlatform
from gatepost_testing.platforms.wiring import listening, make_channel
from gatepost_testing.waiting import until

LONG_AGO = "2020-01-01T00:00:00Z"


class AnyCase(GitHubPlatform):
    """GitHub finds a repository whatever case its name is written in."""

    def make_app(self) -> Asgi:
        inner = super().make_app()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await inner({**scope, "path": scope.get("path", "").lower()}, receive, send)

        return app


@pytest.mark.slow
async def test_a_repository_written_in_another_case_is_still_one_room() -> None:
    """The webhook names it as GitHub does, the list as the operator did: two addresses, so each comment comes twice."""
    with AnyCase() as platform:
        assert isinstance(platform, GitHubPlatform)
        written = REPOSITORY.upper()
        cursor = MemoryCursor()
        cursor.saved = {f"issues/comments {REPOSITORY}": LONG_AGO, f"issues {REPOSITORY}": "2090-01-01T00:00:00Z"}
        channel, _ = make_channel(platform, cursor=cursor, repositories=(written,), poll_s=0.05)
        async with listening(channel) as received:
            platform.send("deploy now")
            await received.wait_for(1)
            polls = platform.requests.count(("GET", f"/repos/{REPOSITORY}/issues/comments"))
            await until(lambda: platform.requests.count(("GET", f"/repos/{REPOSITORY}/issues/comments")) > polls + 2)
            assert received.texts == ["deploy now"]


class Moving(GitHubPlatform):
    """Somebody edits the oldest comment of the first page right after it was read."""

    moved = False

    async def _answer_all_comments(self, request: Request) -> Response:
        answer = await super()._answer_all_comments(request)
        if not self.moved and self._comments:
            self.moved = True
            first = min(self._comments)
            self._comments[first]["updated_at"] = "2026-11-16T09:59:59Z"
        return answer


@pytest.fixture
def moving() -> Iterator[Moving]:
    with Moving() as made:
        assert isinstance(made, Moving)
        yield made


@pytest.mark.slow
async def test_an_edit_between_two_pages_hides_no_comment(moving: Moving) -> None:
    """Pages are counted by number while `since` stays: what moves to the end draws all behind it one place forward, and
    the first of the second page is on neither. The cursor then stands behind it."""
    for number in range(150):
        comment = moving._add_comment(1, f"comment {number}", "ann")
        moment = f"2026-11-16T09:{number // 60:02d}:{number % 60:02d}Z"
        comment |= {"created_at": moment, "updated_at": moment}
    cursor = MemoryCursor()
    cursor.saved = {f"issues/comments {REPOSITORY}": LONG_AGO, f"issues {REPOSITORY}": "2090-01-01T00:00:00Z"}
    secrets = {"token": TOKEN, "webhook_secret": ""}  # it was away when they were written
    channel, _ = make_channel(moving, cursor=cursor, secrets=secrets, poll_s=0.05)
    async with listening(channel) as received:
        await received.wait_for(lambda events: any(each.text == "comment 149" for each in events))
        seen = len(moving.requests)
        await until(lambda: len(moving.requests) > seen + 6)
        missing = {f"comment {number}" for number in range(150)} - set(received.texts)
    assert not missing


async def test_a_repository_that_is_gone_does_not_keep_the_others_from_being_asked() -> None:
    """404 or 410 of one repository comes out of `listen`: those behind it are never asked, and hooks of all get 503,
    which GitHub does not repeat."""
    with GitHubPlatform() as platform:
        assert isinstance(platform, GitHubPlatform)
        cursor = MemoryCursor()
        cursor.saved = {
            f"{kind} {name}": "2020-01-01T00:00:00Z"
            for kind in ("issues/comments", "issues")
            for name in ("acme/gone", REPOSITORY)
        }
        channel, _ = make_channel(platform, cursor=cursor, repositories=("acme/gone", REPOSITORY), poll_s=0.05)
        platform.send("hello")
        async with listening(channel) as received:
            await received.wait_for(lambda events: any(each.text == "hello" for each in events))


@pytest.mark.slow
@pytest.mark.parametrize("where", ["deleted", "moved"])
async def test_a_closed_issue_that_is_gone_does_not_keep_what_follows_it_from_being_seen(where: str) -> None:
    """It is listed, and gone when it is asked for. GitHub answers 410 for a deleted one, 301 for one that was moved."""
    with GitHubPlatform() as platform:
        assert isinstance(platform, GitHubPlatform)
        cursor = MemoryCursor()
        cursor.saved = {f"{kind} {REPOSITORY}": LONG_AGO for kind in ("issues/comments", "issues")}
        platform.close(1)
        getattr(platform, where).add(1)
        number = platform.open_issue("Next", "after it")
        platform.close(number, sender="bob")
        secrets = {"token": TOKEN, "webhook_secret": ""}
        channel, _ = make_channel(platform, cursor=cursor, secrets=secrets, poll_s=0.05)
        async with listening(channel) as received:
            await received.wait_for(lambda events: any(each.event.startswith("close:") for each in events))
        assert [each.sender_name for each in received.events if each.event.startswith("close:")] == ["bob"]


@pytest.mark.slow
async def test_what_another_gateway_asked_in_this_round_is_not_asked_again() -> None:
    with GitHubPlatform() as platform:
        cursor = MemoryCursor()
        channel, deps = make_channel(platform, cursor=cursor, poll_s=0.02)
        pulse = deps.pulse
        assert pulse is not None
        async with listening(channel):
            await until(lambda: pulse.beats >= 3)
            asked = len(platform.requests)
            assert asked > 3  # each round anew
            cursor.saved[ASKED] = str(deps.clock.now() + HOUR)
            begun = pulse.beats
            await until(lambda: pulse.beats >= begun + 2)  # of a round that had begun, nothing is left
            asked = len(platform.requests)
            await until(lambda: pulse.beats >= begun + 6)
            assert len(platform.requests) == asked
