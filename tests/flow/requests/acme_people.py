"""The group `acme`, whose room asks first, with an admin and an owner who can be reached, and what its agent asks."""

from typing import Any

import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.core.clock import MINUTE, SECOND
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.groups import add_defaults
from gatepost.flow.requests.ask_approver import AskingRules, ask
from gatepost.messages.outbound import Feature
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectState
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights.requests import NewRequest, Request, RequestKind
from gatepost.store.rooms import direct_rooms, rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import NOON

ADA, BOB, EVE, MAL = "fake:user/ada", "fake:user/bob", "fake:user/eve", "fake:user/mal"
ROOM = "fake:room/1"
RULES = AskingRules(escalate=60 * SECOND, expire=600 * SECOND, quorum=1)
KIND = ChannelKind(name="fake", make=lambda deps: pytest.fail("not made"), features=frozenset({Feature.EDIT}))
CHANNELS = ChannelInstances({"fake": KIND})


def add_people(db: Db) -> None:
    """Ada is an admin of acme, Bob owns everything."""
    add_defaults(db, NOON)
    groups.add(db, "acme", "Acme", "scripted", NOON)
    for person, role, folder in ((ADA, UserRole.ADMIN, "acme"), (BOB, UserRole.OWNER, "")):
        users.add(db, person, person, NOON)
        users.add_role(db, person, role, folder, "test", NOON)
        direct_rooms.add(db, person, "fake", person.replace("user", "direct"), NOON)
    rooms.add(db, "fake", ROOM, ROOM, False, RoomPolicy.REQUEST_APPROVAL, NOON)


def hold_call(db: Db, **more: Any) -> Request:
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", ROOM, "", NOON)
    fields: dict[str, Any] = {
        "kind": RequestKind.CALL,
        "name": "t/1",
        "folder": "acme",
        "session_id": session.id,
        "turn_id": "t",
        "tool": "send",
        "input": {"text": "original"},
        "digest": "d",
        "about": "send",
        "rights": "member",
    }
    return ask(db, CHANNELS, RULES, NewRequest(**(fields | more)), NOON).request


def deliver(db: Db, at: int, address: str = "fake:direct/ada", most: int = 100) -> list[str]:
    """Send what waits in a room, as its lane does. The texts, in the order in which a person sees them."""
    seen: list[str] = []
    while len(seen) < most and (effect := outbox.claim_head(db, "fake", address, "pump", at, MINUTE)) is not None:
        outbox.record_outcome(db, effect.id, EffectState.SENT, "", at, platform_id=f"x{effect.id}")
        seen.append(str(effect.payload["text"]))
    return seen
