"""The system call filter of a sandbox as the JSON that container engines read. It refuses the same calls as `seccomp`,
which makes the filter for bubblewrap.

Everything is allowed but what is listed. Engines join the rules for one call by "or" and cannot say "none of these". So
the refused families of sockets are listed, not the allowed ones.
"""

import errno
import json
import platform
from collections.abc import Iterable

from gatepost.sandboxes import seccomp

ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64", "arm64": "SCMP_ARCH_AARCH64"}
FAMILIES = (seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6)
LOWER_HALF = 0xFFFF_FFFF  # the kernel looks at no more of an int, the engine's comparison does

Argument = dict[str, int | str]
Rule = dict[str, list[str] | list[Argument] | str | int]


def make_profile(machine: str = "", *, linger: bool = True) -> str:
    """For `--security-opt seccomp=`. Calls of other machine types, as 32-bit programs make them, end the caller.
    `linger`: as for `seccomp.make_filter`."""
    machine = machine or platform.machine()
    here = seccomp.MACHINES[machine]
    rules = [_refuse(sorted(here.refused), errno.EPERM), _refuse(["clone3", "openat2"], errno.ENOSYS)]
    flags = _bits(seccomp.NEW_NAMESPACES)
    rules += [_refuse(["clone", "unshare"], errno.EPERM, _has(0, flag, flag)) for flag in flags]
    rules += _only("socket", FAMILIES)
    rules += _only("socketpair", (seccomp.AF_UNIX,))
    requests = (seccomp.TIOCSTI, seccomp.TIOCLINUX)
    rules += [_refuse(["ioctl"], errno.EPERM, _has(1, LOWER_HALF, request)) for request in requests]
    if not linger:
        option = (_has(1, LOWER_HALF, seccomp.SOL_SOCKET), _has(2, LOWER_HALF, seccomp.SO_LINGER))
        rules.append(_refuse(["setsockopt"], errno.EPERM, *option))
    for bit in _bits(seccomp.SET_ID):
        rules += [_refuse([name], errno.EPERM, _has(mode, bit, bit)) for name, (_, mode) in here.modes.items()]
        for name, (_, mode) in here.opens.items():
            creates = (_has(mode - 1, flag, flag) for flag in _bits(seccomp.CREATES))
            rules += [_refuse([name], errno.EPERM, flag, _has(mode, bit, bit)) for flag in creates]
    return json.dumps(
        {"defaultAction": "SCMP_ACT_ALLOW", "architectures": [ARCHITECTURES[machine]], "syscalls": rules}, indent=1
    )


def _refuse(names: list[str], code: int, *arguments: Argument) -> Rule:
    rule: Rule = {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": code}
    return {**rule, "args": list(arguments)} if arguments else rule


def _only(name: str, families: Iterable[int]) -> list[Rule]:
    let = set(families)
    others = [family for family in range(max(let)) if family not in let]
    comparisons = [("SCMP_CMP_EQ", family) for family in others] + [("SCMP_CMP_GT", max(let))]
    return [_refuse([name], errno.EAFNOSUPPORT, {"index": 0, "value": value, "op": op}) for op, value in comparisons]


def _has(index: int, mask: int, value: int) -> Argument:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _bits(mask: int) -> Iterable[int]:
    return (1 << place for place in range(mask.bit_length()) if mask & 1 << place)
