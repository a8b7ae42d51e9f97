"""Where the folders of groups are, if several gateways share a store."""

from enum import StrEnum

from gatepost.core.settings import setting


class GroupPlace(StrEnum):
    LOCAL = "local"  # each group's on one gateway, which alone wakes its sessions
    SHARED = "shared"  # on a filesystem that all of them see


PLACE = setting(
    "groups.place",
    GroupPlace.LOCAL,
    help="Where the folders of groups are, if several gateways share a store: local (each group's on one gateway, which"
    " alone runs it) or shared (on a filesystem that all of them mount).",
    choices=tuple(GroupPlace),
)
