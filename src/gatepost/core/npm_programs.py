"""Programs of others that come as npm packages: the command is a Node script around a native executable, which lies
in a package for this platform. The native one is what a sandbox gets, so no Node is needed there. A package that has
none is a Node program: a sandbox gets the package.
"""

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

_ARCHITECTURES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def find_native(node_modules: Path, package: str, name: str) -> Path | None:
    """The executable of that name for this machine, of a package in a `node_modules` folder; None if there is none."""
    system = "darwin" if sys.platform == "darwin" else "linux"
    machine = platform.machine().lower()
    ending = f"{system}-{_ARCHITECTURES.get(machine, machine)}"
    for folder in (node_modules, node_modules / package / "node_modules"):
        for found in _candidates(folder, package, name, ending):
            if _is_native(found):
                return found
    return None


def _candidates(folder: Path, package: str, name: str, ending: str) -> Iterator[Path]:
    """The plain build before others (musl, baseline): it is what most systems are."""
    for prefix in (package, name):
        beside = folder / prefix
        for each in sorted(beside.parent.glob(f"{beside.name}-{ending}*")):
            yield each / "bin" / name
            yield from sorted(each.glob(f"vendor/*/bin/{name}"))
            yield from sorted(each.glob(f"vendor/*/{name}/{name}"))


def _is_native(path: Path) -> bool:
    if not (path.is_file() and os.access(path, os.X_OK)):
        return False
    with path.open("rb") as file:
        return file.read(2) != b"#!"


def find_script(node_modules: Path, name: str) -> Path | None:
    """The Node script of that name, of a package in a `node_modules` folder; None if there is none."""
    linked = node_modules / ".bin" / name
    return linked.resolve() if linked.is_file() and find_package(linked.resolve()) is not None else None


def find_package(script: Path) -> Path | None:
    """The folder of the npm package that a script belongs to; None if it is no script of one."""
    if not script.is_file() or _is_native(script):
        return None
    for folder in script.parents:
        if "node_modules" in (folder.parent.name, folder.parent.parent.name) and (folder / "package.json").is_file():
            return folder
    return None


def find_commands(package: Path) -> Path:
    """The folder of the links that npm made to the scripts of a package."""
    return next(each for each in package.parents if each.name == "node_modules") / ".bin"
