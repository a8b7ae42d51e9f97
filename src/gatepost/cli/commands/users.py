"""`gatepost user`, `pair`, `unpair` and `onboarding`: the people, what each may do, and those who wait to be let in."""

import sys
from pathlib import Path
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, call_operation, from_operation, with_arguments
from gatepost.core.errors import did_you_mean
from gatepost.core.home import Home, expand_user
from gatepost.core.languages.catalogue import NAMES
from gatepost.flow.reports import NOT_LOOKED, ErasureReport
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.channels import ListChannelsArgs
from gatepost.serve.control.arguments.users import (
    AddMemberArgs,
    AddUserArgs,
    AllowNewcomerArgs,
    AllowUserArgs,
    BlockUserArgs,
    ChooseLanguageArgs,
    CloseEntranceArgs,
    DenyNewcomerArgs,
    ForgetUserArgs,
    GiveRoleArgs,
    ListNewcomersArgs,
    ListUsersArgs,
    OnboardingOverview,
    OpenEntranceArgs,
    PairingCode,
    PairUserArgs,
    RenameUserArgs,
    ShowUserArgs,
    UnblockUserArgs,
    UnpairedIdentity,
    UnpairUserArgs,
    UserDetails,
    render_roles,
)
from gatepost.store.people.newcomers import Entrance, Newcomer, render_limit
from gatepost.store.rights.acl import ANYWHERE, AclEffect, AclRow

ERASURE_PATIENCE_S = 6 * 3600.0  # much is erased in small portions, so that nobody waits for it
WHAT = {  # how people call what is counted
    "answers": "answers to them",
    "access_rows": "rows of the access list",
    "choices": "choices of a group or a topic",
    "audit": "rows of the audit log, which stay without them",
    "conversations": "conversations, which start anew",
    "direct_rooms": "direct rooms",
    "log_lines": "lines of the log",
    "named": "rows of others that named them",
    "pairing_codes": "pairing codes",
    "routes": "routes that are about them alone",
    "timeline": "entries of timelines",
}


@click.group()
def user_command() -> None:
    """The people and their rights: add, rename, list, show, role, member, pair, unpair, block, unblock, allow, forget;
    and their language.

    Works with the gateway up or down.

    ID is how a platform calls somebody, like telegram:user/9; `gatepost ledger list --json` shows it as `sender`.
    """


def print_user(run: CommandRun, user: UserDetails) -> None:
    roles = [render_roles(user.roles)] if user.roles else []
    may = [*roles, *(f"member of {folder}" for folder in user.member_of)]
    called = f" ({user.name})" if user.name else ""
    output.print_line(f"{user.id}{called}: {', '.join(may) or 'known, a guest everywhere'}")


def print_language(run: CommandRun, user: UserDetails) -> None:
    called = f" ({user.name})" if user.name else ""
    chosen = NAMES.get(user.language, user.language) if user.language else "no language: the page follows the browser"
    output.print_line(f"{user.id}{called}: {chosen}")


def print_details(run: CommandRun, user: UserDetails) -> None:
    print_user(run, user)
    for each in user.identities[1:]:
        output.print_line(f"  also {each}")
    for each in user.direct_rooms:
        output.print_line(f"  can be reached in {each}")
    output.print_line(f"  known since {output.format_time(user.created_at)}")


def print_code(run: CommandRun, issued: PairingCode) -> None:
    if issued.link:
        output.print_line(issued.link)
        output.print_line(f"Whoever is signed in there and confirms it gets the identity {issued.identity}.")
        output.print_line("It works once, within ten minutes. Give it to nobody else.")
        return
    code, person = issued.code, issued.person
    output.print_line(code)
    output.print_line(f"Send it from the chat identity that is to be {person}: alone, or as `/pair {code}`.")
    output.print_line("It works once, within ten minutes.")


def print_unpaired(run: CommandRun, done: UnpairedIdentity) -> None:
    output.print_line(f"{done.identity} is no identity of {done.person} any more")


def print_acl_row(run: CommandRun, row: AclRow) -> None:
    says = "is shut out" if row.effect == AclEffect.DENY else "may speak"
    where = "everywhere" if row.scope == ANYWHERE else f"in {row.scope.removesuffix('/**')} and below"
    output.print_line(f"{row.principal} {says} {where} (row {row.id} of the access list)")


def print_unblocked(run: CommandRun, row: AclRow) -> None:
    output.print_line(f"{row.principal} is shut out no more by row {row.id} of the access list")


user_command.command("block")(from_operation(BlockUserArgs)(print_acl_row))
user_command.command("unblock")(from_operation(UnblockUserArgs)(print_unblocked))
user_command.command("allow")(from_operation(AllowUserArgs)(print_acl_row))
user_command.command("add")(from_operation(AddUserArgs)(print_user))
user_command.command("rename")(from_operation(RenameUserArgs)(print_user))
user_command.command("language")(from_operation(ChooseLanguageArgs)(print_language))
user_command.command("show")(from_operation(ShowUserArgs)(print_details))
user_command.command("pair")(from_operation(PairUserArgs)(print_code))
user_command.command("unpair")(from_operation(UnpairUserArgs)(print_unpaired))
user_command.command("role")(from_operation(GiveRoleArgs)(print_user))
user_command.command("member")(from_operation(AddMemberArgs)(print_user))


@user_command.command("list")
@from_operation(ListUsersArgs)
def list_users(run: CommandRun, found: list[UserDetails]) -> None:
    output.print_records(UserDetails, found)


@user_command.command("forget")
@with_arguments(ForgetUserArgs)
@click.option(
    "--export", "target", type=click.Path(path_type=Path, dir_okay=False), help="First write what is known to this zip."
)
@click.option("--yes", is_flag=True, help="Erase it without asking.")
def forget_user(home: Home, args: dict[str, Any], as_json: bool, target: Path | None, yes: bool) -> int:
    known = call_operation(home, ForgetUserArgs, {"id": args["id"]}, ERASURE_PATIENCE_S)
    if not as_json:
        _print_known_person(known)
    if target is not None:
        from gatepost.cli.person_export import write_export

        files = write_export(home, args["id"], expand_user(target).absolute())
        rest = "; files on other gateways are not in it" if NOT_LOOKED in known.left else ""
        output.print_line(f"exported to {target}: {files} files beside the messages{rest}", error=as_json)
    if not yes and not _confirm_erasure(args["id"], bool(known.counts)):
        if as_json:
            output.print_json(to_json(known))
        return 0
    done = call_operation(home, ForgetUserArgs, {"id": args["id"], "erase": True}, ERASURE_PATIENCE_S)
    if as_json:
        output.print_json(to_json(done))
    else:
        _print_erased_person(done)
    return 0


def _confirm_erasure(identity: str, anything: bool) -> bool:
    if not anything:
        return False
    if sys.stdin is None or not sys.stdin.isatty():
        output.print_line("Nothing was changed; --yes erases all of it.", error=True)
        return False
    typed = click.prompt(f"This cannot be undone. Write {identity} to erase all of it", default="", show_default=False)
    if typed != identity:
        output.print_line("Nothing was changed.")
    return bool(typed == identity)


def _print_known_person(known: ErasureReport) -> None:
    names = ", ".join(known.identities)
    if not known.counts:
        output.print_line(f"Nothing is known of {names}.")
        return
    output.print_line(f"Known of {names}:")
    _print_counts(known.counts)
    for each in known.left:
        output.print_line(each)


def _print_erased_person(done: ErasureReport) -> None:
    output.print_line("Erased:" if done.counts else "There was nothing to erase.")
    _print_counts(done.counts)
    if done.counts:
        output.print_line(f"The audit log calls them {done.stand_in}.")
    if not done.rewritten:
        output.print_line(
            "A store that was used before this version may hold remains of rows that were deleted then:"
            " run this again with the gateway down, which writes its file anew."
        )
    for each in done.left:
        output.print_line(each)


def _print_counts(counts: dict[str, int]) -> None:
    for what, number in counts.items():
        output.print_line(f"  {WHAT.get(what, what)}: {number:,}")


pair_command = click.command("pair")(from_operation(PairUserArgs)(print_code))


unpair_command = click.command("unpair")(from_operation(UnpairUserArgs)(print_unpaired))


@click.group()
def onboarding_command() -> None:
    """Strangers who get a group of their own: open, close, list, allow, deny. Works with the gateway up or down; groups
    are made while it is up."""


def _render_entrance(entrance: Entrance) -> str:
    where = f"{entrance.senders} on {entrance.instance}"
    return f"entrance {entrance.id}: {where} → {entrance.folder}/…, {render_limit(entrance.per_day)}"


def print_entrance(run: CommandRun, entrance: Entrance) -> None:
    output.print_line(_render_entrance(entrance))
    there = [each.instance for each in call_operation(run.home, ListChannelsArgs, {})]
    if entrance.instance not in there:
        near = did_you_mean(entrance.instance, there) or "; `gatepost channel list` shows them"
        output.print_line(f"nobody comes in yet: there is no channel named {entrance.instance!r}{near}")


def print_closed(run: CommandRun, entrance: Entrance) -> None:
    output.print_line(f"entrance {entrance.id} is closed")


def print_newcomer(run: CommandRun, newcomer: Newcomer) -> None:
    output.print_line(f"{newcomer.id} ({newcomer.sender}) is {newcomer.state}")


onboarding_command.command("open")(from_operation(OpenEntranceArgs)(print_entrance))
onboarding_command.command("close")(from_operation(CloseEntranceArgs)(print_closed))
onboarding_command.command("allow")(from_operation(AllowNewcomerArgs)(print_newcomer))
onboarding_command.command("deny")(from_operation(DenyNewcomerArgs)(print_newcomer))


@onboarding_command.command("list")
@from_operation(ListNewcomersArgs)
def list_newcomers(run: CommandRun, found: OnboardingOverview) -> None:
    for entrance in found.entrances:
        opened = f"opened by {entrance.created_by} at {output.format_time(entrance.created_at)}"
        output.print_line(f"{_render_entrance(entrance)}; {opened}")
    if found.entrances:
        output.print_line()
    own: dict[str, output.Show] = {"folder": lambda each: each.folder or f"{each.parent}/…"}
    output.print_records(
        Newcomer, found.newcomers, own, empty="nobody has come yet", without=("address", "admitted_at")
    )
