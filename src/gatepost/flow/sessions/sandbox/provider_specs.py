"""Declarations of each provider, read from its file. The file is never run here: a declaration is literals."""

import ast
import pkgutil
from functools import lru_cache
from pathlib import Path
from typing import Any

from gatepost.core import error_classification
from gatepost.core.errors import GatepostError, SetupError
from gatepost.core.home import Home
from gatepost.core.registry import list_package_modules
from gatepost.inside import providers
from gatepost.inside.provider_spec import Mode, ProviderSpec, make_spec
from gatepost.inside.sandbox_needs import Need

CALLS = {"Mode": Mode, "Need": Need}  # what a declaration may call
LARGEST = 1024 * 1024  # bytes of a provider's file


def list_own_providers() -> set[str]:
    """By file or folder name: a provider is imported inside its sandbox, never here."""
    return {info.name for info in list_package_modules(providers.__name__)} - {"contract"}


def list_plugin_providers(home: Home) -> set[str]:
    found = {info.name for info in pkgutil.iter_modules([str(home.plugins / "providers")])}
    return {name for name in found if not name.startswith("_")}


def list_provider_names(home: Home) -> tuple[str, ...]:
    return tuple(sorted(list_own_providers() | list_plugin_providers(home)))


def load_spec(home: Home, provider: str) -> ProviderSpec:
    """Return what a provider declares; nothing if there is no such file, which the runner reports better."""
    path = find_provider_file(home, provider)
    if path is None:
        return ProviderSpec(name=provider)
    try:
        found = path.stat()
        return _read_file(path, provider, found.st_mtime_ns, found.st_size)
    except OSError as error:
        otherwise = SetupError(f"{path} cannot be read: {error.strerror}")
        raise error_classification.to_gatepost_error(str(path), error, otherwise) from None


def find_spec(home: Home, provider: str) -> ProviderSpec:
    """The same. A file that is broken declares nothing: whoever starts that provider reports it."""
    try:
        return load_spec(home, provider)
    except GatepostError:
        return ProviderSpec(name=provider)


def find_provider_file(home: Home, provider: str) -> Path | None:
    if not provider.replace("_", "").isalnum() or provider == "contract":
        return None
    folders = (Path(providers.__path__[0]), home.plugins / "providers")
    places = (path for folder in folders for path in (folder / f"{provider}.py", folder / provider / "__init__.py"))
    return next((path for path in places if path.is_file()), None)


@lru_cache(maxsize=64)
def _read_file(path: Path, provider: str, modified: int, size: int) -> ProviderSpec:
    """By when it was written: the file may be exchanged while we run."""
    if size > LARGEST:
        raise SetupError(f"{path} has more than {LARGEST} bytes")
    try:
        return read_spec(path.read_bytes(), provider)
    except SyntaxError as error:
        raise SetupError(f"{path} does not load: {error}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise SetupError(f"{path}: {error}") from None


def read_spec(source: bytes, provider: str) -> ProviderSpec:
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
                    match each:
                        case ast.Call(func=ast.Name(id="provider") | ast.Attribute(attr="provider"), args=[named, *_]):
                            if _literal(named, constants) == provider:
                                return make_spec(provider, _declared(each, constants))
    return ProviderSpec(name=provider)


def _declared(node: ast.Call, constants: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for keyword in node.keywords:
        try:
            given[str(keyword.arg)] = _literal(keyword.value, constants)
        except (TypeError, ValueError):
            raise ValueError(
                f"line {keyword.value.lineno}: what a provider declares must be written out, as literals: the file is"
                f" read and not run ({ast.unparse(keyword.value)})"
            ) from None
    return given


def _literal(node: ast.expr, constants: dict[str, Any]) -> Any:
    """The value of literals, of names for such, and of the calls in CALLS."""
    match node:
        case ast.Name(id=name) if name in constants:
            return constants[name]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in CALLS:
            named = {str(each.arg): _literal(each.value, constants) for each in keywords}
            return CALLS[name](*(_literal(each, constants) for each in args), **named)
        case ast.Tuple(elts=elements):
            return tuple(_literal(each, constants) for each in elements)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            read = [_literal(key, constants) for key in keys if key is not None]
            return dict(zip(read, (_literal(value, constants) for value in values), strict=True))
    return ast.literal_eval(node)
