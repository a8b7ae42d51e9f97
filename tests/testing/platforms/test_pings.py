"""The rules of who is woken: each finds what its platform would act on, and nothing else."""

from typing import Any

import pytest

from gatepost.core import registry
from gatepost_testing.emulation import TOY, list_emulators, make_platform
from gatepost_testing.platforms import pings
from gatepost_testing.platforms.base import PingRule, ShownMessage

registry.load_package("gatepost.channels")


def show(raw: Any, text: str = "") -> ShownMessage:
    return ShownMessage(id="1", room="team", sender="bot", text=text or (raw if isinstance(raw, str) else ""), raw=raw)


@pytest.mark.parametrize(
    ("rule", "raw", "woken"),
    [
        (pings.DISCORD, {"content": "@everyone <@12> <@&34>"}, ["@everyone", "<@12>", "<@&34>"]),
        (pings.DISCORD, {"content": "<@12> @here", "allowed_mentions": {"parse": ["users"]}}, ["<@12>"]),
        (pings.DISCORD, {"content": "<@12> <@13>", "allowed_mentions": {"parse": [], "users": ["13"]}}, ["<@13>"]),
        (pings.DISCORD, {"content": "`@everyone`"}, []),
        (pings.DISCORD, {"content": "@everyone", "allowed_mentions": {"parse": []}}, []),
        (pings.DISCORD, {"message_reference": {"message_id": "1"}}, ["the author of the message that is answered"]),
        (pings.DISCORD, {"message_reference": {"message_id": "1"}, "allowed_mentions": {"parse": []}}, []),
        (pings.SLACK, {"text": "<!channel> `<!here>` <@U1>"}, ["<!channel>", "<!here>", "<@U1>"]),
        (pings.SLACK, {"text": "&lt;!channel&gt; @channel <https://example.org|a>"}, []),
        (pings.SLACK, {"text": "@channel", "link_names": True}, ["@channel"]),
        (pings.SLACK, {"text": "", "blocks": [{"text": {"type": "mrkdwn", "text": "<!here>"}}]}, ["<!here>"]),
        (pings.SLACK, {"text": "", "blocks": [{"text": {"type": "plain_text", "text": "<!here>"}}]}, []),
        (pings.MATTERMOST, "@Channel (@all) @bob, @nobody", ["@Channel", "@all", "@bob"]),
        (pings.MATTERMOST, "`@all` ann@here.org @\u200ball\n```\n@channel\n```", []),
        (pings.ZULIP, "@**all** @**bob|3** @*staff*", ["@**all**", "@**bob|3**", "@*staff*"]),
        (pings.ZULIP, "@_**bob** @all `@**all**` @\u200b**all**", []),
        (pings.GITHUB, "@bob and @acme/staff", ["@bob", "@acme/staff"]),
        (pings.REDDIT, "u/bob and /u/Bob", ["u/bob", "/u/Bob"]),
        (pings.REDDIT, "reddit.com/u/bob `u/bob` u/bobby u/\u200bbob", []),
        (pings.GITHUB, "ann@bob.org `@bob` @\u200bbob", []),
        (pings.MASTODON, {"content": "<p>@ann @bob @bob@other.test</p>"}, ["@bob", "@bob@other.test"]),
        (pings.MASTODON, {"content": "<p>ann@bob.org @\u200bbob</p>"}, []),
        (pings.BLUESKY, {"text": "@bob.test"}, []),
        (pings.TELEGRAM, {"text": '<a href="tg://user?id=2">you</a>'}, ["tg://user?id=2"]),
        (pings.MATRIX, {"body": "@room bob", "m.mentions": {}}, []),
        (pings.MATRIX, {"body": "", "m.mentions": {"user_ids": ["@bob:x"], "room": True}}, ["@bob:x", "@room"]),
        (pings.MATRIX, {"body": "@room bob"}, ["@room", "bob"]),
    ],
)
def test_what_the_platform_would_act_on_is_found(rule: PingRule, raw: Any, woken: list[str]) -> None:
    assert rule.find_woken(show(raw)) == woken


def test_a_name_in_words_is_a_mention_on_telegram_and_a_facet_is_one_on_bluesky() -> None:
    assert pings.TELEGRAM.find_woken(show({}, "@bob ann@example.org")) == ["@bob"]
    facet = {"features": [{"$type": "app.bsky.richtext.facet#mention", "did": "did:plc:bob"}]}
    assert pings.BLUESKY.find_woken(show({"text": "@bob", "facets": [facet]})) == ["did:plc:bob"]


WORDS = {"mattermost", "zulip", "github", "reddit"}  # the words alone decide there


@pytest.mark.parametrize("kind", sorted(WORDS))
def test_every_ping_of_a_platform_wakes_if_it_stands_there_as_it_is(kind: str) -> None:
    assert kind in list_emulators() and kind != TOY
    platform = make_platform(kind)
    assert platform.ping_rule is not None
    for ping in platform.ping_rule.list_pings(platform):
        assert platform.ping_rule.find_woken(show(f"news for {ping}.")), ping
