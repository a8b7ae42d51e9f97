"""`gatepost token`: invitations, chat links and webhooks; and tokens by which programs run operations."""

import getpass
import sys
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.core.terminal_text import one_line
from gatepost.serve.control.arguments.credentials import (
    AddApiTokenArgs,
    AddTokenArgs,
    ApiTokenView,
    ListApiTokensArgs,
    ListTokensArgs,
    NewApiTokenView,
    NewTokenView,
    RevokeApiTokenArgs,
    RevokeTokenArgs,
    SignedTokenView,
    SignTokenArgs,
    TokenView,
)
from gatepost.store.rights.tokens import SignatureScheme

NO_ADDRESS = "It is answered at the web page's address; set web.url to that address."


@click.group()
def command() -> None:
    """Invitations, chat links and webhooks: add, list, sign, rm. Works with the gateway up or down.

    `gatepost invite` makes invitations. `gatepost token api` makes tokens by which programs run operations over HTTP.
    """


def _read_signing_secret(home: Home, args: dict[str, Any]) -> dict[str, Any]:
    given = args["signing_secret"]
    if not given:
        return args
    if given != "-":
        why = "others can see a value on the command line; write --signing-secret - and give it on stdin"
        raise Invalid("--signing-secret", why)
    read = getpass.getpass("Signing secret (not shown): ") if sys.stdin.isatty() else sys.stdin.readline()
    return {**args, "signing_secret": read.strip()}


@command.command()
@from_operation(AddTokenArgs, prepare=_read_signing_secret)
def add(run: CommandRun, made: NewTokenView) -> None:
    token = made.token
    output.print_line(made.url or made.secret)
    output.print_line(f"It leads to the room {token.address} of {token.folder}, and is shown only now.")
    if not made.url:
        output.print_line(NO_ADDRESS)
    if token.origins and made.url:
        output.print_line("On these sites a button opens it; put this line into their pages:")
        output.print_line(_render_script(made.url))
    _print_signing_secret(made)
    output.print_line(f"`gatepost token rm {token.id}` takes it back.")


def _render_script(url: str) -> str:
    base = url.rpartition("/chat/")[0]
    return f'<script src="{base}/static/widget.js" data-link="{url}"></script>'


def _print_signing_secret(made: NewTokenView | SignedTokenView) -> None:
    if made.signing_secret:
        output.print_line(f"What comes by it is signed with this secret, shown only now: {made.signing_secret}")


@command.command()
@from_operation(SignTokenArgs, prepare=_read_signing_secret)
def sign(run: CommandRun, signed: SignedTokenView) -> None:
    token = signed.token
    output.print_line(f"{token.id} ({token.address}): the signature is now that of {token.signature}")
    _print_signing_secret(signed)


@command.command("list")
@from_operation(ListTokensArgs)
def list_tokens(run: CommandRun, found: list[TokenView]) -> None:
    print_tokens(found, "there are no tokens")


def print_tokens(found: list[TokenView], empty: str) -> None:
    own: dict[str, output.Show] = {"folder": lambda each: f"{each.folder}/…" if each.own_group else each.folder}
    below = ("address", "signature", "origins", "instructions")
    output.print_records(TokenView, found, own, empty=empty, without=("own_group", *below))
    for each in found:
        if more := list_details(each):
            output.print_line("\n".join([f"\n{each.id}:", *(f"  {line}" for line in more)]))


def list_details(token: TokenView) -> list[str]:
    """Return what a row of the table has no room for."""
    return [
        *([f"room: {token.address}"] if token.address else []),
        *([f"signed as by {token.signature}"] if token.signature != SignatureScheme.NONE else []),
        *([f"sites: {token.origins}"] if token.origins else []),
        *([f"instructions: {one_line(token.instructions)}"] if token.instructions else []),
    ]


def print_revoked(run: CommandRun, token: TokenView) -> None:
    output.print_line(f"{token.id} ({token.kind} for {token.folder}) does not work any more")


command.command("rm")(from_operation(RevokeTokenArgs)(print_revoked))


@command.group()
def api() -> None:
    """Tokens by which programs run operations over HTTP: add, list, rm."""


@api.command("add")
@from_operation(AddApiTokenArgs)
def add_api_token(run: CommandRun, made: NewApiTokenView) -> None:
    token = made.token
    output.print_line(made.secret)
    output.print_line(f"It has the rights {', '.join(token.scopes)} of {token.maker}, and is shown only now.")
    output.print_line("A program sends it as `Authorization: Bearer …` to /v1/ops/ of the web page's address.")
    output.print_line(f"`gatepost token api rm {token.id}` takes it back.")


@api.command("list")
@from_operation(ListApiTokensArgs)
def list_api_tokens(run: CommandRun, found: list[ApiTokenView]) -> None:
    output.print_records(ApiTokenView, found, empty="there are no API tokens")


def print_api_revoked(run: CommandRun, token: ApiTokenView) -> None:
    output.print_line(f"{token.id} does not work any more")


api.command("rm")(from_operation(RevokeApiTokenArgs)(print_api_revoked))
