"""The system call filter of a sandbox: as BPF made here, without a library or a compiler, and as JSON for engines.

It closes what a user namespace leaves open inside: socket families other than UNIX, INET and INET6, and new namespaces
and mounts. It also refuses setuid files, which other users of the host could run, and kernel interfaces with a history
of holes. It is the second wall, behind the namespaces. `make_filter` is for bubblewrap, `make_profile` for container
engines; both refuse the same calls.
"""

import errno
import json
import platform
import struct
from collections.abc import Iterable
from functools import cache

from msgspec import Struct, field

AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW… but CLONE_NEWTIME, which shares a bit with the exit signal
SET_ID = 0o6000  # S_ISUID, S_ISGID
CREATES = 0o20000100  # O_CREAT, O_TMPFILE: only then there is a mode
SOL_SOCKET, SO_LINGER = 1, 13
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # put words into the mouth of the terminal's owner

# struct seccomp_data: int nr; u32 arch; u64 instruction_pointer; u64 args[6], little-endian here
_NR, _ARCH = 0, 4
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_X32 = 0x40000000  # x86_64's second set of numbers for the same calls

# The same numbers on every machine, as all calls since Linux 5.1 have.
_COMMON = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "open_tree_attr": 467,
}
_X86_64 = {
    "syslog": 103,
    "uselib": 134,
    "modify_ldt": 154,
    "pivot_root": 155,
    "adjtimex": 159,
    "chroot": 161,
    "acct": 163,
    "settimeofday": 164,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "sethostname": 170,
    "setdomainname": 171,
    "iopl": 172,
    "ioperm": 173,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "nfsservctl": 180,
    "lookup_dcookie": 212,
    "clock_settime": 227,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "migrate_pages": 256,
    "move_pages": 279,
    "perf_event_open": 298,
    "fanotify_init": 300,
    "open_by_handle_at": 304,
    "clock_adjtime": 305,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
}
_AARCH64 = {
    "lookup_dcookie": 18,
    "umount2": 39,
    "mount": 40,
    "pivot_root": 41,
    "nfsservctl": 42,
    "chroot": 51,
    "quotactl": 60,
    "acct": 89,
    "kexec_load": 104,
    "init_module": 105,
    "delete_module": 106,
    "clock_settime": 112,
    "syslog": 116,
    "reboot": 142,
    "sethostname": 161,
    "setdomainname": 162,
    "settimeofday": 170,
    "adjtimex": 171,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "swapon": 224,
    "swapoff": 225,
    "migrate_pages": 238,
    "move_pages": 239,
    "perf_event_open": 241,
    "fanotify_init": 262,
    "open_by_handle_at": 265,
    "clock_adjtime": 266,
    "setns": 268,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "kcmp": 272,
    "finit_module": 273,
    "bpf": 280,
    "userfaultfd": 282,
    "kexec_file_load": 294,
}
ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64", "arm64": "SCMP_ARCH_AARCH64"}
FAMILIES = (AF_UNIX, AF_INET, AF_INET6)
LOWER_HALF = 0xFFFF_FFFF  # the kernel looks at no more of an int, the engine's comparison does
Argument = dict[str, int | str]
Rule = dict[str, list[str] | list[Argument] | str | int]


class SyscallTable(Struct, frozen=True, kw_only=True):
    audit_arch: int
    socket: int
    socketpair: int
    clone: int
    unshare: int
    ioctl: int
    setsockopt: int
    # A new or changed mode, by the argument that it is in; and those whose flags, one argument before, say if it is.
    modes: dict[str, tuple[int, int]]
    opens: dict[str, tuple[int, int]]
    clone3: int = 435
    openat2: int = 437
    x32: bool = False
    refused: dict[str, int] = field(default_factory=dict)


MACHINES = {
    "x86_64": SyscallTable(
        audit_arch=0xC000003E,
        socket=41,
        socketpair=53,
        clone=56,
        unshare=272,
        ioctl=16,
        setsockopt=54,
        modes={
            "chmod": (90, 1),
            "fchmod": (91, 1),
            "creat": (85, 1),
            "mknod": (133, 1),
            "mknodat": (259, 2),
            "fchmodat": (268, 2),
            "fchmodat2": (452, 2),
        },
        opens={"open": (2, 2), "openat": (257, 3)},
        x32=True,
        refused={**_X86_64, **_COMMON},
    ),
    "aarch64": SyscallTable(
        audit_arch=0xC00000B7,
        socket=198,
        socketpair=199,
        clone=220,
        unshare=97,
        ioctl=29,
        setsockopt=208,
        modes={"mknodat": (33, 2), "fchmod": (52, 1), "fchmodat": (53, 2), "fchmodat2": (452, 2)},
        opens={"openat": (56, 3)},
        refused={**_AARCH64, **_COMMON},
    ),
}
MACHINES["arm64"] = MACHINES["aarch64"]

Instruction = tuple[int, int, int, int]


def supported(machine: str = "") -> bool:
    return (machine or platform.machine()) in MACHINES


@cache
def make_filter(machine: str = "", *, linger: bool = True) -> bytes:
    """The filter for bwrap's `--seccomp`. `linger`: sockets may linger when they are closed, which is refused where a
    sandbox can have the gateway close one."""
    here = MACHINES[machine or platform.machine()]
    program: list[Instruction] = [_load(_ARCH), (_EQUAL, 1, 0, here.audit_arch), _ret(_KILL), _load(_NR)]
    if here.x32:
        program += [(_AT_LEAST, 0, 1, _X32), _refuse(errno.EPERM)]
    for number in sorted(here.refused.values()):
        program += [(_EQUAL, 0, 1, number), _refuse(errno.EPERM)]
    # The filter cannot see what they are asked (it is behind a pointer): without them libc takes clone and openat.
    for number in (here.clone3, here.openat2):
        program += [(_EQUAL, 0, 1, number), _refuse(errno.ENOSYS)]
    for number in (here.clone, here.unshare):
        program += _if(number, [_arg(0), (_ANY_BIT, 0, 1, NEW_NAMESPACES), _refuse(errno.EPERM), _ret(_ALLOW)])
    program += _if(here.socket, _only((AF_UNIX, AF_INET, AF_INET6), errno.EAFNOSUPPORT))
    program += _if(here.socketpair, _only((AF_UNIX,), errno.EAFNOSUPPORT))
    program += _if(
        here.ioctl,
        [_arg(1), (_EQUAL, 1, 0, TIOCSTI), (_EQUAL, 0, 1, TIOCLINUX), _refuse(errno.EPERM), _ret(_ALLOW)],
    )
    if not linger:
        options = [_arg(1), (_EQUAL, 0, 3, SOL_SOCKET), _arg(2), (_EQUAL, 0, 1, SO_LINGER), _refuse(errno.EPERM)]
        program += _if(here.setsockopt, [*options, _ret(_ALLOW)])
    for number, mode in here.modes.values():
        program += _if(number, [_arg(mode), (_ANY_BIT, 0, 1, SET_ID), _refuse(errno.EPERM), _ret(_ALLOW)])
    for number, mode in here.opens.values():
        creates = [_arg(mode - 1), (_ANY_BIT, 0, 3, CREATES)]
        program += _if(number, [*creates, _arg(mode), (_ANY_BIT, 0, 1, SET_ID), _refuse(errno.EPERM), _ret(_ALLOW)])
    program.append(_ret(_ALLOW))
    return b"".join(struct.pack("<HBBI", *each) for each in program)


def _load(offset: int) -> Instruction:
    return (_LOAD, 0, 0, offset)


def _arg(number: int) -> Instruction:
    """The lower half of an argument: families, flags and requests are ints, and the kernel looks at no more of them."""
    return _load(16 + 8 * number)


def _ret(action: int) -> Instruction:
    return (_RETURN, 0, 0, action)


def _refuse(code: int) -> Instruction:
    return _ret(_ERRNO | code)


def _if(number: int, block: list[Instruction]) -> list[Instruction]:
    """Run a block, which returns, for one call; others go on with their number still loaded."""
    return [(_EQUAL, 0, len(block), number), *block]


def _only(families: tuple[int, ...], code: int) -> list[Instruction]:
    checks = [(_EQUAL, len(families) - index, 0, family) for index, family in enumerate(families)]
    return [_arg(0), *checks, _refuse(code), _ret(_ALLOW)]


def make_profile(machine: str = "", *, linger: bool = True) -> str:
    """Return the filter as the JSON that container engines read, for `--security-opt seccomp=`.

    Everything is allowed but what is listed. Engines join the rules for one call by "or" and cannot say "none of
    these". So the refused families of sockets are listed, not the allowed ones. Calls of other machine types, as 32-bit
    programs make them, end the caller. `linger`: as for `make_filter`.
    """
    machine = machine or platform.machine()
    here = MACHINES[machine]
    rules = [_make_rule(sorted(here.refused), errno.EPERM), _make_rule(["clone3", "openat2"], errno.ENOSYS)]
    flags = _bits(NEW_NAMESPACES)
    rules += [_make_rule(["clone", "unshare"], errno.EPERM, _has(0, flag, flag)) for flag in flags]
    rules += _make_family_rules("socket", FAMILIES)
    rules += _make_family_rules("socketpair", (AF_UNIX,))
    requests = (TIOCSTI, TIOCLINUX)
    rules += [_make_rule(["ioctl"], errno.EPERM, _has(1, LOWER_HALF, request)) for request in requests]
    if not linger:
        option = (_has(1, LOWER_HALF, SOL_SOCKET), _has(2, LOWER_HALF, SO_LINGER))
        rules.append(_make_rule(["setsockopt"], errno.EPERM, *option))
    for bit in _bits(SET_ID):
        rules += [_make_rule([name], errno.EPERM, _has(mode, bit, bit)) for name, (_, mode) in here.modes.items()]
        for name, (_, mode) in here.opens.items():
            creates = (_has(mode - 1, flag, flag) for flag in _bits(CREATES))
            rules += [_make_rule([name], errno.EPERM, flag, _has(mode, bit, bit)) for flag in creates]
    return json.dumps(
        {"defaultAction": "SCMP_ACT_ALLOW", "architectures": [ARCHITECTURES[machine]], "syscalls": rules}, indent=1
    )


def _make_rule(names: list[str], code: int, *arguments: Argument) -> Rule:
    rule: Rule = {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": code}
    return {**rule, "args": list(arguments)} if arguments else rule


def _make_family_rules(name: str, families: Iterable[int]) -> list[Rule]:
    let = set(families)
    others = [family for family in range(max(let)) if family not in let]
    comparisons = [("SCMP_CMP_EQ", family) for family in others] + [("SCMP_CMP_GT", max(let))]
    return [_make_rule([name], errno.EAFNOSUPPORT, {"index": 0, "value": value, "op": op}) for op, value in comparisons]


def _has(index: int, mask: int, value: int) -> Argument:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _bits(mask: int) -> Iterable[int]:
    return (1 << place for place in range(mask.bit_length()) if mask & 1 << place)
