"""Agents by their ids in the ACP registry: a JSON file of commands that others wrote. It is read without trust.

Its format: github.com/agentclientprotocol/registry, FORMAT.md.
"""

import hashlib
import platform
import sys
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from gatepost.core.errors import Invalid, SetupError, did_you_mean
from gatepost.core.home import Home, expand_user
from gatepost.core.settings import load_declared, setting
from gatepost.core.settings_file import write_atomically

REGISTRY = setting(
    "providers.acp.registry",
    "https://cdn.agentclientprotocol.com/registry/v1/latest/registry.json",
    help="The ACP registry: a file, under the home if it is not absolute, or an https URL. `gatepost connect acp:ID`"
    " alone fetches it, once, and keeps it in the home.",
)
LARGEST = 8 * 1024 * 1024  # bytes
LONGEST = 1000  # characters of a command, or of its variables
FETCH_S = 30.0  # seconds without a byte
Name = Annotated[str, Meta(pattern=r"^[^-\s]")]  # no option of npx or uvx
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class RegistryPackage(Struct, frozen=True):
    package: Name
    cmd: Name = ""  # which of its programs; '': the one that the package is known by
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}


class RegistryExecutable(Struct, frozen=True):
    archive: str
    cmd: Name
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}


class RegistryDistribution(Struct, frozen=True):
    binary: dict[str, RegistryExecutable] = {}  # by platform
    npx: RegistryPackage | None = None
    uvx: RegistryPackage | None = None


class RegistryAgent(Struct, frozen=True):
    id: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]*$")]
    name: str
    version: str
    distribution: RegistryDistribution


class AgentRegistry(Struct, frozen=True):
    agents: tuple[RegistryAgent, ...]


class RegisteredCommand(Struct, frozen=True):
    """The command that the registry names."""

    title: str
    words: list[str]
    variables: dict[str, str]
    archive: str = ""  # where the program comes from, if nothing fetches it

    @property
    def is_sound(self) -> bool:
        """It can be shown whole, and run."""
        texts = (self.title, self.archive, " ".join(self.words), " ".join(map("=".join, self.variables.items())))
        named = all(name and "=" not in name for name in self.variables)
        return bool(self.words[0]) and named and all(text.isprintable() and len(text) <= LONGEST for text in texts)


def find_command(home: Home, agent: str, tell: Callable[[str], None]) -> RegisteredCommand:
    """The command of an agent on this machine. Raises Invalid for an unknown agent or one that has no sound command."""
    known = {each.id: each for each in _load(home, tell).agents}
    if agent not in known:
        raise Invalid("agent", f"the ACP registry has no {agent!r}{did_you_mean(agent, known)}")
    found = _pick(known[agent])
    if found is None:
        raise Invalid("agent", f"the ACP registry has no {agent} for this machine")
    if not found.is_sound:
        raise Invalid("agent", f"the ACP registry has no sound command for {agent}")
    return found


def _pick(agent: RegistryAgent) -> RegisteredCommand | None:
    """An executable for this machine comes first: nothing is fetched inside a sandbox then."""
    title, listed = f"{agent.name} {agent.version}", agent.distribution
    system, machine = "darwin" if sys.platform == "darwin" else "linux", platform.machine().lower()
    if file := listed.binary.get(f"{system}-{_MACHINES.get(machine, machine)}"):
        return RegisteredCommand(title, [PurePosixPath(file.cmd).name, *file.args], file.env, file.archive)
    for start, named, each in ((["npx", "--yes"], "--package", listed.npx), (["uvx"], "--from", listed.uvx)):
        if each is not None:
            package = [named, each.package, each.cmd] if each.cmd else [each.package]
            return RegisteredCommand(title, [*start, *package, *each.args], each.env)
    return None


def _load(home: Home, tell: Callable[[str], None]) -> AgentRegistry:
    where = load_declared(home.path, REGISTRY)[REGISTRY]
    if "://" not in where:
        return _parse(_read(home.path / expand_user(where)), where)
    kept = home.path / f"acp-registry-{hashlib.sha256(where.encode()).hexdigest()[:12]}.json"
    if kept.exists():
        return _parse(_read(kept), str(kept))
    tell(f"fetching {where} into {kept}")
    raw = _fetch(where)
    found = _parse(raw, where)
    home.prepare()
    write_atomically(kept, raw.decode(errors="replace"))
    return found


def _parse(raw: bytes, where: str) -> AgentRegistry:
    if len(raw) > LARGEST:
        raise SetupError(f"{REGISTRY.name}: {where} has more than {LARGEST} bytes")
    try:
        return msgspec.json.decode(raw, type=AgentRegistry)
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{REGISTRY.name}: {where} is no ACP registry: {error}") from None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise SetupError(f"{REGISTRY.name}: {path} cannot be read: {error.strerror}") from None


def _fetch(url: str) -> bytes:
    """By https alone. A redirect is an error: it would name another host than the operator did."""
    from urllib import request

    if not url.startswith("https://"):
        raise SetupError(f"{REGISTRY.name} = {url!r} is neither a file nor an https URL")
    opener = request.OpenerDirector()
    for kind in (
        request.ProxyHandler,
        request.HTTPSHandler,
        request.HTTPErrorProcessor,
        request.HTTPDefaultErrorHandler,
    ):
        opener.add_handler(kind())
    try:
        with opener.open(url, timeout=FETCH_S) as answer:
            raw: bytes = answer.read(LARGEST + 1)
            return raw
    except (OSError, HTTPException, ValueError) as error:
        raise SetupError(f"{REGISTRY.name}: {url} cannot be fetched: {error}") from None
