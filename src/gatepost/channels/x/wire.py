"""Posts of X, read into our words. Pure."""

import html
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gatepost.core.clock import SECOND
from gatepost.core.errors import NotFound, Unsupported
from gatepost.messages.inbound import Inbound, Quote, Verb

LIKES = frozenset(("❤", "❤️", "👍", "like", "heart"))
LONGEST_ID = 19
_CASHTAG = re.compile(r"\$(?=[A-Za-z])")  # more than X finds, and never less


def is_id(text: Any) -> bool:
    return isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= LONGEST_ID


def parse_address(address: str) -> str:
    """The conversation. Addresses may come from an agent, so they are checked."""
    found = address.removeprefix("x:conversation/")
    if found == address or not is_id(found):
        raise NotFound("room", address, "a room is x:conversation/<id of its first post>")
    return found


def check_post_id(text: str) -> str:
    if not is_id(text):
        raise NotFound("post", text[:40])
    return text


def explain_reaction(address: str, reaction: str) -> str:
    """Return what to use in place of a reaction that X does not have, or ''."""
    return "" if reaction.strip(":") in LIKES else "posts have likes alone; use like with ❤️, or reply"


def check_like(address: str, reaction: str) -> None:
    if hint := explain_reaction(address, reaction):
        raise Unsupported(f"the reaction {reaction[:20]}", "x", hint)


def read_names(answer: Any) -> dict[str, str]:
    """Read the names of the people in a page of posts."""
    included = answer.get("includes") if isinstance(answer, Mapping) else None
    users = included.get("users") if isinstance(included, Mapping) else None
    return {
        each["id"]: str(each.get("username") or "")[:100]
        for each in (users if isinstance(users, list) else ())
        if isinstance(each, Mapping) and is_id(each.get("id"))
    }


def read_posts(answer: Any) -> list[Mapping[str, Any]]:
    listed = answer.get("data") if isinstance(answer, Mapping) else None
    return [each for each in listed if isinstance(each, Mapping) and is_id(each.get("id"))] if listed else []


def read_mention(post: Mapping[str, Any], me: str, names: Mapping[str, str]) -> Inbound | None:
    author, conversation = post.get("author_id"), post.get("conversation_id")
    if not is_id(author) or not is_id(conversation):
        return None
    answered = _find_answered(post.get("referenced_tweets"))
    return Inbound(
        address=f"x:conversation/{conversation}",
        platform_id=str(post["id"]),
        sender=f"x:user/{author}",
        sender_name=names.get(str(author), ""),
        text=html.unescape(_read_text(post)),
        verb=Verb.MENTION,
        own=author == me,
        at=_read_time(post.get("created_at")),
        reply_to=Quote(platform_id=answered) if answered else None,
    )


def _read_text(post: Mapping[str, Any]) -> str:
    """A post of more than 280 characters is cut in `text`, and whole in `note_tweet`."""
    note = post.get("note_tweet")
    whole = note.get("text") if isinstance(note, Mapping) else None
    return str(whole or post.get("text") or "")


def render_repost(post: str) -> str:
    """X gives a repost no id of its own."""
    return f"repost:{post}"


def parse_repost(platform_id: str) -> str:
    """The post that was reposted; '' if it is no repost."""
    post = platform_id.removeprefix("repost:")
    return post if post != platform_id and is_id(post) else ""


def _find_answered(listed: Any) -> str:
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, Mapping) and each.get("type") == "replied_to" and is_id(each.get("id")):
            return str(each["id"])
    return ""


def _read_time(text: Any) -> int | None:
    try:
        return int(datetime.fromisoformat(str(text)).timestamp() * SECOND)
    except (ValueError, OverflowError):
        return None


def break_names(text: str) -> str:
    """Break names, so that an agent's `@ann` calls nobody: X itself notifies the person who is answered.

    X takes one cashtag in a post, so the further ones are broken, too.
    """
    named, first = text.replace("@", "@\u200b"), _CASHTAG.search(text.replace("@", "@\u200b"))
    if first is None:
        return named
    return named[: first.end()] + _CASHTAG.sub("$\u200b", named[first.end() :])
