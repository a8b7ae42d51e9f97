"""A host that no rule speaks of, where a group asks: refused at once, one card, and the answer is tried at the next
connection. Over the real socket, as a sandbox would ask."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import DAY, SystemClock
from gatepost.core.event_bus import EventBus
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.egress import rules
from gatepost.egress.egress_socket import EgressSocket
from gatepost.egress.rules import EgressTarget
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests import refused_hosts
from gatepost.flow.requests.choices import (
    ALLOW_ALWAYS,
    ALLOW_ONCE,
    ALLOW_SESSION,
    BLOCK,
    DENY,
    AnswerChoice,
    CardFacts,
    make_card,
)
from gatepost.flow.requests.decide import Decision, decide
from gatepost.flow.requests.refused_hosts import MOST_WAITING, RefusedHosts
from gatepost.messages.card import render_text
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import egress, requests, waiting_requests
from gatepost.store.rights.requests import AnswerLasts, Request, RequestState
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost.tools.call import Caller

FOLDER, BOSS = "acme/eng", "fake:user/boss"
CHANNELS = ChannelInstances({})


def connect(target: str) -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n".encode()


def settle(db: Db, now: int) -> str:
    users.add(db, BOSS, "Ada", now)
    users.add_role(db, BOSS, UserRole.OWNER, "", "test", now)
    direct_rooms.add(db, BOSS, "fake", "fake:direct/boss", now)
    return sessions.find_or_add(db, SessionMode.PER_THREAD, FOLDER, "fake", "fake:room/1", "", now).id


def decide_all(db: Db, choice: AnswerChoice, by: str = BOSS) -> list[Decision]:
    now = SystemClock().now()
    return [decide(db, CHANNELS, each.id, choice, by, now) for each in waiting_requests.list_pending(db)]


def told(db: Db, session_id: str) -> list[dict[str, Any]]:
    rows = [messages.get(db, entry.message_id) for entry, _ in inbox.list_open(db, session_id)]
    return [message.content for message in rows if message is not None]


@pytest.fixture
async def asking(way: Any, tmp_path: Path) -> AsyncIterator[Any]:
    """A way out of a session whose group asks, with its id."""
    clock = SystemClock()
    session_id = await way.store.write(settle, clock.now())
    hosts = RefusedHosts(way.store, clock, Config({}), EventBus(), CHANNELS)
    deps = replace(way.socket._deps, asker=hosts)
    opened = EgressSocket(deps, Caller(FOLDER, session_id, "scripted"), lambda pid: pid == os.getpid())
    await opened.open(tmp_path / "asking.sock")
    way.socket, way.path, way.session_id, way.hosts = opened, tmp_path / "asking.sock", session_id, hosts
    yield way
    await opened.close()


async def pending(way: Any) -> list[Request]:
    found: list[Request] = await way.store.read(waiting_requests.list_pending)
    return found


async def test_a_refused_host_is_one_request_with_one_card_and_is_never_looked_up(asking: Any) -> None:
    answers = [await asking.send(connect("files.example.com:443")) for _ in range(3)]
    assert {each.status for each in answers} == {403}
    (asked,) = await pending(asking)
    assert asked.id in answers[0].text and "files.example.com:443 is not allowed" in answers[0].text
    card = make_card(asked, "token", CardFacts(agent="Eng", asked_by="Ann", asked_in="Release"))
    values = {each.name: each.value for each in card.fields}
    assert (values["host"], values["port"]) == ("files.example.com", "443") and "Release" in render_text(card)
    assert [each.label for each in card.buttons] == ["Allow in this conversation", "Always allow", "Deny", "Block"]
    assert len(await asking.store.read(outbox.OUTBOX.list, "ORDER BY id")) == 1
    assert asking.looked_up == []


async def test_without_the_option_nobody_is_asked(asking: Any) -> None:
    await asking.store.write(
        groups.update, FOLDER, {"options": {"egress": "refuse"}}
    )  # the nearest group that says anything
    answer = await asking.send(connect("files.example.com:443"))
    assert answer.status == 403 and "the operator can" in answer.text
    assert await pending(asking) == []


@pytest.mark.parametrize("choice", [ALLOW_SESSION, ALLOW_ONCE])
async def test_allowed_for_the_conversation_it_is_reached_there_alone(asking: Any, choice: AnswerChoice) -> None:
    asking.names["files.example.com"] = ["203.0.113.1"]
    await asking.send(connect("files.example.com:443"))
    await asking.store.write(decide_all, choice)
    verdict = await asking.socket.way.judge(EgressTarget("files.example.com", 443))
    assert verdict.allowed and not verdict.local
    assert not (await asking.socket.way.judge(EgressTarget("files.example.com", 8443))).allowed
    assert not (await asking.socket.way.judge(EgressTarget("x.files.example.com", 443))).allowed
    assert not await asking.hosts.is_allowed(Caller(FOLDER, "s-other"), "files.example.com:443")
    (said,) = await asking.store.read(told, asking.session_id)
    assert (said["event"], said["state"], said["host"]) == ("approval", "allowed", "files.example.com:443")
    assert "You may reach files.example.com:443 now: try again." in said["result"]
    assert await asking.store.read(egress.list_rules) == []
    await asking.store.write(requests.end_lasting, asking.session_id)  # /clear
    assert not (await asking.socket.way.judge(EgressTarget("files.example.com", 443))).allowed


async def test_what_was_allowed_leads_to_no_private_address(asking: Any) -> None:
    asking.names["files.example.com"] = ["169.254.169.254"]
    await asking.send(connect("files.example.com:80"))
    await asking.store.write(decide_all, ALLOW_ALWAYS)
    answer = await asking.send(connect("files.example.com:80"))
    assert answer.status == 403 and "nobody may reach" in answer.text


async def test_always_writes_a_rule_for_the_group_that_can_be_taken_back(asking: Any) -> None:
    await asking.send(connect("files.example.com:443"))
    await asking.store.write(decide_all, ALLOW_ALWAYS)
    (rule,) = await asking.store.read(egress.list_rules)
    assert (rule.folder, rule.host, rule.port, rule.allow, rule.local, rule.created_by) == (
        *(FOLDER, "files.example.com", 443, True, False),
        BOSS,
    )
    assert (await asking.socket.way.judge(EgressTarget("files.example.com", 443))).allowed
    await asking.store.write(egress.remove, rule.id)
    assert not (await asking.socket.way.judge(EgressTarget("files.example.com", 443))).allowed


async def test_blocked_it_is_denied_by_a_rule(asking: Any) -> None:
    await asking.send(connect("files.example.com:443"))
    await asking.store.write(decide_all, BLOCK)
    assert "denied to acme/eng by a rule" in (await asking.send(connect("files.example.com:443"))).text
    assert await pending(asking) == []


async def test_a_denial_of_the_operator_meanwhile_is_not_lifted_by_a_late_yes(asking: Any) -> None:
    await asking.send(connect("files.example.com:443"))
    await asking.allow("files.example.com", 443, folder=FOLDER, allow=False)
    await asking.store.write(decide_all, ALLOW_ALWAYS)
    (rule,) = await asking.store.read(egress.list_rules)
    assert not rule.allow
    assert not (await asking.socket.way.judge(EgressTarget("files.example.com", 443))).allowed


async def test_a_no_is_told_once_and_remembered_for_a_day(asking: Any) -> None:
    await asking.send(connect("files.example.com:443"))
    await asking.store.write(decide_all, DENY)
    (said,) = await asking.store.read(told, asking.session_id)
    assert said["state"] == "denied"
    target, caller = EgressTarget("files.example.com", 443), Caller(FOLDER, asking.session_id)
    question, limits = refused_hosts.HostQuestion(caller, target), refused_hosts.read_rules(Config({}))  # type: ignore[attr-defined]
    now = SystemClock().now()
    again = await asking.store.write(refused_hosts.ask_about_host, CHANNELS, limits, question, now)
    assert again.said == refused_hosts.NOT_AGAIN and await pending(asking) == []
    later = await asking.store.write(refused_hosts.ask_about_host, CHANNELS, limits, question, now + 2 * DAY)
    assert later.asked is not None and len(await pending(asking)) == 1


async def test_two_thousand_hosts_at_once_make_few_cards_and_few_writes(
    asking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = [EgressTarget(f"h{number}.example.com", 443) for number in range(2000)]
    writes, write = [0], asking.store.write

    async def count(*given: Any, **named: Any) -> Any:
        writes[0] += 1
        return await write(*given, **named)

    monkeypatch.setattr(asking.store, "write", count)
    judged = await asyncio.gather(*map(asking.socket.way.judge, targets))
    assert not any(each.allowed for each in judged)
    assert len(await pending(asking)) == MOST_WAITING == writes[0]
    assert len(await asking.store.read(outbox.OUTBOX.list, "ORDER BY id")) == MOST_WAITING
    assert refused_hosts.TOO_MANY in judged[-1].reason and asking.looked_up == []


async def test_hosts_that_have_no_card_of_their_own_are_named_on_the_next_one(asking: Any) -> None:
    for number in range(MOST_WAITING + 3):
        await asking.send(connect(f"h{number}.example.com:443"))
    await asking.send(connect("box.lan:443"))
    await asking.store.write(decide_all, ALLOW_SESSION)
    await asking.send(connect("another.example.com:443"))
    (asked,) = await pending(asking)
    assert asked.input["also refused"] == "h7.example.com:443, h6.example.com:443, h5.example.com:443"


async def test_where_nobody_who_may_decide_can_be_reached_nobody_is_said_to_be_asked(asking: Any) -> None:
    await asking.store.write(direct_rooms.remove, BOSS)
    answer = await asking.send(connect("files.example.com:443"))
    assert "the operator can" in answer.text and await pending(asking) == []


async def test_the_setting_says_it_for_every_group_and_a_group_for_itself(asking: Any) -> None:
    refusing = RefusedHosts(
        asking.store, SystemClock(), Config({"egress.unknown_hosts": "refuse"}), EventBus(), CHANNELS
    )
    caller = Caller(FOLDER, asking.session_id)
    await asking.store.write(groups.update, "acme", {"options": {"egress": None}})
    assert await refusing.ask(caller, "files.example.com:443") == ""
    assert "a person was asked" in await asking.hosts.ask(caller, "files.example.com:443")  # it asks if nothing is said
    await asking.store.write(groups.update, "acme", {"options": {"egress": "ask"}})
    assert "a person was asked" in await refusing.ask(caller, "files.example.com:443")


async def test_an_agent_that_tries_again_hears_what_was_decided(asking: Any) -> None:
    await asking.send(connect("files.example.com:443"))
    await asking.store.write(decide_all, DENY)
    assert refused_hosts.NOT_AGAIN in (await asking.send(connect("files.example.com:443"))).text


@pytest.mark.slow
async def test_an_agent_that_tries_many_hosts_asks_about_a_few(asking: Any) -> None:
    for number in range(MOST_WAITING + 3):
        await asking.send(connect(f"h{number}.example.com:443"))
    assert len(await pending(asking)) == MOST_WAITING
    await asking.store.write(decide_all, DENY)
    for number in range(40):
        await asking.send(connect(f"i{number}.example.com:443"))
    assert (
        len(await asking.store.read(outbox.OUTBOX.list, "WHERE op = 'card' ORDER BY id")) <= refused_hosts.MOST_AN_HOUR
    )


@pytest.mark.parametrize(
    "host", ["localhost", "db.internal", "metadata.google.internal", "printer.local", "box", "a" * 60 + "." + "b" * 60]
)
def test_a_name_that_is_not_of_the_public_network_is_never_offered(host: str) -> None:
    assert not rules.may_be_offered(EgressTarget(host, 80))


async def test_models_are_reached_through_their_endpoints_whoever_would_allow_it(asking: Any) -> None:
    await asking.send(connect("eu.api.openai.com:443"))
    assert await pending(asking) == []


async def test_the_card_warns_of_letters_of_other_alphabets(asking: Any) -> None:
    await asking.send(connect("xn--pple-43d.com:443"))
    (asked,) = await pending(asking)
    assert asked.input["spelling"] == refused_hosts.OTHER_LETTERS


async def test_a_job_that_is_no_session_asks_nobody(asking: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **named: object) -> None:
        pytest.fail("a try that asks nobody costs no write")

    monkeypatch.setattr(asking.store, "write", fail)
    assert await asking.hosts.ask(Caller(FOLDER, "job-1"), "files.example.com:443") == ""
    assert await pending(asking) == []


async def test_who_is_no_admin_of_the_group_decides_nothing(asking: Any) -> None:
    await asking.send(connect("files.example.com:443"))
    (refused,) = await asking.store.write(decide_all, ALLOW_ALWAYS, "fake:user/eve")
    assert not refused.decided and await asking.store.read(egress.list_rules) == []
    (asked,) = await pending(asking)
    assert (asked.state, asked.lasts) == (RequestState.PENDING, AnswerLasts.ONCE)
