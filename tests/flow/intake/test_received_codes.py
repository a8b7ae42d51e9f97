"""Which messages are codes, what they ask for, and that the code itself is kept nowhere."""

import pytest

from gatepost.core.registry import load_package
from gatepost.flow import invitations, pairing
from gatepost.flow.codes import INVITATION, LONGEST_CODE, PAIRING
from gatepost.flow.intake.accepted_message import CodeKind, ReceivedCode
from gatepost.flow.intake.received_codes import find_code
from gatepost.flow.intake.slash_commands import parse_command
from gatepost.flow.invitations import NewInvitation
from gatepost.store.messages.inbox import InboxState
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.rooms import direct_rooms
from gatepost_testing.clock import NOON

from .conftest import MEMBER, OWNER, STRANGER, World

load_package("gatepost.flow.intake.commands")
CODE, INVITE = "ABCD2345WXYZ", "ABCD2345WXYZ6789"
PAIR_SHOWN, INVITE_SHOWN = PAIRING.render(CODE), INVITATION.render(INVITE)
PAGE = "https://gate.example"


def find(
    text: str, *, page: str = PAGE, direct: bool = True, names: frozenset[str] = frozenset()
) -> ReceivedCode | None:
    return find_code(text, parse_command(text, names), lambda: page, direct=direct, own_names=names)


@pytest.mark.parametrize(
    "text", [PAIR_SHOWN, f"  {PAIR_SHOWN} \n", PAIR_SHOWN.lower(), f"*{PAIR_SHOWN}*", f"/start {PAIR_SHOWN}"]
)
def test_a_message_that_is_a_pairing_code_alone_is_one(text: str) -> None:
    assert find(text) == ReceivedCode(CodeKind.PAIR, CODE)


@pytest.mark.parametrize("text", [INVITE_SHOWN, f"/start {INVITE_SHOWN}", f" {INVITE_SHOWN.lower()} "])
def test_a_message_that_is_an_invitation_alone_is_one(text: str) -> None:
    assert find(text) == ReceivedCode(CodeKind.INVITE, INVITE)


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "",
        f"is {PAIR_SHOWN} right?",
        f"{PAIR_SHOWN} {PAIR_SHOWN}",
        PAIR_SHOWN + " " * LONGEST_CODE,
        "/start",
    ],
)
def test_words_around_a_code_make_it_no_code(text: str) -> None:
    assert find(text) is None


def test_a_code_behind_a_mention_is_one() -> None:
    assert find(f"@gate {PAIR_SHOWN}", names=frozenset({"gate"})) == ReceivedCode(CodeKind.PAIR, CODE)
    assert find(f"Gate Post: {INVITE_SHOWN}", names=frozenset({"gate post"})) == ReceivedCode(CodeKind.INVITE, INVITE)
    assert find(f"Gate Post: {INVITE_SHOWN}") is None


def test_a_command_says_what_its_code_is_for() -> None:
    assert find(f"/pair {CODE}") == ReceivedCode(CodeKind.PAIR, CODE)
    assert find(f"/join {INVITE}") == ReceivedCode(CodeKind.INVITE, INVITE)
    assert find("/join") == ReceivedCode(CodeKind.JOIN)


def test_a_link_is_given_where_nobody_else_reads_it_and_a_page_is_served() -> None:
    assert find("/pair") == ReceivedCode(CodeKind.PAIRING_LINK, PAGE)
    assert find("/pair", direct=False) == ReceivedCode(CodeKind.PAIR, "")
    assert find("/pair", page="") == ReceivedCode(CodeKind.PAIR, "")
    assert find(f"/pair {CODE}", direct=True) == ReceivedCode(CodeKind.PAIR, CODE)


async def issue_pairing(world: World) -> str:
    return await world.store.write(pairing.issue_code, OWNER, "operator", NOON)


async def issue_invitation(world: World) -> str:
    def issue(db: Db) -> str:
        new = NewInvitation(folder="home", uses=1, expires_at=None, own_group=False, created_by="operator")
        return invitations.issue(db, new, NOON).code

    return await world.store.write(issue)


async def test_a_code_pairs_its_sender_and_reaches_no_agent(routed: World) -> None:
    shown = await issue_pairing(routed)
    receipt = await routed.send(shown, STRANGER, direct=True, address="tg:user/666")
    assert receipt.state is InboxState.ANSWERED
    assert await routed.store.read(identities.list_names, STRANGER) == (OWNER, STRANGER)
    assert await routed.store.read(direct_rooms.find_address, STRANGER, "tg") == "tg:user/666"
    assert routed.woken == []
    message = await routed.message(receipt)
    assert message.text == PAIRING.masked and PAIRING.parse(shown) not in str(message)


async def test_a_code_in_a_room_of_several_pairs_and_makes_it_nobodys_own_room(routed: World) -> None:
    assert (await routed.send(await issue_pairing(routed), STRANGER)).state is InboxState.ANSWERED
    assert await routed.store.read(direct_rooms.find_address, STRANGER, "tg") is None


async def test_a_wrong_code_pairs_nobody(routed: World) -> None:
    receipt = await routed.send(PAIR_SHOWN, MEMBER, direct=True)
    assert receipt.state is InboxState.REFUSED
    assert await routed.store.read(identities.list_names, MEMBER) == (MEMBER,)


async def test_an_invitation_lets_its_sender_in_once(routed: World) -> None:
    shown = await issue_invitation(routed)
    receipt = await routed.send(f"/join {shown}", STRANGER)
    assert receipt.state is InboxState.ANSWERED
    assert (await routed.store.read(users.get_roles, STRANGER)).member_of == ("home",)
    assert INVITATION.parse(shown) not in str(await routed.message(receipt))
    assert (await routed.send(shown, "tg:user/667")).state is InboxState.REFUSED
    assert (await routed.store.read(users.get_roles, "tg:user/667")).member_of == ()


async def test_a_message_behind_a_code_is_judged_by_what_the_code_gave(routed: World) -> None:
    """Nothing that was read before the code's write may be kept."""
    await routed.send("hello", STRANGER)
    assert routed.woken == []
    await routed.send(f"/join {await issue_invitation(routed)}", STRANGER)
    receipt = await routed.send("hello", STRANGER)
    assert [each.rights for each in await routed.entries(receipt)] == ["member"]
