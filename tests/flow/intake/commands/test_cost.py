"""What commands cost: nothing to a message that is none, and bounded work whatever a conversation has behind it."""

from collections.abc import Mapping
from functools import partial

import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.groups import add_defaults
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.flow.intake.message_acceptance import accept
from gatepost.messages.inbound import Inbound
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.money import costs
from gatepost.store.money.costs import NewCost
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.sessions import sessions
from gatepost_testing.counting import CountingDb

NOON = 1_800_000_000_000_000
ANN = "fake:user/ann"
KINDS: Mapping[str, ChannelKind] = {
    "fake": ChannelKind(name="fake", make=lambda deps: pytest.fail("not made"), features=frozenset())
}


class CommandSender:
    """Writes messages to one room through one cache."""

    def __init__(self, db: Db) -> None:
        add_defaults(db, NOON)
        users.add(db, ANN, "", NOON)
        users.add_member(db, ANN, "home", "test", NOON)
        self._db, self._rules, self._count = db, RuleCache(), 0

    def send(self, text: str) -> CountingDb:
        self._count += 1
        inbound = Inbound(address="fake:room/1", platform_id=f"m{self._count}", sender=ANN, text=text)
        arrival = make_arrival("fake", inbound, IntakeLimits(), NOON, 0)
        counting = CountingDb(self._db)
        accept(counting, ChannelInstances(KINDS), arrival, NOON + self._count, rules=self._rules)
        return counting

    def count_statements(self, text: str) -> int:
        """Of one message, once everything that can be kept is."""
        return [self.send(text).statements for _ in range(3)][-1]


def test_a_message_costs_the_same_whether_it_looks_like_a_command_or_not(db: Db) -> None:
    sender = CommandSender(db)
    plain = sender.count_statements("hello")
    assert sender.count_statements("/review the last change") == plain
    assert sender.count_statements("stop that, please") == plain


@pytest.mark.slow
@pytest.mark.parametrize("text", ["/status", "/usage", "/model", "/pin", "/help"])
def test_what_is_only_shown_reads_as_little_in_a_long_conversation(db: Db, text: str) -> None:
    sender = CommandSender(db)
    sender.send("hello")
    before = sender.send(text)
    (session,) = sessions.list_open(db)
    for number in range(300):
        sender.send(f"message {number}")
        new = NewCost(key=str(number), at=NOON, folder="home", model="m", micro=1, session_id=session.id)
        costs.record_cost(db, new, "model", NOON)
    after = sender.send(text)

    assert after.statements == before.statements
    assert after.read_rows <= before.read_rows + 2


@pytest.mark.sqlite(reason="reads the plans of SQLite")
def test_what_a_conversation_costs_is_summed_from_an_index_alone(db: Db) -> None:
    query = partial(db.rows, "EXPLAIN QUERY PLAN SELECT SUM(micro) FROM costs WHERE session_id = ? AND at >= ?")
    plan = " ".join(str(row[-1]) for row in query(("s", 0)))
    assert "USING COVERING INDEX costs_session" in plan
