"""Worktrees: the copies of repositories that agents work in."""

from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import Answer, badge, code, link, make_table, moment, text
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView, Tone

NEW = Action(label="New worktree", operation="worktree.create", asks=True, tone=Tone.GOOD)
EMPTY = EmptyState(text="No agent has a worktree. One is a copy of a repository on a branch of its own.", action=NEW)
WORKTREE = (
    code("name", "Worktree"),
    text("source", "Of"),
    code("branchName", "Branch"),
    link("folder", "Group", "/groups/{folder}"),
    badge("state", "State"),
    badge("setupState", "Setup"),
    moment("createdAt", "Since"),
)


@page("/worktrees", "Worktrees", Section.AGENTS, "worktree.list", order=50)
async def show_worktrees(request: PageRequest) -> PageView:
    found = await request.ask("worktree.list")
    return PageView(blocks=[make_table(found, WORKTREE, EMPTY, actions=list_actions)], actions=(NEW,))


def list_actions(worktree: Answer) -> tuple[Action, ...]:
    given = {"name": worktree["name"]}
    return (
        Action(label="Save", operation="worktree.save", args=given),
        Action(label="Archive", operation="worktree.archive", args=given, asks=True, tone=Tone.BAD),
    )
