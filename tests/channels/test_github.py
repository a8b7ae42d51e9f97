"""GitHub through its emulator: comments by webhooks and by asking, hidden marks for our keys."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from gatepost.channels.contract import (
    CHANNELS,
    MYSELF,
    Channel,
    ChannelEnded,
    EndReason,
    HookRequest,
    MemoryCursor,
    SupportsCheck,
    SupportsHistory,
    SupportsHook,
    SupportsLookup,
)
from gatepost.channels.github import WEBHOOK_SECRET, wire
from gatepost.channels.github.adapter import read_error
from gatepost.channels.kit.hooks import sign
from gatepost.channels.kit.http import PlatformHttp
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.flow.delivery.content_fallback import split_text
from gatepost.messages import address
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Op, Outbound
from gatepost_testing.platforms.base import PlatformFault
from gatepost_testing.platforms.github import LOGIN, SECRET, GitHubPlatform
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.waiting import until

TEAM = "github:acme/site/issue/1"
NEVER = 3600.0  # for tests in which the webhook alone brings events


@pytest.fixture
def platform() -> Iterator[GitHubPlatform]:
    with GitHubPlatform() as made:
        assert isinstance(made, GitHubPlatform)
        yield made


@pytest.fixture
def channel(platform: GitHubPlatform) -> Channel:
    return make_channel(platform, poll_s=NEVER)[0]


@pytest.fixture
async def received(channel: Channel) -> AsyncIterator[ReceivedEvents]:
    async with listening(channel) as events:
        yield events


async def test_a_comment_comes_with_its_room_and_its_author(platform: GitHubPlatform, received: ReceivedEvents) -> None:
    sent = platform.send("hello")
    (event,) = await received.wait_for(1)

    assert (event.address, event.platform_id, event.sender) == (TEAM, sent, platform.get_sender("ann"))
    assert (event.text, event.verb, event.direct) == ("hello", Verb.MESSAGE, False)
    assert event.room_name == "acme/site#1 The site" and event.at is not None
    assert address.parse(event.address)


async def test_the_bots_name_makes_a_mention(platform: GitHubPlatform, received: ReceivedEvents) -> None:
    platform.send("look here", mention=True)
    (event,) = await received.wait_for(1)
    assert (event.verb, event.text) == (Verb.MENTION, f"@{LOGIN} look here")


@pytest.mark.parametrize(
    ("text", "mentioned"),
    [
        ("@gatebot go", True),
        ("hey @GateBot, go", True),
        ("@gatebots go", False),
        ("@gatebot-2", False),
        ("mail me@gatebot", False),
        ("https://x/@gatebot", False),
    ],
)
def test_only_the_whole_name_is_a_mention(text: str, mentioned: bool) -> None:
    assert wire.is_mentioned(text, LOGIN) is mentioned


async def test_an_edit_and_a_deletion_are_events_of_the_comment(
    platform: GitHubPlatform, received: ReceivedEvents
) -> None:
    sent = platform.send("one")
    platform.edit("team", sent, "two")
    platform.edit("team", sent, "three")
    platform.delete("team", sent)

    events = await received.wait_for(4)
    assert {each.platform_id for each in events} == {sent}
    assert [(each.verb, each.text) for each in events] == [
        (Verb.MESSAGE, "one"),
        (Verb.EDIT, "two"),
        (Verb.EDIT, "three"),
        (Verb.DELETE, ""),
    ]
    assert events[3].event == "delete" and events[1].event.startswith("edit:")


async def test_a_new_issue_and_a_comment_on_a_line_are_messages(
    platform: GitHubPlatform, received: ReceivedEvents
) -> None:
    number = platform.open_issue("Broken", "It does not start.")
    review = platform.review("why?")
    first, second = await received.wait_for(2)
    assert (first.address, first.platform_id) == (f"github:acme/site/issue/{number}", f"issue-{number}")
    assert first.text == "Broken\n\nIt does not start."
    assert (second.address, second.platform_id, second.text) == (TEAM, review, "[src/main.py] why?")


async def test_a_new_pull_request_is_a_message_in_a_room_of_its_own(
    platform: GitHubPlatform, received: ReceivedEvents
) -> None:
    number = platform.open_pull_request("Cache pages", f"@{LOGIN} please review", sender="bob")
    (event,) = await received.wait_for(1)
    assert (event.address, event.platform_id) == (f"github:acme/site/issue/{number}", f"issue-{number}")
    assert (event.verb, event.text) == (Verb.MENTION, f"Cache pages\n\n@{LOGIN} please review")
    assert event.sender == platform.get_sender("bob")


@pytest.mark.slow
async def test_what_no_webhook_brought_is_asked_for(platform: GitHubPlatform) -> None:
    """GitHub does not repeat a delivery. The cursor is kept, so a gateway that was down misses nothing."""
    cursor, received = MemoryCursor(), ReceivedEvents()
    first, _ = make_channel(platform, cursor=cursor)
    async with listening(first, received):
        platform.send("before")
        await received.wait_for(1)
    platform.hook_url = "http://127.0.0.1:9/channels/it"
    sent = platform.send("while it was down")
    platform.edit("team", sent, "edited while it was down")
    platform.open_issue("Opened", "while it was down")
    await platform.until(lambda: platform.deliveries[-3:] == [0, 0, 0])

    again, _ = make_channel(platform, cursor=cursor)
    async with listening(again, received):
        events = await received.wait_for(3)
        platform.edit("team", sent, "edited while it runs")
        events = await received.wait_for(4)
    texts = [each.text for each in events]
    assert texts[:2] == ["before", "edited while it was down"]
    assert "Opened\n\nwhile it was down" in texts and texts[3] == "edited while it runs"


async def test_a_failed_receive_is_made_up_for(platform: GitHubPlatform) -> None:
    channel, _ = make_channel(platform)
    received = ReceivedEvents()
    received.error = Unavailable("the store")
    async with listening(channel, received):
        await platform.until(lambda: ("GET", "/user") in platform.requests)
        platform.send("first")
        await platform.until(lambda: 503 in platform.deliveries)
        received.error = None
        assert [each.text for each in await received.wait_for(1)] == ["first"]


async def test_a_comment_has_a_hidden_mark_and_our_own_echo_is_flagged(
    platform: GitHubPlatform, received: ReceivedEvents, channel: Channel
) -> None:
    sent = await channel.send(TEAM, Outbound(key="k1", text="hello back"))
    (shown,) = platform.list_shown("team")
    assert (shown.id, shown.text) == (sent, "hello back")
    assert wire.render_mark("k1") in shown.raw and "k1" not in shown.raw
    await platform.until(lambda: 202 in platform.deliveries)
    assert received.calls == 1 and received.events == []  # own


async def test_what_the_bot_said_is_edited_deleted_and_reacted_to(platform: GitHubPlatform, channel: Channel) -> None:
    sent = await channel.send(TEAM, Outbound(key="k1", text="one"))
    await channel.send(TEAM, Outbound(key="k2", op=Op.EDIT, target=sent, text="two"))
    await channel.send(TEAM, Outbound(key="k3", op=Op.REACT, target=sent, reaction="❤️"))
    (shown,) = platform.list_shown("team")
    assert (shown.text, shown.edits, shown.reactions) == ("two", 1, [("❤", "bot")])
    for key in ("k4", "k5"):  # repeated, it is the same
        await channel.send(TEAM, Outbound(key=key, op=Op.DELETE, target=sent))
    assert platform.list_shown("team") == []


async def test_a_reaction_that_github_does_not_have_is_refused_with_those_it_has(channel: Channel) -> None:
    with pytest.raises(Unsupported, match="🚀"):
        await channel.send(TEAM, Outbound(key="k", op=Op.REACT, target="123", reaction="🦑"))


async def test_an_answer_that_was_lost_is_found_by_the_mark(platform: GitHubPlatform, channel: Channel) -> None:
    assert isinstance(channel, SupportsLookup)
    platform.send(f"a copied mark {wire.render_mark('k')}")
    assert await channel.look_up(TEAM, "k") is None
    for number in range(120):
        platform._add_comment(1, f"noise {number}", "bob")
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as caught:
        await channel.send(TEAM, Outbound(key="k", text="once"))
    assert caught.value.uncertain
    assert await channel.look_up(TEAM, "k") == platform.list_shown()[0].id


async def test_a_limit_is_waited_for_by_the_whole_channel(platform: GitHubPlatform, channel: Channel) -> None:
    platform.fault(PlatformFault.RATE_LIMIT)
    with pytest.raises(Unavailable) as caught:
        await channel.send(TEAM, Outbound(key="k", text="x"))
    assert (caught.value.retry_after, caught.value.everywhere, caught.value.uncertain) == (0.2, True, False)


async def test_a_refusal_is_told_with_githubs_words(platform: GitHubPlatform, channel: Channel) -> None:
    platform.fault(PlatformFault.FORBIDDEN)
    with pytest.raises(Refused, match="Resource not accessible"):
        await channel.send(TEAM, Outbound(key="k", text="x"))


@pytest.mark.parametrize(
    "room",
    ["github:evil/other/issue/1", "github:acme/site/issue/0", "github:acme/site/issue/1/x", "github:acme/../issue/1"],
)
async def test_only_issues_of_the_named_repositories_are_rooms(channel: Channel, room: str) -> None:
    with pytest.raises(NotFound, match="acme/site"):
        await channel.send(room, Outbound(key="k", text="x"))


async def test_a_revoked_token_ends_the_channel(platform: GitHubPlatform, channel: Channel) -> None:
    platform.fault(PlatformFault.UNAUTHORIZED)
    with pytest.raises(ChannelEnded) as caught:
        await channel.listen(ReceivedEvents().receive)
    assert caught.value.reason is EndReason.TOKEN


@pytest.mark.slow
async def test_history_has_the_newest_with_our_own_words(platform: GitHubPlatform, channel: Channel) -> None:
    assert isinstance(channel, SupportsHistory)
    for number in range(130):
        platform._add_comment(1, f"c{number}", "bob")
    await channel.send(TEAM, Outbound(key="k", text="mine"))
    found = await channel.history(TEAM, None, 3)
    assert [each.text for each in found] == ["c128", "c129", "mine"]
    assert [each.sender for each in found] == [platform.get_sender("bob"), platform.get_sender("bob"), MYSELF]
    assert await channel.history(TEAM, 1, 3) == []


async def test_the_check_names_the_account_and_what_it_cannot_see(platform: GitHubPlatform) -> None:
    channel, _ = make_channel(platform, repositories=("acme/site", "acme/hidden"), secrets={"token": "github_pat_x"})
    assert isinstance(channel, SupportsCheck)
    found = await channel.check()
    assert (found.name, found.link) == ("@gatebot", "https://github.com/gatebot")
    assert any("acme/hidden" in each for each in found.missing)
    assert any("asking" in each for each in found.notes)


async def test_a_token_without_the_scope_to_write_is_named(platform: GitHubPlatform) -> None:
    platform.scopes = "read:user, gist"
    channel, _ = make_channel(platform)
    assert isinstance(channel, SupportsCheck)
    with pytest.raises(ChannelEnded, match="lacks the scope repo") as ended:
        await channel.check()
    assert ended.value.reason is EndReason.RIGHTS


@pytest.mark.parametrize(("names", "why"), [((), "is empty"), (("just-a-name",), "no repository")])
async def test_a_wrong_repository_is_named(platform: GitHubPlatform, names: tuple[str, ...], why: str) -> None:
    channel, _ = make_channel(platform, repositories=names)
    assert isinstance(channel, SupportsCheck)
    with pytest.raises(ChannelEnded, match=why):
        await channel.check()


async def test_what_is_not_signed_or_strange_makes_no_event(channel: Channel, received: ReceivedEvents) -> None:
    assert isinstance(channel, SupportsHook)
    comment: dict[str, Any] = {"id": 5, "body": "x", "user": {"login": "ann"}}
    good = {"action": "created", "repository": {"full_name": "acme/site"}, "issue": {"number": 1}, "comment": comment}
    strange: list[Any] = [
        [],
        {},
        {**good, "repository": {"full_name": "evil/other"}},
        {**good, "repository": 5},
        {**good, "issue": {"number": "1"}},
        {**good, "comment": {**comment, "id": "../1"}},
        {**good, "comment": {**comment, "user": {"login": "a b/c"}}},
        {**good, "action": "transferred"},
    ]
    for payload in strange:
        body = json.dumps(payload).encode()
        headers = {"x-hub-signature-256": sign(SECRET, body), "x-github-event": "issue_comment"}
        answer = await channel.answer_hook(HookRequest(method="POST", headers=headers, body=body))
        assert answer.status in (202, 415)
    body = json.dumps(good).encode()
    for signature in ("", "sha256=1", sign("other", body)):
        headers = {"x-hub-signature-256": signature, "x-github-event": "issue_comment"}
        answer = await channel.answer_hook(HookRequest(method="POST", headers=headers, body=body))
        assert answer.status == 403
    assert received.calls == 0


async def test_what_somebody_does_to_a_pull_request_comes_without_words_of_theirs(
    platform: GitHubPlatform, received: ReceivedEvents
) -> None:
    number = platform.open_pull_request("Cache pages", f"@{LOGIN} please review", sender="bob")
    platform.push(number, "one", sender="bob")
    platform.push(number, "two", sender="bob")
    platform.push(number, "one", sender="bob")  # taken back by force
    platform.close(number, sender="ann")
    platform.reopen(number, sender="bob")
    platform.close(number, sender="ann", merge=True)

    opened, *events = await received.wait_for(7)
    assert [(each.verb, each.sender_name) for each in events] == [
        (Verb.PUSH, "bob"),
        (Verb.PUSH, "bob"),
        (Verb.PUSH, "bob"),
        (Verb.CLOSE, "ann"),
        (Verb.REOPEN, "bob"),
        (Verb.MERGE, "ann"),
    ]
    assert {(each.address, each.platform_id) for each in events} == {(opened.address, f"issue-{number}")}
    assert len({each.event for each in events}) == 6 and "message" not in {each.event for each in events}
    assert events[3].sender == platform.get_sender("ann") and events[3].text == "closed this pull request"
    assert events[5].text == "merged this pull request" and events[5].at is not None
    assert not any(LOGIN in each.text or "Cache" in each.text for each in events)


async def test_an_issue_is_closed_and_reopened_too(platform: GitHubPlatform, received: ReceivedEvents) -> None:
    platform.close(1, sender="bob")
    platform.reopen(1, sender="bob")
    events = await received.wait_for(2)
    assert [(each.verb, each.text) for each in events] == [
        (Verb.CLOSE, "closed this issue"),
        (Verb.REOPEN, "reopened this issue"),
    ]


@pytest.mark.slow
async def test_a_closing_that_no_webhook_brought_is_asked_for_and_is_the_same_event(platform: GitHubPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    first, _ = make_channel(platform, cursor=cursor)
    async with listening(first, received):
        platform.send("before")
        await received.wait_for(1)
    platform.hook_url = "http://127.0.0.1:9/channels/it"
    platform.close(1, sender="ann", merge=True)
    await platform.until(lambda: platform.deliveries[-1:] == [0])

    again, _ = make_channel(platform, cursor=cursor)
    async with listening(again, received):
        missed = (await received.wait_for(2))[1]
    assert (missed.verb, missed.sender_name, missed.text) == (Verb.MERGE, "ann", "merged this pull request")
    told = wire.read_delivery("pull_request", _make_closing(platform, 1), wire.BotNames(LOGIN, LOGIN))
    assert told == missed


def _make_closing(platform: GitHubPlatform, number: int) -> dict[str, Any]:
    """As the webhook would have been."""
    pull = {**platform._issues[number], "merged": True}
    sender = pull["closed_by"]
    return {"action": "closed", "pull_request": pull, "repository": {"full_name": "acme/site"}, "sender": sender}


@pytest.mark.parametrize(
    "change",
    [
        {"sender": {"login": "a b", "id": 5}},
        {"sender": {"login": "ann", "id": "5"}},
        {"sender": None},
        {"action": "synchronize", "after": "x" * 40},
        {"action": "synchronize"},
        {"action": "closed", "pull_request": {"number": 1, "closed_at": "yesterday"}},
        {"action": "reopened", "pull_request": {"number": 1}},
        {"action": "labeled"},
    ],
)
def test_a_change_that_names_nobody_or_no_moment_makes_no_event(change: dict[str, Any]) -> None:
    pull = {"number": 1, "closed_at": "2026-11-16T12:00:00Z", "updated_at": "2026-11-16T12:00:00Z"}
    good = {"action": "closed", "pull_request": pull, "sender": {"login": "ann", "id": 5}}
    payload = {"repository": {"full_name": "acme/site"}, **good}
    assert wire.read_delivery("pull_request", payload, wire.BotNames(LOGIN, LOGIN)) is not None
    assert wire.read_delivery("pull_request", {**payload, **change}, wire.BotNames(LOGIN, LOGIN)) is None


def test_what_the_bot_itself_closes_is_its_own() -> None:
    pull = {"number": 1, "closed_at": "2026-11-16T12:00:00Z"}
    sender = {"login": LOGIN.upper(), "id": 7}
    payload = {"action": "closed", "pull_request": pull, "repository": {"full_name": "acme/site"}, "sender": sender}
    event = wire.read_delivery("pull_request", payload, wire.BotNames(LOGIN, LOGIN))
    assert event is not None and event.own


async def test_a_submitted_review_arrives_with_its_verdict_and_its_words(
    platform: GitHubPlatform, received: ReceivedEvents
) -> None:
    number = platform.open_pull_request("Cache pages", "please", sender="bob")
    platform.submit_review(number, "")  # it only holds comments on lines
    review = platform.submit_review(number, f"@{LOGIN} please mend it", state="changes_requested")
    platform.submit_review(number, "", state="approved", sender="bob")
    _, first, second = await received.wait_for(3)
    assert (first.address, first.platform_id) == (f"github:acme/site/issue/{number}", review)
    assert (first.text, first.verb) == (f"[requests changes] @{LOGIN} please mend it", Verb.MENTION)
    assert (second.text, second.sender) == ("[approved]", platform.get_sender("bob"))


async def test_reviews_and_comments_on_lines_that_no_webhook_brought_are_asked_for(platform: GitHubPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    number = platform.open_pull_request("Cache pages", "please")
    channel, _ = make_channel(platform, cursor=cursor)
    async with listening(channel, received):
        await until(lambda: "pulls/comments acme/site" in cursor.saved and "issues acme/site" in cursor.saved)
        platform.hook_url = "http://127.0.0.1:9/channels/it"
        line = platform.review("why so?", room=f"issue {number}")
        review = platform.submit_review(number, "fine", state="approved")
        events = await received.wait_for(lambda seen: {line, review} <= {each.platform_id for each in seen})
    found = {each.platform_id: (each.address, each.text) for each in events}
    room = f"github:acme/site/issue/{number}"
    assert (found[line], found[review]) == ((room, "[src/main.py] why so?"), (room, "[approved] fine"))


def test_a_webhook_is_optional() -> None:
    assert WEBHOOK_SECRET in CHANNELS["github"].guide.optional


@pytest.mark.parametrize("sign", ["_", "@ann ", "<b> ", "`", "a", "| a | b |\n"])
async def test_the_longest_comment_is_taken_whatever_it_holds(
    platform: GitHubPlatform, channel: Channel, sign: str
) -> None:
    kind = CHANNELS["github"]
    text = split_text(sign * 70_000, kind.max_text, kind.text_unit)[0]
    sent = await channel.send(TEAM, Outbound(key="k", text=text))
    await channel.send(TEAM, Outbound(key="l", op=Op.EDIT, target=sent, text=text))
    assert platform.find(sent).edits == 1 and len(text) > 30_000


async def test_a_refused_comment_says_what_is_wrong_with_it(platform: GitHubPlatform, channel: Channel) -> None:
    sent = await channel.send(TEAM, Outbound(key="k", text="hello"))
    with pytest.raises(Refused, match="body cannot be blank"):
        await channel.send(TEAM, Outbound(key="l", op=Op.EDIT, target=sent, text=" "))


@pytest.mark.parametrize(
    ("status", "words", "wait"),
    [
        (403, "Maximum number of login attempts exceeded. Please try again later.", 60.0),
        (403, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.", 60.0),
    ],
)
def test_a_door_that_is_shut_for_a_while_is_no_refusal(status: int, words: str, wait: float) -> None:
    """GitHub shuts it for valid tokens, too, after others used wrong ones."""
    http = PlatformHttp("GitHub", "https://api.github.com", read_error=read_error)
    with pytest.raises(Unavailable) as raised:
        http._raise_error(httpx2.Response(status), {"message": words}, "comment", True)
    assert (raised.value.retry_after, raised.value.everywhere) == (wait, True)
