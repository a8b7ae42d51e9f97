"""Worktrees: the copies of repositories that agents work in."""

from gatepost.serve.control.arguments.worktrees import ListWorktreesArgs, ShowWorktreeArgs, WorktreeDetails
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import link, make_columns, make_facts, make_table, make_texts
from gatepost.serve.web.dashboard.view import Action, Block, EmptyState, LongText, PageView, Tone
from gatepost.store.sessions.worktrees import WorktreeState

NEW = Action(label="New worktree", operation="worktree.create", asks=True, tone=Tone.GOOD)
EMPTY = EmptyState(text="No agent has a worktree. One is a copy of a repository on a branch of its own.", action=NEW)


GROUP = link("folder", "Group", "/groups/{folder}")
WORKTREE = make_columns(WorktreeDetails, {"name": link("name", "Worktree", "/worktrees/{name}"), "folder": GROUP})
DETAILS = make_columns(WorktreeDetails, {"folder": GROUP}, details=True)[1:]


@page("/worktrees", "Worktrees", Section.AGENTS, "worktree.list", order=60)
async def show_worktrees(request: PageRequest) -> PageView:
    found = await request.ask(ListWorktreesArgs())
    return PageView(blocks=[make_table(found, WORKTREE, EMPTY, actions=list_actions)], actions=(NEW,))


@page("/worktrees/{name}", "Worktree", Section.AGENTS, "worktree.show")
async def show_worktree(request: PageRequest) -> PageView:
    return make_worktree_view(await request.ask(ShowWorktreeArgs(name=request.params["name"], archived=True)))


def make_worktree_view(worktree: WorktreeDetails) -> PageView:
    blocks: list[Block] = [make_facts(worktree, DETAILS), *make_texts(WorktreeDetails, worktree)]
    if fetched := "\n".join(filter(None, (worktree.fetch, worktree.look))):
        blocks.append(LongText(title="Take it into your repository, and look at it there", text=fetched))
    return PageView(title=worktree.name, blocks=blocks, actions=list_actions(worktree))


def list_actions(worktree: WorktreeDetails) -> tuple[Action, ...]:
    if worktree.state == WorktreeState.ARCHIVED:
        return ()
    given = {"name": worktree.name}
    return (
        Action(label="Save", operation="worktree.save", args=given),
        Action(label="Archive", operation="worktree.archive", args=given, asks=True, tone=Tone.BAD),
    )
