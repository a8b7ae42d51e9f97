"""Secrets, their uses and their bindings as the store has them, without any value. Nothing here seals or opens one."""

import re
from typing import Annotated

from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read

CHANNELS = "CHANNEL_"  # how the names of channels' secrets begin: for their platforms alone, never for an agent
_SECRET_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}\Z")

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


class Binding(Struct, frozen=True):
    """A secret that goes into one header of requests to one host."""

    id: int
    folder: str | None  # None: the whole instance
    name: str
    scheme: str
    host: str
    port: int
    header: str
    template: str
    created_by: str
    created_at: int

    @property
    def place(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


BINDINGS = Table("secret_bindings", Binding)


def list_bindings(db: Db) -> list[Binding]:
    return BINDINGS.list(db, "ORDER BY name, host, id")


@inline_read
def list_bindings_for_host(db: Db, scheme: str, host: str, port: int) -> list[Binding]:
    """Return the bindings for a host, of all groups and people."""
    return BINDINGS.list(db, "WHERE scheme = ? AND host = ? AND port = ? ORDER BY id", scheme, host, port)


def put_binding(
    db: Db, folder: str | None, name: str, place: tuple[str, str, int], header: str, template: str, by: str, now: int
) -> Binding:
    """One secret a folder, place and header: a second one replaces the first. The foreign key refuses a ghost."""
    scheme, host, port = place
    return BINDINGS.put(
        db,
        "ON CONFLICT (COALESCE(folder, ''), scheme, host, port, header)"
        " DO UPDATE SET name = excluded.name, template = excluded.template, created_by = excluded.created_by,"
        " created_at = excluded.created_at",
        folder=folder,
        name=name,
        scheme=scheme,
        host=host,
        port=port,
        header=header,
        template=template,
        created_by=by,
        created_at=now,
    )


def remove_binding(db: Db, folder: str | None, name: str, place: tuple[str, str, int]) -> list[Binding]:
    rows = db.rows(
        "DELETE FROM secret_bindings WHERE COALESCE(folder, '') = ? AND name = ? AND scheme = ? AND host = ?"
        f" AND port = ? RETURNING {BINDINGS.columns}",
        (folder or "", name, *place),
    )
    return [BINDINGS.parse(row) for row in rows]


def check_name(name: str) -> str:
    """Does not repeat what was given: it may be the value, in the wrong place."""
    if not _SECRET_NAME.match(name):
        raise Invalid("name", "a secret is named in capitals, digits and `_`, at most 64, like ANTHROPIC_API_KEY")
    return name


def get_channel_secret_name(instance: str, name: str) -> str:
    """`CHANNEL_WORK_TOKEN` for the setting `token` of the instance `work`."""
    return f"{CHANNELS}{instance}_{name}".upper().replace("-", "_")


def is_channel_secret(name: str) -> bool:
    return name.startswith(CHANNELS)
