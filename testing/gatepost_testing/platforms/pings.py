"""Whom the words of a bot would wake, by the rule of each platform. Names are those of people who are there.

A rule reads what the platform got (`ShownMessage.raw`, or `text` where that is the source). It does not know who has
muted a room, and takes no account of rights: a bot that may not wake everybody here may do so elsewhere.
"""

import html
import re
from collections.abc import Callable, Iterator
from typing import Any

from gatepost_testing.platforms.base import EmulatedPlatform, PingRule, ShownMessage

SOMEBODY = "bob"  # is in every group, and nobody speaks to him
_CODE = re.compile(r"(`{3,}|~{3,}).*?\1|(`+)(?!`).*?(?<!`)\2(?!`)", re.DOTALL)
_DISCORD = re.compile(r"@(everyone|here)|<@([!&]?)(\d+)>")
_SLACK = re.compile(r"<(!(?:channel|here|everyone|subteam\^\w+)|@[UW]\w+)(?:\|[^<>]*)?>")
_SLACK_NAMES = re.compile(r"(?<!\w)@(channel|here|everyone|\w+)")
_MATTERMOST = re.compile(rf"(?<![\w@])@(channel|all|here|{SOMEBODY})(?![\w-])", re.IGNORECASE)
_ZULIP = re.compile(r"@\*\*[^*\n]+\*\*|@\*[^*\n]+\*(?!\*)")
_GITHUB = re.compile(rf"(?<![\w/`@-])@({SOMEBODY}|acme/\w+)(?![\w-])", re.IGNORECASE)
_MASTODON = re.compile(rf"(?<![=/\w])@({SOMEBODY})(?:@[\w.-]+\w)?(?![\w-])", re.IGNORECASE)
_REDDIT = re.compile(rf"(?<![\w/])/?u/{SOMEBODY}(?![\w-])", re.IGNORECASE)
_TELEGRAM = re.compile(r"(?<![\w@])@(\w{2,32})(?!\w)")


def _strip_code(text: str) -> str:
    return _CODE.sub(" ", text)


def find_in(pattern: re.Pattern[str], text: str) -> list[str]:
    return [found[0] for found in pattern.finditer(text)]


def find_by_discord(shown: ShownMessage) -> list[str]:
    """Without `allowed_mentions` all of the content counts, and so does the answer; with it, what it names."""
    body = shown.raw or {}
    allowed = body.get("allowed_mentions")
    woken = []
    for found in _DISCORD.finditer(_strip_code(str(body.get("content") or ""))):
        kind = "everyone" if found[1] else "roles" if found[2] == "&" else "users"
        if allowed is None or kind in allowed.get("parse", ()) or found[3] in allowed.get(kind, ()):
            woken.append(found[0])
    if body.get("message_reference") and (allowed is None or allowed.get("replied_user")):
        woken.append("the author of the message that is answered")
    return woken


def find_by_slack(shown: ShownMessage) -> list[str]:
    """In the text, which notifications are made of, and in blocks; also in code. `link_names` makes names of words."""
    body = shown.raw or {}
    named = bool(body.get("link_names")) or body.get("parse") == "full"
    texts = [str(body.get("text") or body.get("initial_comment") or ""), *_list_texts(body.get("blocks") or ())]
    patterns = (_SLACK, _SLACK_NAMES) if named else (_SLACK,)
    return [each for text in texts for pattern in patterns for each in find_in(pattern, text)]


def _list_texts(part: Any) -> Iterator[str]:
    """List the texts of all objects in blocks that have markup."""
    if isinstance(part, dict):
        if part.get("type") == "mrkdwn":
            yield str(part.get("text") or "")
        for each in part.values():
            yield from _list_texts(each)
    elif isinstance(part, list | tuple):
        for each in part:
            yield from _list_texts(each)


def find_by_telegram(shown: ShownMessage) -> list[str]:
    """A name in the words is made a mention by the server; a link to a person is one. Names in code count here, too."""
    raw = shown.raw or {}
    linked = re.findall(r"href=\"(tg://user\?id=\d+)", str(raw.get("text") or raw.get("caption") or ""))
    return [*linked, *find_in(_TELEGRAM, shown.text)]


def find_by_mastodon(shown: ShownMessage) -> list[str]:
    """Each name in a post. Those of the people whom it answers are there on purpose: somebody is none of them."""
    return find_in(_MASTODON, html.unescape(str((shown.raw or {}).get("content") or "")))


def find_by_bluesky(shown: ShownMessage) -> list[str]:
    """A name is a mention only where a facet says so."""
    features = [each for facet in (shown.raw or {}).get("facets") or () for each in facet.get("features") or ()]
    return [str(each.get("did")) for each in features if each.get("$type") == "app.bsky.richtext.facet#mention"]


def find_by_matrix(shown: ShownMessage) -> list[str]:
    """Return what `m.mentions` lists. Without it programs search the words for names, as they did before there was
    one."""
    content = shown.raw or {}
    mentions = content.get("m.mentions")
    if mentions is None:
        return find_in(re.compile(rf"@room\b|\b{SOMEBODY}\b"), str(content.get("body") or ""))
    return [*mentions.get("user_ids", ()), *(["@room"] if mentions.get("room") else [])]


def _find_outside_code(pattern: re.Pattern[str]) -> Callable[[ShownMessage], list[str]]:
    return lambda shown: find_in(pattern, _strip_code(shown.raw if isinstance(shown.raw, str) else shown.text))


def _get_number(platform: EmulatedPlatform) -> str:
    """The id of somebody, as the last part of the address has it."""
    return platform.get_sender(SOMEBODY).rpartition("/")[2]


DISCORD = PingRule(lambda platform: ["@everyone", "@here", f"<@{_get_number(platform)}>"], find_by_discord)
SLACK = PingRule(lambda platform: ["<!channel>", "<!here>", f"<@{_get_number(platform)}>", "@channel"], find_by_slack)
MATTERMOST = PingRule(lambda _: ["@channel", "@all", "@here", f"@{SOMEBODY}"], _find_outside_code(_MATTERMOST))
ZULIP = PingRule(
    lambda platform: ["@**all**", "@**topic**", f"@**{SOMEBODY}**", f"@**|{_get_number(platform)}**", "@*everybody*"],
    _find_outside_code(_ZULIP),
)
GITHUB = PingRule(lambda _: [f"@{SOMEBODY}", "@acme/staff"], _find_outside_code(_GITHUB))
MASTODON = PingRule(lambda _: [f"@{SOMEBODY}", f"@{SOMEBODY}@mastodon.test"], find_by_mastodon)
BLUESKY = PingRule(lambda _: [f"@{SOMEBODY}.test"], find_by_bluesky)
TELEGRAM = PingRule(lambda _: [f"@{SOMEBODY}", "[somebody](tg://user?id=2)"], find_by_telegram)
REDDIT = PingRule(lambda _: [f"u/{SOMEBODY}", f"/u/{SOMEBODY}"], _find_outside_code(_REDDIT))
MATRIX = PingRule(lambda platform: ["@room", SOMEBODY, _get_number(platform)], find_by_matrix)
