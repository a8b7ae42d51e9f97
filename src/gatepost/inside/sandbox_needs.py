"""Needs of a channel's or a provider's file in a sandbox: programs, mounts, variables.

Declaring is asking. The host decides: a mount must be allowed by the setting `sandbox.mounts_allowed`, a program must
be found, and a secret is refused here, because inside it would be anybody's.
"""

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROGRAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RESERVED = ("GATEPOST_", "LD_")
_FIXED = frozenset({"PATH", "HOME", "USER", "PYTHONPATH", "PYTHONHOME"})


class Need(Struct, frozen=True):
    """A mount: a host path to be seen at `target`, below /workspace/extra. Or a secret, which is always refused."""

    source: str = ""
    target: str = ""
    writable: bool = False
    secret: str = ""


class DeclaredNeeds(Struct, frozen=True, kw_only=True):
    programs: tuple[str, ...] = ()
    mounts: tuple[Need, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)


def declare(
    who: str, programs: tuple[str, ...], mounts: tuple[Need, ...], env: Mapping[str, str | Need] | None
) -> DeclaredNeeds:
    """Check what is asked for; ValueError says what cannot be."""
    plain: dict[str, str] = {}
    for name, value in (env or {}).items():
        if isinstance(value, Need):
            raise ValueError(_no_secret(who, value.secret or name))
        if not _NAME.fullmatch(name) or name in _FIXED or name.startswith(_RESERVED) or "\0" in value:
            raise ValueError(f"{who} declares the variable {name!r}, which is the sandbox's own or no name for one")
        plain[name] = value
    for need in mounts:
        if need.secret:
            raise ValueError(_no_secret(who, need.secret))
        if not need.source.startswith("/") or not need.target:
            raise ValueError(
                f"{who} declares a mount of {need.source!r} at {need.target!r}: an absolute path is needed"
            )
    for program in programs:
        if not _PROGRAM.fullmatch(program):
            raise ValueError(f"{who} declares the program {program!r}: a bare name is needed")
    return DeclaredNeeds(programs=programs, mounts=mounts, env=plain)


def _no_secret(who: str, name: str) -> str:
    return (
        f"{who} wants the secret {name} inside the sandbox, where every program could read it; bind it to the host"
        f" that it is for, and the way out adds it there: `gatepost secret bind {name} HOST`"
    )
