"""Bells that are rung on one gateway are heard on the others."""

import asyncio

import pytest

from gatepost.core.event_bus import Bell, EventBus
from gatepost.flow.gateways.membership import HELLO, EventRelay
from gatepost_testing.waiting import PATIENCE_S

Notice = tuple[str, ...]


class SharedExchange:
    """What several gateways would see, in this process."""

    def __init__(self) -> None:
        self.said: list[Notice] = []

    def post(self, notice: Notice) -> None:
        self.said.append(notice)

    def start(self) -> None: ...

    async def stop(self) -> None: ...


def ring_everything(events: EventBus) -> None:
    events.session("s-1")
    events.room("fake", "fake:1")
    events.change("fake", "fake:1")
    events.channel("fake")
    events.tools()
    events.tools("acme")
    events.group("acme")
    events.commands("b")
    for ring in (events.requests, events.newcomers, events.tasks, events.errands, events.operation, events.logins):
        ring()
    events.gateways()


def record(events: EventBus) -> list[object]:
    heard: list[object] = []
    for name in Bell:
        getattr(events, f"on_{name}")(lambda *what, name=name: heard.append((name, *what)))
    return heard


def test_every_bell_sounds_the_same_elsewhere() -> None:
    here, there, exchange = EventBus(), EventBus(), SharedExchange()
    heard_here, heard_there = record(here), record(there)
    EventRelay(here, lambda session: False, lambda: None).exchange = exchange
    ring_everything(here)
    EventRelay(there, lambda session: False, lambda: None).receive(exchange.said)
    assert heard_there == heard_here
    assert {each[0] for each in exchange.said} == set(Bell)


def test_what_was_heard_is_not_said_again() -> None:
    events, exchange = EventBus(), SharedExchange()
    relay = EventRelay(events, lambda session: False, lambda: None)
    relay.exchange = exchange
    relay.receive([("room", "fake", "fake:1")])
    assert exchange.said == []


@pytest.mark.parametrize("here", [True, False])
def test_a_session_that_is_awake_here_concerns_nobody_else(here: bool) -> None:
    events, exchange = EventBus(), SharedExchange()
    EventRelay(events, lambda session: here, lambda: None).exchange = exchange
    events.session("s-1")
    assert bool(exchange.said) is not here


def test_a_word_of_a_newer_gateway_is_passed_over() -> None:
    events = EventBus()
    heard = record(events)
    EventRelay(events, lambda session: False, lambda: None).receive([("unheard-of", "x"), ("tasks",)])
    assert heard == [("tasks",)]


def test_whoever_may_have_missed_words_looks() -> None:
    looks: list[int] = []
    EventRelay(EventBus(), lambda session: False, lambda: looks.append(1)).receive([])
    assert looks == [1]


def test_a_gateway_that_is_alone_says_nothing_until_it_hears_another() -> None:
    events, exchange = EventBus(), SharedExchange()
    relay = EventRelay(events, lambda session: False, lambda: None, is_alone=lambda: True)
    relay.exchange = exchange
    events.tasks()
    assert exchange.said == []
    relay.receive([(HELLO,)])
    events.tasks()
    assert exchange.said == [("tasks",)]


def test_whoever_comes_is_heard_by_those_who_were_alone() -> None:
    here, there, exchange = EventBus(), EventBus(), SharedExchange()
    first = EventRelay(here, lambda session: False, lambda: None, is_alone=lambda: True)
    second = EventRelay(there, lambda session: False, lambda: None, is_alone=lambda: True)
    first.exchange = second.exchange = exchange
    second.receive([])  # it listens now
    first.receive(exchange.said)
    here.tasks()
    assert ("tasks",) in exchange.said


@pytest.mark.parametrize("awake", [True, False])
async def test_a_session_that_sleeps_is_left_for_a_while_to_who_rang(awake: bool) -> None:
    events = EventBus()
    heard, came = record(events), asyncio.Event()
    events.on_session(lambda session: came.set())
    EventRelay(events, lambda session: awake, lambda: None, yield_s=0.01).receive([("session", "s-1"), ("tasks",)])
    assert heard == ([("session", "s-1"), ("tasks",)] if awake else [("tasks",)])
    async with asyncio.timeout(PATIENCE_S):
        await came.wait()
    assert ("session", "s-1") in heard
