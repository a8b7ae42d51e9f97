"""/remote-control: a one-time link for exactly the admin who asks, kept from the room and from agents."""

import re

import pytest

from gatepost.core.clock import MINUTE
from gatepost.flow.intake.commands.remote_control import HIDDEN, NO_CONVERSATION, NO_DIRECT_ROOM, NO_PAGE, SENT
from gatepost.store.messages import messages
from gatepost.store.people import identities, logins
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.rooms import direct_rooms
from gatepost_testing.clock import NOON

from .conftest import ADA, ADMIN, ROOM, CommandDesk

pytestmark = pytest.mark.anyio
DIRECT = "fake:dm/admin"


def list_links(db: Db) -> list[tuple[str, str]]:
    """(room, what goes out)."""
    rows = db.rows("SELECT address, payload FROM outbox WHERE payload LIKE '%token=%' ORDER BY id")
    return [(row[0], row[1]) for row in rows]


def read_token(text: str) -> str:
    found = re.search(r"http://127\.0\.0\.1:8080/session#token=([\w-]+)&id=(s-\w+)", text)
    assert found is not None
    return found[1]


async def test_in_a_direct_room_the_link_is_the_answer_and_signs_in_the_asker_once(desk: CommandDesk) -> None:
    await desk.say("hello", ADMIN, address=DIRECT, direct=True)
    receipt = await desk.say("/remote-control", ADMIN, address=DIRECT, direct=True)

    assert receipt.state == "answered"
    [(room, text)] = await desk.store.read(list_links)
    token = read_token(text)
    assert room == DIRECT and (await desk.session()).id in text
    user = await desk.do(lambda db: logins.redeem(db, token, NOON + 9 * MINUTE))
    assert user == "web:user/admin"
    assert await desk.store.read(identities.get_person, user) == ADMIN
    assert await desk.do(lambda db: logins.redeem(db, token, NOON)) is None


async def test_the_link_is_too_old_after_ten_minutes(desk: CommandDesk) -> None:
    await desk.say("hello", ADMIN, address=DIRECT, direct=True)
    await desk.say("/remote-control", ADMIN, address=DIRECT, direct=True)
    [(_, text)] = await desk.store.read(list_links)
    assert await desk.do(lambda db: logins.redeem(db, read_token(text), NOON + 10 * MINUTE)) is None


async def test_the_ledger_which_agents_read_has_no_link(desk: CommandDesk) -> None:
    await desk.say("hello", ADMIN, address=DIRECT, direct=True)
    await desk.say("/remote-control", ADMIN, address=DIRECT, direct=True)
    seen = await desk.store.read(messages.list_in_room, "fake", DIRECT, 0, 50)
    assert [each.text for each in seen if each.direction == "out"] == [HIDDEN]
    assert all("token=" not in str(each.content) + each.text for each in seen)
    rows = await desk.store.read(audit.list_latest, 10)
    assert [row[3] for row in rows].count("session.remote_control") == 1 and "token=" not in str(rows)


async def test_in_a_group_room_the_link_goes_to_the_direct_room(desk: CommandDesk) -> None:
    await desk.say("hello", ADA)
    assert await desk.ask("/remote-control", ADMIN) == NO_DIRECT_ROOM
    assert await desk.store.read(list_links) == []

    await desk.do(lambda db: direct_rooms.add(db, ADMIN, "fake", DIRECT, NOON))
    assert await desk.ask("/remote-control", ADMIN) == SENT
    [(room, _)] = await desk.store.read(list_links)
    assert room == DIRECT and all("token" not in text for text in await desk.notices(ROOM))


async def test_it_is_for_admins_and_needs_a_conversation_and_a_page(
    desk: CommandDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await desk.ask("/remote-control", ADA) == "Only an owner or an admin of this agent may use /remote-control."
    assert await desk.ask("/remote-control", ADMIN) == NO_CONVERSATION
    monkeypatch.setattr(desk.intake, "_page", lambda: "")
    assert await desk.ask("/remote-control", ADMIN) == NO_PAGE


async def test_where_the_gateway_is_the_platform_the_link_has_no_token(
    desk: CommandDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk.intake._channels, "is_local", lambda instance: True)
    await desk.say("hello", ADMIN)
    told = await desk.ask("/remote-control", ADMIN)
    assert told.startswith(f"http://127.0.0.1:8080/session#id={(await desk.session()).id}\n")
    assert await desk.store.read(list_links) == []
