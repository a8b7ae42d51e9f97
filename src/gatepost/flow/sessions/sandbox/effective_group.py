"""The provider, model and options of a session's agent.

A group that names no provider goes by the nearest group above it that does, so a child runs on what its parent runs on.
The agents' own group is made on the way and has nobody above it: it goes by `home`, which is what `gatepost connect`
connects. A model belongs to its provider: an agent of another one does without, and without what a group would lend,
but for what limits the choice of people. Rights are never lent: they are read of the group itself.
"""

from gatepost.core.records import replace
from gatepost.core.settings import Config, setting
from gatepost.flow.groups import WORLD
from gatepost.flow.sessions.sandbox.provider_choices import MODELS_OPTION, PROVIDERS_OPTION
from gatepost.flow.sessions.session_deps import PROVIDER
from gatepost.store.port import Db
from gatepost.store.sessions import groups
from gatepost.store.sessions.groups import Group

FOLDER = setting(
    "agents.folder",
    "agents",
    help="The group of agents that are made without naming one. While it has no provider it goes by the group `home`.",
)


OWN_OPTIONS = frozenset({"mode", "permissions", "own_mcp"})  # what an agent may do without asking is nobody else's
LIMITING_OPTIONS = frozenset({PROVIDERS_OPTION, MODELS_OPTION})  # hold whatever provider a conversation has


def load_effective_group(db: Db, config: Config, folder: str, provider: str = "") -> Group | None:
    """Return a group with everything that it goes by, for an agent of this provider ('': the group's). None if it is
    not there."""
    group = groups.get(db, folder)
    if group is None:
        return None
    lender = find_lender(db, config, group)
    usual = (lender or group).provider or config[PROVIDER]
    wanted = provider or usual
    if lender is not None and wanted == usual:
        lent = {name: value for name, value in lender.options.items() if name not in OWN_OPTIONS}
        group = replace(group, model=group.model or lender.model, options={**lent, **group.options})
    elif wanted != usual:
        limits = lender.options if lender is not None else {}
        limits = {name: value for name, value in limits.items() if name in LIMITING_OPTIONS}
        group = replace(group, model="", options={**limits, **group.options})
    return replace(group, provider=wanted)


def find_lender(db: Db, config: Config, group: Group) -> Group | None:
    """Return the group whose provider another one goes by; None if that has its own, or nobody above it has one."""
    if group.provider:
        return None
    above = groups.list_ancestors(db, group.folder)
    if group.folder == config[FOLDER] and (world := groups.get(db, WORLD)) is not None:
        above.append(world)
    return next((each for each in above if each.provider), None)


def is_affected_by(config: Config, folder: str, changed: str) -> bool:
    """Return True if a change of one group may be one for the other's agents."""
    return folder == changed or folder.startswith(f"{changed}/") or (changed == WORLD and folder == config[FOLDER])
