"""Managed worktrees: which there are, on which branch, and whether their setup was run. `making` and `ending` rows are
under way; a daemon that was killed meanwhile leaves them to the next one."""

import json
from enum import StrEnum

from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db


class WorktreeState(StrEnum):
    MAKING = "making"
    READY = "ready"
    ENDING = "ending"
    ARCHIVED = "archived"


class SetupState(StrEnum):
    NONE = "none"
    UNREADABLE = "unreadable"  # nobody knows what it is
    UNTRUSTED = "untrusted"
    TRUSTED = "trusted"  # and to be run
    DONE = "done"
    FAILED = "failed"


class Worktree(Struct, frozen=True):
    project: str
    slug: str
    folder: str  # the group in whose sandboxes git and the setup run
    source: str  # the repository on the host
    branch: str
    base: str
    base_commit: str
    state: WorktreeState
    setup: tuple[str, ...]
    teardown: tuple[str, ...]
    setup_state: SetupState
    setup_output: str  # before it was run: what is wrong with the file it is in
    created_at: int
    archived_at: int | None

    @property
    def name(self) -> str:
        return f"{self.project}/{self.slug}"


WORKTREES = Table("worktrees", Worktree)


def claim_name(db: Db, project: str, slug: str, folder: str, source: str, base: str, now: int) -> bool:
    """Take a name. False if it is taken, or was: what was saved of an archived one bears it."""
    row = WORKTREES.insert(
        db,
        "ON CONFLICT (project, slug) DO NOTHING RETURNING slug",
        project=project,
        slug=slug,
        folder=folder,
        source=source,
        branch="",
        base=base,
        state=WorktreeState.MAKING,
        created_at=now,
    )
    return row is not None


def set_ready(
    db: Db,
    project: str,
    slug: str,
    branch: str,
    base: str,
    base_commit: str,
    setup: tuple[str, ...],
    teardown: tuple[str, ...],
    setup_state: SetupState,
) -> None:
    db.run(
        "UPDATE worktrees SET state = 'ready', branch = ?, base = ?, base_commit = ?, setup = ?, teardown = ?,"
        " setup_state = ? WHERE project = ? AND slug = ?",
        (branch, base, base_commit, json.dumps(setup), json.dumps(teardown), setup_state, project, slug),
    )


def remove(db: Db, project: str, slug: str) -> None:
    """It did not come to be."""
    db.run("DELETE FROM worktrees WHERE project = ? AND slug = ?", (project, slug))


def get(db: Db, project: str, slug: str) -> Worktree | None:
    return WORKTREES.get(db, "WHERE project = ? AND slug = ?", project, slug)


def list_all(db: Db, *, archived: bool = False) -> list[Worktree]:
    found = WORKTREES.list(db, "ORDER BY created_at DESC, project, slug")
    return [each for each in found if archived or each.state != WorktreeState.ARCHIVED]


def set_state(db: Db, project: str, slug: str, state: WorktreeState, now: int) -> None:
    archived_at = now if state == WorktreeState.ARCHIVED else None
    db.run(
        "UPDATE worktrees SET state = ?, archived_at = ? WHERE project = ? AND slug = ?",
        (state, archived_at, project, slug),
    )


def set_branch(db: Db, project: str, slug: str, branch: str) -> None:
    db.run("UPDATE worktrees SET branch = ? WHERE project = ? AND slug = ?", (branch, project, slug))


def set_setup(db: Db, project: str, slug: str, state: SetupState, output: str) -> None:
    db.run(
        "UPDATE worktrees SET setup_state = ?, setup_output = ? WHERE project = ? AND slug = ?",
        (state, output, project, slug),
    )


def trust_setup(
    db: Db, project: str, digest: str, setup: tuple[str, ...], teardown: tuple[str, ...], by: str, now: int
) -> None:
    """These commands, in every worktree of the project that has them."""
    db.run(
        "INSERT INTO trusted_setups (project, digest, trusted_by, trusted_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (project, digest) DO NOTHING",
        (project, digest, by, now),
    )
    db.run(
        "UPDATE worktrees SET setup_state = 'trusted'"
        " WHERE project = ? AND setup = ? AND teardown = ? AND setup_state = 'untrusted'",
        (project, json.dumps(setup), json.dumps(teardown)),
    )


def is_trusted(db: Db, project: str, digest: str) -> bool:
    return db.row("SELECT 1 FROM trusted_setups WHERE project = ? AND digest = ?", (project, digest)) is not None
