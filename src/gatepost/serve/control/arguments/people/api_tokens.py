"""Tokens by which programs run operations over HTTP."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.rights.api_tokens import ApiToken
from gatepost.store.rights.tokens import TokenState

READ, WRITE = "api_tokens.read", "api_tokens.write"
LONGEST_LABEL = 100


class ApiTokenView(ApiToken, frozen=True, kw_only=True):
    state: Annotated[TokenState, shown("State", ShownAs.BADGE)]


class NewApiTokenView(Struct, frozen=True, kw_only=True):
    """`secret`: it is shown once, because only its hash is kept."""

    secret: str
    token: ApiTokenView


@declares("api_token.add", right=WRITE)
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


@declares("api_token.list", right=READ, needs_home=True)
class ListApiTokensArgs(OperationArgs[list[ApiTokenView]], frozen=True):
    """API tokens, the newest first. The operator sees all, a person their own. Secrets are not kept, so none is
    shown."""


@declares("api_token.rm", right=WRITE)
class RevokeApiTokenArgs(OperationArgs[ApiTokenView], frozen=True):
    """Revoke an API token. The next request with it is refused."""

    id: Annotated[str, argument("Its id, as the list shows it.", "ID")]
