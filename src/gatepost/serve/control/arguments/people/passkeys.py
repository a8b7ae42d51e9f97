"""Passkeys by which people sign in to the web page. They are added there, by a browser."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.people.passkeys import Passkey

READ, WRITE = "logins.read", "logins.write"


class PasskeyView(Passkey, frozen=True, kw_only=True):
    """`person`: how people call them."""

    person: Annotated[str, shown("Person")]


class PasskeyList(Struct, frozen=True, kw_only=True):
    """`is_on`: people can add some, and sign in with them. `missing`: what must be installed for it."""

    is_on: bool
    missing: str = ""
    passkeys: list[PasskeyView]


@declares("passkey.list", right=READ, answers_all=True, needs_home=True)
class ListPasskeysArgs(OperationArgs[PasskeyList], frozen=True):
    """Passkeys, the oldest first. A person sees their own; the operator sees all. They are added on the web page."""

    everybody: Annotated[
        bool, option("Those of everybody, with the right for it; the operator sees them anyway.", name="all")
    ] = False


@declares("passkey.rm", right=WRITE, answers_all=True, needs_home=True)
class RemovePasskeyArgs(OperationArgs[PasskeyView], frozen=True):
    """Remove a passkey. It signs nobody in from then on; browsers that it has signed in stay so."""

    id: Annotated[str, argument("Its id, as the list shows it.", "PASSKEY")]
