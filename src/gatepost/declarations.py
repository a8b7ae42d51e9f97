"""Every setting, tool, channel and sandbox that this package declares, by importing the files that declare them.

For whoever must know all of it: the start, which calls an unknown key an error, and the printed lists. A command that
needs one setting uses `settings.peek` instead.
"""

import importlib
from collections.abc import Iterator

from gatepost.core.home import Home
from gatepost.core.registry import list_package_modules, load_folder

# The `sdk_` modules declare nothing and take a second to load: the SDK of MCP comes with them.
_NO_SETTINGS = frozenset({"cli", "embed", "inside", "migrations", "__main__"})
_LATER = frozenset({"gatepost.store.postgres"})  # needs an extra: loaded where `store.url` is set, declares nothing
_FOLDED = "gatepost.channels"  # a channel's own folder: what it declares is in its `__init__`, the rest is for later
_PLUGINS = ("channels", "tools", "sandboxes")  # providers are loaded inside their sandboxes alone


def list_modules() -> Iterator[str]:
    """The names of all modules that may declare something."""
    folders = ["gatepost"]
    while folders:
        package = folders.pop()
        for info in list_package_modules(package):
            if info.name in _NO_SETTINGS:
                continue
            name = f"{package}.{info.name}"
            if name in _LATER:
                continue
            yield name
            if info.ispkg and package != _FOLDED:
                folders.append(name)


def load_package() -> None:
    """Import what declares something. A module whose extra is not installed declares nothing."""
    for name in list_modules():
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] == __package__:
                raise


def load_plugins(home: Home) -> None:
    """The home's own plug-ins; a broken one stops here, by name."""
    for kind in _PLUGINS:
        load_folder(home.plugins / kind, kind)


def load_all(home: Home) -> None:
    load_package()
    load_plugins(home)
