"""The wish for an agent, and whether it can be met: checked before the agent is made, so that whoever asks is told at
once.

Beside that, what they should know about it although it was made.
"""

from collections.abc import Mapping
from pathlib import Path

from gatepost.core.errors import Invalid, NotFound
from gatepost.core.records import replace
from gatepost.flow.sessions.sandbox.effective_group import load_effective_group
from gatepost.flow.sessions.sandbox.extra_mounts import may_write
from gatepost.flow.sessions.sandbox.start_folder import find_start_folder
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.flow.worktrees.new_worktree import NewWorktree as NewWorktree
from gatepost.messages.text import clean, one_line
from gatepost.serve.agents.providers import check_mode
from gatepost.serve.control.arguments.agents import AgentSpec
from gatepost.serve.control.operations.groups import check_provider
from gatepost.store.port import Db
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.agents import NewAgent
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.worktrees import SetupState, Worktree

LONGEST_TITLE, LONGEST_PROMPT, MOST_LABELS = 60, 1_000_000, 50
UNWRITABLE = "it cannot write in {}: the user that sandboxes run as{} may not; chown or chmod it"


def check_title(text: str, *, empty_ok: bool = False) -> str:
    title = one_line(text)
    if (not title and not empty_ok) or len(title) > LONGEST_TITLE:
        raise Invalid("title", f"must have 1 to {LONGEST_TITLE} characters")
    return title


def check_prompt(text: str) -> str:
    said = clean(text)
    if not said.strip() or len(said) > LONGEST_PROMPT:
        raise Invalid("prompt", f"is empty or longer than {LONGEST_PROMPT} characters")
    return said


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    kept = {clean(name).strip()[:100]: clean(value)[:1000] for name, value in labels.items()}
    if len(kept) > MOST_LABELS or "" in kept:
        raise Invalid("labels", f"are at most {MOST_LABELS}, each with a name")
    return kept


def check_path(cwd: str) -> str:
    """A folder of the gateway's own machine."""
    try:
        path = Path(clean(cwd).strip()).expanduser()
    except RuntimeError:
        raise Invalid("cwd", f"{cwd[:200]!r} names a user that is not known on the gateway's machine") from None
    if not path.is_absolute() or ".." in path.parts:
        raise Invalid("cwd", f"{cwd[:200]!r} is not an absolute path of the gateway's machine")
    return str(path)


def check_new_agent(db: Db, deps: SessionDeps, wish: NewAgent, own: bool, now: int) -> tuple[NewAgent, Group]:
    """Everything about it that can be wrong, and the group as it will be run. `own`: nobody named its group, so that is
    made if it is not there."""
    if own:
        groups.add(db, wish.folder, wish.folder, "", now)
    group = load_effective_group(db, deps.config, wish.folder, check_provider(deps.home, wish.provider))
    if group is None:
        raise NotFound("group", wish.folder, "`gatepost group list` shows them")
    if wish.parent and sessions.get(db, wish.parent) is None:
        raise NotFound("agent", wish.parent, "the parent must be there")
    mode = check_mode(deps.home, group.provider, wish.permission_mode)
    return replace(wish, provider=group.provider, permission_mode=mode), group


def parse_new_worktree(wanted: AgentSpec, folder: str) -> NewWorktree:
    if not wanted.cwd or not wanted.base:
        missing = "cwd" if not wanted.cwd else "baseBranch"
        raise Invalid(missing, "a worktree needs a repository (cwd) and a branch to begin from (baseBranch)")
    return NewWorktree(source=check_path(wanted.cwd), folder=folder, name=wanted.worktree, base=wanted.base)


def check_start(deps: SessionDeps, cwd: str, uid: int | None) -> tuple[str, list[str]]:
    """Return where it starts, and what is to be known about that. It is judged again whenever it wakes."""
    if not cwd:
        return "", []
    path = check_path(cwd)
    start = find_start_folder(deps.home, deps.config, path)
    if start is None or start.managed or may_write(start.granted.mount.source, uid):
        return path, []
    return path, [UNWRITABLE.format(path, "" if uid is None else f" (uid {uid})")]


def setup_to_json(worktree: Worktree) -> dict[str, str]:
    """Return what became of its setup, for the timeline."""
    untrusted = f"not run: nobody has trusted it; `gatepost worktree trust {worktree.name}`"
    text = {SetupState.UNTRUSTED: untrusted, SetupState.TRUSTED: "not run yet"}.get(
        worktree.setup_state, worktree.setup_output
    )
    return {"status": worktree.setup_state, "text": text}


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
