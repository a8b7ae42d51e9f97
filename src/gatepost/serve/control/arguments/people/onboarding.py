"""Newcomers: who may get a group of their own, and who waits for it."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core.record_fields import argument, option
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.people.newcomers import Entrance, EntranceFields, Newcomer

READ, WRITE = "onboarding.read", "onboarding.write"
NewcomerId = Annotated[str, argument("Their id in the list.", "NEWCOMER")]


class OnboardingOverview(Struct, frozen=True):
    entrances: tuple[Entrance, ...]
    newcomers: list[Newcomer]


@declares("onboarding.open", right=WRITE)
class OpenEntranceArgs(EntranceFields, OperationArgs[Entrance], frozen=True, kw_only=True):
    """Open an entrance: strangers who write directly to the channel INSTANCE may ask for a group of their own.

    The first message of such a stranger is answered with how to come in; `/join` does it. The group is made below
    FOLDER, from its prototype/ folder, and leads what they write there to it. Over the limit of a day people wait in a
    queue.
    """


@declares("onboarding.close", right=WRITE)
class CloseEntranceArgs(OperationArgs[Entrance], frozen=True):
    """Close an entrance. Its members stay members; people who wait there stay in the list."""

    id: Annotated[int, argument("The entrance's id.", "entrance")]


@declares("onboarding.list", right=READ, reads=True)
class ListNewcomersArgs(OperationArgs[OnboardingOverview], frozen=True):
    """The entrances, and everybody who came by one or by an invitation to a group of their own."""


@declares("onboarding.allow", right=WRITE)
class AllowNewcomerArgs(OperationArgs[Newcomer], frozen=True):
    """Let a newcomer in now, whatever the limit: one who waits, was denied, or whose group could not be made."""

    id: NewcomerId


@declares("onboarding.deny", right=WRITE)
class DenyNewcomerArgs(OperationArgs[Newcomer], frozen=True):
    """Do not let a newcomer in who waits. Nobody is asked about them again."""

    id: NewcomerId
    reason: Annotated[str, option("Why, for the list."), Meta(max_length=300)] = ""
