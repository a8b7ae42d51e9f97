"""People: make one known, give a role, let into a group, bind further identities. Newcomers: who may get a group of
their own, and who waits for it."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core.record_fields import argument, option, shown
from gatepost.flow.reports import ErasureReport
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.people.newcomers import Entrance, EntranceFields, Newcomer
from gatepost.store.people.users import User, UserRole
from gatepost.store.rights.acl import AclRow

USERS_READ, USERS_WRITE = "users.read", "users.write"
GRANT = "grants.write"  # it writes rows of the access list
UserId = Annotated[str, argument("The address of a sender.", "ID", examples=("telegram:user/9",))]
ONBOARDING_READ, ONBOARDING_WRITE = "onboarding.read", "onboarding.write"
NewcomerId = Annotated[str, argument("Their id in the list.", "NEWCOMER")]


def render_roles(roles: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{role} of {folder}" if folder else f"{role} everywhere" for role, folder in roles)


class UserDetails(User, frozen=True, kw_only=True):
    """`roles`: each with its folder; '' is everywhere. `identities`: the id first. `direct_rooms`: where they can be
    reached alone, the newest first."""

    known: bool
    roles: Annotated[tuple[tuple[str, str], ...], shown("Roles", render=render_roles)]
    member_of: Annotated[tuple[str, ...], shown("Member of", head="member of", render=", ".join)]
    identities: Annotated[tuple[str, ...], shown("Also", head="also", render=lambda found: ", ".join(found[1:]))]
    direct_rooms: Annotated[tuple[str, ...], shown("Can be reached in", details=True)]


class PairingCode(Struct, frozen=True, kw_only=True):
    """It is shown once: only its hash is kept. A link has no code: it is for an identity, and its person is whoever
    confirms it."""

    code: str = ""
    link: str = ""
    identity: str = ""
    person: str = ""
    expires_at: int


class UnpairedIdentity(Struct, frozen=True):
    identity: str
    person: str


@declares("user.list", right=USERS_READ, reads=True)
class ListUsersArgs(OperationArgs[list[UserDetails]], frozen=True):
    """Everybody who is known."""


@declares("user.show", right=USERS_READ, reads=True)
class ShowUserArgs(OperationArgs[UserDetails], frozen=True):
    """One of them."""

    id: UserId


class ViewedPerson(Struct, frozen=True):
    """`id`: '' for oneself."""

    id: str
    name: str


@declares("user.view", right="users.view")
class ViewAsUserArgs(OperationArgs[ViewedPerson], frozen=True):
    """See the web page as somebody does, to find out what they may see. Nothing can be done meanwhile. For owners."""

    id: Annotated[str, option("One of the person's identities (default: oneself again).", metavar="ID")] = ""


@declares("user.add", right=USERS_WRITE)
class AddUserArgs(OperationArgs[UserDetails], frozen=True):
    """Make somebody known. That alone lets nobody in: `role` and `member` do."""

    id: UserId
    name: Annotated[str, option("How people call them.")] = ""


@declares("user.rename", right=USERS_WRITE)
class RenameUserArgs(OperationArgs[UserDetails], frozen=True):
    """Change the name of a person. Their earlier messages keep the old name."""

    id: UserId
    name: Annotated[str, argument("The name."), Meta(min_length=1, max_length=100)]


@declares("user.language", right=USERS_WRITE, answers_all=True)
class ChooseLanguageArgs(OperationArgs[UserDetails], frozen=True):
    """Choose the language in which the gateway itself speaks to a person: the page, its notices, answers to commands.

    Everybody may choose their own.
    """

    language: Annotated[
        str, argument("The language; empty: as the browser asks for.", "LANGUAGE", examples=("de", "en"))
    ]
    id: Annotated[str, option("One of the person's identities (default: your own).")] = ""


@declares("user.role", right=USERS_WRITE)
class GiveRoleArgs(OperationArgs[UserDetails], frozen=True):
    """Give somebody a role. Owners and admins speak in every room of those groups and give commands there."""

    id: UserId
    role: Annotated[UserRole, argument("The role.")]
    folder: Annotated[str, option("For that group and all below it (default: everywhere).", scope=True)] = ""


@declares("user.member", right=USERS_WRITE)
class AddMemberArgs(OperationArgs[UserDetails], frozen=True):
    """Let somebody into one group: they may speak to it wherever a route leads there. Their own room of the web page is
    led to their only group, unless a group hears them there already."""

    id: UserId
    folder: Annotated[str, argument("The group.", scope=True)]


@declares("user.pair", right=USERS_WRITE)
class PairUserArgs(OperationArgs[PairingCode], frozen=True):
    """Print a code that binds the chat identity which sends it to a person. It works once, within ten minutes.

    Send it alone or as `/pair CODE`, in any chat that the gateway is in. With --link it prints an address of the web
    page instead: whoever is signed in there and confirms it gets the identity ID.
    """

    id: Annotated[
        str, argument("One of the person's identities (default: the owner).", "ID", examples=("telegram:user/9",))
    ] = ""
    link: Annotated[bool, option("Bind the identity ID to whoever opens a link on the web page and confirms it.")] = (
        False
    )


@declares("user.unpair", right=USERS_WRITE)
class UnpairUserArgs(OperationArgs[UnpairedIdentity], frozen=True):
    """Take an identity from the person whom a code bound it to. Their roles and memberships stay with them."""

    identity: Annotated[str, argument("The identity.", "IDENTITY", examples=("telegram:user/9",))]


class SpeakArgs(OperationArgs[AclRow], frozen=True):
    who: Annotated[
        str,
        argument("An identity, or a platform with a star.", "WHO", examples=("telegram:user/9", "telegram:*")),
    ]
    folder: Annotated[str, option("For that group and all below it (default: everywhere).", scope=True)] = ""


@declares("user.block", right=GRANT)
class BlockUserArgs(SpeakArgs, frozen=True):
    """Shut somebody out, or a whole platform: nobody there is heard, whatever else lets them in. Owners stay.

    It is a row of the access list, which `gatepost grant list` shows. `gatepost user unblock` takes it back.
    """


@declares("user.unblock", right=GRANT)
class UnblockUserArgs(SpeakArgs, frozen=True):
    """Take a block back. The person has the rights from before the block again, and no others."""


@declares("user.allow", right=GRANT)
class AllowUserArgs(SpeakArgs, frozen=True):
    """Let somebody speak, or a whole platform: they count as members, known or not. A block of the same is taken back;
    to take back a block alone, use `gatepost user unblock`."""


@declares("user.forget", right="users.erase")
class ForgetUserArgs(OperationArgs[ErasureReport], frozen=True):
    """Say what is known of a person by all of their identities, and erase it. By default nothing is changed.

    Erased are their messages and the answers to them, files, direct rooms, requests, rights, secrets and logins, their
    words in the search index, mailboxes and logs. Conversations that they took part in start anew. The audit keeps its
    rows without them. It is refused while an agent is at work in one of these conversations.
    """

    id: Annotated[
        str,
        argument(
            "One of the person's identities, whether they are known or not.",
            "ID",
            secret=True,  # the record of it must not name them
            examples=("telegram:user/9",),
        ),
    ]
    erase: Annotated[bool, option("Erase it. It cannot be undone.", hidden=True)] = False


class OnboardingOverview(Struct, frozen=True):
    entrances: tuple[Entrance, ...]
    newcomers: list[Newcomer]


@declares("onboarding.open", right=ONBOARDING_WRITE)
class OpenEntranceArgs(EntranceFields, OperationArgs[Entrance], frozen=True, kw_only=True):
    """Open an entrance: strangers who write directly to the channel INSTANCE may ask for a group of their own.

    The first message of such a stranger is answered with how to come in; `/join` does it. The group is made below
    FOLDER, from its prototype/ folder, and leads what they write there to it. Over the limit of a day people wait in a
    queue.
    """


@declares("onboarding.close", right=ONBOARDING_WRITE)
class CloseEntranceArgs(OperationArgs[Entrance], frozen=True):
    """Close an entrance. Its members stay members; people who wait there stay in the list."""

    id: Annotated[int, argument("The entrance's id.", "entrance")]


@declares("onboarding.list", right=ONBOARDING_READ, reads=True)
class ListNewcomersArgs(OperationArgs[OnboardingOverview], frozen=True):
    """The entrances, and everybody who came by one or by an invitation to a group of their own."""


@declares("onboarding.allow", right=ONBOARDING_WRITE)
class AllowNewcomerArgs(OperationArgs[Newcomer], frozen=True):
    """Let a newcomer in now, whatever the limit: one who waits, was denied, or whose group could not be made."""

    id: NewcomerId


@declares("onboarding.deny", right=ONBOARDING_WRITE)
class DenyNewcomerArgs(OperationArgs[Newcomer], frozen=True):
    """Do not let a newcomer in who waits. Nobody is asked about them again."""

    id: NewcomerId
    reason: Annotated[str, option("Why, for the list."), Meta(max_length=300)] = ""
