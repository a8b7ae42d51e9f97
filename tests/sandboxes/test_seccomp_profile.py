"""The filter as engines read it: the same calls as bubblewrap's, each in a form that engines can express."""

import json
from typing import Any

import pytest

from gatepost.sandboxes import seccomp
from gatepost.sandboxes.seccomp_profile import make_profile


def rules_for(name: str, machine: str = "x86_64") -> list[dict[str, Any]]:
    return [rule for rule in json.loads(make_profile(machine))["syscalls"] if name in rule["names"]]


def refuses(name: str, *arguments: int) -> bool:
    """As a runtime would decide: any rule whose comparisons all hold."""
    compare = {
        "SCMP_CMP_EQ": lambda given, each: given == each["value"],
        "SCMP_CMP_GT": lambda given, each: given > each["value"],
        "SCMP_CMP_MASKED_EQ": lambda given, each: given & each["value"] == each["valueTwo"],
    }
    return any(
        all(compare[each["op"]](arguments[each["index"]], each) for each in rule.get("args", []))
        for rule in rules_for(name)
    )


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_whatever_bubblewrap_refuses_is_refused(machine: str) -> None:
    for name in (*seccomp.MACHINES[machine].refused, "clone3"):
        assert any("args" not in rule for rule in rules_for(name, machine)), name


def test_three_families_of_sockets_are_left_and_no_high_bit_helps() -> None:
    open_families = [family for family in range(64) if not refuses("socket", family)]

    assert open_families == [seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6]
    assert refuses("socket", 1 << 32 | 16)
    assert [family for family in range(64) if not refuses("socketpair", family)] == [seccomp.AF_UNIX]


def test_no_new_namespaces_but_threads_and_processes() -> None:
    assert all(refuses(call, 1 << bit) for call in ("clone", "unshare") for bit in (17, 25, 26, 27, 28, 29, 30))
    assert not refuses("clone", 0x3D0F00)
    assert not refuses("clone", 17)


def test_nothing_is_put_into_the_terminals_mouth() -> None:
    assert refuses("ioctl", 0, seccomp.TIOCSTI)
    assert refuses("ioctl", 0, 1 << 32 | seccomp.TIOCSTI)
    assert not refuses("ioctl", 0, 0x5413)


def test_no_file_becomes_setuid() -> None:
    assert refuses("chmod", 0, 0o4755) and refuses("fchmodat", 0, 0, 0o2755) and refuses("mknodat", 0, 0, 0o104755)
    assert refuses("openat", 0, 0, 0o101, 0o4755) and refuses("open", 0, 0o20000000, 0o2755) and refuses("openat2")
    assert not refuses("chmod", 0, 0o1777) and not refuses("openat", 0, 0, 0o101, 0o755)
    assert not refuses("openat", 0, 0, 0, 0o4755)


def test_stranger_new_no_socket_lingers_where_the_gateway_may_have_to_close_it() -> None:
    (rule,) = [
        each for each in json.loads(make_profile("x86_64", linger=False))["syscalls"] if "setsockopt" in each["names"]
    ]
    assert [each["valueTwo"] for each in rule["args"]] == [seccomp.SOL_SOCKET, seccomp.SO_LINGER]
    assert rules_for("setsockopt") == []
