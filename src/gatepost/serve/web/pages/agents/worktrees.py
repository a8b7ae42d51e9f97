"""Worktrees: the copies of repositories that agents work in."""

from gatepost.serve.control.arguments.agents.worktrees import ListWorktreesArgs, WorktreeDetails
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import badge, code, link, made, make_moment, make_table, shorten, text
from gatepost.serve.web.dashboard.tones import get_tone
from gatepost.serve.web.dashboard.view import Action, Badge, Code, EmptyState, PageView, Tone

NEW = Action(label="New worktree", operation="worktree.create", asks=True, tone=Tone.GOOD)
EMPTY = EmptyState(text="No agent has a worktree. One is a copy of a repository on a branch of its own.", action=NEW)
WORKTREE = (
    code("name", "Worktree"),
    text("source", "Of"),
    made("branchName", "Branch", lambda each: Code(shorten(each.branch_name)) if each.branch_name else None),
    link("folder", "Group", "/groups/{folder}"),
    badge("state", "State"),
    made("setupState", "Setup", lambda each: Badge(each.setup_state, get_tone(each.setup_state))),
    made("createdAt", "Since", lambda each: make_moment(each.created_at)),
)


@page("/worktrees", "Worktrees", Section.AGENTS, "worktree.list", order=50)
async def show_worktrees(request: PageRequest) -> PageView:
    found = await request.ask(ListWorktreesArgs())
    return PageView(blocks=[make_table(found, WORKTREE, EMPTY, actions=list_actions)], actions=(NEW,))


def list_actions(worktree: WorktreeDetails) -> tuple[Action, ...]:
    given = {"name": worktree.name}
    return (
        Action(label="Save", operation="worktree.save", args=given),
        Action(label="Archive", operation="worktree.archive", args=given, asks=True, tone=Tone.BAD),
    )
