"""The filter, run by a small interpreter of its own: so each machine's is tested on every machine.

As engines read it, it refuses the same calls, each in a form that engines can express.
"""

import errno
import json
import struct
from typing import Any

import pytest

from gatepost.sandboxes import seccomp
from gatepost.sandboxes.seccomp import (
    CREATES,
    MACHINES,
    SO_LINGER,
    SOL_SOCKET,
    TIOCSTI,
    SyscallTable,
    make_filter,
    make_profile,
    supported,
)

ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000


def run(program: bytes, arch: int, number: int, *args: int) -> int:
    data = struct.pack("<iIQ6Q", number, arch, 0, *(args + (0,) * (6 - len(args))))
    steps = list(struct.iter_unpack("<HBBI", program))
    at, loaded = 0, 0
    while True:
        code, then, otherwise, value = steps[at]
        at += 1
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", data, value)
        elif code == 0x06:
            return int(value)
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
            at += then if holds else otherwise


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> tuple[bytes, SyscallTable]:
    return make_filter(request.param), MACHINES[request.param]


def test_an_ordinary_call_passes(machine: tuple[bytes, SyscallTable]) -> None:
    program, here = machine
    for number in (0, 1, 60, 93, 257, 434):
        if number not in here.refused.values():
            assert run(program, here.audit_arch, number) == ALLOW


def test_another_machines_calls_end_the_process(machine: tuple[bytes, SyscallTable]) -> None:
    program, _ = machine
    assert run(program, 0x40000003, 1) == KILL


def test_every_refused_call_gets_eperm(machine: tuple[bytes, SyscallTable]) -> None:
    program, here = machine
    for name in ("keyctl", "bpf", "io_uring_setup", "userfaultfd", "perf_event_open", "mount", "setns"):
        assert name in here.refused
    for number in here.refused.values():
        assert run(program, here.audit_arch, number) == ERRNO | errno.EPERM


def test_what_hides_its_arguments_is_unknown_so_that_libc_takes_the_older_call(
    machine: tuple[bytes, SyscallTable],
) -> None:
    program, here = machine
    for number in (here.clone3, here.openat2):
        assert run(program, here.audit_arch, number) == ERRNO | errno.ENOSYS


@pytest.mark.parametrize("bit", [0o4000, 0o2000])
def test_no_file_becomes_setuid(machine: tuple[bytes, SyscallTable], bit: int) -> None:
    program, here = machine
    for number, mode in here.modes.values():
        assert run(program, here.audit_arch, number, *[0] * mode, bit | 0o755) == ERRNO | errno.EPERM
        assert run(program, here.audit_arch, number, *[0] * mode, 0o1777) == ALLOW
    for number, mode in here.opens.values():
        before = [0] * (mode - 1)
        for flag in (CREATES & 0o100, CREATES & ~0o100, CREATES):
            assert run(program, here.audit_arch, number, *before, flag, bit | 0o600) == ERRNO | errno.EPERM
            assert run(program, here.audit_arch, number, *before, flag, 0o644) == ALLOW
        assert run(program, here.audit_arch, number, *before, 0, bit) == ALLOW  # nothing is made: there is no mode


@pytest.mark.parametrize("flag", [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000])
def test_no_call_makes_a_namespace(machine: tuple[bytes, SyscallTable], flag: int) -> None:
    program, here = machine
    for number in (here.clone, here.unshare):
        assert run(program, here.audit_arch, number, flag | 17) == ERRNO | errno.EPERM
        assert run(program, here.audit_arch, number, 0x00010F00) == ALLOW  # a thread


def test_only_three_families_have_sockets(machine: tuple[bytes, SyscallTable]) -> None:
    program, here = machine
    passed = [family for family in range(64) if run(program, here.audit_arch, here.socket, family) == ALLOW]
    pairs = [family for family in range(64) if run(program, here.audit_arch, here.socketpair, family) == ALLOW]
    assert (passed, pairs) == ([1, 2, 10], [1])


def test_the_upper_half_of_an_argument_hides_nothing(machine: tuple[bytes, SyscallTable]) -> None:
    program, here = machine
    assert run(program, here.audit_arch, here.socket, (1 << 32) | 16) == ERRNO | errno.EAFNOSUPPORT
    assert run(program, here.audit_arch, here.ioctl, 0, (1 << 32) | TIOCSTI) == ERRNO | errno.EPERM


def test_a_terminal_takes_no_words_from_inside(machine: tuple[bytes, SyscallTable]) -> None:
    program, here = machine
    assert run(program, here.audit_arch, here.ioctl, 0, TIOCSTI) == ERRNO | errno.EPERM
    assert run(program, here.audit_arch, here.ioctl, 0, 0x5401) == ALLOW


@pytest.mark.parametrize("name", ["x86_64", "aarch64"])
def test_stranger_new_no_socket_lingers_where_the_gateway_may_have_to_close_it(name: str) -> None:
    here = MACHINES[name]
    strict, usual = make_filter(name, linger=False), make_filter(name)
    assert run(strict, here.audit_arch, here.setsockopt, 3, SOL_SOCKET, SO_LINGER) == ERRNO | errno.EPERM
    assert run(strict, here.audit_arch, here.setsockopt, 3, SOL_SOCKET, 2) == ALLOW
    assert run(strict, here.audit_arch, here.setsockopt, 3, 6, SO_LINGER) == ALLOW
    assert run(usual, here.audit_arch, here.setsockopt, 3, SOL_SOCKET, SO_LINGER) == ALLOW


def test_the_second_numbering_of_x86_is_closed() -> None:
    program = make_filter("x86_64")
    assert run(program, MACHINES["x86_64"].audit_arch, 0x40000000 + 41, 16) == ERRNO | errno.EPERM


def test_a_machine_without_a_filter_is_named_as_such() -> None:
    assert not supported("riscv64")


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


def test_no_file_becomes_setuid_in_an_engine() -> None:
    assert refuses("chmod", 0, 0o4755) and refuses("fchmodat", 0, 0, 0o2755) and refuses("mknodat", 0, 0, 0o104755)
    assert refuses("openat", 0, 0, 0o101, 0o4755) and refuses("open", 0, 0o20000000, 0o2755) and refuses("openat2")
    assert not refuses("chmod", 0, 0o1777) and not refuses("openat", 0, 0, 0o101, 0o755)
    assert not refuses("openat", 0, 0, 0, 0o4755)


def test_stranger_new_no_socket_lingers_in_an_engine_where_the_gateway_may_have_to_close_it() -> None:
    (rule,) = [
        each for each in json.loads(make_profile("x86_64", linger=False))["syscalls"] if "setsockopt" in each["names"]
    ]
    assert [each["valueTwo"] for each in rule["args"]] == [seccomp.SOL_SOCKET, seccomp.SO_LINGER]
    assert rules_for("setsockopt") == []
