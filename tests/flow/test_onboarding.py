"""Entrances on a store: who comes in by themselves, who waits, and that nobody else does."""

import json

import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.core.clock import DAY
from gatepost.flow import onboarding
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.groups import add_defaults
from gatepost.flow.intake.accepted_message import IntakeResult
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.flow.intake.message_acceptance import accept
from gatepost.flow.onboarding import Applicant, JoinResult
from gatepost.flow.people import newcomer_groups
from gatepost.messages.inbound import Inbound
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.people import newcomers, users
from gatepost.store.people.newcomers import NewcomerState
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms import direct_rooms, rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups
from gatepost_testing.counting import CountingDb

NOON = 1_800_000_000_000_000
EVE, DIRECT = "fake:user/eve", "fake:direct/eve"
KIND = ChannelKind(name="fake", make=lambda deps: pytest.fail("not made"), features=frozenset())


@pytest.fixture(autouse=True)
def acme(db: Db) -> None:
    add_defaults(db, NOON)
    groups.add(db, "acme", "Acme", "", NOON)


def open_entrance(db: Db, per_day: int = 1, senders: str = "*") -> None:
    newcomers.add_entrance(db, "fake", senders, "acme", per_day, "operator", NOON)


def join(db: Db, sender: str = EVE, now: int = NOON, instance: str = "fake", direct: bool = True) -> JoinResult:
    who = Applicant(sender=sender, name="Eve", instance=instance, address=DIRECT, direct=direct)
    return onboarding.ask(db, newcomers.list_entrances(db), who, now)


def states(db: Db) -> list[NewcomerState]:
    return [each.state for each in newcomers.list_all(db)]


class Platform:
    """Hands messages to intake's transaction, through one cache."""

    def __init__(self, db: Db, before: "Platform | None" = None) -> None:
        """`before`: whose messages came earlier. Its cache counts no more: only the store's writer notices changes."""
        self._db, self._rules = db, RuleCache()
        self._count: int = before._count if before else 0
        self.statements = 0

    def write(self, text: str, sender: str = EVE, now: int = NOON, **given: object) -> IntakeResult:
        self._count += 1
        values = {"address": DIRECT, "platform_id": f"m{self._count}", "sender": sender, "text": text, "direct": True}
        arrival = make_arrival("fake", Inbound(**values | given), IntakeLimits(), now, 0)  # type: ignore[arg-type]
        counting = CountingDb(self._db)
        result = accept(counting, ChannelInstances({"fake": KIND}), arrival, now, rules=self._rules)
        self.statements = counting.statements
        return result

    def notices(self) -> list[str]:
        return [json.loads(row[0])["text"] for row in self._db.rows("SELECT payload FROM outbox ORDER BY id")]


def test_the_limit_of_a_day_lets_in_and_the_rest_waits_its_turn(db: Db) -> None:
    open_entrance(db, per_day=2)
    results = [join(db, f"fake:user/{number}", NOON + number) for number in range(5)]
    assert [each.reason for each in results] == ["joined", "joined", "join_queued", "join_queued", "join_queued"]
    assert [each.joined for each in results] == [True, True, False, False, False]
    assert onboarding.admit_queued(db, NOON + 10) == 0
    assert onboarding.admit_queued(db, NOON + DAY) == 2
    assert states(db) == [NewcomerState.ADMITTED] * 4 + [NewcomerState.QUEUED]
    assert join(db, "fake:user/new", NOON + DAY).reason == "join_queued"  # nobody overtakes


def test_without_a_limit_of_a_day_somebody_allows_each(db: Db) -> None:
    open_entrance(db, per_day=0)
    assert join(db).reason == "join_queued"
    assert onboarding.admit_queued(db, NOON + DAY) == 0
    (newcomer,) = newcomers.list_all(db)
    assert newcomers.admit(db, newcomer.id, "operator", NOON) is not None
    assert newcomers.admit(db, newcomer.id, "operator", NOON) is None
    assert newcomers.count_admitted(db, 1, NOON) == 0  # a person's word does not use up the limit


def test_the_queue_has_a_bound(db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onboarding, "MOST_QUEUED", 3)
    open_entrance(db, per_day=0)
    reasons = [join(db, f"fake:user/{number}").reason for number in range(5)]
    assert reasons == ["join_queued"] * 3 + ["join_queue_full"] * 2
    assert len(states(db)) == 3


def test_a_group_has_a_bounded_number_of_newcomers(db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onboarding, "MOST_BELOW", 1)
    open_entrance(db, per_day=10)
    assert [join(db, f"fake:user/{number}").reason for number in range(2)] == ["joined", "join_queued"]
    assert onboarding.admit_queued(db, NOON + DAY) == 0


@pytest.mark.parametrize(
    ("sender", "instance", "direct"),
    [
        ("fake:user/eve@evil.example", "fake", True),
        ("fake:user/eve@acme.example", "other", True),
        ("fake:user/eve@acme.example", "fake", False),
        ("fake:user/*@acme.example", "fake", True),
    ],
)
def test_an_entrance_is_for_its_senders_on_its_channel_in_direct_chats(
    db: Db, sender: str, instance: str, direct: bool
) -> None:
    open_entrance(db, senders="fake:user/*@acme.example")
    assert join(db, sender, instance=instance, direct=direct) == JoinResult(
        False, "join_without_code", onboarding.NO_CODE
    )
    assert join(db, "fake:user/eve@acme.example").joined


def test_who_is_blocked_does_not_come_in(db: Db) -> None:
    open_entrance(db)
    acl.put(db, AclRow(id=0, principal=EVE, action="interact", scope="acme", effect=AclEffect.DENY), NOON)
    assert join(db).reason == "join_without_code" and states(db) == []


def test_who_asked_before_is_answered_by_what_became_of_it(db: Db) -> None:
    open_entrance(db, per_day=0)
    join(db)
    assert join(db).said == onboarding.KNOWN[NewcomerState.QUEUED]
    newcomers.deny(db, newcomers.list_all(db)[0].id, "operator", "")
    assert join(db).said == ""
    assert len(states(db)) == 1


def test_a_stranger_is_greeted_once_a_day_where_there_is_an_entrance(db: Db) -> None:
    groups.remove(db, "home")  # no route leads anywhere
    platform = Platform(db)
    assert platform.write("hello").receipt.state == "refused" and platform.notices() == []
    open_entrance(db)
    platform = Platform(db, platform)
    first = platform.write("hello")
    assert (first.receipt.state, first.receipt.reason, first.notified) == ("refused", "unknown_sender_strict", True)
    platform.write("anybody?")
    assert platform.notices() == [onboarding.GREETING]
    platform.write("hello", now=NOON + DAY)
    assert platform.notices() == [onboarding.GREETING] * 2
    assert newcomers.list_all(db) == [] and users.get(db, EVE) is None


def test_a_member_of_another_agent_who_writes_directly_is_not_called_unknown(db: Db) -> None:
    open_entrance(db)
    groups.add(db, "club", "Club", "scripted", NOON)
    users.add(db, EVE, "Eve", NOON)
    users.add_member(db, EVE, "club", "test", NOON)
    platform = Platform(db)
    platform.write("hello")
    platform.write("anybody?")
    assert platform.notices() == [onboarding.KNOWN_ELSEWHERE.format("Club")]


@pytest.mark.parametrize(
    ("person", "name"),
    [
        ("Ann Lee", "Ann Lee"),
        ("  Zoë\u202e#42 ", "Zoë 42"),
        ("🦊", ""),
        ("x" * 100, "x" * 40),
        ("a\nb](http://c)", "a b http c"),
    ],
)
def test_the_group_of_a_newcomer_is_named_like_the_person(person: str, name: str) -> None:
    assert newcomer_groups.make_group_name(person) == name


def test_a_stranger_in_a_strict_room_is_greeted_and_one_in_another_is_not(db: Db) -> None:
    open_entrance(db)
    platform = Platform(db)
    assert platform.write("hello").receipt.reason == "unknown_sender_strict"
    assert platform.notices() == [onboarding.GREETING]
    platform.write("hello", "fake:user/2", direct=False)
    platform.write("hello", "fake:user/3", event="edit:1")
    rooms.add(db, "fake", "fake:open/1", "", True, RoomPolicy.PUBLIC, NOON)
    assert platform.write("hello", "fake:user/4", address="fake:open/1").receipt.state == "queued"
    assert platform.notices() == [onboarding.GREETING]


def test_who_is_blocked_or_asked_before_is_not_greeted(db: Db) -> None:
    open_entrance(db, per_day=0)
    platform = Platform(db)
    assert platform.write("/join").receipt.reason == "join_queued"
    platform.write("hello?")
    acl.put(db, AclRow(id=0, principal="fake:user/2", action="interact", scope="home", effect=AclEffect.DENY), NOON)
    assert platform.write("hello", "fake:user/2").receipt.reason == "denied_by_the_access_list"
    assert platform.notices() == [onboarding.QUEUED]


def test_an_entrance_costs_a_message_that_is_let_in_no_statement(db: Db) -> None:
    users.add(db, EVE, "Eve", NOON)
    users.add_member(db, EVE, "home", "test", NOON)
    platform = Platform(db)
    platform.write("hello")  # the room and the session are made

    def count(again: Platform) -> int:
        for _ in range(3):
            assert again.write("hello").receipt.state == "queued"
        return again.statements

    second = Platform(db, platform)
    before = count(second)
    open_entrance(db)
    assert count(Platform(db, second)) == before


def test_without_an_entrance_a_stranger_costs_no_statement_more(db: Db) -> None:
    platform = Platform(db)
    platform.write("hello")
    platform.write("hello")
    before = platform.statements
    platform.write("hello", direct=False)
    assert before - platform.statements == 1  # whoever reads in a direct room is recorded


def test_the_command_alone_without_an_entrance_asks_for_a_code(db: Db) -> None:
    platform = Platform(db)
    result = platform.write("/join@bot")
    assert (result.receipt.state, result.receipt.reason, result.stranger) == ("refused", "join_without_code", True)
    assert platform.notices() == [onboarding.NO_CODE]


def test_a_removed_group_frees_its_newcomer_and_a_removed_parent_all(db: Db) -> None:
    open_entrance(db, per_day=5)
    join(db)
    (newcomer,) = newcomers.list_all(db)
    groups.add(db, "acme/eve", "", "", NOON)
    assert newcomers.settle(db, newcomer.id, "acme/eve") and not newcomers.settle(db, newcomer.id, "acme/eve")
    groups.remove(db, "acme/eve")
    assert join(db).joined
    groups.remove(db, "acme")
    assert newcomers.list_all(db) == [] and newcomers.list_entrances(db) == ()


def test_who_may_let_them_in_is_told_once_a_day_that_somebody_waits(db: Db) -> None:
    open_entrance(db, per_day=0)
    users.add(db, "fake:user/boss", "Boss", NOON)
    users.add_role(db, "fake:user/boss", UserRole.ADMIN, "acme", "test", NOON)
    platform = Platform(db)
    assert platform.write("/join", "fake:user/1").woken == ()  # nobody can be reached
    direct_rooms.add(db, "fake:user/boss", "fake", "fake:direct/boss", NOON)
    for number in range(2, 4):
        assert platform.write("/join", f"fake:user/{number}").woken == (("fake", "fake:direct/boss"),)
    told = [text for text in platform.notices() if text != onboarding.QUEUED]
    assert told == [onboarding.WAITS.format("acme")]
    assert newcomers.count_waiting(db) == 3
