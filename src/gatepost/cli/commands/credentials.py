"""`gatepost token`, `invite`, `login` and `passkey`: how people and programs get in, and how that ends."""

import getpass
import sys
from typing import Any
from urllib.parse import urlencode

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.core.errors import Invalid, Unavailable
from gatepost.core.home import Home, find
from gatepost.core.process.listen_address import find_control_path, render_open_help
from gatepost.core.terminal_text import one_line
from gatepost.serve.control.arguments.credentials import (
    AddApiTokenArgs,
    AddInvitationArgs,
    AddTokenArgs,
    ApiTokenView,
    BrowserLoginView,
    EndAllLoginsArgs,
    EndedLogins,
    EndLoginArgs,
    ListApiTokensArgs,
    ListInvitationsArgs,
    ListLoginsArgs,
    ListPasskeysArgs,
    ListTokensArgs,
    NewApiTokenView,
    NewTokenView,
    PasskeyList,
    PasskeyView,
    RemovePasskeyArgs,
    RemovePasswordArgs,
    RevokeApiTokenArgs,
    RevokeTokenArgs,
    SignedTokenView,
    SignInState,
    SignTokenArgs,
    TokenView,
)
from gatepost.serve.control.client import STRANGE, ControlClient, get_result
from gatepost.store.rights.tokens import InvitedRights, SignatureScheme, render_invited

NO_ADDRESS = "It is answered at the web page's address; set web.url to that address."


@click.group()
def token_command() -> None:
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


@token_command.command("add")
@from_operation(AddTokenArgs, prepare=_read_signing_secret)
def add_token(run: CommandRun, made: NewTokenView) -> None:
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


@token_command.command("sign")
@from_operation(SignTokenArgs, prepare=_read_signing_secret)
def sign_token(run: CommandRun, signed: SignedTokenView) -> None:
    token = signed.token
    output.print_line(f"{token.id} ({token.address}): the signature is now that of {token.signature}")
    _print_signing_secret(signed)


@token_command.command("list")
@from_operation(ListTokensArgs)
def list_tokens(run: CommandRun, found: list[TokenView]) -> None:
    print_tokens(found, "there are no tokens")


def print_tokens(found: list[TokenView], empty: str) -> None:
    own: dict[str, output.Show] = {"folder": lambda each: f"{each.folder}/…" if each.own_group else each.folder}
    below = ("address", "signature", "origins", "instructions")
    output.print_records(TokenView, found, own, empty=empty, without=("own_group", *below))
    for each in found:
        if more := list_token_details(each):
            output.print_line("\n".join([f"\n{each.id}:", *(f"  {line}" for line in more)]))


def list_token_details(token: TokenView) -> list[str]:
    """Return what a row of the table has no room for."""
    return [
        *([f"room: {token.address}"] if token.address else []),
        *([f"signed as by {token.signature}"] if token.signature != SignatureScheme.NONE else []),
        *([f"sites: {token.origins}"] if token.origins else []),
        *([f"instructions: {one_line(token.instructions)}"] if token.instructions else []),
    ]


def print_revoked(run: CommandRun, token: TokenView) -> None:
    output.print_line(f"{token.id} ({token.kind} for {token.folder}) does not work any more")


token_command.command("rm")(from_operation(RevokeTokenArgs)(print_revoked))


@token_command.group("api")
def token_api() -> None:
    """Tokens by which programs run operations over HTTP: add, list, rm."""


@token_api.command("add")
@from_operation(AddApiTokenArgs)
def add_api_token(run: CommandRun, made: NewApiTokenView) -> None:
    token = made.token
    output.print_line(made.secret)
    output.print_line(f"It has the rights {', '.join(token.scopes)} of {token.maker}, and is shown only now.")
    output.print_line("A program sends it as `Authorization: Bearer …` to /v1/ops/ of the web page's address.")
    output.print_line(f"`gatepost token api rm {token.id}` takes it back.")


@token_api.command("list")
@from_operation(ListApiTokensArgs)
def list_api_tokens(run: CommandRun, found: list[ApiTokenView]) -> None:
    output.print_records(ApiTokenView, found, empty="there are no API tokens")


def print_api_revoked(run: CommandRun, token: ApiTokenView) -> None:
    output.print_line(f"{token.id} does not work any more")


token_api.command("rm")(from_operation(RevokeApiTokenArgs)(print_api_revoked))


@click.group()
def invite_command() -> None:
    """Codes that let people into a group: add, list, rm. Works with the gateway up or down."""


@invite_command.command("add")
@from_operation(AddInvitationArgs)
def add_invitation(run: CommandRun, made: NewTokenView) -> None:
    code, token = made.secret, made.token
    output.print_line(code or made.url)
    gets = "gets a group of their own below" if token.own_group else "becomes a member of"
    if code:
        output.print_line(f"Whoever sends it in a chat, alone or as `/join {code}`, {gets} {token.folder}.")
    if code and made.url:
        output.print_line(f"This page says so, too, and whoever is signed in accepts it there: {made.url}")
    if token.page:
        may = render_invited(token.rights, token.folder or "")
        output.print_line(f"Whoever opens it first chooses a name, is signed in, and may {may}.")
    elif token.rights is not InvitedRights.TALK:
        output.print_line(f"They may {render_invited(token.rights, token.folder or '')}.")
    ends = f", until {output.format_time(token.expires_at)}" if token.expires_at else ""
    uses = "once" if token.uses_left == 1 else f"{token.uses_left} times"
    output.print_line(f"It works {uses}{ends}. `gatepost invite rm {token.id}` takes it back.")


@invite_command.command("list")
@from_operation(ListInvitationsArgs)
def list_invitations(run: CommandRun, found: list[TokenView]) -> None:
    print_tokens(found, "there are no invitations; `gatepost invite add FOLDER` makes one")


invite_command.command("rm")(from_operation(RevokeTokenArgs)(print_revoked))


@click.group("login", invoke_without_command=True)
@click.option("--user", default="", metavar="ID", help="Sign in as this person, by one of their identities.")
@click.pass_context
def login_command(ctx: click.Context, user: str) -> None:
    """Print a new address that signs one browser in as the owner, once, within ten minutes.

    With --user it signs in somebody else, with the rights that they have. They see one room of their own. `gatepost
    login list` shows the browsers that are signed in; `end` and `end-all` sign them out.
    """
    if ctx.invoked_subcommand is not None:
        return
    home = find(ctx.obj)
    path = f"/v1/login?{urlencode({'user': user})}" if user else "/v1/login"
    answer = ControlClient(find_control_path(home), home.path).post(path)
    found = get_result(answer)
    if not isinstance(found, dict) or not isinstance(found.get("url"), str):
        raise Unavailable("the gateway", STRANGE)
    output.print_line(render_open_help(found["url"]))


@login_command.command("list")
@from_operation(ListLoginsArgs)
def list_logins(run: CommandRun, found: list[BrowserLoginView]) -> None:
    own: dict[str, output.Show] = {"person": _render_person}
    output.print_records(BrowserLoginView, found, own, empty="no browser is signed in", without=("is_this",))


def _render_person(login: BrowserLoginView) -> str:
    return f"{login.user_id} ({login.person})" if login.person not in ("", login.user_id) else login.user_id


@login_command.command("end")
@from_operation(EndLoginArgs)
def end_login(run: CommandRun, ended: BrowserLoginView) -> None:
    output.print_line(f"{ended.id} ({ended.device or 'unknown device'}) of {ended.user_id} is signed out")


@login_command.command("end-all")
@from_operation(EndAllLoginsArgs)
def end_all_logins(run: CommandRun, done: EndedLogins) -> None:
    output.print_line(f"{done.person} is signed out everywhere: {done.ended} browsers and addresses ended")


@login_command.command("remove-password")
@from_operation(RemovePasswordArgs)
def remove_password(run: CommandRun, state: SignInState) -> None:
    output.print_line(f"{state.name} has no password any more, and is signed out; `gatepost login` lets them in")


@click.group()
def passkey_command() -> None:
    """Passkeys of the web page: list, rm. People add theirs on the page Sign-ins of the dashboard."""


@passkey_command.command("list")
@from_operation(ListPasskeysArgs)
def list_passkeys(run: CommandRun, found: PasskeyList) -> None:
    output.print_records(PasskeyView, found.passkeys, empty="there are no passkeys")
    if found.missing:
        output.print_line(f"They are switched on, and the library is not there: {found.missing}")
    elif found.passkeys and not found.is_on:
        output.print_line("They are off and sign nobody in; the setting web.passkey_login switches them on")


def print_removed_passkey(run: CommandRun, passkey: PasskeyView) -> None:
    output.print_line(f"{passkey.label} of {passkey.person} signs nobody in any more")


passkey_command.command("rm")(from_operation(RemovePasskeyArgs)(print_removed_passkey))
