"""A command in a sandbox that is built as for a session of a group, on a session folder that is gone afterwards."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from gatepost import declarations
from gatepost.cli import output
from gatepost.core import ids, settings
from gatepost.core.clock import SystemClock
from gatepost.core.errors import NotFound, SetupError, Unavailable
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.registry import Registry, load_folder
from gatepost.core.settings import Config
from gatepost.egress.egress_socket import EgressSocket
from gatepost.egress.endpoints import own_bases
from gatepost.egress.upstream import VendorBaseUrl
from gatepost.flow.gateways.folder_check import check_folder_here
from gatepost.flow.gateways.group_place import check_mark, place_home
from gatepost.flow.group_egress import open_standalone_egress, wait_for_panic
from gatepost.flow.sessions.host.host_uids import find_sandbox_uid
from gatepost.flow.sessions.sandbox.effective_group import load_effective_group
from gatepost.flow.sessions.sandbox.isolation import find_isolation
from gatepost.flow.sessions.sandbox.sandbox_plan import (
    MakeSandboxKind,
    choose_sandbox,
    make_sandbox_plan,
    prepare_folders,
    wrap_with_forwarder,
)
from gatepost.sandboxes.contract import SANDBOXES, Sandbox, SandboxKind
from gatepost.store.engine.open_store import open_store
from gatepost.store.engine.readonly import read_store
from gatepost.store.gateways.gateway_identity import get_gateway_name
from gatepost.store.rights import egress, switches
from gatepost.store.sessions import groups
from gatepost.store.sessions.groups import Group
from gatepost.tools.call import Caller

MOST_TOLD = 20  # refusals


@dataclass(frozen=True, slots=True)
class SandboxEgress:
    """The way out of the one sandbox, for whoever starts that and waits for it."""

    admit: Callable[[Sandbox], None]  # its processes are let in
    revoke: Callable[[], None]
    stopped: Callable[[], Coroutine[None, None, None]]


def run_in_sandbox(place: Home, folder: str, words: tuple[str, ...], *, no_walls: bool) -> int:
    """Run a command as a session of a group would; its exit code."""
    group, parents = read_store(place, groups.get, folder), read_store(place, groups.list_ancestors, folder)
    if group is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    if read_store(place, switches.get, switches.PANIC) is not None:
        raise Unavailable("every sandbox", "everything is stopped (`gatepost panic`); `gatepost panic --off` goes on")
    declarations.load_package()
    for kind in ("sandboxes", "channels"):  # channels have a say in what every sandbox sees
        load_folder(place.plugins / kind, kind)
    config = settings.load_declared(place.path)
    place = place_home(place, config)
    if place.shared is not None:
        read_store(place, check_mark, place.shared, get_gateway_name(config))
        place.prepare()
    read_store(place, check_folder_here, place, folder)
    run = read_store(place, load_effective_group, config, folder) or group
    chosen = choose_kind(config, group, run.provider, no_walls)
    return asyncio.run(_run(place, config, [group, *parents], run.provider, words, chosen))


def choose_kind(
    config: Config, group: Group, provider: str, no_walls: bool, registry: Registry[MakeSandboxKind] = SANDBOXES
) -> SandboxKind:
    """Return what a session of the group gets, if it has walls; what has none is only run if that was asked for."""
    try:
        name, kind = choose_sandbox(config, group, provider, registry)
    except SetupError as error:
        kind, why = registry["process"](config), str(error)
    else:
        if kind.isolated:
            return kind
        trouble = find_isolation(config, registry=registry).trouble  # the demo goes without where nothing works
        why = trouble or f"the sandbox of this group is {name!r}, which has no walls"
    if not no_walls:
        raise SetupError(f"{why}; --no-walls runs this on the host itself, with all your rights")
    output.print_line("gatepost: NO WALLS: this runs on the host itself, with all rights of your own user", error=True)
    return kind


async def _run(
    home: Home, config: Config, line: list[Group], provider: str, cmd: tuple[str, ...], kind: SandboxKind
) -> int:
    """`line`: the group and those above it."""
    group, *parents = line
    uid = await _uid(home, config, group, isolated=kind.isolated)
    session = ids.new("look")
    if kind.isolated:  # without walls it has the host's own network
        cmd = wrap_with_forwarder(cmd)
    try:
        prepare_folders(home, config, group, session, uid)
        plan = make_sandbox_plan(
            home, config, group, session, provider=provider, parents=parents, command=cmd, stdio=True, uid=uid
        )
        own = own_bases(each.options for each in (group, *parents))
        async with _open_egress(home, config, Caller(group.folder, session, provider), plan.uid, own) as way:
            # Not by the name of the home: a gateway that starts meanwhile ends what bears it.
            sandbox = await kind.start(replace(plan, name=f"gatepost-{session}", log=None))
            way.admit(sandbox)
            for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(sign, sandbox.kill)
            code = await _wait(sandbox, way)
    finally:
        _remove_session(home, session)
    return code if code >= 0 else 128 - code


async def _uid(home: Home, config: Config, group: Group, *, isolated: bool) -> int | None:
    store = open_store(home, config, readers=1)
    try:
        return await find_sandbox_uid(store, config, SystemClock(), group.folder, isolated=isolated)
    finally:
        store.close()


async def _wait(sandbox: Sandbox, way: SandboxEgress) -> int:
    """Until it ends by itself, or by a panic: no daemon knows of it, so this command looks."""
    ended, panic = asyncio.create_task(sandbox.wait()), asyncio.create_task(way.stopped())
    try:
        await asyncio.wait({ended, panic}, return_when=asyncio.FIRST_COMPLETED)
        if panic.done() and not ended.done():
            way.revoke()
            output.print_line("gatepost: everything is stopped (`gatepost panic`), and this was ended", error=True)
            sandbox.kill()
        return await ended
    finally:
        panic.cancel()
        sandbox.kill()


@asynccontextmanager
async def _open_egress(
    home: Home, config: Config, caller: Caller, uid: int | None, own: Mapping[str, VendorBaseUrl]
) -> AsyncIterator[SandboxEgress]:
    """An egress.sock as a session has it."""
    started: list[Sandbox] = []
    async with open_standalone_egress(home, config) as deps:
        socket = EgressSocket(deps, caller, lambda pid: any(each.owns(pid) for each in started), own)
        try:
            await socket.open(home.sockets_of(caller.session_id or "") / "egress.sock", uid)
            yield SandboxEgress(started.append, socket.revoke, partial(wait_for_panic, deps.store))
        finally:
            await socket.close()
            tried = await deps.store.write(
                egress.list_attempts, MOST_TOLD, caller.folder, "denied"
            )  # behind what was written down
            for each in reversed(tried):
                if each.session_id == caller.session_id:
                    output.print_line(f"gatepost: {each.reason}", error=True)


def _remove_session(home: Home, session: str) -> None:
    with open_untrusted(home.sessions) as sessions:
        sessions.remove_tree(session)
    with suppress(NotFound), open_untrusted(home.run) as sockets:
        sockets.remove_tree(str(home.sockets_of(session).relative_to(home.run)))
