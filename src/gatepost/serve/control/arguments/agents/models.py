"""Models: whether the endpoints that groups use can be reached."""

from msgspec import Struct

from gatepost.serve.control.declaration import OperationArgs, declares


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
