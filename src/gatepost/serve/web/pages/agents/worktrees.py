"""Worktrees: the copies of repositories that agents work in."""

from gatepost.serve.control.arguments.agents.worktrees import ListWorktreesArgs, ShowWorktreeArgs, WorktreeDetails
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import (
    badge,
    code,
    link,
    made,
    make_facts,
    make_moment,
    make_table,
    shorten,
    text,
)
from gatepost.serve.web.dashboard.tones import get_tone
from gatepost.serve.web.dashboard.view import Action, Badge, Block, Cell, Code, EmptyState, LongText, PageView, Tone
from gatepost.store.sessions.worktrees import WorktreeState

NEW = Action(label="New worktree", operation="worktree.create", asks=True, tone=Tone.GOOD)
EMPTY = EmptyState(text="No agent has a worktree. One is a copy of a repository on a branch of its own.", action=NEW)


def _show_code(value: str | None) -> Cell:
    return Code(shorten(value)) if value else None


FACTS = (
    text("source", "Of"),
    made("branchName", "Branch", lambda each: _show_code(each.branch_name)),
    link("folder", "Group", "/groups/{folder}"),
    badge("state", "State"),
    made("setupState", "Setup", lambda each: Badge(each.setup_state, get_tone(each.setup_state))),
    made("createdAt", "Since", lambda each: make_moment(each.created_at)),
)
WORKTREE = (link("name", "Worktree", "/worktrees/{name}"), *FACTS)
DETAILS = (
    *FACTS,
    made("archivedAt", "Archived", lambda each: make_moment(each.archived_at)),
    made("worktreePath", "Folder", lambda each: _show_code(each.worktree_path)),
    text("base", "From"),
    made("baseCommit", "From commit", lambda each: _show_code(each.base_commit)),
    code("bundle", "Saved in"),
)


@page("/worktrees", "Worktrees", Section.AGENTS, "worktree.list", order=50)
async def show_worktrees(request: PageRequest) -> PageView:
    found = await request.ask(ListWorktreesArgs())
    return PageView(blocks=[make_table(found, WORKTREE, EMPTY, actions=list_actions)], actions=(NEW,))


@page("/worktrees/{name}", "Worktree", Section.AGENTS, "worktree.show")
async def show_worktree(request: PageRequest) -> PageView:
    return make_worktree_view(await request.ask(ShowWorktreeArgs(name=request.params["name"], archived=True)))


def make_worktree_view(worktree: WorktreeDetails) -> PageView:
    blocks: list[Block] = [make_facts(worktree, DETAILS)]
    for title, lines in (
        ("Setup", worktree.setup),
        ("Output of the setup", [worktree.setup_output]),
        ("When it is archived", worktree.teardown),
        ("Take it into your repository, and look at it there", [worktree.fetch, worktree.look]),
    ):
        if any(lines):
            blocks.append(LongText(title=title, text="\n".join(lines)))
    return PageView(title=worktree.name, blocks=blocks, actions=list_actions(worktree))


def list_actions(worktree: WorktreeDetails) -> tuple[Action, ...]:
    if worktree.state == WorktreeState.ARCHIVED:
        return ()
    given = {"name": worktree.name}
    return (
        Action(label="Save", operation="worktree.save", args=given),
        Action(label="Archive", operation="worktree.archive", args=given, asks=True, tone=Tone.BAD),
    )
