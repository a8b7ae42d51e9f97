"""Backups: which there are, whether each was proven, and a new one."""

from collections.abc import Sequence

from gatepost.serve.backups.backup_folder import EVERY_HOURS, BackupFile, count_days_unproven
from gatepost.serve.control.arguments.backups import ListBackupsArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import made, make_columns, make_table
from gatepost.serve.web.dashboard.view import Action, Badge, EmptyState, Link, Note, PageView, Tone

NEW = Action(label="Back up now", operation="backup.create", tone=Tone.GOOD)
PRUNE = Action(label="Remove old ones", operation="backup.prune", asks=True)
NOTHING = EmptyState(text="There is no backup yet.", action=NEW)
SCHEDULE = Link("Change how often", render_path("/settings/{name}", name=EVERY_HOURS.name))


def show_proof(found: BackupFile) -> Badge:
    if found.proof is None:
        return Badge("not tried yet", Tone.QUIET)
    return Badge("cannot be put back", Tone.BAD) if found.proof.trouble else Badge("proven", Tone.GOOD)


def show_trouble(found: BackupFile) -> str | None:
    return (found.proof.trouble or None) if found.proof is not None else None


PROOF, TROUBLE = made("proof", "Can it be put back?", show_proof), made("trouble", "Why not", show_trouble)
BACKUP = (*make_columns(BackupFile, {"proof": PROOF}), TROUBLE)


@page("/backups", "Backups", Section.SYSTEM, "backup.list", order=12)
async def show_backups(request: PageRequest) -> PageView:
    found = await request.ask(ListBackupsArgs())
    every = request.operation_deps.config[EVERY_HOURS]
    return PageView(
        blocks=[*make_notes(found, every, request.now), make_table(found, BACKUP, NOTHING, actions=list_actions)],
        actions=(NEW, PRUNE) if found else (),
    )


def make_notes(found: Sequence[BackupFile], every: float, now: int) -> list[Note]:
    """Say whether anybody can rely on them."""
    days = count_days_unproven(found, now)
    if days is None:
        text, tone = "No backup was proven yet. Back up now makes one and tries it out.", Tone.WARN
    else:
        text, tone = f"The last proven backup is {render_days(days)}.", Tone.GOOD if days < 7 else Tone.WARN
    often = f"The gateway makes one every {every:g} hours." if every > 0 else "The gateway makes none by itself."
    return [Note(text=text, tone=tone, hint=often, link=SCHEDULE)]


def render_days(days: int) -> str:
    return "of today" if not days else "one day old" if days == 1 else f"{days} days old"


def list_actions(found: BackupFile) -> tuple[Action, ...]:
    return (Action(label="Try it out", operation="backup.verify", args={"file": found.name}),)
