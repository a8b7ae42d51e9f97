"""Worktrees on their pages."""

from gatepost.core.records import replace
from gatepost.serve.control.arguments.worktrees import WorktreeDetails
from gatepost.serve.web.dashboard.view import Code, Facts, LongText, PageView
from gatepost.serve.web.pages.worktrees import make_worktree_view
from gatepost.store.sessions.worktrees import SetupState, WorktreeState

WORKTREE = WorktreeDetails(
    name="shop/fix",
    worktree_path="/home/gate/worktrees/shop/fix",
    source="/code/shop",
    folder="home",
    branch_name="fix",
    base="main",
    base_commit="0123abcd",
    state=WorktreeState.READY,
    setup=["make"],
    teardown=[],
    setup_state=SetupState.FAILED,
    setup_output="no rule to make it",
    bundle=None,
    created_at="2026-01-01T00:00:00Z",
    archived_at=None,
    fetch="",
    look="",
)


def list_texts(view: PageView) -> dict[str, str]:
    return {each.title: each.text for each in view.blocks if isinstance(each, LongText)}


def test_a_worktree_shows_its_folder_its_setup_and_what_that_said() -> None:
    view = make_worktree_view(WORKTREE)
    [facts] = [each for each in view.blocks if isinstance(each, Facts)]
    shown = {each.label: each.value for each in facts.items}
    assert shown["Folder"] == Code(WORKTREE.worktree_path) and shown["From commit"] == Code("0123abcd")
    assert list_texts(view) == {"Setup": "make", "Output of the setup": "no rule to make it"}
    assert [each.label for each in view.actions] == ["Save", "Archive"]


def test_an_archived_worktree_shows_how_to_fetch_what_was_saved_and_has_no_buttons() -> None:
    saved = replace(
        WORKTREE, state=WorktreeState.ARCHIVED, setup=[], setup_output="", fetch="git fetch x", look="git log"
    )
    view = make_worktree_view(saved)
    assert list_texts(view) == {"Take it into your repository, and look at it there": "git fetch x\ngit log"}
    assert view.actions == ()
