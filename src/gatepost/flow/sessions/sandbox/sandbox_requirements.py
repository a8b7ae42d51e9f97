"""Needs of a sandbox by a provider's and the channels' files, brought in from the host.

Nothing comes in by being declared: a mount must be allowed, and a program is one that the operator named, connected or
has on PATH.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from weakref import WeakKeyDictionary

from gatepost.channels.contract import ChannelKind
from gatepost.core import log, npm_programs
from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config, setting
from gatepost.flow.channel_specs import list_specs
from gatepost.flow.sessions.sandbox.extra_mounts import GrantedMount, MountRequest, grant_mount, parse_mount_target
from gatepost.flow.sessions.sandbox.provider_specs import load_spec
from gatepost.inside.sandbox_needs import DeclaredNeeds, Need
from gatepost.sandboxes.contract import Mount
from gatepost.store.rooms.channel_instances import StoredChannel

PROGRAMS = setting(
    "programs", (), help="Programs for agents, `name=/absolute/path` each: seen in every sandbox, first on its PATH."
)
BIN = "/opt/gatepost/bin"
PACKAGES = "/opt/gatepost/npm"  # of Node programs, whose script needs the files beside it
USUAL = ("rg", "uv", "uvx")  # programs that agents get if this machine has them in any place

_log = log.get("sessions")


_running: WeakKeyDictionary[Config, Mapping[str, ChannelKind]] = WeakKeyDictionary()


def follow_channels(config: Config, kinds: Mapping[str, ChannelKind]) -> None:
    """Tell that these instances run in the gateway with this configuration: the mapping changes with them."""
    _running[config] = kinds


def list_channel_needs(config: Config, rows: Iterable[StoredChannel] = ()) -> Iterator[tuple[str, DeclaredNeeds]]:
    """The channels that run, each with what it declares for every sandbox. Without a gateway: those of the file, and
    these of the store."""
    running = _running.get(config)
    if running is None:
        running = {each.instance: each.kind for each in list_specs(config, rows)[0] if each.is_on}
    for name, kind in sorted({kind.name: kind for kind in running.values()}.items()):
        yield name, kind.needs


def variables(config: Config, home: Home, provider: str) -> dict[str, str]:
    found: dict[str, str] = {}
    who: dict[str, str] = {}
    declared = [(f"the provider {provider}", load_spec(home, provider).needs)]
    declared += [(f"the channel {name}", needs) for name, needs in list_channel_needs(config)]
    for owner, needs in declared:
        for name, value in needs.env.items():
            if found.setdefault(name, value) != value:
                raise SetupError(f"{who[name]} and {owner} want the variable {name} to be different; change one")
            who.setdefault(name, owner)
    return found


def declared_mounts(config: Config, home: Home, provider: str) -> list[GrantedMount]:
    """A provider without what it needs cannot work, so a refusal ends its start. A channel's wish is about every
    sandbox: refused, it is left out, and the log says so."""
    granted = [
        _grant(config, home, need, f"the provider {provider}") for need in load_spec(home, provider).needs.mounts
    ]
    for name, needs in list_channel_needs(config):
        for need in needs.mounts:
            try:
                granted.append(_grant(config, home, need, f"the channel {name}"))
            except Invalid as error:
                _log.warning("a mount is left out", channel=name, reason=str(error))
    return granted


def _grant(config: Config, home: Home, need: Need, who: str) -> GrantedMount:
    try:
        return grant_mount(config, home, MountRequest(need.source, parse_mount_target(need.target), need.writable))
    except Invalid as error:
        raise Invalid("", f"{who} needs {need.source} in the sandbox; {error.why}") from None


def program_mounts(config: Config, home: Home, provider: str) -> list[Mount]:
    """The provider's programs as far as they are here (if not, it says so), those that the operator named, and usual
    ones."""
    named = parse_programs(config)
    wanted = dict.fromkeys((*named, *load_spec(home, provider).needs.programs))
    found = {name: path for name in wanted if (path := find_program(config, home, name)) is not None}
    for name in USUAL:
        if name not in wanted and (path := find_usual_program(config, home, name)) is not None:
            found[name] = path
    return [_make_program_mount(name, path) for name, path in found.items()]


def _make_program_mount(name: str, path: Path) -> Mount:
    package = npm_programs.find_package(path)
    return (
        Mount(source=path, target=f"{BIN}/{name}")
        if package is None
        else Mount(source=package, target=f"{PACKAGES}/{name}")
    )


def find_usual_program(config: Config, home: Home, name: str) -> Path | None:
    """Return the file to be mounted. None: there is none, every sandbox sees it, or it is a script, which needs more
    than itself. The gateway's own environment counts as well: `pip install uv` is enough."""
    beside = str(Path(sys.executable).parent)
    found = find_program(config, home, name, f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{beside}")
    try:
        with open(found or os.devnull, "rb") as file:
            return found if file.read(4) == b"\x7fELF" else None
    except OSError:
        return None


def find_program(config: Config, home: Home, name: str, path: str | None = None) -> Path | None:
    """The real file to be mounted; None: there is none, or it lies in /usr, which every sandbox sees."""
    given = parse_programs(config).get(name)
    if given is not None:
        if not given.is_file():
            raise SetupError(f"{PROGRAMS.name}: {name}={given} is not there; mend it, or `gatepost connect {name}`")
        return find_native(given, name)
    linked = home.path / "programs" / name
    if linked.is_file():
        return find_native(linked, name)
    on_path = shutil.which(name, path=path)
    if on_path is None:
        return None
    real = find_native(Path(on_path), name)
    return None if real.is_relative_to("/usr") else real


def find_native(path: Path, name: str) -> Path:
    """Return what a link leads to; of an npm package's script, the executable that it would start."""
    real = path.resolve()
    for folder in (parent for parent in real.parents if parent.name == "node_modules"):
        scope, *rest = real.relative_to(folder).parts
        package = "/".join((scope, *rest[:1])) if scope.startswith("@") else scope
        if (found := npm_programs.find_native(folder, package, name)) is not None:
            return found
    return real


def parse_programs(config: Config) -> dict[str, Path]:
    """Those that the operator named, whether they are there or not."""
    found: dict[str, Path] = {}
    for entry in config[PROGRAMS]:
        name, equals, path = entry.partition("=")
        if not equals or not name or "/" in name or not path.startswith("/"):
            raise SetupError(
                f"{PROGRAMS.name}: {entry!r} is not name=/absolute/path; write it like uv=/usr/local/bin/uv"
            )
        found[name] = Path(path)
    return found
