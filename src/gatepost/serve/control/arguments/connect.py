"""Connect: try an agent in a session of its own, and put in force what was tried. Checks beside it: the endpoints whose
models groups use, and the isolation that a group's agents get.

Keys and prices are the whole gateway's, so the right is needed for the root and not for the group alone.
"""

from typing import Annotated

from msgspec import Struct, field

from gatepost.core.record_fields import argument, option
from gatepost.flow.sessions.sandbox.isolation_report import SandboxIsolation
from gatepost.flow.sessions.trial_outcome import TrialOutcome
from gatepost.serve.control.arguments.groups import SetGroupResult
from gatepost.serve.control.declaration import OperationArgs, declares

RIGHT = "connect"


class TrialCancellation(Struct, frozen=True):
    id: str
    stopped: bool


class ConnectResult(Struct, frozen=True):
    group: SetGroupResult
    secret: str  # the name of the key that was stored


class ConnectableAgent(Struct, frozen=True, kw_only=True):
    """`key`: the secret that it would use; '': there is none."""

    agent: str
    title: str
    model: str
    vendor: str
    installed: bool
    needs_command: bool  # it is any program, which has to be named
    key: str
    groups: tuple[str, ...]


class ConnectCheck(Struct, frozen=True, kw_only=True):
    """`trouble`: '' if it can be tried; else what is missing: sandbox, command, library, program, model or key."""

    trouble: str = ""
    reason: str = ""
    text: str = ""


class ConnectArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent for a group. '' everywhere: what is in force already."""

    folder: Annotated[str, option("The group that is to run on it.")]
    provider: Annotated[str, argument("The agent.", "agent")]
    model: Annotated[str, option("The model (default: what the group has, else the agent's own).")] = ""
    key: Annotated[str, option("The vendor's key.", secret=True)] = ""
    base_url: Annotated[str, option("A local or compatible endpoint, for this group alone.")] = ""
    price: Annotated[
        str, option("IN/OUT of the model in USD for a million tokens; 0: it is free.", examples=("3/15", "0"))
    ] = ""
    vendor: Annotated[str, option("The vendor of its endpoint, if the agent has a choice.")] = ""
    options: Annotated[dict[str, str], option("The provider's options.")] = field(default_factory=dict)


@declares("connect.list", right=RIGHT)
class ListConnectableArgs(OperationArgs[list[ConnectableAgent]], frozen=True):
    """List the agents that can be connected: whether each is installed, has a key, and which groups run on it."""


@declares("connect.check", right=RIGHT)
class CheckConnectArgs(ConnectArgs, OperationArgs[ConnectCheck], frozen=True):
    """Look whether an agent can be tried: a sandbox that works, its program, a key. Nothing is run and nothing is
    changed."""


@declares("connect.try", right=RIGHT)
class TryConnectArgs(ConnectArgs, OperationArgs[TrialOutcome], frozen=True, kw_only=True):
    """Run one turn of an agent, to see whether it answers. Nothing is changed."""

    id: Annotated[str, option("Names the trial, so that it can be cancelled (default: a new name).")] = ""
    limit_s: Annotated[float, option("Seconds for the trial.")] = 120.0


@declares("connect.cancel", right=RIGHT)
class CancelTrialArgs(OperationArgs[TrialCancellation], frozen=True):
    """Cancel a trial: whoever asked has left."""

    id: Annotated[str, argument("The trial.")]


@declares("connect.keep", right=RIGHT)
class KeepConnectionArgs(ConnectArgs, OperationArgs[ConnectResult], frozen=True):
    """Put an agent in force: the key, the price, and last the group with its endpoint, which then begins to use
    them."""


class EndpointCheck(Struct, frozen=True):
    """The answer of an endpoint. `key`: whether one was shown; `accepted` None: it does not say, or none was shown."""

    folders: tuple[str, ...]
    provider: str
    vendor: str
    url: str
    reachable: bool
    accepted: bool | None
    key: bool
    reason: str


@declares("models.check", right="status.read")
class CheckModelsArgs(OperationArgs[list[EndpointCheck]], frozen=True):
    """Check whether the endpoints that groups use can be reached and take their keys. Nothing is spent."""


@declares("sandbox.walls", right="status.read")
class IsolationArgs(OperationArgs[SandboxIsolation], frozen=True):
    """Tell which sandbox a group's agents get, as the gateway itself sees this machine."""

    folder: Annotated[str, option("The group; '': one that says nothing of sandboxes.", scope=True)] = ""
    provider: Annotated[str, option("For this provider instead of the group's.")] = ""
