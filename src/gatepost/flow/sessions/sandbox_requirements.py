"""What a provider's and the channels' files say that a sandbox must have, brought in from the host.

A provider's file is read here and never run: what it needs stands in its decorator as literals. Nothing comes in by
being declared: a mount must be allowed, and a program is one that the operator named, connected or has on PATH.
"""

import ast
import shutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from gatepost.channels.contract import CHANNELS
from gatepost.core import error_classification, log, npm_programs
from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.settings import SETTINGS, Config, setting
from gatepost.flow.sessions.extra_mounts import GrantedMount, MountRequest, grant_mount, parse_mount_target
from gatepost.inside import providers
from gatepost.inside.sandbox_needs import DeclaredNeeds, Need, declare
from gatepost.sandboxes.contract import Mount

PROGRAMS = setting(
    "programs", (), help="Programs for agents, `name=/absolute/path` each: seen in every sandbox, first on its PATH."
)
BIN = "/opt/gatepost/bin"

_log = log.get("sessions")


def load_needs(home: Home, provider: str) -> DeclaredNeeds:
    """What a provider declares; nothing if there is no such file, which the runner says better."""
    path = provider_file(home, provider)
    if path is None:
        return DeclaredNeeds()
    try:
        found = path.stat()
        return _read_needs(path, found.st_mtime_ns, found.st_size)
    except OSError as error:
        otherwise = SetupError(f"{path} cannot be read: {error.strerror}")
        raise error_classification.to_gatepost_error(str(path), error, otherwise) from None


def provider_file(home: Home, provider: str) -> Path | None:
    if not provider.replace("_", "").isalnum() or provider == "contract":
        return None
    plugged = home.plugins / "providers"
    places = [Path(providers.__path__[0]) / f"{provider}.py", plugged / f"{provider}.py"]
    return next((path for path in (*places, plugged / provider / "__init__.py") if path.is_file()), None)


def list_channel_needs(config: Config) -> Iterator[tuple[str, DeclaredNeeds]]:
    """The channels that run, each with what it declares for every sandbox."""
    setting_on = SETTINGS.get("channels.on")
    named: tuple[str, ...] = config[setting_on] if setting_on is not None else ()
    on = {entry.rpartition("=")[2] for entry in named}
    for name, kind in CHANNELS.items():
        if kind.always or name in on:
            yield name, kind.needs


def variables(config: Config, home: Home, provider: str) -> dict[str, str]:
    found: dict[str, str] = {}
    who: dict[str, str] = {}
    declared = [(f"the provider {provider}", load_needs(home, provider))]
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
    granted = [_grant(config, home, need, f"the provider {provider}") for need in load_needs(home, provider).mounts]
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
    """The provider's programs as far as they are here (if not, it says so), and those that the operator named."""
    named = _named(config)
    wanted = dict.fromkeys((*named, *load_needs(home, provider).programs))
    found = ((name, find_program(config, home, name)) for name in wanted)
    return [Mount(source=path, target=f"{BIN}/{name}") for name, path in found if path is not None]


def find_program(config: Config, home: Home, name: str) -> Path | None:
    """The real file to be mounted; None: there is none, or it lies in /usr, which every sandbox sees."""
    given = _named(config).get(name)
    if given is not None:
        if not given.is_file():
            raise SetupError(f"{PROGRAMS.name}: {name}={given} is not there; mend it, or `gatepost connect {name}`")
        return find_native(given, name)
    linked = home.path / "programs" / name
    if linked.is_file():
        return find_native(linked, name)
    on_path = shutil.which(name)
    if on_path is None:
        return None
    real = find_native(Path(on_path), name)
    return None if real.is_relative_to("/usr") else real


def find_native(path: Path, name: str) -> Path:
    """What a link leads to; of an npm package's script, the executable that it would start."""
    real = path.resolve()
    folders = [parent for parent in real.parents if parent.name == "node_modules"]
    return next((found for folder in folders if (found := npm_programs.find_native(folder, name)) is not None), real)


def _named(config: Config) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for entry in config[PROGRAMS]:
        name, equals, path = entry.partition("=")
        if not equals or not name or "/" in name or not path.startswith("/"):
            raise SetupError(f"{PROGRAMS.name}: {entry!r} is not name=/absolute/path")
        found[name] = Path(path)
    return found


@lru_cache(maxsize=64)
def _read_needs(path: Path, modified: int, size: int) -> DeclaredNeeds:
    """By when it was written: the file may be exchanged while we run."""
    try:
        return read_needs(path.read_bytes(), path.stem if path.stem != "__init__" else path.parent.name)
    except SyntaxError as error:
        raise SetupError(f"{path} does not load: {error}") from None
    except (TypeError, ValueError) as error:
        raise SetupError(f"{path}: {error}") from None


def read_needs(source: bytes, provider: str) -> DeclaredNeeds:
    """From the decorator of the class that registers itself under this name."""
    tree = ast.parse(source)
    constants: dict[str, Any] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                try:
                    constants[name] = _literal(value, constants)
                except (TypeError, ValueError):
                    continue
            case ast.ClassDef(decorator_list=decorators):
                for each in decorators:
                    if _registers(each, provider, constants):
                        return _declared(each, provider, constants)
    return DeclaredNeeds()


def _registers(node: ast.expr, provider: str, constants: dict[str, Any]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="provider") | ast.Attribute(attr="provider"), args=[name, *_]):
            return bool(_literal(name, constants) == provider)
    return False


def _declared(node: ast.expr, provider: str, constants: dict[str, Any]) -> DeclaredNeeds:
    assert isinstance(node, ast.Call)
    given: dict[str, Any] = {}
    for keyword in node.keywords:
        try:
            given[str(keyword.arg)] = _literal(keyword.value, constants)
        except (TypeError, ValueError):
            raise ValueError(
                f"line {keyword.value.lineno}: what a provider needs must be written out, as literals: the file is"
                f" read and not run ({ast.unparse(keyword.value)})"
            ) from None
    return declare(f"the provider {provider}", given.get("programs", ()), given.get("mounts", ()), given.get("env"))


def _literal(node: ast.expr, constants: dict[str, Any]) -> Any:
    """The value of literals, of names for such, and of Need(…)."""
    match node:
        case ast.Name(id=name) if name in constants:
            return constants[name]
        case ast.Call(func=ast.Name(id="Need"), args=args, keywords=keywords):
            named = {str(each.arg): _literal(each.value, constants) for each in keywords}
            return Need(*(_literal(each, constants) for each in args), **named)
        case ast.Tuple(elts=elements):
            return tuple(_literal(each, constants) for each in elements)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            read = [_literal(key, constants) for key in keys if key is not None]
            return dict(zip(read, (_literal(value, constants) for value in values), strict=True))
    return ast.literal_eval(node)
