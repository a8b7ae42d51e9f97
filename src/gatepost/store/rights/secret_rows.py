"""Secrets and their uses as the store has them, without any value. Nothing here seals or opens one."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, shown

UNBOUND = ""  # the origin of what is no model's key, and of keys that were set before origins were kept


class SecretOwner(Struct, frozen=True):
    """The owner of a secret: a folder and those below it, a person, or (neither) the gateway."""

    folder: str = ""
    user_id: str = ""

    @property
    def scope(self) -> str:
        if self.user_id:
            return f"user:{self.user_id}"
        return f"folder:{self.folder}" if self.folder else ""

    def __str__(self) -> str:
        return render_scope(self.scope)


def render_scope(scope: str) -> str:
    """A scope for people: `folder acme/eng`."""
    return scope.replace(":", " ", 1) or "the gateway"


def _render_found(scope: str | None) -> str:
    return "" if scope is None else render_scope(scope)


class Secret(Struct, frozen=True):
    """Everything about a secret but its value."""

    name: Annotated[str, shown("Name", ShownAs.CODE)]
    folder: Annotated[str, shown("Of", head="for")]  # or a person's: see SecretOwner
    user_id: str
    key_id: Annotated[str, shown("Sealed with", ShownAs.CODE, head="key")]
    created_at: int
    updated_at: Annotated[int, shown("Set", ShownAs.MOMENT, head="set")]
    used_at: Annotated[int | None, shown("Used", ShownAs.MOMENT, head="last used")]
    # https://api.openai.com:443: the only endpoint that a model's key is sent to.
    origin: Annotated[str, shown("For", head="endpoint")] = UNBOUND


class SecretUse(Struct, frozen=True):
    at: Annotated[int, shown("When", ShownAs.MOMENT)]
    name: Annotated[str, shown("Name", ShownAs.CODE)]
    scope: Annotated[str | None, shown("Of", head="of", render=_render_found)]  # None: there was none
    folder: Annotated[str, shown("Group", head="for group")]
    user_id: Annotated[str, shown("Person", head="for user")]
    purpose: Annotated[str, shown("For")]
    outcome: Annotated[str, shown("Outcome", ShownAs.BADGE)]  # used | missing | unreadable
