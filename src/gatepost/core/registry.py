"""Plug-ins are found by listing folders: the package's own first, then the home's. Nobody imports a plug-in by name.

A registry lives in its contract and is filled by a decorator while a file is imported. A second thing of the same
name stops the start. Flows take a registry as an argument, so that a test can give them a small one.

A thing may be deferred: its name is known from the folder, and its file is imported when somebody wants the thing.
Where a file adds many things, a registry names its package, which is imported when something is wanted that is not
there yet.
"""

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from gatepost.core.errors import NotFound, SetupError, did_you_mean

MOST_NAMED = 30  # things that an error names one by one

T = TypeVar("T")


class Registry(Generic[T]):
    """Things of one kind by name, each with the file that it came from. `package`: its modules add things, too, and
    are imported when first one of them is wanted."""

    def __init__(self, kind: str, package: str = "") -> None:
        self.kind = kind
        self._package = package
        self._things: dict[str, T] = {}
        self._origin: dict[str, str] = {}
        self._deferred: dict[str, str] = {}  # modules by the names of what they add

    def defer(self, name: str, module: str) -> None:
        """`module` adds a thing of this name when it is imported, which is not before somebody wants it."""
        if name not in self._things:
            self._deferred[name] = module

    @property
    def is_complete(self) -> bool:
        return not self._package

    def complete(self) -> None:
        """Import the package, if it is still to come."""
        if self._package:
            load_package(self._package)
            self._package = ""  # last: a thread that asks meanwhile waits for the imports

    def add(self, name: str, thing: T, origin: str) -> None:
        module = self._deferred.get(name)
        if module is not None and module not in sys.modules:
            self._load(name)  # this is another one: both are named
        if name in self._things:
            raise SetupError(
                f"two {self.kind}s are named {name!r}: {self._origin[name]} and {origin}; rename or remove one of them"
            )
        self._things[name], self._origin[name] = thing, origin
        self._deferred.pop(name, None)  # last: a thread that asks meanwhile waits for the import

    def drop(self, name: str) -> None:
        self._things.pop(name, None)
        self._origin.pop(name, None)
        self._deferred.pop(name, None)

    def copy(self) -> "Registry[T]":
        """Return an independent copy: additions to it do not change this registry."""
        made: Registry[T] = Registry(self.kind)
        made._things, made._origin = dict(self.items()), dict(self._origin)
        return made

    def origin(self, name: str) -> str:
        self._load(name)
        return self._origin[name]

    def __getitem__(self, name: str) -> T:
        self._load(name)
        try:
            return self._things[name]
        except KeyError:
            raise NotFound(self.kind, name, self._render_known(name)) from None

    def _render_known(self, name: str) -> str:
        """Return all names if they are few, else the one that is like this."""
        known = list(self)
        if len(known) <= MOST_NAMED:
            return f"there are: {', '.join(known) or 'none'}"
        return did_you_mean(name, known).removeprefix("; ") or f"there are {len(known)}, and none is like it"

    def get(self, name: str) -> T | None:
        self._load(name)
        return self._things.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._things or name in self._deferred or (bool(self._package) and name in self._list_names())

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._list_names()))

    def __len__(self) -> int:
        return len(self._list_names())

    def items(self) -> list[tuple[str, T]]:
        """All of them, which loads them all."""
        self.complete()
        for name in list(self._deferred):
            self._load(name)
        return self.list_loaded()

    def list_loaded(self) -> list[tuple[str, T]]:
        """Those that need no further import."""
        return sorted(self._things.items())

    def _list_names(self) -> set[str]:
        self.complete()
        return {*self._things, *self._deferred}

    def _load(self, name: str) -> None:
        module = self._deferred.get(name)
        if module is None:
            if name not in self._things:
                self.complete()
            return
        importlib.import_module(module)
        if name not in self._things:
            raise SetupError(f"{module} adds no {self.kind} {name!r}, which is its own name")


@cache
def list_package_modules(package: str) -> tuple[pkgutil.ModuleInfo, ...]:
    """The modules of a package of ours by their names, read from its folder once by a process."""
    root = importlib.import_module(package)
    return tuple(sorted(pkgutil.iter_modules(root.__path__), key=lambda each: each.name))


def load_package(package: str) -> list[ModuleType]:
    """Import every module of a plug-in package; each registers itself."""
    return [importlib.import_module(f"{package}.{info.name}") for info in list_package_modules(package)]


def load_folder(folder: Path, kind: str) -> list[ModuleType]:
    """Import every file (or package) of a plug-in folder outside the package, once by a process: several commands ask
    twice. A broken one stops the start by name."""
    if not folder.is_dir():
        return []
    loaded = []
    for path in sorted(folder.iterdir()):
        entry = path / "__init__.py" if path.is_dir() else path
        if path.name.startswith((".", "_")) or entry.suffix != ".py" or not entry.is_file():
            continue
        name = f"gatepost_plugins.{kind}.{path.stem}"
        known = sys.modules.get(name)
        loaded.append(known if known is not None and known.__file__ == str(entry) else _load_file(name, entry))
    return loaded


def _load_file(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SetupError(f"{path} cannot be imported as a plug-in")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SetupError:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise SetupError(f"plug-in {path} does not load: {type(error).__name__}: {error}") from error
    return module
