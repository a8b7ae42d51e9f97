"""`gatepost sandbox`: look around where an agent lives.

A command runs in a sandbox that is built exactly as a session of that group gets it, on a session folder of its own,
which is gone afterwards. Works with the gateway up or down.
"""

import asyncio
import signal
from contextlib import suppress
from dataclasses import replace

import click

from gatepost.cli.operate import home_of, reading
from gatepost.core import ids, settings
from gatepost.core.errors import NotFound
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.core.untrusted import open_root
from gatepost.store import groups
from gatepost.store.groups import Group


@click.group()
def command() -> None:
    """Look around where an agent lives."""


@command.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("folder")
@click.argument("cmd", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def run(home: str | None, folder: str, cmd: tuple[str, ...]) -> int:
    """Run CMD in a sandbox as a session of the group FOLDER gets it; its exit code is ours.

    Example: gatepost sandbox run acme/eng -- sh
    """
    from gatepost import declared
    from gatepost.core.registry import load_folder
    from gatepost.flow.sessions.parts import PROVIDER

    words = cmd[1:] if cmd[0] == "--" else cmd
    if not words:
        raise click.UsageError("say what to run: gatepost sandbox run FOLDER -- CMD …")
    place = home_of(home)
    group, parents = reading(place, groups.get, folder), reading(place, groups.above, folder)
    if group is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    declared.load_package()
    for kind in ("sandboxes", "channels"):  # channels have a say in what every sandbox sees
        load_folder(place.plugins / kind, kind)
    config = settings.peek(place.path)
    return asyncio.run(_run(place, config, [group, *parents], group.provider or config[PROVIDER], words))


async def _run(home: Home, config: Config, line: list[Group], provider: str, cmd: tuple[str, ...]) -> int:
    """`line`: the group and those above it."""
    from gatepost.flow.sessions.plan import choose_sandbox, plan_for, prepare_folders

    group, *parents = line
    _, kind = choose_sandbox(config, group, provider)
    session = ids.new("look")
    try:
        prepare_folders(home, config, group, session)
        plan = plan_for(home, config, group, session, provider=provider, parents=parents, command=cmd, stdio=True)
        # Not by the name of the home: a gateway that starts meanwhile ends what bears it.
        sandbox = await kind.start(replace(plan, name=f"gatepost-{session}", log=None))
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(sign, sandbox.kill)
        try:
            code = await sandbox.wait()
        finally:
            sandbox.kill()
    finally:
        _forget(home, session)
    return code if code >= 0 else 128 - code


def _forget(home: Home, session: str) -> None:
    with open_root(home.sessions) as sessions:
        sessions.remove_tree(session)
    with suppress(NotFound), open_root(home.run) as sockets:
        sockets.remove_tree(str(home.sockets_of(session).relative_to(home.run)))
