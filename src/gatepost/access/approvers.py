"""The people who decide what an agent, or somebody unknown, asks: admins of the group, then of the groups above it,
then owners. Pure: values in, values out."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from gatepost.access.tiers import ROOT_FOLDER
from gatepost.store.people.users import UserRole
from gatepost.store.rooms.direct_rooms import DirectRoom


class RoleHolder(Struct, frozen=True):
    person: str
    role: UserRole
    folder: str  # '' is everywhere


def rank_approvers(holders: Iterable[RoleHolder], folder: str) -> list[str]:
    """Everybody who may decide about a group, the nearest first; who holds several roles comes by the nearest."""
    ranked = [(rank, each.person) for each in holders if (rank := _rank(each, folder)) is not None]
    return list(dict.fromkeys(person for _, person in sorted(ranked)))


def _rank(holder: RoleHolder, folder: str) -> tuple[int, int] | None:
    """None: it does not reach that group."""
    above = holder.folder
    if above and above != folder and not folder.startswith(above + "/"):
        return None
    if folder == ROOT_FOLDER and holder.role is not UserRole.OWNER:
        return None
    depth = above.count("/") + 1 if above else 0
    return int(holder.role is UserRole.OWNER), -depth


def choose_room(rooms: Sequence[DirectRoom], instance: str) -> DirectRoom | None:
    """Return where somebody is asked: on the channel that the request came from, else where they were seen last."""
    return next((room for room in rooms if room.instance == instance), rooms[0] if rooms else None)


def choose_next(
    ranked: Sequence[str], asked: Iterable[str], rooms: Iterable[DirectRoom], instance: str
) -> tuple[str, DirectRoom] | None:
    """The next who was not asked yet and can be reached, and where; None: nobody is left."""
    known, done = list(rooms), frozenset(asked)
    for person in ranked:
        if person not in done and (room := choose_room([each for each in known if each.user_id == person], instance)):
            return person, room
    return None
