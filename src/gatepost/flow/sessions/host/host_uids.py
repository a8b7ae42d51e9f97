"""Which host uid a group's sandboxes run as, and so who owns its files, where the gateway is root.

Groups of one world (`acme`, `acme/eng`) share a uid, because a parent's agent may by design read and change the files
of its children. Two worlds never do: what the kernel counts by user (inotify instances, descriptors in flight) is then
counted apart.
"""

import os

from gatepost.core.clock import Clock
from gatepost.core.errors import SetupError
from gatepost.core.settings import Config, setting
from gatepost.store.port import Store
from gatepost.store.sessions import groups

UID = setting(
    "sandbox.uid",
    64123,
    help="When the gateway is root: set it to run all sandboxes as this one unprivileged host uid. Unless it is set, "
    "each world has a uid of its own from sandbox.uids.",
)
UIDS = setting(
    "sandbox.uids",
    "70000-99999",
    help="When the gateway is root, the sandboxes of each world (a group with all below it) run as a host uid of their "
    "own from this range, which nothing else on the machine may use. Gateways that share a store need the same range; "
    "those with stores of their own on one machine need two.",
)
LARGEST_UID = 2**31 - 1


def sandbox_uid(config: Config) -> int | None:
    """The host uid of a sandbox that belongs to no group, such as a trial start; None: the daemon's own, because it is
    not root."""
    if os.geteuid() != 0:
        return None
    if config[UID] == 0:
        raise SetupError("sandbox.uid = 0 would give agents the host's root; choose an unused uid such as 64123")
    return config[UID]


def uid_range(config: Config) -> tuple[int, int] | None:
    """The first and the last; None: one uid is set for all."""
    if config.source(UID) != "default" or not config[UIDS]:
        return None
    first, _, last = config[UIDS].partition("-")
    if not (first.strip().isdecimal() and last.strip().isdecimal()):
        raise SetupError(f"sandbox.uids = {config[UIDS]!r} is not a range; write it like 70000-99999")
    lowest, highest = int(first), int(last)
    if not 0 < lowest <= highest <= LARGEST_UID:
        raise SetupError(f"sandbox.uids = {config[UIDS]!r} is empty, or holds root's uid; write it like 70000-99999")
    return lowest, highest


def world_of(folder: str) -> str:
    return folder.partition("/")[0]


async def find_sandbox_uid(store: Store, config: Config, clock: Clock, folder: str, *, isolated: bool) -> int | None:
    """`group_uid`, but for a sandbox without walls: whatever uid was meant, it runs as the daemon itself."""
    if not isolated:
        return None if sandbox_uid(config) is None else 0
    return await group_uid(store, config, clock, folder)


async def group_uid(store: Store, config: Config, clock: Clock, folder: str) -> int | None:
    """The host uid of a group's sandboxes; it is assigned if it has none yet. None: the daemon's own."""
    usual = sandbox_uid(config)
    wanted = uid_range(config)
    if usual is None or wanted is None:
        return usual
    first, last = wanted
    known = await store.read(groups.get_uid, world_of(folder))
    if known is not None and first <= known <= last:
        return known
    return await store.write(groups.assign_uid, world_of(folder), first, last, clock.now())
