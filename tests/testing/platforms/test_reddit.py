"""The emulated Reddit, judged by PRAW."""

from collections.abc import Iterator
from typing import Any

import pytest

from gatepost_testing.platforms.base import PlatformFault
from gatepost_testing.platforms.reddit import CLIENT_ID, REFRESH_TOKEN, SECRETS, RedditPlatform
from gatepost_testing.platforms.wire.reddit_state import NAME, SUBREDDIT

pytestmark = pytest.mark.slow
AGENT = "python:judge:v1 (by /u/porter)"


@pytest.fixture
def platform() -> Iterator[RedditPlatform]:
    with RedditPlatform() as running:
        assert isinstance(running, RedditPlatform)
        yield running


def connect(platform: RedditPlatform, **more: str) -> Any:
    praw = pytest.importorskip("praw")
    login = more or {"username": NAME, "password": SECRETS["password"]}
    return praw.Reddit(
        client_id=CLIENT_ID,
        client_secret=SECRETS["client_secret"],
        user_agent=AGENT,
        oauth_url=platform.url,
        reddit_url=platform.url,
        check_for_updates=False,
        **login,
    )


def test_the_librarys_calls_do_what_they_say(platform: RedditPlatform) -> None:
    client = connect(platform)
    assert client.user.me().name == NAME
    theirs = platform.send("hello")
    (item,) = client.inbox.unread(limit=None)
    assert (item.fullname, item.body, item.type) == (theirs, "u/porter hello", "username_mention")
    assert f"reddit:testing/post/{item.submission.id}" == platform.get_address("team")
    mine = item.reply("hi")
    assert (platform.find(mine.fullname).reply_to, mine.parent_id) == (theirs, theirs)
    mine.edit("hi there")
    assert (platform.find(mine.fullname).text, platform.find(mine.fullname).edits) == ("hi there", 1)
    assert [each.fullname for each in client.redditor(NAME).comments.new()] == [mine.fullname]
    assert [each.body for each in client.info(fullnames=[theirs])] == ["u/porter hello"]
    client.inbox.mark_read([item])
    assert list(client.inbox.unread()) == []
    mine.delete()
    assert platform.find(mine.fullname).deleted and list(client.redditor(NAME).comments.new()) == []


def test_the_library_reads_threads_and_subreddits(platform: RedditPlatform) -> None:
    client, platform.quiet = connect(platform), True
    top = platform.send("the top")
    deep = platform.send("below", reply_to=platform.send("between", reply_to=top), sender="bob")
    post = next(client.subreddit(SUBREDDIT).new())
    post.comment_sort = "new"
    shown = [each.fullname for each in post.comments.list()]
    assert (shown[0], shown[-1]) == (top, deep)
    assert [each.body for each in client.subreddit(SUBREDDIT).comments()] == ["below", "between", "the top"]


def test_the_library_sends_and_answers_messages(platform: RedditPlatform) -> None:
    client = connect(platform, refresh_token=REFRESH_TOKEN)
    client.redditor("ann").message(subject="hello", message="good day")
    (sent,) = client.inbox.sent()
    assert (platform.find(sent.fullname).room, sent.dest.name) == ("direct:ann", "ann")
    theirs = platform.send("who is it", room="direct:ann", reply_to=sent.fullname)
    (item,) = client.inbox.unread()
    assert (item.fullname, item.parent_id, item.author.name) == (theirs, sent.fullname, "ann")
    answer = item.reply("the porter")
    assert (platform.find(answer.fullname).reply_to, platform.find(answer.fullname).room) == (theirs, "direct:ann")


def test_the_library_knows_our_refusals(platform: RedditPlatform) -> None:
    prawcore, exceptions = pytest.importorskip("prawcore"), pytest.importorskip("praw.exceptions")
    client = connect(platform)
    comment = client.comment(platform.send("hello").removeprefix("t1_"))
    platform.refuse_next("THREAD_LOCKED", "that thread is locked")
    with pytest.raises(exceptions.RedditAPIException, match="THREAD_LOCKED"):
        comment.reply("hi")
    platform.fault(PlatformFault.FORBIDDEN)
    with pytest.raises(prawcore.exceptions.Forbidden):
        comment.reply("hi")
    platform.retry_after = 1
    platform.fault(PlatformFault.RATE_LIMIT)
    with pytest.raises(prawcore.exceptions.TooManyRequests):
        comment.reply("hi")
    with pytest.raises(prawcore.exceptions.OAuthException, match="invalid_grant"):
        connect(platform, username=NAME, password="wrong").user.me()
    assert platform.texts("team") == []


def test_wrong_calls_of_the_library_are_refused_with_the_platforms_codes(platform: RedditPlatform) -> None:
    prawcore, exceptions = pytest.importorskip("prawcore"), pytest.importorskip("praw.exceptions")
    client = connect(platform)
    theirs, deleted, locked = (platform.send(each) for each in ("hello", "gone", "locked"))
    platform.remove_thing(deleted)
    platform.locked.add(locked)
    comment = client.comment(theirs.removeprefix("t1_"))
    room, person = client.subreddit(SUBREDDIT), client.redditor("ann")
    wrong: list[tuple[Any, str]] = [
        (lambda: comment.reply("x" * 10_001), "TOO_LONG"),
        (lambda: comment.reply(" "), "NO_TEXT"),
        (lambda: comment.edit("mine"), "NOT_AUTHOR"),
        (lambda: client.comment(deleted.removeprefix("t1_")).reply("x"), "DELETED_COMMENT"),
        (lambda: client.comment(locked.removeprefix("t1_")).reply("x"), "THREAD_LOCKED"),
        (lambda: client.redditor("nobody").message(subject="a", message="b"), "USER_DOESNT_EXIST"),
        (lambda: person.message(subject="x" * 101, message="b"), "TOO_LONG"),
        (lambda: person.message(subject="", message="b"), "NO_SUBJECT"),
        (lambda: room.submit("x" * 301, selftext="x"), "TOO_LONG"),
        (lambda: room.submit("news", selftext="x" * 40_001), "TOO_LONG"),
        (lambda: client.subreddit("Nowhere").submit("news", selftext="x"), "SUBREDDIT_NOEXIST"),
    ]
    for call, code in wrong:
        with pytest.raises(exceptions.RedditAPIException) as refused:
            call()
        assert [each.error_type for each in refused.value.items] == [code]
    with pytest.raises(prawcore.exceptions.Forbidden):
        list(client.subreddit("Secret").comments())
