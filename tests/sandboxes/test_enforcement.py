"""What is said about limits is what holds."""

from pathlib import Path

import pytest

from gatepost.sandboxes.enforcement import SENT, HostCapabilities, LimitEnforcement, find_quota_trouble, list_limits

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


def holds(kind: str, machine: HostCapabilities) -> dict[str, LimitEnforcement]:
    return {fact.limit: fact.hold for fact in list_limits(kind, machine)}


@pytest.mark.parametrize("kind", ["bubblewrap", "podman", "docker", "process"])
def test_stranger_08_every_limit_is_told_of(kind: str) -> None:
    assert set(holds(kind, HostCapabilities(root=False))) == ALL


def test_stranger_08_memory_is_enforced_by_a_cgroup_alone() -> None:
    assert holds("bubblewrap", HostCapabilities(root=True, memory_cgroup=True))["memory"] is LimitEnforcement.ENFORCED
    assert holds("bubblewrap", HostCapabilities(root=True))["memory"] is LimitEnforcement.WATCHED
    assert holds("process", HostCapabilities(root=True, memory_cgroup=True))["memory"] is LimitEnforcement.WATCHED
    assert holds("podman", HostCapabilities(root=True))["memory"] is LimitEnforcement.ENFORCED


def test_what_the_kernel_counts_by_user_is_apart_only_with_uids_of_their_own() -> None:
    assert (
        holds("bubblewrap", HostCapabilities(root=True, own_uids=True))["what a user may have"]
        is LimitEnforcement.ENFORCED
    )
    assert (
        holds("bubblewrap", HostCapabilities(root=False, own_uids=True))["what a user may have"]
        is LimitEnforcement.NONE
    )


def test_stranger_new_descriptors_are_refused_where_the_kernel_can() -> None:
    assert holds("bubblewrap", HostCapabilities(root=True, refuses_descriptors=True))[SENT] is LimitEnforcement.ENFORCED
    assert holds("bubblewrap", HostCapabilities(root=True))[SENT] is LimitEnforcement.NONE


def test_why_there_is_no_quota() -> None:
    mounts = "/dev/a / ext4 rw 0 0\n/dev/b /srv xfs rw,prjquota 0 0\ntmpfs /tmp tmpfs rw 0 0\n"
    assert "/ is mounted without prjquota" in find_quota_trouble(Path("/home/x"), mounts)
    assert find_quota_trouble(Path("/srv/gatepost"), mounts) == ""
    assert "tmpfs has none" in find_quota_trouble(Path("/tmp/x"), mounts)
