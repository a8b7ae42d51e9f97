"""Managed worktrees: made from an operator's repository, worked in by agents, put away without losing what they did.

Each is a clone of its own in the home, which its sandboxes may write. The host looks at the folder's outside and never
runs git over it; git and the repository's setup run in jobs of their own. A worktree is in the store before it is on
the disk, and a daemon that was killed half-way finds it there.
"""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Invalid, NotFound, Unavailable
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.gateways.folder_check import check_here, claim_here, find_elsewhere
from gatepost.flow.sessions.host.host_uids import group_uid
from gatepost.flow.sessions.sandbox.extra_mounts import MountRequest
from gatepost.flow.sessions.sandbox.start_folder import (
    find_start_folder,
    grant_for_field,
    is_repository,
    parse_worktree_path,
    worktree_mount,
)
from gatepost.flow.worktrees import sandbox_jobs
from gatepost.flow.worktrees.new_worktree import (
    LARGEST_SETUP,
    SETUP_FILE,
    NewWorktree,
    SetupCommands,
    check_branch,
    make_worktree_name,
    parse_setup_commands,
    project_of,
    slug_of,
)
from gatepost.flow.worktrees.sandbox_jobs import SandboxJobResult, SandboxJobs, render_contents
from gatepost.messages.text import clean, one_line
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit
from gatepost.store.sessions import sessions, worktrees
from gatepost.store.sessions.worktrees import SetupState, Worktree, WorktreeState
from gatepost.tools.call import run_to_completion

REMOVE_S = (0.0, 0.1, 0.3, 0.7, 1.5)  # before each try: what still ends inside may hold on to it for a moment
WAIT_S = 60.0  # for what is being done to it
RENAME_S = 20.0
MOST_SUFFIXES = 20
LONGEST_OUTPUT = 20_000  # characters of a setup's words that are kept
HINT = "`gatepost worktree ls` shows them"
NOT_RUN = (SetupState.NONE, SetupState.UNTRUSTED, SetupState.TRUSTED)  # it has said nothing yet

Clear = Callable[[Path], Awaitable[None]]

_log = log.get("worktrees")


class SavedBundle(Struct, frozen=True):
    """`bundle`: None if nothing was done; `contents`: what is in it; `left`: what could not be taken into it."""

    bundle: Path | None = None
    contents: str = ""
    left: str = ""


class ArchivedWorktree(Struct, frozen=True):
    """`saved`: the bundle of what was done in it, None if nothing was; `trouble`: what failed, and held nothing up."""

    worktree: Worktree
    saved: Path | None
    contents: str
    trouble: str


class Worktrees:
    def __init__(self, home: Home, config: Config, store: Store, clock: Clock, jobs: SandboxJobs) -> None:
        self._home, self._config, self._store, self._clock, self.jobs = home, config, store, clock, jobs
        self._locks: dict[str, asyncio.Lock] = {}
        self._ending: set[str] = set()  # of those: where nobody may begin to work

    def path(self, worktree: Worktree) -> Path:
        return self._home.worktree(worktree.project, worktree.slug)

    def bundle(self, worktree: Worktree) -> Path | None:
        """Return what was saved of it."""
        place = self._bundle(worktree)
        return place if place.is_file() else None

    def _bundle(self, worktree: Worktree) -> Path:
        return self._home.worktrees / worktree.project / f"{worktree.slug}.bundle"

    async def find(self, named: str, *, archived: bool = False) -> Worktree:
        """By project and slug, by the slug if only one has it, or by its folder. `archived`: if none is left, one that
        was put away."""
        place = parse_worktree_path(self._home, named)
        wanted = f"{place[0]}/{place[1]}" if place else named
        every = [each for each in await self.every(archived=True) if wanted in (each.name, each.slug)]
        near = [each for each in every if each.state != WorktreeState.ARCHIVED] or (every if archived else [])
        if not near and every:
            raise NotFound("worktree", named[:200], f"it was put away: `gatepost worktree show {every[0].name}`")
        if len(near) > 1:
            raise Invalid("worktree", f"{named!r} means several: {', '.join(each.name for each in near)}")
        if not near:
            raise NotFound("worktree", named[:200], HINT)
        return near[0]

    async def every(self, *, archived: bool = False) -> list[Worktree]:
        return await self._store.read(lambda db: worktrees.list_all(db, archived=archived))

    def must_be_open(self, db: Db, cwd: str, folder: str) -> None:
        """Refuse work in a worktree that is about to go or belongs to another group. Called in the transaction that
        begins the work. The content of a worktree decides what runs there in the name of its group."""
        place = parse_worktree_path(self._home, cwd)
        if place is None:
            return
        found, name = worktrees.get(db, place[0], place[1]), f"{place[0]}/{place[1]}"
        if found is None or found.state == WorktreeState.ARCHIVED:
            raise Invalid("", f"the worktree {name} was put away; nobody can work there any more")
        if found.state != WorktreeState.READY or name in self._ending:
            doing = "made" if found.state == WorktreeState.MAKING else "put away"
            raise Invalid("", f"the worktree {name} is being {doing}")
        if found.folder != folder:
            raise Invalid("", f"the worktree {name} is for agents of the group {found.folder!r}, not of {folder!r}")

    # Making one.

    async def create(self, wanted: NewWorktree, by: str) -> Worktree:
        """On the disk, and set up if its setup is trusted, when it returns. Nothing is left if it cannot be made."""
        name = make_worktree_name(wanted.name, wanted.base, wanted.branch, wanted.pr)
        await claim_here(self._store, self._home, wanted.folder, self._clock.now())
        source = grant_for_field("source", self._config, self._home, MountRequest(wanted.source, "source"))
        if source.is_file:
            raise Invalid("source", f"{wanted.source} is a file, not a repository")
        project = project_of(source.mount.source)
        await self._not_twice(project, wanted.branch)
        for number in range(MOST_SUFFIXES):
            wish = name if number == 0 else f"{name}-{number}"
            made = await self._try(wanted, project, wish, str(source.mount.source), by)
            if made is not None:
                return await self.set_up(made, by) if made.setup_state == SetupState.TRUSTED else made
        raise Invalid("name", f"{name!r} and its next {MOST_SUFFIXES} numbers are taken in {wanted.source}")

    async def _not_twice(self, project: str, branch: str) -> None:
        for each in await self.every():
            if branch and (each.project, each.branch) == (project, branch):
                raise Invalid("branch", f"the worktree {each.name} is on {branch} already")

    async def _try(self, wanted: NewWorktree, project: str, name: str, real: str, by: str) -> Worktree | None:
        """None: there is a worktree, or a branch of the repository, of that name."""
        slug, now = slug_of(name), self._clock.now()
        if not await self._store.write(worktrees.claim_name, project, slug, wanted.folder, real, wanted.base, now):
            return None
        job = {"task": "clone", "name": name, "base": wanted.base, "branch": wanted.branch, "pr": wanted.pr}
        try:
            uid = await group_uid(self._store, self._config, self._clock, wanted.folder)
            await asyncio.to_thread(self._make_folder, project, slug, uid)
            source = grant_for_field("source", self._config, self._home, MountRequest(wanted.source, "source"))
            granted = worktree_mount(self._home, project, slug)
            answer = await self.jobs.run(wanted.folder, job, granted, source, network=True)
            if not answer.code:
                return await self._keep(wanted, project, slug, answer, by)
            if answer.code != "TAKEN":
                raise Invalid("source", f"no worktree of {wanted.source}: {clean(answer.error)}")
        except BaseException:
            await self._undo(project, slug)
            raise
        await self._undo(project, slug)
        return None

    def _make_folder(self, project: str, slug: str, uid: int | None) -> None:
        passable = 0o711 if os.geteuid() == 0 else 0o700
        with open_untrusted(self._home.worktrees) as root:
            root.make_dir(project, passable)
            root.make_dir(f"{project}/{slug}", 0o700, uid)

    async def _keep(self, wanted: NewWorktree, project: str, slug: str, answer: SandboxJobResult, by: str) -> Worktree:
        recipe, trouble = await asyncio.to_thread(self._recipe, project, slug)
        now = self._clock.now()

        def keep(db: Db) -> Worktree:
            trusted = recipe is not None and worktrees.is_trusted(db, project, recipe.digest)
            state = SetupState.NONE if recipe is not None else SetupState.UNREADABLE
            if recipe is not None and recipe.setup:
                state = SetupState.TRUSTED if trusted else SetupState.UNTRUSTED
            branch, base, commit = clean(answer.branch)[:250], clean(answer.base)[:250], answer.commit[:64]
            setup, teardown = (recipe.setup, recipe.teardown) if recipe is not None else ((), ())
            worktrees.set_ready(db, project, slug, branch, base, commit, setup, teardown, state)
            worktrees.set_setup(db, project, slug, state, trouble)
            _record(db, now, by, "worktree.create", f"{project}/{slug}", source=wanted.source, branch=branch)
            made = worktrees.get(db, project, slug)
            assert made is not None
            return made

        return await self._store.write(keep)

    def _recipe(self, project: str, slug: str) -> tuple[SetupCommands | None, str]:
        """None if it cannot be read; and what is to be told about it."""
        with open_untrusted(self._home.worktrees) as root:
            path = f"{project}/{slug}/{SETUP_FILE}"
            try:
                return (
                    parse_setup_commands(root.read_bytes(path, LARGEST_SETUP))
                    if root.exists(path)
                    else (SetupCommands(), "")
                )
            except GatepostError as error:
                return None, str(error)

    async def _undo(self, project: str, slug: str) -> None:
        await self._remove(project, slug)
        await self._store.write(worktrees.remove, project, slug)

    # Its setup.

    async def trust(self, named: str, by: str) -> Worktree:
        """A person has read the commands: from now on they run in every worktree of this project, as they are."""
        found, now = await self.find(named), self._clock.now()
        if not found.setup and not found.teardown:
            raise Invalid("worktree", render_no_setup(found))
        recipe = SetupCommands(found.setup, found.teardown)

        def trust(db: Db) -> None:
            worktrees.trust_setup(db, found.project, recipe.digest, recipe.setup, recipe.teardown, by, now)
            _record(db, now, by, "worktree.trust", found.name, digest=recipe.digest)

        await self._store.write(trust)
        return await self.set_up(found, by)

    async def set_up(self, found: Worktree, by: str) -> Worktree:
        """Run its setup, which must be trusted. It may fail; the worktree stays, and says so."""
        if not found.setup:
            return found
        await self._must_be_trusted(found)
        async with self._working(found):
            job = {"task": "run", "commands": list(found.setup)}
            granted = worktree_mount(self._home, found.project, found.slug)
            answer = await self.jobs.run(found.folder, job, granted, network=True)
        state = SetupState.DONE if answer.ok else SetupState.FAILED
        said = answer.output if answer.ok else answer.output or answer.error
        noted = f"{found.setup_output}\n" if found.setup_output and found.setup_state in NOT_RUN else ""
        output, now = noted + clean(said)[-LONGEST_OUTPUT:], self._clock.now()

        def record(db: Db) -> Worktree:
            worktrees.set_setup(db, found.project, found.slug, state, output)
            _record(db, now, by, "worktree.setup", found.name, state=state)
            row = worktrees.get(db, found.project, found.slug)
            assert row is not None
            return row

        return await self._store.write(record)

    async def _must_be_trusted(self, found: Worktree) -> None:
        digest = SetupCommands(found.setup, found.teardown).digest
        if not await self._store.read(worktrees.is_trusted, found.project, digest):
            raise Invalid(
                "worktree", f"nobody has trusted the setup of {found.name}: `gatepost worktree trust {found.name}`"
            )

    # What was done in it.

    async def rename(self, session_id: str, name: str) -> str:
        """Name the branch of the worktree that a session works in, once. A refusal's text begins with its code."""
        session = await self._store.read(sessions.get, session_id)
        if session is None:
            raise NotFound("agent", session_id)
        check_branch(name)
        home, place = self._home, parse_worktree_path(self._home, session.cwd)
        try:
            start = find_start_folder(home, self._config, session.cwd)
        except GatepostError:  # which names places of the host
            raise Invalid("NOT_ALLOWED", "what you work in is not to be had any more") from None
        if not await asyncio.to_thread(is_repository, home, session.folder, start):
            raise Invalid("NOT_GIT_REPO", "you do not work in a git repository")
        found = await self._store.read(worktrees.get, place[0], place[1]) if place else None
        if found is None or found.state != WorktreeState.READY:
            raise Invalid("NOT_ALLOWED", "this names the branch of a managed worktree alone; use git for any other")
        async with self._working(found, wait_s=0):
            granted = worktree_mount(home, found.project, found.slug)
            first = found.branch if slug_of(found.branch) == found.slug else found.slug
            job = {"task": "rename", "first": first, "name": name}
            answer = await self.jobs.run(session.folder, job, granted, limit_s=RENAME_S)
            if answer.code in ("NOT_ALLOWED", "NOT_GIT_REPO"):
                raise Invalid(answer.code, clean(answer.error)[:500])
            if answer.code or answer.branch != name:
                raise Unavailable("git", clean(answer.error)[:500] or "it did not say what it did")
            await self._store.write(worktrees.set_branch, found.project, found.slug, name)
        return name

    async def save(self, named: str, by: str) -> tuple[Worktree, SavedBundle]:
        """Its commits since it was made, and what is not committed, as a bundle; the one there is, if it is gone."""
        found = await self.find(named, archived=True)
        await check_here(self._store, self._home, found.folder)
        if found.state == WorktreeState.ARCHIVED:
            return found, SavedBundle(self.bundle(found))
        async with self._working(found):
            saved, now = await self._save(found), self._clock.now()
            await self._store.write(lambda db: _record(db, now, by, "worktree.save", found.name))
            return found, saved

    async def _save(self, found: Worktree) -> SavedBundle:
        granted = worktree_mount(self._home, found.project, found.slug)
        keep = self._bundle(found)
        job = {"task": "save", "since": found.base_commit}
        answer = await self.jobs.run(found.folder, job, granted, keep=keep)
        if answer.code:
            why = one_line(answer.error)[:1000]
            raise Invalid(
                "worktree", f"what was done in {found.name} could not be saved ({why}); {_render_way_on(found)}"
            )
        contents = render_contents(answer.refs, answer.many) if answer.refs else ""
        return SavedBundle(keep if answer.refs else None, contents, one_line(answer.left)[:1000])

    # Its end.

    async def archive(
        self, named: str, by: str, *, discard: bool = False, clear: Clear | None = None
    ) -> ArchivedWorktree:
        """Put it away: what was done in it is saved first, unless it is to be thrown away. A teardown that fails holds
        nothing up. `clear` ends whoever works in it; from then on nobody begins to."""
        found = await self.find(named)
        if found.state == WorktreeState.ENDING:  # whoever had begun it was cut off
            async with self._working(found, state=WorktreeState.ENDING):
                return ArchivedWorktree(await run_to_completion(self._end(found, by)), self.bundle(found), "", "")
        async with self._working(found, ending=True):
            if clear is not None:
                await clear(self.path(found))
            trouble = await self._tear_down(found)
            saved = SavedBundle() if discard else await self._save(found)
            if saved.left:
                place = f"; the rest is in {saved.bundle}" if saved.bundle else ""
                raise Invalid(
                    "worktree",
                    f"{found.name} stays, because not everything in it can be saved ({saved.left}){place};"
                    f" {_render_way_on(found)}",
                )
            return ArchivedWorktree(
                await run_to_completion(self._end(found, by)), saved.bundle, saved.contents, trouble
            )

    async def _end(self, found: Worktree, by: str) -> Worktree:
        """From here on it is gone, whoever waits for that."""
        now = self._clock.now()
        await self._store.write(worktrees.set_state, found.project, found.slug, WorktreeState.ENDING, now)
        await self._remove(found.project, found.slug)
        return await self._store.write(self._put_away, found, by)

    def _put_away(self, db: Db, found: Worktree, by: str) -> Worktree:
        now = self._clock.now()
        worktrees.set_state(db, found.project, found.slug, WorktreeState.ARCHIVED, now)
        _record(db, now, by, "worktree.archive", found.name)
        row = worktrees.get(db, found.project, found.slug)
        assert row is not None
        return row

    async def _tear_down(self, found: Worktree) -> str:
        if not found.teardown:
            return ""
        try:
            await self._must_be_trusted(found)
            granted = worktree_mount(self._home, found.project, found.slug)
            job = {"task": "run", "commands": list(found.teardown)}
            answer = await self.jobs.run(found.folder, job, granted, network=True)
        except GatepostError as error:
            return f"the teardown was not run: {error}"
        return "" if answer.ok else f"the teardown failed: {clean(answer.output or answer.error)[-1000:]}"

    async def _remove(self, project: str, slug: str) -> None:
        for pause in REMOVE_S:
            await asyncio.sleep(pause)
            try:
                with suppress(NotFound), open_untrusted(self._home.worktrees) as root:
                    await asyncio.to_thread(root.remove_tree, f"{project}/{slug}")
                return
            except (GatepostError, OSError) as error:
                if isinstance(error, OSError) and error.errno not in (errno.ENOTEMPTY, errno.EBUSY):
                    raise Unavailable("the worktree", f"it cannot be removed: {error.strerror}") from None
                _log.warning("a worktree is not gone yet", worktree=f"{project}/{slug}", why=str(error))
        raise Unavailable("the worktree", f"{project}/{slug} cannot be removed; something still writes there")

    def _list_here(self, db: Db) -> list[Worktree]:
        return [each for each in worktrees.list_all(db) if not find_elsewhere(db, self._home, each.folder)]

    async def recover(self) -> None:
        """Finish what a killed daemon began: undo a worktree that was being made, and archive one that was being put
        away. Each gateway does so with its own."""
        await asyncio.to_thread(sandbox_jobs.remove_leftover_jobs, self._home)
        for each in await self._store.read(self._list_here):
            try:
                if each.state == WorktreeState.MAKING:
                    await self._undo(each.project, each.slug)
                elif each.state == WorktreeState.ENDING:
                    await self._remove(each.project, each.slug)
                    await self._store.write(self._put_away, each, "gatepost")
            except Unavailable as error:  # the next start tries again; this one goes on
                _log.error("a worktree cannot be cleared away", worktree=each.name, why=str(error))

    @asynccontextmanager
    async def _working(
        self,
        found: Worktree,
        *,
        ending: bool = False,
        wait_s: float = WAIT_S,
        state: WorktreeState = WorktreeState.READY,
    ) -> AsyncIterator[None]:
        """One thing at a time is done to a worktree. An operator waits for what an agent has begun, not the other way
        round. It lies where its group does."""
        await check_here(self._store, self._home, found.folder)
        busy = Invalid("worktree", f"something else is being done to {found.name} right now; try again")
        lock = self._locks.setdefault(found.name, asyncio.Lock())
        if lock.locked() and not wait_s:
            raise busy
        try:
            async with asyncio.timeout(wait_s or WAIT_S):
                await lock.acquire()
        except TimeoutError:
            raise busy from None
        self._ending |= {found.name} if ending else set()
        try:
            now = await self._store.read(worktrees.get, found.project, found.slug)
            if now is None or now.state != state:
                raise busy
            yield
        finally:
            self._ending.discard(found.name)
            lock.release()


def render_no_setup(found: Worktree) -> str:
    if found.setup_state == SetupState.UNREADABLE:
        return f"the setup of {found.name} cannot be read: {found.setup_output}"
    trouble = f" ({found.setup_output})" if found.setup_output else ""
    return f"{found.name} has no setup: there is none in its {SETUP_FILE}{trouble}"


def _render_way_on(found: Worktree) -> str:
    return f"let an agent mend that, or throw it away: `gatepost worktree archive --discard {found.name}`"


def _record(db: Db, now: int, by: str, action: str, name: str, **more: str) -> None:
    audit.append(db, audit.AuditRecord(now, by, action, "done", {"worktree": name, **more}))
