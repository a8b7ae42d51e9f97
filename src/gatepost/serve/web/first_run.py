"""The check whether somebody is to be led: the demo answers, and this person may connect an agent. Then the chat and
the dashboard link to the first steps."""

from gatepost.core.settings import Config
from gatepost.flow.groups import WORLD
from gatepost.flow.sessions.sandbox.sandbox_plan import DEMO
from gatepost.flow.sessions.session_deps import PROVIDER
from gatepost.serve.control.arguments.connect import RIGHT
from gatepost.serve.control.rights import ROOT_FOLDER, has_right
from gatepost.store.port import Db
from gatepost.store.sessions import groups


def is_first_run(db: Db, config: Config, person: str) -> bool:
    group = groups.get(db, WORLD)
    runs_on = (group.provider if group is not None else "") or config[PROVIDER]
    return runs_on == DEMO and has_right(db, person, f"op:{RIGHT}", ROOT_FOLDER)
