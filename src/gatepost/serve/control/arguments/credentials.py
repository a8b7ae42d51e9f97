"""Credentials: tokens that let somebody in (invitations, chat links, webhooks), API tokens, browsers that are signed
in, passkeys and passwords."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.people.logins import BrowserLogin
from gatepost.store.people.passkeys import Passkey
from gatepost.store.rights.api_tokens import ApiToken
from gatepost.store.rights.tokens import InvitedRights, Token, TokenState

TOKENS_READ, TOKENS_WRITE = "tokens.read", "tokens.write"
LONGEST_LABEL = 100
LONGEST_INSTRUCTIONS = 4000
TokenFolder = Annotated[str, argument("The group that it is for.", scope=True, examples=("acme/eng",))]
TokenDays = Annotated[int, option("For how many days it works (0: without end).", least=0, most=3650)]
API_TOKENS_READ, API_TOKENS_WRITE = "api_tokens.read", "api_tokens.write"
LOGINS_READ, LOGINS_WRITE = "logins.read", "logins.write"
LOGINS_OWN = "logins.own"
LONGEST_PASSWORD = 4096  # characters of what may be sent


class TokenView(Token, frozen=True, kw_only=True):
    state: Annotated[TokenState, shown("State", ShownAs.BADGE)]


class NewTokenView(Struct, frozen=True, kw_only=True):
    """`secret`: it is shown once, because only its hash is kept. So is `url`, which has it; '' if no page answers it.
    An invitation to the page has the link alone. `signing_secret`: what the service signs with, if it was made here."""

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


@declares("invite.create", right=TOKENS_WRITE)
class AddInvitationArgs(OperationArgs[NewTokenView], frozen=True):
    """Print the code of an invitation. A person who sends it in a chat becomes a member of the group FOLDER.

    People send it alone, as `/join CODE` or as `/start CODE`. With --own-group each of them gets a group of their own
    below FOLDER, made from FOLDER's prototype/ folder.

    With --page its link also signs in somebody who is new here, once, under a name that they choose. It gives nobody
    more than its maker may do, when it is made and when it is accepted.
    """

    folder: TokenFolder
    uses: Annotated[int, option("How many people may use it.", least=1, most=1000)] = 1
    days: TokenDays = 7
    own_group: Annotated[bool, option("Give each of them a group of their own below FOLDER.")] = False
    label: Annotated[str, option("Its purpose, to tell it from others."), Meta(max_length=LONGEST_LABEL)] = ""
    rights: Annotated[InvitedRights, option("Let them talk to the agent, also see its costs, or manage it.")] = (
        InvitedRights.TALK
    )
    page: Annotated[bool, option("Let somebody new sign in to the web page by its link.")] = False


@declares("invite.list", right=TOKENS_READ, reads=True)
class ListInvitationsArgs(OperationArgs[list[TokenView]], frozen=True):
    """All invitations, the newest first. Codes are not kept, so none is shown."""


@declares("token.add", right=TOKENS_WRITE)
class AddTokenArgs(OperationArgs[NewTokenView], frozen=True):
    """Print a link by which people (a chat link) or a program (a webhook) may write to the group FOLDER.

    A chat link answers at /chat/TOKEN of the web page's address, a webhook at /hook/TOKEN. Pages of --origins may show
    the chat in a frame. With --signature what comes is believed only if the service signed it. The secret is made and
    printed, unless --signing-secret gives one.
    """

    kind: Annotated[LinkKind, argument("The kind of link.")]
    folder: TokenFolder
    label: Annotated[
        str, option("The service that posts to a webhook, like github; a webhook needs it."), Meta(max_length=64)
    ] = ""
    suffix: Annotated[str, option("Tells several rooms of one group apart."), Meta(max_length=64)] = ""
    days: TokenDays = 0
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


@declares("token.sign", right=TOKENS_WRITE)
class SignTokenArgs(OperationArgs[SignedTokenView], frozen=True):
    """Say how a webhook's posts are proved from now on. Posts that are signed with an older secret are refused.

    Services such as Stripe show their secret only once they know the link's address.
    """

    id: Annotated[str, argument("The webhook's id, as the list shows it.", "ID")]
    signature: Annotated[Signature, argument("The service whose signatures are checked (none: nothing is proved).")]
    signing_secret: SigningSecret = ""
    folder: Annotated[str, option("The group that it is for, for callers with rights there alone.", scope=True)] = ""


@declares("token.list", right=TOKENS_READ, reads=True)
class ListTokensArgs(OperationArgs[list[TokenView]], frozen=True):
    """Invitations, chat links and webhooks, the newest first. Secrets are not kept, so none is shown."""

    limit: Annotated[int, option("At most so many.", least=1, most=1000)] = 1000
    before: Annotated[str, option("Only those that are older than this one.", metavar="TOKEN")] = ""


@declares("token.rm", right=TOKENS_WRITE)
class RevokeTokenArgs(OperationArgs[TokenView], frozen=True):
    """Revoke an invitation, a chat link or a webhook. People who joined with it stay members."""

    id: Annotated[str, argument("Its id, as the list shows it.", "ID")]
    folder: Annotated[str, option("The group that it is for, for callers with rights there alone.", scope=True)] = ""


class ApiTokenView(ApiToken, frozen=True, kw_only=True):
    state: Annotated[TokenState, shown("State", ShownAs.BADGE)]


class NewApiTokenView(Struct, frozen=True, kw_only=True):
    """`secret`: it is shown once, because only its hash is kept."""

    secret: str
    token: ApiTokenView


@declares("api_token.add", right=API_TOKENS_WRITE)
class AddApiTokenArgs(OperationArgs[NewApiTokenView], frozen=True):
    """Print a token by which a program may run operations over HTTP, with the rights SCOPES.

    A scope is a right as `gatepost grant` has it, without `op:`: tasks.read. A part may be `*`: *.read, tasks.*, or *
    for all. The token may never do more than the person it is for may at that moment.
    """

    scopes: Annotated[
        list[str],
        argument("The rights that it has.", examples=(["tasks.read", "ledger.read"],)),
    ]
    days: Annotated[int, option("For how many days it works (0: without end).", least=0, most=3650)] = 90
    label: Annotated[str, option("Its purpose, to tell it from others."), Meta(max_length=LONGEST_LABEL)] = ""
    person: Annotated[
        str,
        option(
            "The person whose rights bound it; for the operator alone (default: you).", examples=("telegram:user/9",)
        ),
    ] = ""


@declares("api_token.list", right=API_TOKENS_READ, needs_home=True)
class ListApiTokensArgs(OperationArgs[list[ApiTokenView]], frozen=True):
    """API tokens, the newest first. The operator sees all, a person their own. Secrets are not kept, so none is
    shown."""


@declares("api_token.rm", right=API_TOKENS_WRITE)
class RevokeApiTokenArgs(OperationArgs[ApiTokenView], frozen=True):
    """Revoke an API token. The next request with it is refused."""

    id: Annotated[str, argument("Its id, as the list shows it.", "ID")]


class BrowserLoginView(BrowserLogin, frozen=True, kw_only=True):
    """`person`: how people call them. `is_this`: it is the browser that asks."""

    person: Annotated[str, shown("Person", head="who")]
    is_this: Annotated[bool, shown("Where", ShownAs.FLAG, word="this browser")]


class EndedLogins(Struct, frozen=True, kw_only=True):
    """How many browsers and one-time addresses do not work any more."""

    person: str
    ended: int


@declares("login.list", right=LOGINS_READ, answers_all=True, needs_home=True)
class ListLoginsArgs(OperationArgs[list[BrowserLoginView]], frozen=True):
    """Browsers that are signed in, those that were here last first. A person sees their own; the operator sees all."""

    everybody: Annotated[
        bool, option("Those of everybody, with the right for it; the operator sees them anyway.", name="all")
    ] = False


@declares("login.end", right=LOGINS_WRITE, answers_all=True, needs_home=True)
class EndLoginArgs(OperationArgs[BrowserLoginView], frozen=True):
    """Sign one browser out. Its open pages and streams end at once."""

    id: Annotated[str, argument("Its id, as the list shows it.", "LOGIN")]


@declares("login.end_all", right=LOGINS_WRITE, answers_all=True, needs_home=True)
class EndAllLoginsArgs(OperationArgs[EndedLogins], frozen=True):
    """Sign all browsers of a person out, and void their one-time addresses. Pages that these have open end at once."""

    person: Annotated[
        str, option("The person, by one of their identities (default: you).", examples=("web:user/ann",))
    ] = ""
    keep_this: Annotated[bool, option("Leave the browser that asks signed in.", hidden=True)] = False


class PasskeyView(Passkey, frozen=True, kw_only=True):
    """`person`: how people call them."""

    person: Annotated[str, shown("Person")]


class PasskeyList(Struct, frozen=True, kw_only=True):
    """`is_on`: people can add some, and sign in with them. `missing`: what must be installed for it."""

    is_on: bool
    missing: str = ""
    passkeys: list[PasskeyView]


@declares("passkey.list", right=LOGINS_READ, answers_all=True, needs_home=True)
class ListPasskeysArgs(OperationArgs[PasskeyList], frozen=True):
    """Passkeys, the oldest first. A person sees their own; the operator sees all. They are added on the web page."""

    everybody: Annotated[
        bool, option("Those of everybody, with the right for it; the operator sees them anyway.", name="all")
    ] = False


@declares("passkey.rm", right=LOGINS_WRITE, answers_all=True, needs_home=True)
class RemovePasskeyArgs(OperationArgs[PasskeyView], frozen=True):
    """Remove a passkey. It signs nobody in from then on; browsers that it has signed in stay so."""

    id: Annotated[str, argument("Its id, as the list shows it.", "PASSKEY")]


class SignInState(Struct, frozen=True, kw_only=True):
    """`name`: by which the person signs in; '': they have no identity on the web page. `password_login`: whether
    passwords are on here. `changed_at`: when they set theirs; None: they have none."""

    name: Annotated[str, shown("Name to sign in with", ShownAs.CODE)]
    password_login: bool
    changed_at: Annotated[int | None, shown("Password", ShownAs.MOMENT, empty="None is set")]


@declares("login.show", right=LOGINS_OWN, answers_all=True)
class ShowSignInArgs(OperationArgs[SignInState], frozen=True):
    """The name by which you sign in to the web page, and whether you have set a password."""


@declares("login.set_password", right=LOGINS_OWN, offline=False, answers_all=True)
class SetPasswordArgs(OperationArgs[SignInState], frozen=True):
    """Set your password for the web page. Your other browsers are signed out.

    It needs the old password, or a browser that was signed in within the last ten minutes.
    """

    new_password: Annotated[str, option("At least 12 characters.", secret=True), Meta(max_length=LONGEST_PASSWORD)]
    old_password: Annotated[
        str,
        option("The password until now, if you have signed in more than ten minutes ago.", secret=True),
        Meta(max_length=LONGEST_PASSWORD),
    ] = ""


@declares("login.remove_password", right=LOGINS_WRITE, answers_all=True, needs_home=True)
class RemovePasswordArgs(OperationArgs[SignInState], frozen=True):
    """Remove a password of the web page. All browsers of that person but this one are signed out."""

    person: Annotated[
        str, option("The person, by one of their identities (default: you).", examples=("web:user/ann",))
    ] = ""
