"""Connect: try an agent in a session of its own, and put in force what was tried.

Keys and prices are the whole gateway's, so the right is needed for the root and not for the group alone.
"""

from typing import Annotated, Any

from msgspec import field

from gatepost.serve.control.declaration import OperationArgs, argument, declares, option

RIGHT = "connect"


class ConnectArgs(OperationArgs[Any], frozen=True):
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
class ListConnectableArgs(OperationArgs[Any], frozen=True):
    """List the agents that can be connected: whether each is installed, has a key, and which groups run on it."""


@declares("connect.check", right=RIGHT)
class CheckConnectArgs(ConnectArgs, frozen=True):
    """Look whether an agent can be tried: a sandbox that works, its program, a key. Nothing is run and nothing is
    changed."""


@declares("connect.try", right=RIGHT)
class TryConnectArgs(ConnectArgs, frozen=True, kw_only=True):
    """Run one turn of an agent, to see whether it answers. Nothing is changed."""

    id: Annotated[str, option("Names the trial, so that it can be cancelled (default: a new name).")] = ""
    limit_s: Annotated[float, option("Seconds for the trial.")] = 120.0


@declares("connect.cancel", right=RIGHT)
class CancelTrialArgs(OperationArgs[Any], frozen=True):
    """Cancel a trial: whoever asked has left."""

    id: Annotated[str, argument("The trial.")]


@declares("connect.keep", right=RIGHT)
class KeepConnectionArgs(ConnectArgs, frozen=True):
    """Put an agent in force: the key, the price, and last the group with its endpoint, which then begins to use
    them."""
