"""The one evaluator, by example and by property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.access.acl import find_refusal_reason, list_valid_rows
from gatepost.access.grants import parse
from gatepost.access.policy import AccessRequest, AccessRules, GroupPolicy
from gatepost.access.subjects import ANY_EFFECTS, NO_EFFECTS, Subject, ToolEffects, make_effects
from gatepost.access.tiers import ROOT_FOLDER, Tier, covers
from gatepost.core.records import replace
from gatepost.messages.inbound import make_untrusted
from gatepost.store.rights.acl import OPERATOR, AclEffect, AclRow

FOLDERS = ("root", "acme", "acme/eng", "acme/eng/sre", "acme/eng/sre/x", "other", "other/ops")


def policy(folder: str, rules: dict[str, list[str]] | None = None, rows: tuple[AclRow, ...] = ()) -> GroupPolicy:
    read = {each: tuple(parse(rule) for rule in texts) for each, texts in (rules or {}).items()}
    return GroupPolicy(folder, AccessRules(rules=read, rows=rows))


def ask(tool: str = "send", tier: Tier = Tier.AGENT, scope: str = "acme/eng", **params: str) -> AccessRequest:
    return AccessRequest(tool, tier, scope, params)


@pytest.mark.parametrize("tool", Tier)
@pytest.mark.parametrize("folder", FOLDERS[:5])
def test_arizuko_9_without_rules_the_tier_decides(folder: str, tool: Tier) -> None:
    ours = policy(folder)
    assert ours.decide(ask(tier=tool)) is (ours.tier <= tool)
    assert ours.visible("send", tool, NO_EFFECTS) is (ours.tier <= tool)
    assert ours.plain


def test_a_rule_of_the_group_shows_and_hides_a_tool_against_its_tier() -> None:
    more = policy("acme/eng/sre", {"acme/eng/sre": ["schedule_task(jid=web:*)"]})
    assert more.visible("schedule_task", Tier.WORLD, NO_EFFECTS)
    assert not more.decide(ask("schedule_task", Tier.WORLD))
    assert more.decide(ask("schedule_task", Tier.WORLD, jid="web:a"))

    less = policy("root", {"root": ["!reply"]})
    assert not less.visible("reply", Tier.WORKER, NO_EFFECTS)
    part = policy("root", {"root": ["!reply(jid=web:*)"]})
    assert part.visible("reply", Tier.WORKER, NO_EFFECTS)
    assert not part.decide(ask("reply", Tier.WORKER, jid="web:a"))


def test_what_a_group_is_denied_no_group_below_it_can_allow_itself() -> None:
    rules = {"acme": ["!send(jid=discord:*)"], "acme/eng": ["send"]}
    ours = policy("acme/eng", rules)
    assert not ours.decide(ask(jid="discord:1"))
    assert ours.decide(ask(jid="telegram:1"))
    assert not policy("acme/eng", {"acme": ["!send"], "acme/eng": ["send"]}).visible("send", Tier.AGENT, NO_EFFECTS)
    assert policy("other/ops", rules).decide(ask(jid="discord:1"))


def test_what_a_group_is_allowed_beyond_its_tier_is_its_own_alone() -> None:
    rules = {"acme/eng": ["schedule_task"]}
    assert policy("acme/eng", rules).decide(ask("schedule_task", Tier.WORLD))
    assert not policy("acme/eng/sre", rules).decide(ask("schedule_task", Tier.WORLD))


def test_rows_are_a_set_in_which_deny_wins_also_over_rules() -> None:
    allow = AclRow(id=1, principal="folder:acme/**", action="mcp:schedule_task")
    deny = AclRow(id=2, principal="folder:acme/eng", action="mcp:*", effect=AclEffect.DENY)
    assert policy("acme/eng", rows=(allow,)).decide(ask("schedule_task", Tier.WORLD))
    both = policy("acme/eng", {"acme/eng": ["schedule_task"]}, (deny, allow))
    assert not both.decide(ask("schedule_task", Tier.WORLD))
    assert not both.visible("schedule_task", Tier.WORLD, NO_EFFECTS)
    assert policy("acme/ops", rows=(deny, allow)).decide(ask("schedule_task", Tier.WORLD))


def test_an_allowing_row_does_not_open_what_a_rule_denies() -> None:
    allow = AclRow(id=1, principal="folder:acme/eng", action="mcp:send")
    ours = policy("acme/eng", {"acme/eng": ["!send"]}, (allow,))
    assert not ours.decide(ask())
    assert not ours.visible("send", Tier.AGENT, NO_EFFECTS)


def test_a_room_can_be_denied_something_and_gives_an_agent_nothing() -> None:
    deny = AclRow(id=1, principal="telegram:group/1", action="mcp:send_file", effect=AclEffect.DENY)
    allow = AclRow(id=2, principal="telegram:group/1", action="mcp:schedule_task")
    ours = policy("acme/eng", rows=(deny, allow))
    there = ("telegram:group/1",)
    assert not ours.decide(AccessRequest("send_file", Tier.WORKER, "acme/eng", also=there))
    assert ours.decide(AccessRequest("send_file", Tier.WORKER, "acme/eng"))
    assert not ours.decide(AccessRequest("schedule_task", Tier.WORLD, "acme/eng", also=there))
    assert not ours.visible("schedule_task", Tier.WORLD, NO_EFFECTS)


def test_a_role_gives_what_it_holds_to_its_members() -> None:
    facts = AccessRules(
        rows=(AclRow(id=1, principal="role:ops", action="admin"),), members={"folder:acme/eng": ["role:ops"]}
    )
    assert GroupPolicy("acme/eng", facts).decide(ask("set_web_host", Tier.ROOT))
    assert not GroupPolicy("acme/sales", facts).decide(ask("set_web_host", Tier.ROOT))


def test_explaining_names_everything_that_spoke_and_comes_to_the_same() -> None:
    deny = AclRow(id=7, principal="folder:acme/eng", action="mcp:send", effect=AclEffect.DENY, params="jid=irc:*")
    ours = policy("acme/eng", {"acme": ["!send(jid=discord:*)"], "acme/eng": ["send"]}, (deny,))
    verdict, steps = ours.explain(ask(jid="discord:1"))

    assert not verdict
    assert [(step.source, step.says) for step in steps] == [
        ("rule of acme", "deny"),
        ("rule of acme/eng", "allow"),
        ("acl 7", "–"),
        ("tier", "–"),
    ]


# Properties.

TOOLS = st.sampled_from(["send", "reply", "schedule_task"])
PARAMS = st.sampled_from(["", "(jid=a:*)", "(jid=b:1)", "(!jid)", "(thread)", "(jid=a:*", "(x=*, !jid)"])
RULES = st.builds(
    lambda bang, tool, params: bang + tool + params, st.sampled_from(["", "!"]), TOOLS | st.just("*"), PARAMS
)
LISTS = st.dictionaries(st.sampled_from(FOLDERS), st.lists(RULES, max_size=4), max_size=4)
PRINCIPALS = st.sampled_from(["folder:acme", "folder:acme/eng", "folder:acme/**", "role:a", "role:b", "**", "a:1"])
ROWS = st.lists(
    st.builds(
        AclRow,
        id=st.integers(1, 10_000),
        principal=PRINCIPALS,
        action=st.sampled_from(["mcp:send", "mcp:*", "admin", "*", "mcp:schedule_task"]),
        scope=st.sampled_from(["**", "acme/**", "acme", "acme/*", "other", "a/["]),
        effect=st.sampled_from(AclEffect),
        params=st.sampled_from(["", "jid=a:*", "!jid", "(("]),
        predicate=st.sampled_from(["", "platform=slack", "user"]),
        grant_option=st.booleans(),
        granted_by=st.sampled_from([OPERATOR, "role:a", "role:b", "folder:acme"]),
    ),
    max_size=6,
    unique_by=lambda each: each.id,
)
MEMBERS = st.dictionaries(
    st.sampled_from(["folder:acme", "folder:acme/eng", "role:a"]),
    st.lists(st.sampled_from(["role:a", "role:b"]), max_size=2),
)
ASKS = st.builds(
    AccessRequest,
    TOOLS,
    st.sampled_from(Tier),
    st.sampled_from(FOLDERS),
    st.dictionaries(st.sampled_from(["jid", "thread", "x"]), st.sampled_from(["a:1", "b:1", "", "c"]), max_size=2),
    st.dictionaries(st.sampled_from(["platform", "user"]), st.sampled_from(["slack", ""]), max_size=2),
    st.sampled_from([(), ("a:1",)]),
)


def facts(lists: dict[str, list[str]], rows: list[AclRow], members: dict[str, list[str]]) -> AccessRules:
    read = {each: tuple(map(parse, texts)) for each, texts in lists.items()}
    return AccessRules(rules=read, rows=list_valid_rows(rows, members), members=members)


@given(LISTS, ROWS, MEMBERS, ASKS, st.sampled_from(FOLDERS))
def test_evaluation_is_total_and_explained_as_it_is_decided(
    lists: dict[str, list[str]], rows: list[AclRow], members: dict[str, list[str]], wanted: AccessRequest, folder: str
) -> None:
    ours = GroupPolicy(folder, facts(lists, rows, members))
    verdict = ours.decide(wanted)
    assert verdict is ours.explain(wanted)[0]
    assert verdict is ours.decide(wanted)
    if verdict and (folder == ROOT_FOLDER or covers(folder, wanted.scope)):  # no call is about another part of the tree
        assert ours.visible(wanted.tool, wanted.tier, NO_EFFECTS)


@given(LISTS, ROWS, MEMBERS, ASKS, st.sampled_from(FOLDERS), st.sampled_from(FOLDERS), RULES)
def test_adding_a_denying_rule_never_widens(
    lists: dict[str, list[str]],
    rows: list[AclRow],
    members: dict[str, list[str]],
    wanted: AccessRequest,
    folder: str,
    where: str,
    rule: str,
) -> None:
    more = {**lists, where: [*lists.get(where, []), "!" + rule.removeprefix("!")]}
    before, after = (GroupPolicy(folder, facts(each, rows, members)) for each in (lists, more))
    assert before.decide(wanted) or not after.decide(wanted)
    assert before.visible(wanted.tool, wanted.tier, NO_EFFECTS) or not after.visible(
        wanted.tool, wanted.tier, NO_EFFECTS
    )


@given(LISTS, ROWS, MEMBERS, ASKS, st.sampled_from(FOLDERS), ROWS)
def test_adding_a_denying_row_never_widens(
    lists: dict[str, list[str]],
    rows: list[AclRow],
    members: dict[str, list[str]],
    wanted: AccessRequest,
    folder: str,
    added: list[AclRow],
) -> None:
    denials = [replace(each, id=each.id + 20_000, effect=AclEffect.DENY) for each in added]
    before = GroupPolicy(folder, facts(lists, rows, members))
    after = GroupPolicy(folder, facts(lists, [*rows, *denials], members))
    assert before.decide(wanted) or not after.decide(wanted)


@pytest.mark.slow
@given(ROWS, MEMBERS, ASKS)
def test_nobody_gains_by_a_grant_what_its_giver_could_not_give(
    rows: list[AclRow], members: dict[str, list[str]], wanted: AccessRequest
) -> None:
    """Without what a giver holds itself, what it gave on allows nothing."""
    of_operator = [each for each in rows if each.granted_by == OPERATOR and each.principal == "folder:acme/eng"]
    handed_on = [each for each in rows if each.granted_by != OPERATOR]
    with_them = GroupPolicy("acme/eng", facts({}, [*of_operator, *handed_on], {}))
    without = GroupPolicy("acme/eng", facts({}, of_operator, {}))
    assert with_them.decide(wanted) is without.decide(wanted)


@pytest.mark.parametrize("user", ["fake:user/ann", "chat:user/7"])
def test_what_one_identity_is_denied_by_a_condition_all_are(user: str) -> None:
    row = AclRow(id=1, principal="**", action="mcp:send", effect=AclEffect.DENY, predicate="user=chat:user/*")
    members = {"fake:user/ann": ["chat:user/7", "role:ops"], "chat:user/7": ["fake:user/ann"]}
    ours = GroupPolicy("acme/eng", AccessRules(rows=(row,), members=members))
    assert not ours.decide(replace(ask(), claims={"user": user}))
    assert ours.decide(replace(ask(), claims={"user": "fake:user/bob"}))


@pytest.mark.parametrize(
    ("principal", "predicate"), [("mail:user/eve", ""), ("mail:**", ""), ("**", "user=mail:user/*")]
)
def test_who_only_claims_a_name_is_denied_what_it_is_denied_and_given_nothing(principal: str, predicate: str) -> None:
    eve = make_untrusted("mail:user/eve")
    tool = AccessRequest("send", Tier.AGENT, "acme/eng", claims={"user": eve}, also=(eve,))
    scarce = replace(tool, tool="schedule_task", tier=Tier.WORLD)
    denies = AclRow(id=1, principal=principal, action="mcp:send", effect=AclEffect.DENY, predicate=predicate)
    allows = AclRow(id=2, principal=principal, action="mcp:schedule_task", predicate=predicate)

    assert policy("acme/eng").decide(tool)
    assert not policy("acme/eng", rows=(denies,)).decide(tool)
    assert not policy("acme/eng/sre", rows=(allows,)).decide(scarce)


SPEAKS = make_effects([Subject.SPEAK])


def speaking(room: str | None, effects: ToolEffects = SPEAKS) -> AccessRequest:
    return AccessRequest("say_it", Tier.AGENT, "acme/eng", {}, effects=effects, room=room)


def test_a_rule_about_a_subject_speaks_of_every_tool_that_declares_it() -> None:
    ours = policy("acme/eng", {"acme/eng": ["!speak(jid=discord:*)", "hold speak(jid=telegram:*)"]})
    assert not ours.decide(speaking("discord:1")) and ours.decide(speaking("telegram:1"))
    assert ours.list_holds(speaking("telegram:1")) and not ours.list_holds(speaking("web:1"))
    assert ours.decide(speaking("discord:1", NO_EFFECTS))


def test_a_call_whose_room_is_not_known_is_restricted_in_every_room_and_allowed_in_none() -> None:
    assert not policy("acme/eng", {"acme/eng": ["!speak(jid=discord:*)"]}).decide(speaking(None))
    deeper = policy("acme/eng/sre", {"acme/eng/sre": ["speak(jid=discord:*)"]})
    assert deeper.decide(speaking("discord:1")) and not deeper.decide(speaking(None))


def test_effects_that_are_presumed_restrict_and_never_allow() -> None:
    assert not policy("acme/eng", {"acme/eng": ["!spend"]}).decide(speaking("web:1", ANY_EFFECTS))
    assert policy("acme/eng/sre", {"acme/eng/sre": ["speak"]}).decide(speaking("web:1"))
    assert not policy("acme/eng/sre", {"acme/eng/sre": ["speak"]}).decide(speaking("web:1", ANY_EFFECTS))


def test_a_row_may_name_a_subject() -> None:
    denied = AclRow(
        id=1, principal="folder:acme/eng", action="mcp:speak", scope="**", effect=AclEffect.DENY, params="jid=discord:*"
    )
    ours = policy("acme/eng", rows=(denied,))
    assert not ours.decide(speaking("discord:1")) and ours.decide(speaking("web:1"))
    assert not ours.decide(speaking(None)) and ours.decide(speaking("discord:1", NO_EFFECTS))
    given = AclRow(id=1, principal="folder:acme/eng/sre", action="mcp:speak", scope="**", effect=AclEffect.ALLOW)
    deeper = policy("acme/eng/sre", rows=(given,))
    assert deeper.decide(speaking("web:1")) and not deeper.decide(speaking("web:1", ANY_EFFECTS))


def test_who_is_denied_a_subject_gives_none_of_its_tools_on() -> None:
    rows = (
        AclRow(
            id=1,
            principal="role:ops",
            action="mcp:send",
            scope="**",
            effect=AclEffect.ALLOW,
            grant_option=True,
            granted_by=OPERATOR,
        ),
        AclRow(id=2, principal="role:ops", action="mcp:speak", scope="**", effect=AclEffect.DENY, granted_by=OPERATOR),
    )
    wanted = AclRow(
        id=3, principal="folder:acme", action="mcp:send", scope="**", effect=AclEffect.ALLOW, granted_by="role:ops"
    )
    assert "denied" in find_refusal_reason(rows, {}, "role:ops", wanted)
