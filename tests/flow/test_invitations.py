"""Invitations on a store: they let in as many as they may, and nobody else."""

import asyncio

import pytest

from gatepost.core.clock import DAY, HOUR
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow import invitations, onboarding
from gatepost.flow.codes import INVITATION
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.groups import add_defaults
from gatepost.flow.intake import routing
from gatepost.flow.invitations import NewInvitation
from gatepost.flow.onboarding import Applicant, JoinResult
from gatepost.flow.people import newcomer_groups
from gatepost.flow.schedule.prototype_tasks import SeedPlace, parse_seed
from gatepost.flow.schedule.task_changes import read_rules
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import identities, newcomers, pairing_codes, users
from gatepost.store.people.newcomers import Newcomer, NewcomerState
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, audit, tokens
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms import routes
from gatepost.store.schedule import tasks
from gatepost.store.sessions import groups

NOON = 1_800_000_000_000_000
EVE, BOB = "fake:user/eve", "fake:user/bob"


@pytest.fixture(autouse=True)
def acme(db: Db) -> None:
    add_defaults(db, NOON)
    groups.add(db, "acme", "Acme", "", NOON)


def issue(db: Db, uses: int = 1, ends: int | None = NOON + DAY, own_group: bool = False) -> str:
    new = NewInvitation(folder="acme", uses=uses, expires_at=ends, own_group=own_group, created_by="operator")
    return invitations.issue(db, new, NOON).code


def make_applicant(sender: str = EVE, direct: bool = True, address: str = "fake:direct/1") -> Applicant:
    return Applicant(sender=sender, name="Eve", instance="fake", address=address, direct=direct)


def send(db: Db, shown: str, sender: str = EVE, now: int = NOON, direct: bool = True) -> JoinResult:
    code = INVITATION.find(shown)
    assert code is not None
    return invitations.accept(db, code, make_applicant(sender, direct), now)


def members(db: Db) -> list[str]:
    return [row[0] for row in db.rows("SELECT user_id FROM group_members WHERE folder = 'acme' ORDER BY user_id")]


def test_a_code_makes_its_sender_a_member_once(db: Db) -> None:
    code = issue(db)
    assert INVITATION.parse(code) not in str(db.rows("SELECT * FROM tokens"))
    done = send(db, code)
    assert done.accepted and "Acme" in done.said
    assert users.get_roles(db, EVE).member_of == ("acme",)
    again = send(db, code, BOB)
    assert (again.accepted, again.said) == (False, invitations.NOT_VALID)
    assert members(db) == [EVE]


def read(db: Db, shown: str, sender: str = EVE) -> invitations.InvitationOffer:
    return invitations.read_offer(db, INVITATION.parse(shown), sender, NOON)


def test_whoever_accepted_it_reads_so_until_what_it_gave_is_gone(db: Db) -> None:
    code = issue(db, uses=2)
    assert read(db, code).accepted == "" and read(db, code).group == "Acme"
    send(db, code)
    assert "Acme" in read(db, code).accepted and read(db, code, BOB).group == "Acme"
    send(db, code, BOB)
    assert read(db, code, "fake:user/mallory").obstacle == invitations.NOT_VALID
    other = issue(db)
    assert "already" in read(db, other).obstacle and read(db, other).accepted == ""
    db.run("DELETE FROM group_members WHERE user_id = ?", (EVE,))
    assert read(db, code).obstacle == invitations.NOT_VALID and read(db, code).accepted == ""


def test_whoever_was_given_a_group_by_it_reads_how_that_stands(db: Db) -> None:
    code = issue(db, own_group=True)
    send(db, code)
    assert read(db, code).accepted == onboarding.KNOWN[NewcomerState.ADMITTED]
    assert read(db, code, BOB).obstacle == invitations.NOT_VALID


@pytest.mark.parametrize("form", ["{}", "  {} \n", "{} "])
def test_a_code_may_be_written_in_several_ways(db: Db, form: str) -> None:
    code = issue(db)
    assert INVITATION.find(form.format(code.lower())) == INVITATION.parse(code)
    assert INVITATION.parse(code.removeprefix("GI-").replace("-", "")) == INVITATION.parse(code)


@pytest.mark.parametrize("text", ["", "hello", "GI-1234", "GP-AAAA-BBBB-CCCC", "see GI-AAAA-BBBB-CCCC-DDDD"])
def test_other_words_are_no_code(text: str) -> None:
    assert INVITATION.find(text) is None


async def test_arizuko_38_of_two_concurrent_acceptances_of_the_last_use_one_wins(store: SqliteStore) -> None:
    await store.write(add_defaults, NOON)
    await store.write(groups.add, "acme", "Acme", "", NOON)
    new = NewInvitation(folder="acme", uses=1, expires_at=None, created_by="operator")
    code = INVITATION.parse((await store.write(invitations.issue, new, NOON)).code)
    tries = (
        store.write(invitations.accept, code, make_applicant(f"fake:user/{number}"), NOON, lane=str(number))
        for number in range(8)
    )
    results = await asyncio.gather(*tries)
    assert sorted(each.accepted for each in results) == [False] * 7 + [True]
    assert {each.said for each in results if not each.accepted} == {invitations.NOT_VALID}
    assert len(await store.read(members)) == 1


def test_arizuko_38_unknown_expired_used_up_and_revoked_are_refused_with_the_same_words(db: Db) -> None:
    used, revoked, late = issue(db), issue(db), issue(db, ends=NOON + 1)
    send(db, used, BOB)
    for each in tokens.list_all(db):
        if each.uses_left and each.expires_at != NOON + 1:
            tokens.revoke(db, each.id, NOON)
    codes = [used, revoked, late, "GI-2222-3333-4444-5555"]
    answers = [send(db, code, f"fake:user/{number}", NOON + 1) for number, code in enumerate(codes)]
    assert [(each.accepted, each.reason, each.said) for each in answers] == [
        (False, "invitation_not_valid", invitations.NOT_VALID)
    ] * 4
    assert members(db) == [BOB]


def test_a_guesser_is_limited_and_recorded(db: Db) -> None:
    code = issue(db)
    answers = [send(db, "GI-2222-3333-4444-5555") for _ in range(7)]
    assert [each.said for each in answers] == [invitations.NOT_VALID] * 4 + [invitations.LIMITED, "", ""]
    assert not send(db, code).accepted  # the right one comes too late
    assert pairing_codes.count_guesses(db, EVE, NOON) == 5  # and pairing codes are as limited
    rows = db.rows("SELECT actor, verdict FROM audit WHERE action = 'invite.accept'")
    assert rows == [(EVE, "refused")] * 5
    assert send(db, code, BOB).accepted
    assert send(db, issue(db), EVE, NOON + HOUR).accepted
    assert audit.get_head(db)


def test_who_may_write_there_already_uses_nothing_up(db: Db) -> None:
    code = issue(db)
    users.add(db, BOB, "Bob", NOON)
    users.add_role(db, BOB, UserRole.ADMIN, "acme", "test", NOON)
    assert send(db, code, BOB).reason == "invitation_not_needed"
    assert tokens.list_all(db)[0].uses_left == 1 and members(db) == []


def test_who_is_blocked_is_not_let_in_and_uses_nothing_up(db: Db) -> None:
    code = issue(db)
    acl.put(db, AclRow(id=0, principal=EVE, action="interact", scope="acme", effect=AclEffect.DENY), NOON)
    assert send(db, code).said == invitations.NOT_VALID
    assert tokens.list_all(db)[0].uses_left == 1 and members(db) == []


def test_the_person_is_the_member_and_not_one_of_her_identities(db: Db) -> None:
    users.add(db, BOB, "Bob", NOON)
    identities.add(db, EVE, BOB, "test", NOON)
    assert send(db, issue(db), EVE).accepted
    assert members(db) == [BOB]


def test_an_invitation_to_a_group_of_her_own_waits_for_the_group(db: Db) -> None:
    code = issue(db, own_group=True)
    done = send(db, code)
    assert done.accepted and done.joined
    (newcomer,) = newcomers.list_all(db)
    assert (newcomer.sender, newcomer.parent, newcomer.state) == (EVE, "acme", NewcomerState.ADMITTED)
    assert members(db) == [] and tokens.list_all(db)[0].uses_left == 0


def test_a_second_one_for_the_same_person_is_not_used(db: Db) -> None:
    assert send(db, issue(db, own_group=True)).joined
    code = issue(db, own_group=True)
    assert send(db, code).reason == "join_admitted"
    assert send(db, code, BOB).joined


@pytest.mark.parametrize(
    ("sender", "direct"), [(EVE, False), ("fake:user/*", True), ('fake:user/"', True), ("fake:a|b", True)]
)
def test_a_group_of_her_own_needs_a_direct_chat_and_no_pattern(db: Db, sender: str, direct: bool) -> None:
    assert send(db, issue(db, own_group=True), sender, direct=direct).reason == "invitation_not_direct"
    assert newcomers.list_all(db) == [] and tokens.list_all(db)[0].uses_left == 1


def test_an_invitation_lets_in_who_waits_or_was_denied(db: Db) -> None:
    assert send(db, issue(db, own_group=True)).joined
    (newcomer,) = newcomers.list_all(db)
    newcomers.fail(db, newcomer.id, "a full disk")
    assert newcomers.deny(db, newcomer.id, "operator", "") is not None
    assert send(db, issue(db, own_group=True)).joined
    assert [each.state for each in newcomers.list_all(db)] == [NewcomerState.ADMITTED]


def issue_by_agent(db: Db) -> str:
    made_by = f"{routing.MADE_BY}acme"
    new = NewInvitation(folder="acme", uses=1, expires_at=None, own_group=True, created_by=made_by)
    return invitations.issue(db, new, NOON).code


def ask_at_entrance(db: Db) -> Newcomer:
    entrance = newcomers.add_entrance(db, "fake", "*", "acme", 0, "operator", NOON)
    asked = onboarding.add(db, make_applicant(), "acme", NewcomerState.QUEUED, NOON, entrance_id=entrance.id)
    assert asked is not None
    return asked


@pytest.mark.parametrize("by", ["operator", BOB])
def test_an_agents_invitation_does_not_let_in_who_was_turned_down(db: Db, by: str) -> None:
    assert newcomers.deny(db, ask_at_entrance(db).id, by, "no") is not None
    result = send(db, issue_by_agent(db))
    assert (result.accepted, result.reason, result.said) == (False, "join_denied", "")
    assert [each.uses_left for each in tokens.list_all(db)] == [1]
    assert send(db, issue(db, own_group=True)).joined  # the operator's does


@pytest.mark.parametrize(("agents", "made_by"), [(True, f"{routing.MADE_BY}acme"), (False, "gatepost")])
def test_who_waits_at_an_entrance_and_is_invited_gets_the_route_of_whoever_invited_her(
    db: Db, agents: bool, made_by: str
) -> None:
    ask_at_entrance(db)
    assert send(db, issue_by_agent(db) if agents else issue(db, own_group=True)).joined
    (admitted,) = newcomers.list_in_state(db, NewcomerState.ADMITTED, 10)
    assert admitted.entrance_id is None
    newcomer_groups.settle(db, ChannelInstances({}), admitted, "acme/eve", "eve", NOON)
    assert [route.created_by for route in routes.list_all(db) if route.folder == "acme/eve"] == [made_by]


@pytest.mark.parametrize("rule", ["!schedule_task", "hold schedule_task", ""])
def test_a_newcomers_group_gets_no_task_that_the_agent_of_the_prototype_may_not_schedule(db: Db, rule: str) -> None:
    assert send(db, issue(db, own_group=True)).joined
    (admitted,) = newcomers.list_all(db)
    if rule:
        acl.add_rule(db, "acme", rule, "operator", NOON)
    place = SeedPlace(folder="acme/eve", instance="fake", address=admitted.address, created_by="agent:acme")
    text = b"[settings]\nwindow_messages = 7\n[[task]]\nprompt = 'x'\nevery = '2h'\n"
    seed = parse_seed(text, place, read_rules(Config()), NOON)
    newcomer_groups.settle(db, ChannelInstances({}), admitted, "acme/eve", "eve", NOON, seed)
    group = groups.get(db, "acme/eve")
    assert group is not None and group.window_messages == 7
    assert len(tasks.list_page(db, "acme/eve", "", 10)) == (0 if rule else 1)


def test_who_may_write_there_by_the_access_list_uses_nothing_up(db: Db) -> None:
    acl.put(
        db,
        AclRow(id=0, principal=EVE, action="interact", scope="acme", effect=AclEffect.ALLOW, granted_by=acl.OPERATOR),
        NOON,
    )
    assert send(db, issue(db)).reason == "invitation_not_needed"
    assert [each.uses_left for each in tokens.list_all(db)] == [1]


@pytest.mark.parametrize("scope", [acl.ANYWHERE, "acme/eve", "acme"])
def test_a_newcomer_who_was_blocked_meanwhile_gets_no_group_and_hears_nothing(db: Db, scope: str) -> None:
    assert send(db, issue(db, own_group=True)).joined
    (admitted,) = newcomers.list_all(db)
    newcomers.set_folder(db, admitted.id, "acme/eve")
    (admitted,) = newcomers.list_all(db)
    acl.put(
        db,
        AclRow(id=0, principal=EVE, action="interact", scope=scope, effect=AclEffect.DENY, granted_by=acl.OPERATOR),
        NOON,
    )
    with pytest.raises(Refused, match="shuts them out") as refused:
        newcomer_groups.settle(db, ChannelInstances({}), admitted, "acme/eve", "eve", NOON)
    assert groups.get(db, "acme/eve") is None and users.get_roles(db, EVE).member_of == ()
    newcomer_groups.record_failure(db, ChannelInstances({}), admitted, str(refused.value), NOON)
    assert [each.state for each in newcomers.list_all(db)] == [NewcomerState.FAILED]
    assert db.rows("SELECT * FROM outbox") == []


def test_a_malformed_invitation_is_not_made(db: Db) -> None:
    new = NewInvitation(folder="acme", uses=1, expires_at=None, created_by="operator")

    with pytest.raises(Invalid, match="root is for owners"):
        invitations.issue(db, replace(new, folder="root"), NOON)
    with pytest.raises(NotFound, match="nowhere"):
        invitations.issue(db, replace(new, folder="nowhere"), NOON)
    for uses in (0, -1, 1001):
        with pytest.raises(Invalid, match="between 1 and 1000"):
            invitations.issue(db, replace(new, uses=uses), NOON)
    with pytest.raises(Invalid, match="in the past"):
        invitations.issue(db, replace(new, expires_at=NOON), NOON)


def test_too_many_invitations_are_refused_with_the_way_out(db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST_IN_WORLD", 1)
    issue(db)
    with pytest.raises(Refused, match="revoke some first"):
        issue(db)
