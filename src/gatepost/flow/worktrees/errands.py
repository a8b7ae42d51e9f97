"""Errands: something short that is done for an operator or an agent inside a sandbox, and its answer.

The sandbox is one as a session of the group has it, with the worktree in it. What comes back was written where an
agent may have had its hands, so it is bounded, and means nothing beyond that worktree.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from gatepost.core import ids
from gatepost.core.errors import GatepostError, Invalid, NotFound, Unavailable
from gatepost.core.home import Home
from gatepost.core.settings import Config, setting
from gatepost.core.untrusted import open_root
from gatepost.egress.socket import EgressAround, EgressSocket
from gatepost.flow.sessions.extra_mounts import EXTRA, WORKSPACE, Granted
from gatepost.flow.sessions.plan import (
    beside_forwarder,
    choose_sandbox,
    inside_program,
    plan_for,
    prepare_folders,
)
from gatepost.flow.sessions.start import PROJECT, Start
from gatepost.gate.caller import Caller
from gatepost.sandboxes.contract import Sandbox
from gatepost.store import groups, switches
from gatepost.store.groups import Group
from gatepost.store.port import Store

LIMIT_S = setting("worktrees.limit_s", 600.0, help="How long git or a setup may take in a worktree, in seconds.")
PREFIX = "errand"
LARGEST_ANSWER = 1024 * 1024
LARGEST_BUNDLE = 2 * 1024**3


class Answer(msgspec.Struct, frozen=True):
    """What an errand came to. `code` is '' if it went well."""

    code: str = ""
    error: str = ""
    branch: str = ""
    base: str = ""
    commit: str = ""
    commits: int = 0
    ok: bool = False
    output: str = ""


class Errands:
    def __init__(self, home: Home, config: Config, store: Store, egress: EgressAround) -> None:
        self._home, self._config, self._store, self._egress = home, config, store, egress
        self.running: set[Sandbox] = set()  # what is under way

    def end_all(self) -> None:
        """Everything stops."""
        for sandbox in self.running:
            sandbox.kill()

    async def run(
        self,
        folder: str,
        job: Mapping[str, Any],
        project: Granted,
        source: Granted | None = None,
        *,
        way_out: bool = False,
        keep: Path | None = None,
    ) -> Answer:
        """Do it, and wait for its end. `way_out`: with the group's network; `keep`: where a bundle is copied to."""
        store, limit_s = self._store, self._config[LIMIT_S]
        if await store.read(switches.get, switches.PANIC) is not None:
            raise Unavailable("every sandbox", "everything is stopped (`gatepost panic`)")
        group = await store.read(groups.get, folder)
        if group is None:
            raise NotFound("group", folder, "`gatepost group list` shows them")
        parents = await store.read(groups.above, folder)
        name = ids.new(PREFIX)
        try:
            async with self._sandbox(name, group, parents, job, project, source, way_out) as sandbox:
                try:
                    async with asyncio.timeout(limit_s):
                        code = await sandbox.wait()
                except TimeoutError:
                    sandbox.kill()
                    await sandbox.wait()
                    return Answer("TIMEOUT", f"it took longer than {limit_s:g} s (worktrees.limit_s)")
            return await asyncio.to_thread(_read_answer, self._home, name, code, keep)
        finally:
            await asyncio.to_thread(_forget, self._home, name)

    @asynccontextmanager
    async def _sandbox(
        self,
        name: str,
        group: Group,
        parents: list[Group],
        job: Mapping[str, Any],
        project: Granted,
        source: Granted | None,
        way_out: bool,
    ) -> AsyncIterator[Sandbox]:
        home, config = self._home, self._config
        _, kind = await asyncio.to_thread(choose_sandbox, config, group, "")
        command = inside_program("worktree.py", WORKSPACE, PROJECT, *([f"{EXTRA}/{source.name}"] if source else []))
        # Without walls it has the host's own network.
        command = beside_forwarder(command) if way_out and kind.isolated else command
        await asyncio.to_thread(prepare_folders, home, config, group, name)
        await asyncio.to_thread(_hand_over, home, name, job)
        plan = plan_for(
            home,
            config,
            group,
            name,
            provider="",
            parents=parents,
            start=Start(project),
            also=[source] if source else [],
            command=command,
        )
        started: list[Sandbox] = []
        egress = EgressSocket(
            self._egress, Caller(group.folder, name), lambda pid: any(each.owns(pid) for each in started)
        )
        try:
            if way_out:
                await egress.open(home.sockets_of(name) / "egress.sock", plan.uid)
            started.append(await kind.start(plan))
            self.running.add(started[0])
            yield started[0]
        finally:
            for sandbox in started:
                sandbox.kill()
                self.running.discard(sandbox)
            await egress.close()


def _hand_over(home: Home, name: str, job: Mapping[str, Any]) -> None:
    with open_root(home.session(name)) as root:
        root.write_bytes("in/errand.json", json.dumps(job).encode(), mode=0o644)


def _read_answer(home: Home, name: str, code: int, keep: Path | None) -> Answer:
    with open_root(home.session(name)) as root:
        try:
            answer = msgspec.json.decode(root.read_bytes("out/answer.json", LARGEST_ANSWER), type=Answer)
        except (NotFound, Invalid, ValueError):
            said = _last_words(home, name)
            return Answer("FAILED", f"its sandbox ended without an answer ({code})" + (f": {said}" if said else ""))
        if keep is not None and not answer.code and answer.commits:
            with suppress(FileNotFoundError):
                keep.unlink()
            root.copy_out("out/work.bundle", keep, LARGEST_BUNDLE)
        return answer


def _last_words(home: Home, name: str) -> str:
    with suppress(OSError):
        return " ".join(_log_of(home, name).read_text(errors="replace")[-2000:].split())[-500:]
    return ""


def _log_of(home: Home, name: str) -> Path:
    return home.logs / f"{name}.log"


def _forget(home: Home, name: str) -> None:
    with suppress(OSError):
        _log_of(home, name).unlink()
    with suppress(GatepostError, OSError), open_root(home.sessions) as root:
        root.remove_tree(name)
    with suppress(GatepostError, OSError), open_root(home.run) as root:
        root.remove_tree(str(home.sockets_of(name).relative_to(home.run)))


def sweep(home: Home) -> None:
    """What a daemon that was killed has left."""
    with open_root(home.sessions) as root:
        left = [name for name in root.list() if name.startswith(f"{PREFIX}-")]
    for name in left:
        _forget(home, name)
