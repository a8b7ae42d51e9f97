"""Routing: which group gets a message, and that it can always be said why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.errors import Invalid
from gatepost.core.records import replace
from gatepost.flow.intake import decision_explanation, routing
from gatepost.flow.intake.patterns import MatchLimit
from gatepost.flow.intake.routing import KEYS, MatchInput, RouteTarget
from gatepost.messages import address
from gatepost.store.rooms.routes import Route

FACTS = routing.make_match_input(
    "telegram-2",
    address.parse("telegram:group/12"),
    sender="telegram:user/9",
    text="bug: a/b broke",
    thread="t1",
)


def route(match: str = "", target: str = "home", *, seq: int = 10, id: int = 1, also: bool = False) -> Route:
    return Route(id=id, seq=seq, match=match, target=target, also=also, created_by="test", created_at=0)


def holds(match: str, facts: MatchInput = FACTS) -> bool:
    return bool(routing.decide([route(match)], facts).chosen)


def folders(*routes: Route, facts: MatchInput = FACTS) -> list[str]:
    return [chosen.folder for chosen in routing.decide(routes, facts).chosen]


def test_arizuko_19_what_a_match_means() -> None:
    assert holds("")
    assert not holds("verb=")
    assert holds("room=group/*")
    assert not holds("room=[")  # a row that nobody could write today holds for nothing
    assert holds("room=*")


@pytest.mark.parametrize(
    ("match", "held"),
    [
        ("platform=telegram", True),
        ("channel=telegram-*", True),
        ("chat_jid=telegram:*", False),
        ("chat_jid=telegram:**", True),
        ("chat_jid=telegram:group/12", True),
        ("sender=telegram:user/9", True),
        ("sender!=telegram:user/9", False),
        ("verb=mention|message", True),
        ("verb!=mention", True),
        ("thread=t1 platform=slack", False),
        ("thread=", False),
        ("thread!=", True),
        ("text=bug*", True),
        ("text=/^bug/", True),
        ("text!=/^bug/", False),
        ('text="bug: a/b*"', True),
        ('text="bug: x*"', False),
        ("text=/b\\b.br/", True),
    ],
)
def test_every_key_and_sign(match: str, held: bool) -> None:
    assert holds(match) is held


@pytest.mark.parametrize(
    ("match", "named"),
    [
        ("bogus=1", "bogus"),
        ("bogus=", "bogus"),
        ("=x", "unknown key"),
        ("mention", "mention"),
        ("room=[", "'['"),
        ("text=/(/", "regular expression"),
        ('text="open', "quote"),
        ("room=terminal:fam", "write chat_jid=terminal:fam"),
        ("room!=group/7|telegram:*", "write chat_jid!=group/7|telegram:*"),
    ],
)
def test_a_wrong_match_is_refused_when_written_and_the_fault_is_named(match: str, named: str) -> None:
    with pytest.raises(Invalid) as caught:
        routing.check_route(match, "home", "per-thread", ["home"])
    assert named in str(caught.value)


def test_a_well_formed_route_is_given_its_folder() -> None:
    assert routing.check_route("platform=telegram", "home#observe", "shared", ["home"]) == "home"
    assert routing.check_route("", "drop", "per-thread", ["home"]) is None
    with pytest.raises(Invalid, match="session mode"):
        routing.check_route("", "home", "weekly", ["home"])


def test_arizuko_26_web_addresses_are_routed_like_any_other() -> None:
    assert routing.check_route("chat_jid=web:acme/**", "acme", "per-thread", ["acme"]) == "acme"
    facts = routing.make_match_input("web", address.parse("web:acme/eng"))
    assert folders(route("chat_jid=web:acme/**", "acme"), facts=facts) == ["acme"]


def test_arizuko_21_the_lowest_seq_wins_then_the_lowest_id() -> None:
    assert folders(route(target="ten", seq=10, id=1), route(target="five", seq=5, id=2)) == ["five"]
    assert folders(route(target="later", id=4), route(target="earlier", id=3)) == ["earlier"]


def test_arizuko_21_a_sender_route_is_skipped_when_there_is_no_sender() -> None:
    both = route(target="acme/{sender}", seq=1), route(target="home", seq=2, id=2)
    assert folders(*both) == ["acme/telegram-user-9"]
    assert folders(*both, facts=replace(FACTS, sender="")) == ["home"]


def test_a_sender_route_to_no_group_is_passed_over() -> None:
    both = route(target="acme/{sender}", seq=1), route(target="home", seq=2, id=2)
    decision = routing.decide(both, FACTS, lambda folder: False)
    assert [chosen.folder for chosen in decision.chosen] == ["home"]


def test_also_routes_deliver_here_and_go_on() -> None:
    chosen = routing.decide(
        [
            route("text=/^bug/", "triage", seq=1, also=True),
            route("", "log#observe", seq=2, id=2, also=True),
            route("", "home#daily", seq=3, id=3),
            route("", "never", seq=4, id=4),
        ],
        FACTS,
    ).chosen
    assert [(each.folder, each.observe, each.topic) for each in chosen] == [
        ("triage", False, None),
        ("log", True, None),
        ("home", False, "daily"),
    ]


def test_a_drop_ends_the_matching_and_is_named() -> None:
    decision = routing.decide([route("sender=telegram:**", "drop", seq=1, id=7), route("", "home", seq=2)], FACTS)
    assert decision.chosen == ()
    assert decision.dropped_by is not None
    assert decision.why == "route 7 drops it"


def test_every_route_says_why_it_did_or_did_not_hold() -> None:
    verdicts = decision_explanation.explain_routes(
        [
            route("platform=slack", seq=1, id=1),
            route("bogus=1", seq=2, id=2),
            route("", "log#observe", seq=3, id=3, also=True),
            route("room=group/*", "home", seq=4, id=4),
            route("", "late", seq=5, id=5),
        ],
        FACTS,
    )
    assert [verdict.held for verdict in verdicts] == [False, False, True, True, False]
    assert "platform=slack does not hold for 'telegram'" in verdicts[0].why
    assert "unknown key 'bogus'" in verdicts[1].why
    assert "on to the next" in verdicts[2].why
    assert "route 4 has won" in verdicts[4].why


MATCH = st.lists(
    st.tuples(
        st.sampled_from(KEYS), st.sampled_from(["=", "!="]), st.sampled_from(["", "*", "a*", "**", "x|a", "[ab]"])
    ),
    max_size=3,
).map(lambda tokens: " ".join("".join(token) for token in tokens))
VALUE = st.sampled_from(["", "a", "ab", "a/b", "x"])
ANY_FACTS = st.builds(MatchInput, **dict.fromkeys(KEYS, VALUE))


@given(MATCH, ANY_FACTS)
def test_deciding_and_explaining_agree(match: str, facts: MatchInput) -> None:
    decided = bool(routing.decide([route(match)], facts).chosen)
    assert decision_explanation.explain_routes([route(match)], facts)[0].held is decided


@given(MATCH, st.sampled_from(KEYS), st.sampled_from(["*", "a", "a*", "**"]), ANY_FACTS)
def test_adding_a_negation_never_widens(match: str, key: str, pattern: str, facts: MatchInput) -> None:
    if holds(f"{match} {key}!={pattern}", facts):
        assert holds(match, facts)


@given(st.text(max_size=40), st.text(max_size=20), ANY_FACTS)
def test_deciding_is_total_whatever_is_stored(match: str, target: str, facts: MatchInput) -> None:
    routing.decide([route(match, target)], facts)
    decision_explanation.explain_routes([route(match, target)], facts)


# Routes that agents made.


def made(number: int, seq: int, match: str, target: str, by: str = "agent:acme") -> Route:
    folder = target.partition("#")[0]
    return Route(id=number, seq=seq, match=match, target=target, folder=folder, created_by=by, created_at=0)


def taken(routes: list[Route], room: str = "telegram:group/1") -> list[str]:
    facts = routing.make_match_input("telegram", address.parse(room))
    verdicts = {each.route.id for each in decision_explanation.explain_routes(routes, facts) if each.held}
    decision = routing.decide(routes, facts)
    assert verdicts == {each.route.id for each in decision.chosen} | (
        {decision.dropped_by.id} if decision.dropped_by else set()
    )
    return [each.folder for each in decision.chosen]


def test_a_route_that_an_agent_made_leads_within_its_world_and_draws_nothing_away_from_another() -> None:
    to_acme = made(1, 50, "platform=telegram", "acme", "operator")
    to_other = made(2, 1000, "", "other", "operator")
    inner, greedy = made(3, 0, "chat_jid=telegram:group/1", "acme/eng"), made(4, 0, "", "thief/x", "agent:thief")

    assert taken([to_acme, to_other, inner, greedy]) == ["acme/eng"]
    assert taken([to_acme, to_other, inner, greedy], "telegram:group/2") == ["acme"]
    assert taken([to_acme, to_other, inner, greedy], "slack:1") == ["other"]


def test_what_the_operator_drops_no_agent_picks_up() -> None:
    dropped = made(1, 10, "chat_jid=telegram:group/1", "drop", "operator")
    assert taken([dropped, made(2, 0, "", "acme/eng")]) == []


def test_two_worlds_in_one_room_each_keep_their_own() -> None:
    first = Route(id=1, seq=1, match="", target="acme", folder="acme", also=True, created_by="operator", created_at=0)
    second = made(2, 2, "", "other", "operator")
    assert taken([first, second, made(3, 0, "", "acme/eng")]) == ["acme/eng", "other"]


def test_roots_routes_hold_for_everybody() -> None:
    assert taken([made(1, 1000, "", "home", "operator"), made(2, 0, "", "acme", "agent:root")]) == ["acme"]


def test_a_route_made_below_draws_nothing_from_a_parent_or_a_sibling() -> None:
    to_hr, to_eng = (
        made(1, 10, "chat_jid=telegram:group/1", "acme/hr", "operator"),
        made(2, 50, "", "acme/eng", "operator"),
    )
    greedy = made(3, 0, "", "acme/eng", "agent:acme/eng")
    assert taken([to_hr, to_eng, greedy]) == ["acme/hr"]
    assert taken([to_hr, to_eng, made(4, 0, "", "acme/eng/sre", "agent:acme/eng")], "slack:1") == ["acme/eng/sre"]


def test_what_a_parent_leads_below_is_led_on_there() -> None:
    routes = [
        made(1, 1000, "", "acme", "operator"),
        made(2, 0, "", "acme/eng", "agent:acme"),
        made(3, 0, "", "acme/eng/sre", "agent:acme/eng"),
    ]
    assert taken(routes) == ["acme/eng/sre"]


def test_what_is_only_observed_no_agent_makes_a_turn_of() -> None:
    watched = made(1, 10, "", "acme#observe", "operator")
    facts = routing.make_match_input("telegram", address.parse("telegram:group/1"))
    (led,) = routing.decide([watched, made(2, 0, "", "acme/eng", "agent:acme")], facts).chosen
    assert (led.folder, led.observe) == ("acme/eng", True)


@pytest.mark.parametrize(
    ("match", "said"),
    [
        (" ".join(["verb=message"] * 17), "17 conditions; at most 16"),
        (" ".join(f"text!=/x{number}/" for number in range(5)), "5 regular expressions; at most 4"),
        (f"text=/{'x' * 201}/", "201 characters is too long; at most 200"),
    ],
)
def test_a_match_of_too_much_is_refused_when_written_and_holds_for_nothing_where_it_is_stored(
    match: str, said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        routing.check_route(match, "home", "per-thread", ["home"])
    assert not holds(match)
    (verdict,) = decision_explanation.explain_routes([route(match)], FACTS)
    assert not verdict.held and "cannot be read" in verdict.why and said in verdict.why


def test_of_a_text_the_beginning_is_looked_at() -> None:
    text = "x" * routing.LOOKED_AT + " bug"
    facts = routing.make_match_input("telegram", address.parse("telegram:group/1"), text=text)
    assert len(facts.text) == routing.LOOKED_AT
    assert not holds("text=/bug/", facts) and not holds("text=*bug", facts) and holds("text=x*", facts)


HEAVY = " ".join(f"text!=/(a|aa)+b{number}/" for number in range(4))


def test_what_agents_of_a_world_made_has_so_much_effort_for_a_message_and_no_more() -> None:
    facts = routing.make_match_input("telegram", address.parse("telegram:group/1"), text="a" * 100_000)
    rows = [
        made(1, 900, "", "acme", "operator"),
        made(2, 901, "", "beta", "operator"),
        *(made(number, number, f"{HEAVY} verb=mention", "acme/eng") for number in range(10, 60)),
        made(60, 60, "text=a*", "acme/eng"),
        made(61, 61, "text=a*", "beta/eng", "agent:beta"),
    ]
    rows[0] = replace(rows[0], also=True)
    spent = replace(facts, efforts={"acme": MatchLimit(0)})
    assert "take too long" in str(routing.find_mismatch(rows[-2], spent))  # and no error
    assert routing.find_mismatch(rows[-1], spent) is None  # another world has its own
    assert routing.find_mismatch(rows[0], spent) is None  # the operator's are asked in any case
    assert [each.folder for each in routing.decide(rows, facts).chosen] == ["acme", "beta/eng"]
    by_id = {verdict.route.id: verdict for verdict in decision_explanation.explain_routes(rows, facts)}
    assert not by_id[60].held and "agents of acme made take too long" in by_id[60].why
    assert by_id[61].held


def test_the_agents_of_one_world_make_so_many_routes_and_another_world_as_many() -> None:
    many = [made(number, 1, "", "acme/eng", f"agent:acme/g{number}") for number in range(routing.MOST_BY_AGENTS)]
    routing.check_route_count(many[1:], "acme")
    routing.check_route_count(many, "beta")
    with pytest.raises(Invalid, match="agents of acme made 200 routes already"):
        routing.check_route_count(many, "acme/eng")


def test_what_a_route_says_of_one_identity_holds_for_the_person() -> None:
    names = ("fake:user/ann", "web:user/ann", "other:user/7")
    facts = routing.make_match_input("web", address.parse("web:people/ann"), sender="web:user/ann", names=names)
    assert facts.others == ("fake:user/ann", "other:user/7")
    assert (
        holds("sender=fake:user/ann", facts) and holds("sender=other:**", facts) and holds("sender=web:user/ann", facts)
    )
    assert not holds("sender!=fake:user/ann", facts) and holds("sender!=fake:user/bob", facts)
    assert not holds("sender=fake:user/bob", facts) and not holds("sender=", facts)
    assert not holds("chat_jid=fake:user/ann", facts)


FOLDERS = ("home", "root", "acme", "acme/eng")


def test_a_target_is_a_folder_with_what_stands_behind_it() -> None:
    assert routing.parse_target("acme/eng") == RouteTarget("acme/eng")
    assert routing.parse_target("acme#observe") == RouteTarget("acme", observe=True)
    assert routing.parse_target("acme#release notes") == RouteTarget("acme", topic="release notes")
    assert routing.parse_target("folder:acme") == RouteTarget("acme")
    assert routing.parse_target("folder:drop") == RouteTarget("drop")
    assert routing.parse_target("drop").drops


def test_a_sender_becomes_one_safe_segment() -> None:
    template = routing.parse_target("acme/{sender}")
    assert routing.expand_target(template, "telegram:user/9") == "acme/telegram-user-9"
    assert routing.expand_target(template, "x:../../etc") == "acme/x-..-..-etc"
    assert routing.expand_target(template, "") is None


@pytest.mark.parametrize(
    "target",
    [
        "",
        "/acme",
        "acme/",
        "acme//eng",
        "../x",
        "acme/..",
        "acme#",
        "acme# ",
        "{other}",
        "{sender}/{sender}",
        "a b",
        "x:y",
    ],
)
def test_a_malformed_target_is_refused(target: str) -> None:
    with pytest.raises(Invalid):
        routing.parse_target(target)


def test_a_prefix_that_does_not_exist_is_refused_with_a_hint() -> None:
    with pytest.raises(Invalid, match="builtin:NAME"):
        routing.parse_target("daemon:cron")
    with pytest.raises(Invalid, match="none yet"):
        routing.parse_target("builtin:onboarding")


def test_a_ghost_is_refused_when_written() -> None:
    assert routing.check_target("acme/eng#observe", FOLDERS) == "acme/eng"
    assert routing.check_target("drop", FOLDERS) is None
    assert routing.check_target("acme/{sender}", FOLDERS) is None
    with pytest.raises(Invalid, match="no group 'acme/ops'"):
        routing.check_target("acme/ops", FOLDERS)
    with pytest.raises(Invalid, match="no group 'ghost'"):
        routing.check_target("ghost/{sender}", FOLDERS)


@pytest.mark.parametrize("match", ["verb=mentoin", "verb!=mentoin", "verb=mention|liek", 'verb="Mention"'])
def test_an_act_that_nobody_knows_is_refused_with_those_that_there_are(match: str) -> None:
    with pytest.raises(Invalid, match=r"nobody can .*there are message, mention"):
        routing.check_syntax(match, "acme", "per-thread")


@pytest.mark.parametrize("match", ["verb=mention|reply", "verb!=untrusted", "verb=m*", "verb="])
def test_an_act_that_is_known_a_pattern_or_none_is_taken(match: str) -> None:
    routing.check_syntax(match, "acme", "per-thread")
