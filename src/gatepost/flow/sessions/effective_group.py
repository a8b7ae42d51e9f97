"""What a session's group says about its agent: provider, model and options.

The agents' own group is made on the way, so nobody has connected anything to it. As long as it names no provider it
goes by `home`, which is what `gatepost connect` connects. A model belongs to its provider: an agent of another one does
without, and without what `home` would lend.
"""

from gatepost.core.records import replace
from gatepost.core.settings import Config, setting
from gatepost.flow.groups import WORLD
from gatepost.flow.sessions.session_deps import PROVIDER
from gatepost.store import groups
from gatepost.store.groups import Group
from gatepost.store.port import Db

FOLDER = setting(
    "agents.folder",
    "agents",
    help="The group of agents that are made without naming one. While it has no provider it goes by the group `home`.",
)


def load_effective_group(db: Db, config: Config, folder: str, provider: str = "") -> Group | None:
    """A group with everything that it goes by, for an agent of this provider ('': the group's). None if it is not
    there."""
    group = groups.get(db, folder)
    if group is None:
        return None
    lender = groups.get(db, WORLD) if folder == config[FOLDER] and not group.provider else None
    named = lender.provider if lender is not None else group.provider
    usual = named or config[PROVIDER]
    wanted = provider or usual
    if lender is not None and wanted == usual:
        group = replace(group, model=group.model or lender.model, options={**lender.options, **group.options})
    elif wanted != usual:
        group = replace(group, model="")
    return replace(group, provider=wanted)


def is_affected_by(config: Config, folder: str, changed: str) -> bool:
    """Whether a change of one group may be one for the other's agents."""
    return folder == changed or (changed == WORLD and folder == config[FOLDER])
