"""Tokens that let somebody in: invitations, chat links, webhooks."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.rights.tokens import Token, TokenState

READ, WRITE = "tokens.read", "tokens.write"
LONGEST_LABEL = 100
LONGEST_INSTRUCTIONS = 4000
Folder = Annotated[str, argument("The group that it is for.", scope=True, examples=("acme/eng",))]
Days = Annotated[int, option("For how many days it works (0: without end).", least=0, most=3650)]


class TokenView(Token, frozen=True, kw_only=True):
    state: Annotated[TokenState, shown("State", ShownAs.BADGE)]


class NewTokenView(Struct, frozen=True, kw_only=True):
    """`secret`: it is shown once, because only its hash is kept. So is `url`, which has it; '' if no page answers it.
    `signing_secret`: what the service signs with, if it was made here."""

    secret: str
    token: TokenView
    url: str = ""
    signing_secret: str = ""


class SignedTokenView(Struct, frozen=True, kw_only=True):
    """`signing_secret`: it is shown once; '' if it was given, or nothing is signed."""

    token: TokenView
    signing_secret: str


class LinkKind(StrEnum):
    """The kind of link that `token.add` makes."""

    CHAT_LINK = "chat_link"
    WEBHOOK = "webhook"


class Signature(StrEnum):
    """How a webhook's sender proves what it posts."""

    NONE = "none"
    GITHUB = "github"
    SLACK = "slack"
    STRIPE = "stripe"


SigningSecret = Annotated[
    str,
    option(
        "The secret that the service shows (empty: one is made).",
        secret=True,
        metavar="-",
        cli="Read the secret that the service shows from standard input (without it one is made).",
    ),
    Meta(max_length=200),
]


@declares("invite.create", right=WRITE)
class AddInvitationArgs(OperationArgs[NewTokenView], frozen=True):
    """Print the code of an invitation. A person who sends it in a chat becomes a member of the group FOLDER.

    People send it alone, as `/join CODE` or as `/start CODE`. With --own-group each of them gets a group of their own
    below FOLDER, made from FOLDER's prototype/ folder.
    """

    folder: Folder
    uses: Annotated[int, option("How many people may use it.", least=1, most=1000)] = 1
    days: Days = 7
    own_group: Annotated[bool, option("Give each of them a group of their own below FOLDER.")] = False
    label: Annotated[str, option("Its purpose, to tell it from others."), Meta(max_length=LONGEST_LABEL)] = ""


@declares("invite.list", right=READ, reads=True)
class ListInvitationsArgs(OperationArgs[list[TokenView]], frozen=True):
    """All invitations, the newest first. Codes are not kept, so none is shown."""


@declares("token.add", right=WRITE)
class AddTokenArgs(OperationArgs[NewTokenView], frozen=True):
    """Print a link by which people (chat_link) or a program (webhook) may write to the group FOLDER.

    A chat link answers at /chat/TOKEN of the web page's address, a webhook at /hook/TOKEN. Pages of --origins may show
    the chat in a frame. With --signature what comes is believed only if the service signed it. The secret is made and
    printed, unless --signing-secret gives one.
    """

    kind: Annotated[LinkKind, argument("The kind of link.")]
    folder: Folder
    label: Annotated[
        str, option("The service that posts to a webhook, like github; a webhook needs it."), Meta(max_length=64)
    ] = ""
    suffix: Annotated[str, option("Tells several rooms of one group apart."), Meta(max_length=64)] = ""
    days: Days = 0
    origins: Annotated[
        list[str],
        option(
            "A site that may show a chat link in a frame, like https://shop.example; may be repeated.",
            metavar="ORIGIN",
        ),
        Meta(max_length=10),
    ] = field(default_factory=list)
    instructions: Annotated[
        str,
        option("Instructions to the agent for the posts of a webhook."),
        Meta(max_length=LONGEST_INSTRUCTIONS),
    ] = ""
    signature: Annotated[Signature, option("The service whose signatures prove the posts of a webhook.")] = (
        Signature.NONE
    )
    signing_secret: SigningSecret = ""


@declares("token.sign", right=WRITE)
class SignTokenArgs(OperationArgs[SignedTokenView], frozen=True):
    """Say how a webhook's posts are proved from now on. Posts that are signed with an older secret are refused.

    Services such as Stripe show their secret only once they know the link's address.
    """

    id: Annotated[str, argument("The webhook's id, as the list shows it.", "ID")]
    signature: Annotated[Signature, argument("The service whose signatures are checked (none: nothing is proved).")]
    signing_secret: SigningSecret = ""
    folder: Annotated[str, option("The group that it is for, for callers with rights there alone.", scope=True)] = ""


@declares("token.list", right=READ, reads=True)
class ListTokensArgs(OperationArgs[list[TokenView]], frozen=True):
    """Invitations, chat links and webhooks, the newest first. Secrets are not kept, so none is shown."""

    limit: Annotated[int, option("At most so many.", least=1, most=1000)] = 1000
    before: Annotated[str, option("Only those that are older than this one.", metavar="TOKEN")] = ""


@declares("token.rm", right=WRITE)
class RevokeTokenArgs(OperationArgs[TokenView], frozen=True):
    """Revoke an invitation, a chat link or a webhook. People who joined with it stay members."""

    id: Annotated[str, argument("Its id, as the list shows it.", "ID")]
    folder: Annotated[str, option("The group that it is for, for callers with rights there alone.", scope=True)] = ""
