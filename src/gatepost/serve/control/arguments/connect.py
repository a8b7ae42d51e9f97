"""Connect: try an agent in a session of its own, and put in force what was tried. Checks beside it: the endpoints whose
models groups use, and the isolation that a group's agents get.

Keys and prices are the whole gateway's, so the right is needed for the root and not for the group alone.
"""

from typing import Annotated

from msgspec import Struct, field

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.flow.reports import SandboxIsolation, TrialOutcome
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
    """`key`: the secret that it would use; '': there is none. `can_install`: the gateway can fetch what it lacks."""

    agent: str
    title: str
    model: str
    vendor: str
    installed: bool
    needs_command: bool  # it is any program, which has to be named
    key: str
    groups: tuple[str, ...]
    can_install: bool = True


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


@declares("connect.install", right=RIGHT)
class InstallAgentArgs(ConnectArgs, OperationArgs[ConnectCheck], frozen=True):
    """Install what an agent lacks on the gateway's machine: its library by pip, its program by npm.

    The scripts of npm's packages are not run. Nothing happens if nothing is missing.
    """


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


def render_size(size: int) -> str:
    """`4.7 GB`; '' for what is not known."""
    return f"{size / 1e9:.1f} GB" if size else ""


def render_count(number: int) -> str:
    return f"{number:,}" if number else ""


def render_known(said: bool | None) -> str:
    return "?" if said is None else "yes" if said else "no"


class LocalModel(Struct, frozen=True, kw_only=True):
    """A model as its server tells of it. 0 and None: it does not say."""

    model: Annotated[str, shown("Model", ShownAs.ID)]
    server: Annotated[str, shown("Server")]
    base_url: Annotated[str, shown("Address", head="address")]
    size: Annotated[int, shown("Size", render=render_size, empty="?")] = 0  # bytes
    context: Annotated[int, shown("Window", head="window", render=render_count, empty="?")] = (
        0  # tokens before it as it runs
    )
    longest: Annotated[int, shown("Made for", head="made for", render=render_count, empty="?")] = 0  # tokens
    tools: Annotated[bool | None, shown("Tools", render=render_known)] = None
    vision: Annotated[bool | None, shown("Pictures", head="pictures", render=render_known)] = None
    loaded: Annotated[bool, shown("In memory", ShownAs.FLAG, word="yes")] = False


class LocalService(Struct, frozen=True):
    """Something else on this machine that agents can use."""

    name: Annotated[str, shown("Service", ShownAs.ID)]
    url: Annotated[str, shown("Address", head="address")]


class LocalFindings(Struct, frozen=True):
    models: tuple[LocalModel, ...]
    services: tuple[LocalService, ...]


class ModelProbe(Struct, frozen=True, kw_only=True):
    """The result of trying a model. `trouble`: '' if it answered; `context`: tokens, 0 if that could not be found
    out."""

    trouble: str = ""
    tools: bool = False
    vision: bool = False
    context: int = 0
    cuts: bool = False  # a text that is too long is cut without a word
    seconds: float = 0.0  # for the first answer


@declares("connect.local", right=RIGHT)
class FindLocalModelsArgs(OperationArgs[LocalFindings], frozen=True):
    """Find the models that servers on this machine offer, such as Ollama, llama.cpp, LM Studio and vLLM."""

    base_url: Annotated[str, option("Look at this address alone.")] = ""


@declares("connect.probe", right=RIGHT)
class ProbeModelArgs(OperationArgs[ModelProbe], frozen=True, kw_only=True):
    """Try out whether a model of one's own uses tools and sees pictures, and how much it can have before it."""

    base_url: Annotated[str, option("The address of its server.")]
    model: Annotated[str, option("The model.")]


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
