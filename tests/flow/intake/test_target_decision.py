"""Who gets a message: whom its text names, what its sender chose, who is engaged. Pure."""

from collections.abc import Sequence

import pytest

from gatepost.flow.intake import routing
from gatepost.flow.intake.engagement import make_engagement
from gatepost.flow.intake.message_outcome import DecidedBy
from gatepost.flow.intake.target_decision import (
    RouteQuestion,
    Spoken,
    TargetDecision,
    TextAddress,
    decide_target,
    parse_address,
)
from gatepost.messages import address
from gatepost.store.rooms.engagements import Engagement, StickyChoice
from gatepost.store.rooms.routes import Route

NOON = 1_800_000_000_000_000
PLACE = ("tg", "tg:group/1", "")
GROUPS = {"acme", "acme/eng", "acme/ops", "a", "b", "other", "root"}
GATED = ("10 verb=mention → acme", "20 → acme#observe")


def make_route(text: str, number: int) -> Route:
    """`seq match → target`; `+` at the end: also. `agent:…|` before it: who made it."""
    made_by, _, rest = text.rpartition("|")
    left, target = rest.split("→")
    seq, _, match = left.strip().partition(" ")
    also, target = target.endswith("+"), target.rstrip("+ ").strip()
    return Route(
        id=number, seq=int(seq), match=match, target=target, also=also, created_by=made_by or "test", created_at=0
    )


def ask(
    routes: Sequence[str],
    text: str = "and then?",
    *,
    engaged: Sequence[tuple[str, int | None]] = (),
    verb: str = "message",
    sender: str = "tg:user/1",
    parent: str = "",
    chosen: str = "",
    topic: str = "",
) -> TargetDecision:
    rows = [make_route(each, number) for number, each in enumerate(routes, 1)]
    facts = routing.make_match_input("tg", address.parse("tg:group/1"), sender=sender, verb=verb, text=text)
    choice = StickyChoice(*PLACE, sender, chosen, topic) if chosen or topic else None
    spoken = Spoken(
        parent=parent,
        address=parse_address(text),
        choice=choice,
        engaged=tuple(engage(folder, route) for folder, route in engaged),
        plain=verb == "message",
    )
    return decide_target(RouteQuestion(routing.make_route_table(rows), facts, GROUPS.__contains__), spoken)


def engage(folder: str, route_id: int | None) -> Engagement:
    return make_engagement(PLACE, folder, route_id, 600, NOON)


def who(found: TargetDecision) -> list[str]:
    return [f"{each.folder}{'#observe' if each.observe else ''}" for each in found.decision.chosen]


def test_nanoclaw_8_a_plain_message_is_observed_until_the_group_is_engaged() -> None:
    assert who(ask(GATED)) == ["acme#observe"]
    found = ask(GATED, engaged=[("acme", 1)])
    assert (who(found), found.by) == (["acme"], DecidedBy.ENGAGEMENT)
    assert ask(GATED, engaged=[("acme", 1)], verb="mention").by is DecidedBy.ROUTE


def test_an_engaged_group_is_woken_where_no_route_says_anything_of_plain_messages() -> None:
    assert who(ask(GATED[:1])) == []
    assert who(ask(GATED[:1], engaged=[("acme", 1)])) == ["acme"]


def test_a_route_that_shuts_plain_messages_out_in_front_does_not_end_it() -> None:
    shut = ("5 verb!=mention → acme#observe", "10 → acme")
    assert who(ask(shut)) == ["acme#observe"]
    assert who(ask(shut, engaged=[("acme", 2)])) == ["acme"]


@pytest.mark.parametrize(
    "before",
    ["1 → drop", "1 sender=tg:user/1 → drop", "1 → other", "1 room=group/* → other"],
)
def test_a_route_before_it_that_drops_or_gives_the_room_to_another_ends_it(before: str) -> None:
    routes = (before, *GATED)
    assert ask(routes, engaged=[("acme", 2)]).by is DecidedBy.ROUTE
    assert "acme" not in who(ask(routes, engaged=[("acme", 2)]))


def test_a_condition_on_the_sender_holds_for_each_sender() -> None:
    routes = ("10 verb=mention sender=tg:user/1 → acme", "20 → acme#observe")
    assert who(ask(routes, engaged=[("acme", 1)])) == ["acme"]
    assert who(ask(routes, engaged=[("acme", 1)], sender="tg:user/2")) == ["acme#observe"]


def test_a_denied_word_stays_denied() -> None:
    routes = ("10 verb=mention text!=/^!/ → acme",)
    assert who(ask(routes, engaged=[("acme", 1)])) == ["acme"]
    assert who(ask(routes, "!private", engaged=[("acme", 1)])) == []


TWO = ("10 text=/^!a/ → a +", "11 text=/^!b/ → b +", "90 → a#observe +", "91 → b#observe +")


def test_two_agents_of_one_room_are_engaged_apart() -> None:
    assert who(ask(TWO, "!a hello", engaged=[("b", 2)])) == ["a", "a#observe", "b#observe"]
    assert who(ask(TWO, engaged=[("b", 2)])) == ["b", "a#observe"]
    assert who(ask(TWO, engaged=[("a", 1), ("b", 2)])) == ["a", "b"]


def test_another_route_of_plain_messages_goes_on_if_the_engaged_one_does() -> None:
    assert who(ask(("10 verb=mention → a +", "20 → b"), engaged=[("a", 1)])) == ["a", "b"]
    assert who(ask(("10 verb=mention → a", "20 → b"), engaged=[("a", 1)])) == ["a"]
    assert who(ask(("1 → b#observe +", "10 verb=mention → a", "20 → other"), engaged=[("a", 2)])) == ["a", "b#observe"]


def test_words_that_name_another_agent_are_for_that_one_alone() -> None:
    routes = ("10 verb=mention → a", "20 text=/^deploy/ → b", "30 → a#observe")
    assert who(ask(routes, "deploy it", engaged=[("a", 1)])) == ["b"]


def test_a_room_of_each_senders_own_group_is_engaged_for_that_sender_alone() -> None:
    routes = ("10 verb=mention → acme/{sender}",)
    assert who(ask(routes, engaged=[("acme/tg-user-9", 1)])) == []


def test_what_an_agent_leads_below_itself_stays_there_while_it_is_engaged() -> None:
    routes = ("10 verb=mention → acme", "20 → acme#observe", "agent:acme|5 text=/deploy/ → acme/ops")
    assert who(ask(routes, "deploy", verb="mention")) == ["acme/ops"]
    assert who(ask(routes, engaged=[("acme/ops", 3)])) == ["acme/ops", "acme#observe"]


def test_what_only_an_agent_made_draws_nothing_to_it() -> None:
    routes = ("10 → other", "agent:acme|5 verb=mention → acme/ops")
    assert who(ask(routes, engaged=[("acme/ops", 2)])) == ["other"]


def test_who_engaged_itself_is_reached_by_whatever_leads_people_to_it() -> None:
    assert who(ask(TWO, engaged=[("b", None)])) == ["b", "a#observe"]
    assert who(ask(GATED, engaged=[("other", None)])) == ["acme#observe"]


def test_arizuko_23_a_reply_goes_to_the_group_that_wrote_it_even_if_another_was_chosen() -> None:
    found = ask(("10 → acme",), verb="mention", parent="acme/eng", chosen="acme/ops")
    assert (who(found), found.by) == (["acme/eng"], DecidedBy.REPLY)


@pytest.mark.parametrize("parent", ["other", "acme/gone"])
def test_a_reply_to_a_group_that_cannot_be_reached_there_goes_by_routes(parent: str) -> None:
    assert ask(("10 → acme",), verb="mention", parent=parent) == ask(("10 → acme",), verb="mention")


def test_a_reply_needs_no_word_of_the_route_and_wakes_nobody_else() -> None:
    assert who(ask(TWO, "thanks", verb="mention", parent="b")) == ["b", "a#observe"]


def test_a_reply_of_somebody_whom_a_route_shuts_out_is_dropped() -> None:
    assert who(ask(("1 sender=tg:user/1 → drop", "10 → acme"), verb="mention", parent="acme")) == []


def test_arizuko_22_a_child_is_named_before_the_text_where_there_is_one() -> None:
    found = ask(("10 → acme",), "@eng look")
    assert (who(found), found.by, found.rest) == (["acme/eng"], DecidedBy.CHILD, "look")
    for text in ("@nobody look", "look @eng", "@other look"):
        plain = ask(("10 → acme",), text)
        assert (who(plain), plain.by, plain.rest) == (["acme"], DecidedBy.ROUTE, None)


def test_a_named_child_is_woken_where_plain_messages_are_observed_but_not_where_all_are() -> None:
    assert who(ask(GATED, "@eng look")) == ["acme/eng", "acme#observe"]
    assert who(ask(("10 → acme#observe",), "@eng look")) == ["acme#observe"]


def test_arizuko_22_a_group_alone_is_chosen_and_an_unknown_one_is_text() -> None:
    for text in ("@acme/eng", "@eng"):
        found = ask(("10 → acme",), text)
        assert found.change is not None and found.change.folder == "acme/eng"
    for text in ("@unknown", "@other", "@acme/gone"):
        assert ask(("10 → acme",), text) == ask(("10 → acme",), "@unknown")
        assert ask(("10 → acme",), text).change is None


def test_what_was_chosen_holds_before_what_is_engaged() -> None:
    found = ask(GATED, engaged=[("acme", 1)], chosen="acme/eng")
    assert (who(found), found.by) == (["acme/eng", "acme#observe"], DecidedBy.CHOICE)
    assert ask(("10 → other",), chosen="acme/eng").by is DecidedBy.ROUTE


@pytest.mark.parametrize(
    ("routes", "text", "chosen", "topic", "rest"),
    [
        (("10 → acme",), "#daily go", "", "daily", "go"),
        (("10 → acme",), "go", "daily", "daily", None),
        (("10 → acme",), "#other go", "daily", "other", "go"),
        (("10 → acme#fixed",), "#daily go", "", "fixed", "go"),
        (("10 → acme#observe",), "#daily go", "daily", None, None),
        (("10 → acme",), "@nobody #daily go", "", None, None),
    ],
)
def test_a_topic_is_named_or_chosen_where_somebody_is_woken(
    routes: Sequence[str], text: str, chosen: str, topic: str | None, rest: str | None
) -> None:
    found = ask(routes, text, topic=chosen)
    assert ([each.topic for each in found.decision.chosen], found.rest) == ([topic], rest)


def test_a_topic_alone_is_chosen_only_where_the_message_would_wake_somebody() -> None:
    found = ask(("10 → acme",), "#daily")
    assert found.change is not None and found.change.topic == "daily"
    assert ask(GATED, "#daily").change is None
    assert ask(("10 → acme",), "#").change is None  # there is nothing to end
    assert ask(("10 → acme",), "#", topic="daily").change is not None


OURS = frozenset({"gatebot"})


@pytest.mark.parametrize(
    ("text", "group", "topic", "rest"),
    [
        ("@eng look at this", "eng", None, "look at this"),
        ("  @eng\nlook", "eng", None, "look"),
        ("#daily what is new?", None, "daily", "what is new?"),
        ("@eng #daily go", "eng", "daily", "go"),
        ("@acme/eng", "acme/eng", None, ""),
        ("@eng ", "eng", None, ""),
        ("@", "", None, ""),
        ("#", None, "", ""),
        ("#daily", None, "daily", ""),
        ("@gatebot @eng go", "eng", None, "go"),
        ("@GateBot: #daily go", None, "daily", "go"),
    ],
)
def test_what_a_text_names(text: str, group: str | None, topic: str | None, rest: str) -> None:
    assert parse_address(text, OURS) == TextAddress(group, topic, rest)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "hello @eng",  # arizuko 22: in the middle of a text it does nothing
        "@eng, hello",
        "@ eng",
        "# a heading",
        "#1 is broken",
        "@acme/eng hello",  # a whole path is for choosing
        "@eng/ hello",
        "@../eng",
        "@gatebot hello",
        "@gatebot",
        "## title",
        "@ #daily",
    ],
)
def test_what_names_nobody(text: str) -> None:
    assert parse_address(text, OURS) is None


def test_a_text_without_a_sign_at_its_start_names_nobody() -> None:
    assert [parse_address(text, OURS) for text in ("gatebot: @eng go", " 1. first", "*bold*")] == [None] * 3


def test_a_long_text_of_signs_takes_no_time() -> None:
    assert parse_address("@" + "a-" * 30_000 + "!", OURS) is None
