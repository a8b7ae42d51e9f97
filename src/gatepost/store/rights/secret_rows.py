"""Secrets and their uses as the store has them, without any value. Nothing here seals or opens one."""

from msgspec import Struct

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


class Secret(Struct, frozen=True):
    """Everything about a secret but its value."""

    name: str
    folder: str
    user_id: str
    key_id: str
    created_at: int
    updated_at: int
    used_at: int | None
    origin: str = UNBOUND  # https://api.openai.com:443: the only endpoint that a model's key is sent to


class SecretUse(Struct, frozen=True):
    at: int
    name: str
    scope: str | None  # None: there was none
    folder: str
    user_id: str
    purpose: str
    outcome: str  # used | missing | unreadable
