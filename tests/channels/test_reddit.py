"""Reddit through its emulator: an inbox that is marked as read late, watched subreddits, comments found again."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from gatepost.channels.contract import ChannelEnded, EndReason, MemoryCursor
from gatepost.channels.reddit import receiving, wire
from gatepost.channels.reddit.adapter import RedditAccount
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Op, Outbound
from gatepost_testing.platforms.base import PlatformFault
from gatepost_testing.platforms.reddit import REFRESH_TOKEN, SECRETS, RedditPlatform
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.waiting import PATIENCE_S, until


@pytest.fixture
def platform() -> Iterator[RedditPlatform]:
    with RedditPlatform() as running:
        assert isinstance(running, RedditPlatform)
        yield running


def make(platform: RedditPlatform, **more: Any) -> RedditAccount:
    channel, _ = make_channel(platform, **more)
    assert isinstance(channel, RedditAccount)
    return channel


async def begun(cursor: MemoryCursor) -> None:
    await until(lambda: "" in cursor.saved, "the first poll")


def count(platform: RedditPlatform, path: str) -> int:
    with platform.changed:
        return sum(asked.startswith(path) for _, asked in platform.requests)


# Receiving.


@pytest.mark.slow
async def test_mentions_replies_and_messages_come_from_the_inbox(platform: RedditPlatform) -> None:
    cursor = MemoryCursor()
    channel, room = make(platform, cursor=cursor), platform.get_address("team")
    platform.send("before the bot came")
    async with listening(channel) as received:
        await begun(cursor)
        asked = platform.send("hello & <you>")
        (mention,) = await received.wait_for(1)
        sent = await channel.send(room, Outbound(key="1", text="yes?", reply_to=asked, thread=mention.thread))
        platform.send("thanks", reply_to=sent, sender="bob")
        platform.send("between us", room="direct:ann")
        events = await received.wait_for(3)
    by_text = {each.text: each for each in events}
    reply, direct = by_text["thanks"], by_text["hello\n\nbetween us"]
    assert (mention.text, mention.verb, mention.thread) == ("hello & <you>", Verb.MENTION, asked)
    assert (mention.address, mention.sender, mention.sender_name) == (room, "reddit:user/ann", "ann")
    assert mention.room_name == "r/testing: About team" and mention.at
    assert (reply.verb, reply.thread, reply.reply_to and reply.reply_to.platform_id) == (Verb.REPLY, asked, sent)
    assert (direct.address, direct.direct, direct.verb) == ("reddit:direct/ann", True, Verb.MESSAGE)


async def test_an_item_is_marked_as_read_only_when_it_is_stored(platform: RedditPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    async with listening(make(platform, cursor=cursor), received):
        await begun(cursor)
    received.error = Unavailable("the store", "the disk is full")
    platform.send("keep me")
    async with listening(make(platform, cursor=cursor), received):
        await until(lambda: received.calls > 0, "the first try")
    assert count(platform, "/api/read_message") == 0
    received.error = None
    async with listening(make(platform, cursor=cursor), received):
        await received.wait_for(1)
        await until(lambda: count(platform, "/api/read_message") == 1, "the acknowledgement")
    assert received.texts == ["keep me"]


async def test_many_unread_items_come_in_order_over_several_pages(
    platform: RedditPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "PAGE", 3)
    cursor, received = MemoryCursor(), ReceivedEvents()
    async with listening(make(platform, cursor=cursor), received):
        await begun(cursor)
    for number in range(8):
        platform.send(f"word {number}")
    async with listening(make(platform, cursor=cursor), received):
        await received.wait_for(8)
    assert received.texts == [f"word {number}" for number in range(8)]


@pytest.mark.slow
async def test_a_deep_comment_is_in_the_thread_of_its_first_ancestor(platform: RedditPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    platform.quiet = True
    root = parent = platform.send("the top")
    for number in range(20):  # more than Reddit shows above a comment at once
        parent = platform.send(f"level {number}", reply_to=parent)
    async with listening(make(platform, cursor=cursor), received):
        await begun(cursor)
        platform.send("what do you say", reply_to=parent, mention=True)
        (event,) = await received.wait_for(1)
        climbed = count(platform, "/comments/")
        platform.send("and you", reply_to=event.platform_id, mention=True)
        events = await received.wait_for(2)
    assert {each.thread for each in events} == {root}
    assert 1 < climbed <= receiving.MOST_CLIMBS
    assert count(platform, "/comments/") == climbed  # the second one answers what is known


@pytest.mark.slow
async def test_watched_subreddits_bring_posts_and_comments_each_once(platform: RedditPlatform) -> None:
    platform.quiet = True
    platform.send("before the bot came")
    cursor, received = MemoryCursor(), ReceivedEvents()
    async with listening(make(platform, cursor=cursor, subreddits=("Testing",)), received):
        await begun(cursor)
        post = platform.submit("News", "of today", room="second")
        first = platform.send("among ourselves", room="second")
        platform.send("you there", room="second", mention=True)
        await received.wait_for(3)
        platform.remove_thing(first)  # a cursor that names it would bring nothing from now on
        platform.send("later", room="second")
        await received.wait_for(4)
    platform.send("while it was away", room="second")
    async with listening(make(platform, cursor=cursor, subreddits=("Testing",)), received):
        events = await received.wait_for(5)
    assert [(each.text, each.verb) for each in events] == [
        ("News\n\nof today", Verb.MESSAGE),
        ("among ourselves", Verb.MESSAGE),
        ("you there", Verb.MENTION),
        ("later", Verb.MESSAGE),
        ("while it was away", Verb.MESSAGE),
    ]
    assert {each.address for each in events} == {platform.get_address("second")}
    assert (events[0].platform_id, events[0].thread) == (post, "") and events[1].thread == first


@pytest.mark.slow
async def test_a_subreddit_that_cannot_be_read_does_not_close_the_inbox(platform: RedditPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    channel = make(platform, cursor=cursor, subreddits=("elsewhere",))
    async with listening(channel, received):
        await begun(cursor)
        platform.send("still here")
        await received.wait_for(1)
    assert count(platform, "/r/elsewhere/comments") > 0


# Sending.


@pytest.mark.slow
async def test_the_bot_answers_edits_and_deletes(platform: RedditPlatform) -> None:
    channel, room = make(platform), platform.get_address("team")
    theirs = platform.send("hello")
    sent = await channel.send(room, Outbound(key="1", text="hi u/bob, *see*\nthis", thread=theirs))
    assert platform.find(sent).reply_to == theirs
    assert platform.find(sent).text == "hi u/\u200bbob, *see*  \nthis"  # calls nobody; the break stays one
    await channel.send(room, Outbound(key="2", op=Op.EDIT, target=sent, text="hi"))
    assert (platform.find(sent).text, platform.find(sent).edits) == ("hi", 1)
    for key in ("3", "4"):  # what is gone is deleted
        await channel.send(room, Outbound(key=key, op=Op.DELETE, target=sent))
    assert platform.texts("team") == []
    with pytest.raises(NotFound):
        await channel.send(room, Outbound(key="5", op=Op.EDIT, target=sent, text="x"))
    with pytest.raises(Refused, match="not its own"):
        await channel.send(room, Outbound(key="6", op=Op.DELETE, target=theirs))
    with pytest.raises(Unsupported):
        await channel.send(room, Outbound(key="7", op=Op.REACT, target=theirs, reaction="👍"))
    await channel.close()


async def test_only_what_is_in_the_room_is_answered_or_changed_from_it(platform: RedditPlatform) -> None:
    channel, room, other = make(platform), platform.get_address("team"), platform.get_address("other")
    elsewhere, own = platform.send("x", room="other"), await channel.send(other, Outbound(key="1", text="mine"))
    for more in ({"reply_to": elsewhere}, {"thread": own}, {"reply_to": "t1_zz"}, {"reply_to": "../x"}):
        with pytest.raises(NotFound):
            await channel.send(room, Outbound(key="2", text="y", **more))
    with pytest.raises(Refused):
        await channel.send(room, Outbound(key="3", op=Op.EDIT, target=own, text="y"))
    assert platform.texts("team") == []
    await channel.close()


@pytest.mark.slow
async def test_a_message_answers_the_last_one_and_the_first_has_a_name_too(platform: RedditPlatform) -> None:
    cursor = MemoryCursor()
    channel = make(platform, cursor=cursor)
    async with listening(channel) as received:
        await begun(cursor)
        room = await channel.open_direct("reddit:user/Ann")
        first = await channel.send(room, Outbound(key="1", text="good day"))
        assert (platform.find(first).room, platform.find(first).reply_to) == ("direct:ann", "")
        theirs = platform.send("who is it", room="direct:ann")
        await received.wait_for(1)
        second = await channel.send(room, Outbound(key="2", text="the porter"))
        assert platform.find(second).reply_to == theirs
        with pytest.raises(Unsupported):
            await channel.send(room, Outbound(key="3", op=Op.EDIT, target=second, text="x"))
        with pytest.raises(NotFound):
            await channel.open_direct("reddit:user/nobody")
        with pytest.raises(Refused, match="USER_DOESNT_EXIST"):
            await channel.send("reddit:direct/nobody", Outbound(key="4", text="x"))


@pytest.mark.parametrize("room", ["team", "direct:ann"])
async def test_a_comment_whose_answer_got_lost_is_found_by_its_place_and_words(
    platform: RedditPlatform, room: str
) -> None:
    cursor, address = MemoryCursor(), platform.get_address(room)
    channel = make(platform, cursor=cursor)
    before = await channel.send(address, Outbound(key="1", text="the same words"))
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as caught:
        await channel.send(address, Outbound(key="2", text="the same words"))
    assert caught.value.uncertain
    await channel.close()
    again = make(platform, cursor=cursor)  # as after a kill
    found = await again.look_up(address, "2")
    assert found == platform.list_shown(room)[-1].id != before
    assert await again.look_up(address, "never sent") is None
    await again.close()


async def test_what_is_not_listed_yet_is_not_said_again_at_once(platform: RedditPlatform) -> None:
    channel, room = make(platform, settle_s=3600.0), platform.get_address("team")
    platform.fault(PlatformFault.BUSY)
    with pytest.raises(Unavailable):
        await channel.send(room, Outbound(key="1", text="hello"))
    with pytest.raises(Unavailable) as caught:
        await channel.look_up(room, "1")
    assert caught.value.retry_after is not None and 3500 < caught.value.retry_after <= 3600
    await channel.close()


async def test_limits_are_kept_as_reddit_tells_them(platform: RedditPlatform) -> None:
    channel, room = make(platform), platform.get_address("team")
    platform.refuse_next("RATELIMIT", "Looks like you've been doing that a lot. Take a break for 9 minutes.")
    with pytest.raises(Unavailable) as caught:
        await channel.send(room, Outbound(key="1", text="hello"))
    assert (caught.value.retry_after, caught.value.everywhere, caught.value.uncertain) == (541.0, False, False)
    platform.refuse_next("SUBREDDIT_RATELIMIT", "you are doing that too much. try again later.")
    with pytest.raises(Unavailable, match="try again later"):
        await channel.send(room, Outbound(key="1", text="hello"))
    platform.refuse_next("THREAD_LOCKED", "that thread is locked")
    with pytest.raises(Refused, match="THREAD_LOCKED that thread is locked"):
        await channel.send(room, Outbound(key="1", text="hello"))
    platform.window = (0.0, 120)
    await channel.send(room, Outbound(key="1", text="the last one"))
    asked = len(platform.requests)
    with pytest.raises(Unavailable, match="used up") as caught:
        await channel.send(room, Outbound(key="2", text="one too many"))
    assert caught.value.everywhere and 100 < (caught.value.retry_after or 0) <= 120
    assert len(platform.requests) == asked  # Reddit is not asked meanwhile
    await channel.close()


@pytest.mark.parametrize(
    "room",
    ["reddit:a/post/../x", "reddit:direct/", "reddit:direct/a/b", "reddit:Testing/post/A", "reddit:user/ann", "x:1"],
)
def test_other_addresses_are_no_rooms(room: str) -> None:
    with pytest.raises(NotFound):
        wire.parse_address(room)


# The account.


async def test_a_token_that_ran_out_is_renewed_and_the_program_says_its_name(platform: RedditPlatform) -> None:
    channel, room = make(platform), platform.get_address("team")
    await channel.send(room, Outbound(key="1", text="one"))
    platform.revoke_tokens()
    await channel.send(room, Outbound(key="2", text="two"))
    assert platform.texts("team") == ["one", "two"] and count(platform, "/api/v1/access_token") == 2
    assert all(each.startswith("python:gatepost:v") and each.endswith("(by /u/porter)") for each in platform.agents)
    await channel.close()


async def test_the_check_names_the_account_and_what_it_lacks(platform: RedditPlatform) -> None:
    refreshing = {"client_secret": SECRETS["client_secret"], "refresh_token": REFRESH_TOKEN}
    channel = make(platform, secrets=refreshing, subreddits=("testing", "secret_club"))
    platform.scopes = "identity privatemessages submit read"
    found = await channel.check()
    assert (found.name, found.link) == ("u/porter", "https://www.reddit.com/user/porter")
    assert [each.partition(":")[0] for each in found.missing] == [
        "the scope history",
        "the scope edit",
        "the right to read r/secret_club",
    ]
    await channel.close()


async def test_the_check_says_in_one_line_what_is_wrong(platform: RedditPlatform) -> None:
    refreshing = {"refresh_token": REFRESH_TOKEN}
    cases: list[tuple[dict[str, str], dict[str, Any], EndReason, str]] = [
        ({"client_secret": "x"}, {}, EndReason.TOKEN, "the app's id and secret"),
        ({"password": "x"}, {}, EndReason.TOKEN, "name and password (invalid_grant)"),
        ({"refresh_token": "x"}, {}, EndReason.TOKEN, "the refresh token"),
        ({"password": ""}, {}, EndReason.SETTING, "neither a refresh token nor"),
        ({"client_secret": ""}, {}, EndReason.SETTING, "is not set"),
        (refreshing, {"username": "other"}, EndReason.SETTING, "belongs to u/porter"),
        ({}, {"subreddits": ("r/a",)}, EndReason.SETTING, "'r/a' is no subreddit"),
    ]
    for secrets, settings, reason, words in cases:
        await require_ended(make(platform, secrets={**SECRETS, **secrets}, **settings), reason, words)
    platform.suspended = True
    await require_ended(make(platform), EndReason.RIGHTS, "u/porter is suspended")
    platform.scopes = "identity read"
    await require_ended(make(platform), EndReason.RIGHTS, "the scope privatemessages")


async def test_an_account_that_is_suspended_meanwhile_ends_by_name(platform: RedditPlatform) -> None:
    cursor = MemoryCursor()
    channel = make(platform, cursor=cursor)
    task = asyncio.create_task(channel.listen(ReceivedEvents().receive))
    await begun(cursor)
    platform.suspended = True
    with pytest.raises(ChannelEnded, match="u/porter is suspended") as caught:
        await asyncio.wait_for(task, PATIENCE_S)
    assert caught.value.reason is EndReason.RIGHTS
    await channel.close()


async def test_a_send_of_a_suspended_account_ends_the_channel_by_name(platform: RedditPlatform) -> None:
    channel, room = make(platform), platform.get_address("team")
    assert await channel.send(room, Outbound(key="a", text="hi"))
    platform.suspended = True
    for op in (Op.SEND, Op.POST):
        with pytest.raises(ChannelEnded, match="u/porter is suspended"):
            await channel.send(room, Outbound(key=op.value, op=op, text="hello"))
    platform.suspended = False
    platform.fault(PlatformFault.FORBIDDEN)
    with pytest.raises(Refused, match="403"):
        await channel.send(room, Outbound(key="b", text="hi"))
    await channel.close()


async def require_ended(channel: RedditAccount, reason: EndReason, words: str) -> None:
    with pytest.raises(ChannelEnded) as caught:
        await channel.check()
    await channel.close()
    assert caught.value.reason is reason and words in caught.value.why
    assert caught.value.remedy and "\n" not in str(caught.value)


# The words.


def test_strange_things_are_no_events() -> None:
    data = {"name": "t1_5", "id": "5", "author": "ann", "body": "x", "subreddit": "a_b", "link_id": "t3_7"}
    assert wire.read_thing({"kind": "t1", "data": data}, "porter") is not None
    strange: list[dict[str, Any]] = [
        {"author": "[deleted]"},
        {"author": None},
        {"name": "t1_../x"},
        {"name": "t3_5"},
        {"subreddit": "a/b"},
        {"link_id": "t3_", "context": "/r/x/user/7/"},
    ]
    for changed in strange:
        assert wire.read_thing({"kind": "t1", "data": {**data, **changed}}, "porter") is None
    modmail = {**data, "name": "t4_5", "subreddit": "a_b", "dest": "porter"}
    for child in ({"kind": "t4", "data": modmail}, {"kind": "t9", "data": data}, {"kind": "t1"}, {}):
        assert wire.read_thing(child, "porter") is None
    assert wire.list_children([]) == [] == wire.list_children({"data": {"children": {}}})


def test_a_name_is_a_mention_only_as_a_whole() -> None:
    assert wire.is_mentioned("well, /u/Porter!", "porter") and wire.is_mentioned("u/porter", "porter")
    for text in ("u/porters", "u/porter-2", "reddit.com/u/porter", "porter"):
        assert not wire.is_mentioned(text, "porter")
    assert wire.strip_name("u/Porter, /stop", "porter") == "/stop"
    assert wire.strip_name("ask u/porter", "porter") == "ask u/porter"


def test_breaks_stay_but_code_and_tables_are_not_touched() -> None:
    source = "one\ntwo\n\n```\na\nb\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    assert wire.render_text(source) == "one  \ntwo\n\n```\na\nb\n```\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_a_text_of_marks_or_names_alone_still_fits() -> None:
    for text in ("_" * 9_500, "u/a " * 2_375, "a_b u/bob " * 950):
        shown = wire.render_text(text)
        assert len(shown) <= wire.LONGEST_TEXT
        assert not wire.is_mentioned(shown, "a") and not wire.is_mentioned(shown, "bob")
        assert sum(map(str.isalnum, shown)) == sum(map(str.isalnum, text))  # no word is lost


async def test_an_edit_without_its_scope_says_what_the_token_lacks(platform: RedditPlatform) -> None:
    channel, _ = make_channel(platform)
    room = platform.get_address("team")
    made = await channel.send(room, Outbound(key="k", text="first"))
    platform.scopes = "identity privatemessages submit"
    for op in (Op.EDIT, Op.DELETE):
        with pytest.raises(Refused, match=r"the token lacks the scope for it; make a refresh token with the scopes"):
            await channel.send(room, Outbound(key="e", op=op, target=made, text="second"))
    assert platform.find(made).text == "first"


async def test_a_post_is_made_in_the_subreddit_of_the_room_and_found_after_a_lost_answer(
    platform: RedditPlatform,
) -> None:
    cursor, room = MemoryCursor(), platform.get_address("team")
    channel = make(platform, cursor=cursor)
    sent = await channel.send(room, Outbound(key="p", op=Op.POST, text="# The news\n\nAll is well."))
    assert platform.find(sent).text == "The news\n\nAll is well." and sent.startswith("t3_")
    await channel.send(room, Outbound(key="long", op=Op.POST, text="x" * 500))
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable):
        await channel.send(room, Outbound(key="q", op=Op.POST, text="The news\n\nAll is well."))
    await channel.close()
    again = make(platform, cursor=cursor)
    found = await again.look_up(room, "q")
    assert found is not None and found != sent
    await again.send(room, Outbound(key="d", op=Op.DELETE, target=sent))
    assert platform.find(sent).deleted
    with pytest.raises(Unsupported, match="only subreddits"):
        await again.send(platform.get_address("direct:ann"), Outbound(key="r", op=Op.POST, text="news"))
    await again.close()
