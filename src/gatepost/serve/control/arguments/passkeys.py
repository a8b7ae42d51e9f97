"""Passkeys by which people sign in to the web page. They are added there, by a browser."""

from typing import Annotated, Any

from gatepost.serve.control.declaration import OperationArgs, argument, declares, option

READ, WRITE = "logins.read", "logins.write"


@declares("passkey.list", right=READ, answers_all=True, needs_home=True)
class ListPasskeysArgs(OperationArgs[Any], frozen=True):
    """Passkeys, the oldest first. A person sees their own; the operator sees all. They are added on the web page."""

    everybody: Annotated[
        bool, option("Those of everybody, with the right for it; the operator sees them anyway.", name="all")
    ] = False


@declares("passkey.rm", right=WRITE, answers_all=True, needs_home=True)
class RemovePasskeyArgs(OperationArgs[Any], frozen=True):
    """Remove a passkey. It signs nobody in from then on; browsers that it has signed in stay so."""

    id: Annotated[str, argument("Its id, as the list shows it.", "PASSKEY")]
