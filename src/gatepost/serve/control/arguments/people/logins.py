"""Browsers that are signed in to the web page."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.people.logins import BrowserLogin

READ, WRITE = "logins.read", "logins.write"


class BrowserLoginView(BrowserLogin, frozen=True, kw_only=True):
    """`person`: how people call them. `is_this`: it is the browser that asks."""

    person: Annotated[str, shown("Person", head="who")]
    is_this: Annotated[bool, shown("Where", ShownAs.FLAG, word="this browser")]


class EndedLogins(Struct, frozen=True, kw_only=True):
    """How many browsers and one-time addresses do not work any more."""

    person: str
    ended: int


@declares("login.list", right=READ, answers_all=True, needs_home=True)
class ListLoginsArgs(OperationArgs[list[BrowserLoginView]], frozen=True):
    """Browsers that are signed in, those that were here last first. A person sees their own; the operator sees all."""

    everybody: Annotated[
        bool, option("Those of everybody, with the right for it; the operator sees them anyway.", name="all")
    ] = False


@declares("login.end", right=WRITE, answers_all=True, needs_home=True)
class EndLoginArgs(OperationArgs[BrowserLoginView], frozen=True):
    """Sign one browser out. Its open pages and streams end at once."""

    id: Annotated[str, argument("Its id, as the list shows it.", "LOGIN")]


@declares("login.end_all", right=WRITE, answers_all=True, needs_home=True)
class EndAllLoginsArgs(OperationArgs[EndedLogins], frozen=True):
    """Sign all browsers of a person out, and void their one-time addresses. Pages that these have open end at once."""

    person: Annotated[
        str, option("The person, by one of their identities (default: you).", examples=("web:user/ann",))
    ] = ""
    keep_this: Annotated[bool, option("Leave the browser that asks signed in.", hidden=True)] = False
