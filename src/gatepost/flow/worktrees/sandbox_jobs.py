"""Jobs: short programs that run inside a sandbox for an operator or an agent, and their answers.

The sandbox has the limits of a session of the group and, if needed, its way out. It sees nothing else that the group
owns, because the content of a worktree decides what git runs there. The answer was written where an agent may have
changed things, so it is bounded, and means nothing beyond that worktree.

A program of the operator's that only turns some bytes into others (`pipe`) has no worktree and no way out, either.

A bundle is shown in words, with the commands by which an operator takes it in. Its refs come under the worktree's own
name, so that two bundles never meet. None of the names that an agent gave gets into a command.
"""

import asyncio
import json
import math
import os
import re
import shlex
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from gatepost.core import ids
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Invalid, NotFound, SetupError, Unavailable
from gatepost.core.files.untrusted_files import UntrustedFolder, is_larger, open_untrusted
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.egress.egress_socket import EgressSocket
from gatepost.egress.way_out import EgressDeps
from gatepost.flow.sessions.host import sandbox_processes
from gatepost.flow.sessions.host.host_uids import find_sandbox_uid
from gatepost.flow.sessions.host.sandbox_processes import SandboxFreezer
from gatepost.flow.sessions.sandbox.extra_mounts import EXTRA, WORKSPACE, GrantedMount
from gatepost.flow.sessions.sandbox.group_limits import limits_of
from gatepost.flow.sessions.sandbox.sandbox_plan import (
    choose_sandbox,
    give_worktree,
    make_inside_command,
    make_sandbox_plan,
    prepare_folders,
    wrap_with_forwarder,
)
from gatepost.flow.sessions.sandbox.start_folder import PROJECT, StartFolder
from gatepost.flow.worktrees import LIMIT_S
from gatepost.messages.text import one_line
from gatepost.sandboxes.contract import Sandbox
from gatepost.store.port import Store
from gatepost.store.rights import switches
from gatepost.store.sessions import groups
from gatepost.store.sessions.groups import Group
from gatepost.tools.call import Caller

MOST_NAMED_REFS, LONGEST_REF = 8, 100
_STASH = re.compile(r"gatepost/stash/\d+")
PREFIX = "job"
TIMEOUT = "TIMEOUT"
LARGEST_ANSWER = 1024 * 1024
LARGEST_BUNDLE = 2 * 1024**3
MOST_DOUBLED = 8
MOST_PIPES = 2  # at once, of all groups
LONGEST_REASON = 200  # characters of what a program said last
# The shell only opens the two files. The program's words are arguments, so nothing in them is read as shell.
PIPE = ("sh", "-c", f'exec "$@" < {WORKSPACE}/in/input > {WORKSPACE}/out/output', "sh")
DISK_S = 2.0  # between two looks at how much of the disk it takes


class BundleRef(msgspec.Struct, frozen=True):
    """A ref of a bundle, without its `refs/`, and how many commits it adds."""

    name: str
    commits: int = 0


def render_contents(held: Sequence[BundleRef], many: int) -> str:
    """`many`: how many refs there are, of which some may not have been told."""
    every = [_one(each) for each in held if not _STASH.fullmatch(each.name)]
    stashes = sum(bool(_STASH.fullmatch(each.name)) for each in held)
    if stashes:
        every.append(_count(stashes, "stash", "stashes"))
    if not any(each.name.startswith("heads/") or each.name == "gatepost/head" for each in held):
        every.insert(0, "nothing committed")
    more = len(every[MOST_NAMED_REFS:]) + max(many - len(held), 0)
    return ", ".join([*every[:MOST_NAMED_REFS], *([f"{more} more"] if more else [])])


def _one(each: BundleRef) -> str:
    kind, _, name = each.name.partition("/")
    if each.name == "gatepost/uncommitted":
        return "uncommitted changes"
    if each.name == "gatepost/head":
        return f"{_count(each.commits, 'commit', 'commits')} on no branch"
    shown = one_line(name)[:LONGEST_REF]
    if kind == "tags":
        return f"the tag {shown}"
    return f"{_count(each.commits, 'commit', 'commits')} on {shown}"


def _count(many: int, one: str, several: str) -> str:
    return f"{many} {one if many == 1 else several}"


def fetch_command(bundle: Path, slug: str) -> str:
    """Without tags, which would be taken for the operator's own; what was there of an earlier bundle goes."""
    return f"git fetch --no-tags --prune {shlex.quote(str(bundle))} '+refs/*:refs/agents/{slug}/*'"


def log_command(slug: str, since: str) -> str:
    """Everything in it, however it was kept: commits, merges, what was not committed."""
    return f"git log -p --cc --glob=refs/agents/{slug} --not {shlex.quote(since[:12])}"


class SandboxJobResult(msgspec.Struct, frozen=True):
    """The outcome of a job. `code` is '' if it went well."""

    code: str = ""
    error: str = ""
    branch: str = ""
    base: str = ""
    commit: str = ""
    refs: tuple[BundleRef, ...] = ()  # what is in the bundle, as far as it is told
    many: int = 0  # how many there are
    left: str = ""  # what could not be saved
    ok: bool = False
    output: str = ""


class SandboxJobs:
    def __init__(
        self,
        home: Home,
        config: Config,
        store: Store,
        clock: Clock,
        egress: EgressDeps,
        freezer: SandboxFreezer | None = None,
    ) -> None:
        self._home, self._config, self._store, self._clock, self._egress = home, config, store, clock, egress
        self._freezer = freezer or SandboxFreezer()
        self.running: set[Sandbox] = set()  # what is under way
        self._pipes = asyncio.Semaphore(MOST_PIPES)
        self._pipe_turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by group
        self._closed = False

    def close(self) -> None:
        """The gateway stops: what is under way ends here, and nothing is begun any more."""
        self._closed = True
        self.end_all()

    def end_all(self) -> None:
        """Everything stops."""
        for sandbox in self.running:
            sandbox.kill()

    async def run(
        self,
        folder: str,
        job: Mapping[str, Any],
        project: GrantedMount,
        source: GrantedMount | None = None,
        *,
        network: bool = False,
        keep: Path | None = None,
        limit_s: float | None = None,
    ) -> SandboxJobResult:
        """Do it, and wait for its end. `network`: with the group's network; `keep`: where a bundle is copied to."""
        group, parents = await self._find_group(folder)
        command = make_inside_command(
            "worktree.py", WORKSPACE, PROJECT, *([f"{EXTRA}/{source.name}"] if source else [])
        )
        given = ("job.json", json.dumps(job).encode())
        name = ids.new(PREFIX)
        try:
            async with self._sandbox(name, group, parents, command, given, project, source, network) as sandbox:
                limits = limits_of(self._config, group, parents)
                most = limits.disk_mb * 1024 * 1024
                places = (project.mount.source, self._home.mailbox(name))
                bounds = await asyncio.to_thread(disk_bounds, places, most, keep is not None)
                patience = min(limit_s or math.inf, self._config[LIMIT_S])
                too_much = await self._until_end(sandbox, bounds, limits.memory_mb, patience)
                code = await sandbox.wait()
            self._must_be_open()
            if too_much is not None:
                return too_much
            return await asyncio.to_thread(_read_answer, self._home, name, code, keep, max(bounds.values()))
        finally:
            await asyncio.to_thread(_remove_job_files, self._home, name)

    async def pipe(self, folder: str, command: Sequence[str], given: bytes, largest: int, limit_s: float) -> bytes:
        """Return what a program writes after it has read `given`: at most `largest` bytes, within `limit_s` seconds. It
        runs within walls or not at all. A group has one at a time; who waits for others waits as long at most."""
        turn = self._pipe_turns.setdefault(folder, asyncio.Lock())
        try:
            async with asyncio.timeout(limit_s) as patience, turn, self._pipes:
                patience.reschedule(None)  # the program has a limit of its own, after which it is ended in order
                return await self._pipe(folder, tuple(command), given, largest, limit_s)
        except TimeoutError:
            raise Unavailable(f"the program {command[0]}", "others are using it") from None

    async def _pipe(self, folder: str, command: tuple[str, ...], given: bytes, largest: int, limit_s: float) -> bytes:
        group, parents = await self._find_group(folder)
        name, what = ids.new(PREFIX), f"the program {command[0]}"
        try:
            async with self._sandbox(
                name, group, parents, (*PIPE, *command), ("input", given), file_mb=largest // 1024**2 + 1
            ) as sandbox:
                limits = limits_of(self._config, group, parents)
                most = min(limits.disk_mb * 1024**2, 4 * largest)
                bounds = {self._home.session(name): most, self._home.mailbox(name): most}
                breach = await self._until_end(sandbox, bounds, limits.memory_mb, limit_s)
                code = await sandbox.wait()
            self._must_be_open()
            if breach is not None:
                raise Unavailable(
                    what, f"it took longer than {limit_s:g} s" if breach.code == TIMEOUT else breach.error
                )
            try:
                written = await asyncio.to_thread(_read_output, self._home, name, largest)
            except Invalid:
                raise Unavailable(what, f"it wrote more than {largest} bytes, or no plain file") from None
            if code:
                said = await asyncio.to_thread(_read_log_tail, self._home, name)
                reason = f": {said[-LONGEST_REASON:]}" if said else ""
                raise Unavailable(what, f"it ended with the code {code}{reason}")
            return written
        finally:
            await asyncio.to_thread(_remove_job_files, self._home, name)

    async def _find_group(self, folder: str) -> tuple[Group, list[Group]]:
        """The group that a job is for, and those above it. Raises Unavailable if no sandbox may start now."""
        self._must_be_open()
        if await self._store.read(switches.get, switches.PANIC) is not None:
            raise Unavailable("every sandbox", "everything is stopped (`gatepost panic`)")
        group = await self._store.read(groups.get, folder)
        if group is None:
            raise NotFound("group", folder, "`gatepost group list` shows them")
        return group, await self._store.read(groups.list_ancestors, folder)

    def _must_be_open(self) -> None:
        if self._closed:
            raise Unavailable("every sandbox", "the gateway is stopping")

    async def _until_end(
        self, sandbox: Sandbox, bounds: Mapping[Path, int], memory_mb: int, limit_s: float
    ) -> SandboxJobResult | None:
        """Wait for it, or end it: as long as it may take, and no more of disk and memory than an agent may."""
        try:
            async with asyncio.timeout(limit_s):
                ending = asyncio.ensure_future(sandbox.wait())
                while not (await asyncio.wait({ending}, timeout=DISK_S))[0]:
                    breach = await asyncio.to_thread(find_breach, self._home, sandbox, bounds, memory_mb)
                    if breach is not None:
                        sandbox.kill()
                        return breach
        except TimeoutError:
            sandbox.kill()
            return SandboxJobResult(TIMEOUT, f"it took longer than {limit_s:g} s (worktrees.limit_s)")
        return None

    @asynccontextmanager
    async def _sandbox(
        self,
        name: str,
        group: Group,
        parents: list[Group],
        command: tuple[str, ...],
        given: tuple[str, bytes],
        project: GrantedMount | None = None,
        source: GrantedMount | None = None,
        network: bool = False,
        file_mb: int = 0,
    ) -> AsyncIterator[Sandbox]:
        """`given`: a file of `in/` and what is in it; `file_mb`: the largest file, if not the group's own limit."""
        home, config = self._home, self._config
        chosen, kind = await asyncio.to_thread(choose_sandbox, config, group, "")
        if project is None and not kind.isolated:
            raise SetupError(
                f"the program {command[len(PIPE)]} runs within walls only, and the sandbox {chosen!r} has none"
            )
        # Without walls it has the host's own network.
        command = wrap_with_forwarder(command) if network and kind.isolated else command
        uid = await find_sandbox_uid(self._store, config, self._clock, group.folder, isolated=kind.isolated)
        await asyncio.to_thread(prepare_folders, home, config, group, name, uid)
        if project is not None:
            await asyncio.to_thread(give_worktree, home, project.mount.source, uid)
        await asyncio.to_thread(_write_input, home, name, *given)
        plan = make_sandbox_plan(
            home,
            config,
            group,
            name,
            provider="",
            parents=parents,
            start=StartFolder(project) if project is not None else None,
            also=[source] if source else [],
            job=True,
            command=command,
            uid=uid,
        )
        if file_mb:
            plan = replace(plan, limits=replace(plan.limits, file_mb=file_mb))
        started: list[Sandbox] = []
        egress = EgressSocket(
            self._egress, Caller(group.folder, name), lambda pid: any(each.owns(pid) for each in started)
        )
        try:
            if network:
                await egress.open(home.sockets_of(name) / "egress.sock", plan.uid)
            started.append(await kind.start(plan))
            self._freezer.add(started[0])
            self.running.add(started[0])
            if self._closed or await self._store.read(switches.get, switches.PANIC) is not None:
                started[0].kill()  # asked to end while it was starting
            yield started[0]
        finally:
            for sandbox in started:
                sandbox.kill()
                self._freezer.remove(sandbox)
                self.running.discard(sandbox)
            await egress.close()


def find_breach(home: Home, sandbox: Sandbox, bounds: Mapping[Path, int], memory_mb: int) -> SandboxJobResult | None:
    """Return what it takes too much of, if anything. Deleted files that it holds open count with each of its places."""
    (pids,) = sandbox_processes.list_pids([sandbox])
    deleted = sandbox_processes.measure_unlinked_files(pids, [home.path.stat().st_dev]).deleted
    for place, most in bounds.items():
        if deleted > most or is_larger(place, most - deleted):
            return SandboxJobResult(
                "DISK", f"its files take more than {most // 1024**2} MB of the disk (sandbox.disk_mb)"
            )
    limit = memory_mb * 1024 * 1024
    if sandbox.memory_is_limited or sandbox_processes.measure_memory(pids, sandbox.inner_pid, limit) <= limit:
        return None
    return SandboxJobResult("MEMORY", f"it takes more than {memory_mb} MB of memory (sandbox.memory_mb)")


def disk_bounds(places: Iterable[Path], most: int, saving: bool) -> dict[Path, int]:
    """Return the disk limit of each place. For saving, the limit of a place that an agent has filled beyond it may
    double."""
    sizes = [most << number for number in range(MOST_DOUBLED)] if saving else []
    # A tree that is too deep to be counted is larger than anything.
    return {place: next((size for size in sizes if not is_larger(place, size)), most) for place in places}


def _write_input(home: Home, name: str, file: str, data: bytes) -> None:
    with open_untrusted(home.mailbox(name)) as root:
        root.write_bytes(f"in/{file}", data, mode=0o640)


def _read_output(home: Home, name: str, largest: int) -> bytes:
    """Return what a program wrote, b'' if it left no file. Raises Invalid if it is too large, or no file at all."""
    with suppress(NotFound), open_untrusted(home.mailbox(name)) as root:
        return root.read_bytes("out/output", largest)
    return b""


def _read_answer(home: Home, name: str, code: int, keep: Path | None, most: int) -> SandboxJobResult:
    with open_untrusted(home.mailbox(name)) as root:
        try:
            answer = msgspec.json.decode(root.read_bytes("out/answer.json", LARGEST_ANSWER), type=SandboxJobResult)
        except (NotFound, Invalid, ValueError):
            said = _read_log_tail(home, name)
            return SandboxJobResult(
                "FAILED", f"its sandbox ended without an answer ({code})" + (f": {said}" if said else "")
            )
        if keep is not None and not answer.code and answer.refs:
            try:
                _copy_bundle(root, keep, most)
            except (NotFound, Invalid) as error:
                return SandboxJobResult("FAILED", f"its bundle cannot be taken: {error}")
        return answer


def _copy_bundle(root: UntrustedFolder, keep: Path, most: int) -> None:
    """Replace the kept bundle once the new one is complete and on the disk. A sparse file counts with its full length,
    so it is limited to what the sandbox itself could have written."""
    draft = keep.with_name(f".{keep.name}.part")
    draft.unlink(missing_ok=True)
    root.copy_out("out/work.bundle", draft, min(most, LARGEST_BUNDLE))
    with draft.open("rb") as written:
        os.fsync(written.fileno())
    draft.replace(keep)


def _read_log_tail(home: Home, name: str) -> str:
    with suppress(OSError):
        return " ".join(_log_of(home, name).read_text(errors="replace")[-2000:].split())[-500:]
    return ""


def _log_of(home: Home, name: str) -> Path:
    return home.logs / f"{name}.log"


def _remove_job_files(home: Home, name: str) -> None:
    with suppress(OSError):
        _log_of(home, name).unlink()
    for place in {home.sessions, home.mailboxes}:
        with suppress(GatepostError, OSError), open_untrusted(place) as root:
            root.remove_tree(name)
    with suppress(GatepostError, OSError), open_untrusted(home.run) as root:
        root.remove_tree(str(home.sockets_of(name).relative_to(home.run)))


def remove_leftover_jobs(home: Home) -> None:
    """Remove the files of jobs of a daemon that was killed. Mailboxes lie on this machine, so jobs of other gateways go
    on."""
    with open_untrusted(home.mailboxes) as root:
        left = root.list(begins=f"{PREFIX}-")
    for name in left:
        _remove_job_files(home, name)
