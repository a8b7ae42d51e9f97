"""`gatepost skill`: what agents are taught, and who agreed to it."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, call_operation, from_operation, with_arguments
from gatepost.cli.operation_runner import absolute, home_of
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.home import Home, expand_user
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.skills import (
    NONE,
    AgreedSkillView,
    AgreeSkillArgs,
    ListSkillsArgs,
    ReadSkillArgs,
    ReadSkillDraftArgs,
    ReadSkillUpdateArgs,
    RemoveSkillArgs,
    ShowSkillArgs,
    SkillCard,
    SkillDetails,
    SkillDraft,
    SkillList,
    WaitingSkill,
)
from gatepost.store.sessions.skills import REREAD, AgreedSkill, render_folder, shorten_digest

CLONE_TIMEOUT_S = 180.0
WIDE = 16
SAID_ABOVE = ("name", "folder", "digest", "before", "origin", "revision", "changes")  # by the record
_DRAFT = re.compile(r"([^\s:#@]{1,200}):([a-z0-9-]{1,64})\Z")


@click.group()
def skill_command() -> None:
    """Skills of agents: folders with a SKILL.md, scripts and whatever these need. An agent has those alone that a
    person agreed to; what it writes into its own `skills/` is a draft. Works with the gateway up or down.

    \b
        gatepost skill add ./pr-review --group acme/eng
        gatepost skill add https://host/skills.git --only pdf
        gatepost skill add acme/eng:pr-review           # a draft of the agent
        gatepost skill list acme/eng
    """


@skill_command.command("list")
@from_operation(ListSkillsArgs)
def list_skills(run: CommandRun, found: SkillList) -> None:
    output.print_records(AgreedSkillView, found.skills, empty="nobody has agreed to a skill", text="says")
    if found.drafts:
        output.print_line()
        output.print_line("drafts, which no agent has as a skill (`gatepost skill add GROUP:DRAFT`):")
        output.print_records(SkillDraft, found.drafts, empty="")
    if found.waiting:
        output.print_line()
        output.print_line("read, and not agreed to (kept for a day):")
        output.print_records(WaitingSkill, found.waiting, empty="", text="says")
    if found.more:
        output.print_line("there are more drafts; name a group")


@skill_command.command()
@from_operation(ShowSkillArgs)
def show(run: CommandRun, found: SkillDetails) -> None:
    output.print_details(AgreedSkill, found, width=WIDE, sparse=True)
    output.print_details(SkillCard, found.card, {each: lambda card: () for each in SAID_ABOVE}, width=WIDE, sparse=True)
    output.print_line("files:")
    for path in found.paths:
        output.print_line(f"  {path}")
    output.print_line()
    output.print_line(found.text)


def print_facts(card: SkillCard) -> None:
    """Print the facts that a person decides by, without the words of the files."""
    output.print_details(SkillCard, card, {"changes": lambda card: ()}, width=WIDE, sparse=True)


def print_card(card: SkillCard) -> None:
    print_facts(card)
    output.print_line("changes:" if card.before else "all of it:")
    for line in card.changes:
        output.print_line(f"  {line}")
    output.print_line()


@skill_command.command()
@with_arguments(ReadSkillArgs)
@click.option("--below", is_flag=True, default=None, help="The groups below have it, too.")
@click.option("--yes", is_flag=True, help="Do not ask; for scripts.")
def add(home: Home, args: dict[str, Any], as_json: bool, below: bool | None, yes: bool) -> None:
    """Show the skills of a folder, a zip file, a git repository or a draft (GROUP:NAME) as cards, and agree to them.

    Without --group, every agent has them. They are agreed to as the card showed them.
    """
    draft = None if expand_user(args["source"]).exists() else _DRAFT.match(args["source"])
    if draft:
        folder = draft[1]
        if args["target"] not in ("", folder):
            raise Invalid("--group", f"a draft of {folder} is agreed to for {folder}")
        cards = call_operation(home, ReadSkillDraftArgs, {"name": draft[2], "folder": folder})
    else:
        folder = args["target"]
        given = {**args, "source": _make_absolute(args["source"])}
        cards = call_operation(home, ReadSkillArgs, given, CLONE_TIMEOUT_S)
    _decide_all(home, cards, folder, below, yes=yes, as_json=as_json)


def _make_absolute(source: str) -> str:
    """A path as somebody means it who stands here. `#` and a folder may follow."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://|git@", source):
        return source
    place, mark, inner = (source, "", "") if expand_user(source).exists() else source.partition("#")
    return absolute(Path(place)) + mark + inner


def _decide_all(
    home: Home, cards: Sequence[SkillCard], folder: str, below: bool | None, *, yes: bool, as_json: bool
) -> None:
    agreed: list[AgreedSkill] = []
    refused = 0
    for card in cards:
        if not as_json:
            print_card(card)
        if card.is_same and below is None:
            output.print_line(f"{card.name} is agreed already, as it is", error=as_json)
            continue
        if not yes and not _confirm(card):
            refused += 1
            output.print_line(f"{card.name}: nothing was changed", error=True)
            continue
        given = {
            "name": card.name,
            "digest": card.digest,
            "folder": folder,
            "before": card.before or NONE,
            "below": below,
        }
        agreed.append(call_operation(home, AgreeSkillArgs, given))
        if not as_json:
            output.print_line(f"{render_folder(folder)} has {card.name} ({shorten_digest(card.digest)}) from now on")
    if as_json:
        output.print_json({"cards": to_json(list(cards)), "agreed": to_json(agreed)})
    if refused:
        raise click.exceptions.Exit(1)


def _confirm(card: SkillCard) -> bool:
    what = "Agree to this change?" if card.before else f"Let {render_folder(card.folder)} work by it?"
    try:
        return click.confirm(f"{card.name}: {what}", err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        output.print_line("", error=True)
        raise Invalid("--yes", "is needed where nobody can be asked") from None


@skill_command.command()
@from_operation(ReadSkillUpdateArgs, timeout=lambda home: CLONE_TIMEOUT_S)
def diff(run: CommandRun, cards: list[SkillCard]) -> None:
    for card in cards:
        if card.is_same:
            output.print_line(f"{card.name} is the same there")
        else:
            print_card(card)


@skill_command.command()
@click.argument("name", required=False)
@click.option("--group", "folder", default="", metavar="GROUP", help="The group; left out: every agent.")
@click.option("--yes", is_flag=True, help="Do not ask; for scripts.")
@click.pass_obj
def update(given: str | None, name: str | None, folder: str, yes: bool) -> None:
    """Read NAME again from where it came, show what is another there, and agree to that. Without NAME, each skill of
    the group that came from a place."""
    home = home_of(given)
    rows = call_operation(home, ListSkillsArgs, {"folder": ""}).skills
    own = [each for each in rows if each.folder == folder]
    chosen = [each for each in own if each.name == name or (name is None and each.source in REREAD)]
    if not chosen and name is not None:
        raise NotFound("skill", name, "`gatepost skill list` shows them, and for whom each holds")
    if not chosen:
        output.print_line(f"{render_folder(folder)} has no skill of its own that can be read again")
    for each in chosen:
        cards = call_operation(home, ReadSkillUpdateArgs, {"name": each.name, "folder": folder}, CLONE_TIMEOUT_S)
        _decide_all(home, cards, folder, None, yes=yes, as_json=False)


@skill_command.command()
@from_operation(RemoveSkillArgs)
def rm(run: CommandRun, gone: AgreedSkill) -> None:
    output.print_line(f"{render_folder(gone.folder)} has {gone.name} no more")
