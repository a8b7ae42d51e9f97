"""A message of a paired identity costs as many statements as one of somebody who has no other."""

from collections.abc import Mapping

import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.groups import add_defaults
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.flow.intake.message_acceptance import accept
from gatepost.messages.inbound import Inbound
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.rooms.routes import Route
from gatepost_testing.counting import CountingDb

NOON = 1_800_000_000_000_000
ANN, CHAT = "fake:user/ann", "fake:user/7"
KINDS: Mapping[str, ChannelKind] = {
    "fake": ChannelKind(name="fake", make=lambda deps: pytest.fail("not made"), features=frozenset())
}


class Sender:
    """Writes messages to one room through one cache."""

    def __init__(self, db: Db) -> None:
        self._db, self._rules, self._count = db, RuleCache(), 0

    def count_statements(self, sender: str, first: int = 0) -> int:
        """Of one message, once everything that can be kept is. `first`: how many were sent by others before."""
        self._count += first
        return [self._write(sender) for _ in range(3)][-1]

    def _write(self, sender: str) -> int:
        self._count += 1
        inbound = Inbound(address="fake:room/1", platform_id=f"m{self._count}", sender=sender, text="hello")
        arrival = make_arrival("fake", inbound, IntakeLimits(), NOON, 0)
        counting = CountingDb(self._db)
        result = accept(counting, ChannelInstances(KINDS), arrival, NOON + self._count, rules=self._rules)
        assert result.receipt.state == "queued"
        return counting.statements


def test_identities_cost_no_statement(db: Db) -> None:
    add_defaults(db, NOON)
    for person in (ANN, "fake:user/bob"):
        users.add(db, person, "", NOON)
        users.add_member(db, person, "home", "test", NOON)
    identities.add(db, CHAT, ANN, "test", NOON)
    sender = Sender(db)
    assert sender.count_statements(CHAT) == sender.count_statements(ANN) == sender.count_statements("fake:user/bob")


def test_rooms_that_ask_and_routes_that_name_senders_cost_no_statement_where_a_route_leads(db: Db) -> None:
    add_defaults(db, NOON)
    users.add(db, ANN, "", NOON)
    users.add_member(db, ANN, "home", "test", NOON)
    identities.add(db, CHAT, ANN, "test", NOON)
    rooms.add(db, "fake", "fake:room/1", "", False, RoomPolicy.STRICT, NOON)
    before = Sender(db).count_statements(CHAT)
    rooms.set_policy(db, "fake", "fake:room/1", RoomPolicy.REQUEST_APPROVAL)
    routes.add(db, Route(match="sender=fake:user/eve", target="drop", created_by="test", created_at=NOON))
    assert Sender(db).count_statements(CHAT, first=10) == before
