"""Routed messages: what a person did, and what routes see of it."""

from gatepost.flow.intake import routed_message
from gatepost.messages.inbound import Inbound, MessageKind, Quote, Verb
from gatepost.store.messages.messages import Message


def event(event: str = "message", *, verb: Verb = Verb.MESSAGE, reply_to: str = "", thread: str = "") -> Inbound:
    return Inbound(
        address="telegram:group/1",
        platform_id="m1",
        sender="telegram:user/9",
        text="",
        event=event,
        verb=verb,
        thread=thread,
        reply_to=Quote(platform_id=reply_to) if reply_to else None,
    )


def message(direction: str, sender: str = "agent:home") -> Message:
    return Message(
        1,
        "t",
        "t:g",
        "topic",
        direction,
        "m1",
        "message",
        MessageKind.CHAT,
        "send",
        sender,
        "",
        "hi",
        {},
        "",
        "home",
        0,
        0,
    )


def test_negative_emoji_are_a_dislike_and_all_others_a_like() -> None:
    assert [routed_message.find_act(event(f"reaction:{emoji}:telegram:user/9")) for emoji in "👎💩😡🤬💔🤮😢"] == [
        Verb.DISLIKE
    ] * 7
    assert routed_message.find_act(event("reaction:👎🏽:x")) is Verb.DISLIKE
    assert routed_message.find_act(event("reaction:❤️:x")) is Verb.LIKE
    assert routed_message.find_act(event("reaction::-1::x")) is Verb.DISLIKE
    assert routed_message.find_act(event(verb=Verb.JOIN)) is Verb.JOIN


def test_a_reply_or_reaction_to_the_agent_is_a_mention() -> None:
    assert routed_message.promote(Verb.MESSAGE, message("out")) is Verb.MENTION
    assert routed_message.promote(Verb.LIKE, message("out")) is Verb.MENTION
    assert routed_message.promote(Verb.LIKE, message("in", "telegram:user/8")) is Verb.LIKE
    assert routed_message.promote(Verb.REPLY, None) is Verb.REPLY
    assert routed_message.promote(Verb.EDIT, message("out")) is Verb.EDIT
    assert routed_message.promote(Verb.REPLY, message("out", "gatepost:system")) is Verb.REPLY


def test_what_it_is_about_is_the_quoted_message_or_the_one_reacted_to() -> None:
    assert routed_message.find_quoted(event(reply_to="m0")) == "m0"
    assert routed_message.find_quoted(event("reaction:👍:x")) == "m1"
    assert routed_message.find_quoted(event("edit:2")) == ""


def test_without_a_thread_of_its_own_it_belongs_to_that_of_its_parent() -> None:
    assert routed_message.find_thread(event(), message("out")) == "topic"
    assert routed_message.find_thread(event(thread="own"), message("out")) == "own"
    assert routed_message.find_thread(event(), None) == ""
