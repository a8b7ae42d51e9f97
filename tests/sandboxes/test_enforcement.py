"""What is said about limits is what holds."""

from pathlib import Path

import pytest

from gatepost.sandboxes.enforcement import SENT, Hold, Machine, limits_that_hold, why_no_quota

ALL = {
    "memory",
    "processes",
    "processor time",
    "disk",
    "files and folders",
    "free disk of the machine",
    "size of one file",
    "open descriptors",
    "what a user may have",
    "network",
    "descriptors sent to the gateway",
}


def holds(kind: str, machine: Machine) -> dict[str, Hold]:
    return {fact.limit: fact.hold for fact in limits_that_hold(kind, machine)}


@pytest.mark.parametrize("kind", ["bubblewrap", "podman", "docker", "process"])
def test_stranger_08_every_limit_is_told_of(kind: str) -> None:
    assert set(holds(kind, Machine(root=False))) == ALL


def test_stranger_08_memory_is_enforced_by_a_cgroup_alone() -> None:
    assert holds("bubblewrap", Machine(root=True, memory_cgroup=True))["memory"] is Hold.ENFORCED
    assert holds("bubblewrap", Machine(root=True))["memory"] is Hold.WATCHED
    assert holds("process", Machine(root=True, memory_cgroup=True))["memory"] is Hold.WATCHED
    assert holds("podman", Machine(root=True))["memory"] is Hold.ENFORCED


def test_what_the_kernel_counts_by_user_is_apart_only_with_uids_of_their_own() -> None:
    assert holds("bubblewrap", Machine(root=True, own_uids=True))["what a user may have"] is Hold.ENFORCED
    assert holds("bubblewrap", Machine(root=False, own_uids=True))["what a user may have"] is Hold.NONE


def test_stranger_new_descriptors_are_refused_where_the_kernel_can() -> None:
    assert holds("bubblewrap", Machine(root=True, refuses_descriptors=True))[SENT] is Hold.ENFORCED
    assert holds("bubblewrap", Machine(root=True))[SENT] is Hold.NONE


def test_why_there_is_no_quota() -> None:
    mounts = "/dev/a / ext4 rw 0 0\n/dev/b /srv xfs rw,prjquota 0 0\ntmpfs /tmp tmpfs rw 0 0\n"
    assert "/ is mounted without prjquota" in why_no_quota(Path("/home/x"), mounts)
    assert why_no_quota(Path("/srv/gatepost"), mounts) == ""
    assert "tmpfs has none" in why_no_quota(Path("/tmp/x"), mounts)
