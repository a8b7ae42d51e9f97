"""Sessions: list the live ones, stop what one does, close one."""

from typing import Annotated

from gatepost.serve.control.declaration import OperationArgs, argument, declares, option

READ, WRITE = "sessions.read", "sessions.write"
SessionId = Annotated[str, argument("The session's id.", "session")]


@declares("session.list", right=READ, reads=True)
class ListSessionsArgs(OperationArgs, frozen=True):
    """List the live sessions."""

    folder: Annotated[str, option("Only of this group (default: of every group).", scope=True)] = ""


@declares("session.stop", right=WRITE)
class StopSessionArgs(OperationArgs, frozen=True):
    """End the running turn of a session now. The session itself goes on with the next message."""

    id: SessionId


@declares("session.stop_all", right=WRITE)
class StopAllSessionsArgs(OperationArgs, frozen=True):
    """End every running turn, all at once: none waits for another to be gone."""


@declares("session.close", right=WRITE)
class CloseSessionArgs(OperationArgs, frozen=True):
    """Close a session: the next message of the same conversation starts afresh."""

    id: SessionId
