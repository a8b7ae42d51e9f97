"""A gateway that has lost touch with its database calls nobody: whoever asks is told, and nothing stays set aside."""

import asyncio
from typing import Any

from gatepost.core.errors import Unavailable
from gatepost.egress import call_payments
from gatepost.egress.call_payments import CallPayments
from gatepost.egress.contract import CallCost, ReservationHandle, Spender
from gatepost.egress.upstream import Bill
from gatepost.store.money.costs import TokenCounts
from gatepost_testing.waiting import PATIENCE_S

from .conftest import FakePurse, connect_line

ASK: dict[str, Any] = {"model": "known-1", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
MESSAGES = "/anthropic/v1/messages"


async def test_a_model_is_not_called_and_nothing_is_set_aside(way: Any) -> None:
    way.contact.held = False
    answer = await way.post(MESSAGES, ASK)
    assert answer.status == 503 and int(answer.headers["retry-after"]) >= 1
    assert "lost touch with the database" in answer.text
    assert way.vendor.heads == [] and way.purse.held == {}


async def test_a_model_is_not_called_when_contact_is_lost_on_the_way_and_the_call_is_free(way: Any) -> None:
    way.purse.slow = asyncio.Event()
    asking = asyncio.create_task(way.post(MESSAGES, ASK))
    await asyncio.wait_for(way.purse.asked.wait(), PATIENCE_S)
    way.contact.held = False
    way.purse.slow.set()
    answer = await asking
    assert answer.status == 503 and "retry-after" in answer.headers
    assert way.vendor.heads == []
    assert way.purse.booked == [(0, TokenCounts())]


async def test_no_host_is_reached_by_any_way(way: Any) -> None:
    await way.allow("localhost", way.host.port)
    await way.allow("localhost", way.safe.port)
    plain = f"GET http://localhost:{way.host.port}/ HTTP/1.1\r\n\r\n".encode()
    forward = f"GET /to/localhost:{way.safe.port}/ HTTP/1.1\r\nhost: x\r\n\r\n".encode()
    assert (await way.send(plain)).status == 200
    way.contact.held = False
    for request in (plain, forward, connect_line(way.host.port)):
        answer = await way.send(request)
        assert answer.status == 503 and int(answer.headers["retry-after"]) >= 1
    assert len(way.host.heads) == 1 and way.safe.heads == []
    way.contact.held = True
    assert (await way.send(plain)).status == 200


class AwayPurse(FakePurse):
    away = 2  # tries that find no store

    async def settle(self, held: ReservationHandle, cost: CallCost | None) -> None:
        if self.away:
            self.away -= 1
            raise Unavailable("the store", "it is away")
        await super().settle(held, cost)


class Priced:
    model, worst, tokens = "known-1", 100, TokenCounts(output=1)

    def actual(self, bill: Bill) -> CallCost:
        return CallCost(7, TokenCounts(output=1))


async def test_a_call_that_ends_while_the_store_is_away_is_settled_when_it_is_back(monkeypatch: Any) -> None:
    monkeypatch.setattr(call_payments, "LATER_S", 0.01)
    purse = AwayPurse(left=100)
    till = CallPayments(purse)
    async with till.paid(Spender("acme", "s-1", None), Priced()):
        assert purse.left == 0
    await asyncio.wait_for(purse.settled.wait(), PATIENCE_S)
    assert purse.booked == [(7, TokenCounts(output=1))] and purse.left == 93
    await till.close()
