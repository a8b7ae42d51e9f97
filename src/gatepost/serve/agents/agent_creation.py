"""Checks before an agent is made, so that whoever asks is told at once, and what they should know about it although it
was made."""

from gatepost.core.errors import Invalid, NotFound
from gatepost.core.records import replace
from gatepost.flow.sessions.sandbox.effective_group import load_effective_group
from gatepost.flow.sessions.sandbox.extra_mounts import may_write
from gatepost.flow.sessions.sandbox.start_folder import find_start_folder
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.flow.worktrees.worktrees import NewWorktree as NewWorktree
from gatepost.serve.agents.agent_spec import check_path
from gatepost.serve.agents.modes import check_mode
from gatepost.serve.control.arguments.agents.agents import AgentSpec
from gatepost.serve.control.operations.rooms.groups import check_provider
from gatepost.store.port import Db
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.agents import NewAgent
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.worktrees import SetupState, Worktree

UNWRITABLE = "it cannot write in {}: the user that sandboxes run as{} may not; chown or chmod it"


def check_new_agent(db: Db, parts: SessionDeps, wish: NewAgent, own: bool, now: int) -> tuple[NewAgent, Group]:
    """Everything about it that can be wrong, and the group as it will be run. `own`: nobody named its group, so that is
    made if it is not there."""
    if own:
        groups.add(db, wish.folder, wish.folder, "", now)
    group = load_effective_group(db, parts.config, wish.folder, check_provider(parts.home, wish.provider))
    if group is None:
        raise NotFound("group", wish.folder, "`gatepost group list` shows them")
    if wish.parent and sessions.get(db, wish.parent) is None:
        raise NotFound("agent", wish.parent, "the parent must be there")
    mode = check_mode(parts.home, group.provider, wish.permission_mode)
    return replace(wish, provider=group.provider, permission_mode=mode), group


def parse_new_worktree(wanted: AgentSpec, folder: str) -> NewWorktree:
    if not wanted.cwd or not wanted.base:
        missing = "cwd" if not wanted.cwd else "baseBranch"
        raise Invalid(missing, "a worktree needs a repository (cwd) and a branch to begin from (baseBranch)")
    return NewWorktree(source=check_path(wanted.cwd), folder=folder, name=wanted.worktree, base=wanted.base)


def check_start(parts: SessionDeps, cwd: str, uid: int | None) -> tuple[str, list[str]]:
    """Return where it starts, and what is to be known about that. It is judged again whenever it wakes."""
    if not cwd:
        return "", []
    path = check_path(cwd)
    start = find_start_folder(parts.home, parts.config, path)
    if start is None or start.managed or may_write(start.granted.mount.source, uid):
        return path, []
    return path, [UNWRITABLE.format(path, "" if uid is None else f" (uid {uid})")]


def setup_to_json(worktree: Worktree) -> dict[str, str]:
    """Return what became of its setup, for the timeline."""
    untrusted = f"not run: nobody has trusted it; `gatepost worktree trust {worktree.name}`"
    told = {SetupState.UNTRUSTED: untrusted, SetupState.TRUSTED: "not run yet"}.get(
        worktree.setup_state, worktree.setup_output
    )
    return {"status": worktree.setup_state, "text": told}


def list_setup_notes(worktree: Worktree) -> list[str]:
    """A word for whoever made it, if there is a setup that was not done."""
    if worktree.setup_state == SetupState.UNTRUSTED:
        return [
            "the worktree's setup was not run, because nobody has trusted it;"
            f" `gatepost worktree trust {worktree.name}` shows it and runs it"
        ]
    if worktree.setup_state == SetupState.FAILED:
        return [f"the worktree's setup failed; `gatepost worktree setup {worktree.name}` runs it again"]
    if worktree.setup_state == SetupState.UNREADABLE:
        return [f"the worktree's setup cannot be read: {worktree.setup_output}"]
    return []
