"""Tokens that let somebody in: invitations, chat links, webhooks."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, field

from gatepost.serve.control.declaration import OperationArgs, argument, declares, option

READ, WRITE = "tokens.read", "tokens.write"
LONGEST_LABEL = 100
Folder = Annotated[str, argument("The group that it is for.", scope=True, examples=("acme/eng",))]
Days = Annotated[int, option("For how many days it works (0: without end).", least=0, most=3650)]


class LinkKind(StrEnum):
    """What `token.add` makes."""

    CHAT_LINK = "chat_link"
    WEBHOOK = "webhook"


@declares("invite.create", right=WRITE)
class AddInvitationArgs(OperationArgs, frozen=True):
    """Print the code of an invitation. Whoever sends it in a chat becomes a member of the group FOLDER.

    People send it alone, as `/join CODE` or as `/start CODE`. With --own-group each of them gets a group of her own
    below FOLDER, made from FOLDER's prototype/ folder.
    """

    folder: Folder
    uses: Annotated[int, option("How many people may use it.", least=1, most=1000)] = 1
    days: Days = 7
    own_group: Annotated[bool, option("Give each of them a group of her own below FOLDER.")] = False
    label: Annotated[str, option("What it is for, to tell it from others."), Meta(max_length=LONGEST_LABEL)] = ""


@declares("invite.list", right=READ, reads=True)
class ListInvitationsArgs(OperationArgs, frozen=True):
    """All invitations, the newest first. Codes are not kept, so none is shown."""


@declares("token.add", right=WRITE)
class AddTokenArgs(OperationArgs, frozen=True):
    """Print a token by which people (chat_link) or a program (webhook) may write to the group FOLDER.

    A chat link answers at /chat/TOKEN of the web page's address. Pages of --origins may show it in a frame. No page
    answers webhooks yet.
    """

    kind: Annotated[LinkKind, argument("What it is.")]
    folder: Folder
    label: Annotated[str, option("Of a webhook: what reports there, like github."), Meta(max_length=64)] = ""
    suffix: Annotated[str, option("Tells several rooms of one group apart."), Meta(max_length=64)] = ""
    days: Days = 0
    origins: Annotated[
        list[str],
        option(
            "Of a chat link: a site that may show it in a frame, like https://shop.example; may be repeated.",
            metavar="ORIGIN",
        ),
        Meta(max_length=10),
    ] = field(default_factory=list)


@declares("token.list", right=READ, reads=True)
class ListTokensArgs(OperationArgs, frozen=True):
    """All invitations, chat links and webhooks, the newest first. Secrets are not kept, so none is shown."""


@declares("token.rm", right=WRITE)
class RevokeTokenArgs(OperationArgs, frozen=True):
    """Revoke an invitation, a chat link or a webhook. Who came in by it stays in."""

    id: Annotated[str, argument("Its id, as the list shows it.", "TOKEN")]
    folder: Annotated[str, option("The group that it is for, for callers with rights there alone.", scope=True)] = ""
