"""A person's way to sign in to the web page: their name there, and their password."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core.record_fields import ShownAs, option, shown
from gatepost.serve.control.arguments.people.logins import WRITE
from gatepost.serve.control.declaration import OperationArgs, declares

OWN = "logins.own"
MOST = 4096  # characters of what may be sent


class SignInState(Struct, frozen=True, kw_only=True):
    """`name`: by which the person signs in; '': they have no identity on the web page. `password_login`: whether
    passwords are on here. `changed_at`: when they set theirs; None: they have none."""

    name: Annotated[str, shown("Name to sign in with", ShownAs.CODE)]
    password_login: bool
    changed_at: Annotated[int | None, shown("Password", ShownAs.MOMENT, empty="None is set")]


@declares("login.show", right=OWN, answers_all=True)
class ShowSignInArgs(OperationArgs[SignInState], frozen=True):
    """The name by which you sign in to the web page, and whether you have set a password."""


@declares("login.set_password", right=OWN, offline=False, answers_all=True)
class SetPasswordArgs(OperationArgs[SignInState], frozen=True):
    """Set your password for the web page. Your other browsers are signed out.

    It needs the old password, or a browser that was signed in within the last ten minutes.
    """

    new_password: Annotated[str, option("At least 12 characters.", secret=True), Meta(max_length=MOST)]
    old_password: Annotated[
        str,
        option("The password until now, if you have signed in more than ten minutes ago.", secret=True),
        Meta(max_length=MOST),
    ] = ""


@declares("login.remove_password", right=WRITE, answers_all=True, needs_home=True)
class RemovePasswordArgs(OperationArgs[SignInState], frozen=True):
    """Remove a password of the web page. All browsers of that person but this one are signed out."""

    person: Annotated[
        str, option("The person, by one of their identities (default: you).", examples=("web:user/ann",))
    ] = ""
