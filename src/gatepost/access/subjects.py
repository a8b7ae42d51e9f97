"""Subjects: the kinds of effects that a tool may have outside its own session. A rule may name one in place of a tool,
and then speaks of every tool that declares it, also of one that is added later."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct


class Subject(StrEnum):
    """No tool has the name of one."""

    SPEAK = "speak"  # in a room
    HAND_OUT = "hand_out"  # a file, or the use of a secret
    PUBLISH = "publish"  # for people whom nobody chose: pages, feeds, public links
    INSTRUCT = "instruct"  # another agent
    CHANGE_RIGHTS = "change_rights"  # grants, routes, invitations, tokens, groups, hosts
    REACH = "reach"  # a host of the network: a request carries words there
    SPEND = "spend"  # money
    SCHEDULE = "schedule"  # something for later
    ERASE = "erase"  # what others have, or may want to look up


MEANINGS = {
    Subject.SPEAK: "speak in a room",
    Subject.HAND_OUT: "hand out a file or the use of a secret",
    Subject.PUBLISH: "publish",
    Subject.INSTRUCT: "instruct another agent",
    Subject.CHANGE_RIGHTS: "change rights",
    Subject.REACH: "reach a host of the network",
    Subject.SPEND: "spend money",
    Subject.SCHEDULE: "schedule something",
    Subject.ERASE: "erase something",
}
ROOM_PARAM = "jid"  # all that a rule about a subject may look at: tools name their other parameters differently


class ToolEffects(Struct, frozen=True):
    """The effects of a tool outside its own session. `presumed`: nobody has declared them, so they count for denials
    and holds and never for an allowance."""

    subjects: frozenset[Subject] = frozenset()
    presumed: bool = False


NO_EFFECTS = ToolEffects()
ANY_EFFECTS = ToolEffects(frozenset(Subject), presumed=True)


def find_subject(name: str) -> Subject | None:
    """The subject of this name; None: it is no subject."""
    return _BY_NAME.get(name)


def make_effects(subjects: Iterable[Subject]) -> ToolEffects:
    return ToolEffects(frozenset(subjects))


_BY_NAME = {each.value: each for each in Subject}
