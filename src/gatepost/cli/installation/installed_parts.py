"""The parts of an installation on this machine: what `gatepost uninstall` finds, and how each part is removed."""

import os
import shlex
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from gatepost.cli.installation.service_units import MADE_BY, ServicePlan, parse_home
from gatepost.core import settings
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home, expand_user
from gatepost.core.home import find as find_home
from gatepost.flow.sessions.sandbox.sandbox_plan import name_prefix
from gatepost.sandboxes import cgroups
from gatepost.serve.upgrades.environments import FIRST, VERSIONS, find_clone, find_environment, is_image
from gatepost.store.engine.place import get_place, hide_password
from gatepost.store.gateways.machine_memory import find_state_folder, list_known_homes

COMPLETES = "_GATEPOST_COMPLETE"  # in each completion that this program prints
COMPLETION_FILES = (
    "~/.config/fish/completions/gatepost.fish",
    "~/.local/share/bash-completion/completions/gatepost",
    "~/.local/share/zsh/site-functions/_gatepost",
)
SHELL_FILES = ("~/.bashrc", "~/.bash_profile", "~/.profile", "~/.zshrc")
PIPX, UV = "pipx_metadata.json", "uv-receipt.toml"  # files that these leave in an environment


class PartKind(StrEnum):
    SERVICE = "service"
    COMPLETION = "completion"
    CGROUP = "cgroup"
    HOME = "home"
    DATABASE = "database"
    KNOWN_STORES = "known-stores"  # of this machine, outside of every home
    ENVIRONMENT = "environment"


class InstalledPart(Struct, frozen=True, kw_only=True):
    """`by_hand`: how to remove it; '' for what the command removes."""

    kind: PartKind
    place: str
    by_hand: str = ""


def list_parts(home: Home) -> list[InstalledPart]:
    plans = list_services()
    paths = [home.path.absolute(), find_home().path, *(plan.home for plan in plans), *_list_known_homes(home)]
    parts = [_describe_service(plan) for plan in plans]
    parts += [*_completions(), *(part for path in dict.fromkeys(paths) for part in _of_home(Home(path)))]
    named = {(each.kind, each.place): each for each in parts}  # a folder of several homes is named once
    return [*named.values(), *_environment()]


def _list_known_homes(home: Home) -> list[Path]:
    """Return the homes that were started here, whoever named them, as the state folder of this home knows them."""
    try:
        return list_known_homes(find_state_folder(settings.load_declared(home.path)))
    except GatepostError:
        return []


def list_services() -> list[ServicePlan]:
    """Return the services that start the program of this environment, of this user and of the machine."""
    found = []
    for system in (False, True):
        sample = ServicePlan(name="x", home=Path(), system=system, launchd=sys.platform == "darwin")
        if system and sample.launchd:
            continue
        for file in sorted(sample.file.parent.glob(f"*{sample.file.suffix}")):
            text = _read(file)
            if sys.executable not in text or (MADE_BY not in text and not sample.launchd):
                continue
            name = file.stem.removeprefix("local.") if sample.launchd else file.stem
            plan = ServicePlan(name=name, home=parse_home(text), system=system, launchd=sample.launchd)
            found.append(plan)
    return found


def may_remove(plan: ServicePlan) -> bool:
    return not plan.system or os.geteuid() == 0


def _describe_service(plan: ServicePlan) -> InstalledPart:
    by_hand = "" if may_remove(plan) else f"sudo {shlex.join(uninstall_command(plan))}"
    return InstalledPart(kind=PartKind.SERVICE, place=str(plan.file), by_hand=by_hand)


def uninstall_command(plan: ServicePlan) -> list[str]:
    system = ["--system"] if plan.system else []
    return [sys.executable, "-m", "gatepost", "service", "uninstall", "--name", plan.name, *system]


def _completions() -> Iterator[InstalledPart]:
    for path in map(expand_user, COMPLETION_FILES):
        if COMPLETES in _read(path):
            yield InstalledPart(kind=PartKind.COMPLETION, place=str(path))
    for path in map(expand_user, SHELL_FILES):
        for number, line in enumerate(_read(path).splitlines(), 1):
            if COMPLETES in line:
                yield InstalledPart(kind=PartKind.COMPLETION, place=str(path), by_hand=f"remove its line {number}")


def _of_home(home: Home) -> Iterator[InstalledPart]:
    path = home.path.absolute()
    for folder in cgroups.list_left(name_prefix(home)):
        yield InstalledPart(kind=PartKind.CGROUP, place=str(folder), by_hand=f"rmdir {shlex.quote(str(folder))}")
    if not path.is_dir():
        return
    by_hand = f"everything that was said and kept is there; rm -rf {shlex.quote(str(path))}"
    yield InstalledPart(kind=PartKind.HOME, place=str(path), by_hand=by_hand)
    try:
        config = settings.load_declared(home.path)
        store = get_place(home, config)
    except GatepostError:
        return  # a home that cannot be read is named, and that is all
    if store.url:
        by_hand = "dropdb, once no other gateway uses it"
        yield InstalledPart(kind=PartKind.DATABASE, place=hide_password(store.url), by_hand=by_hand)
    memory = find_state_folder(config)
    if memory.is_dir():
        by_hand = f"it tells a restored or copied store from the one that ran; rm -rf {shlex.quote(str(memory))}"
        yield InstalledPart(kind=PartKind.KNOWN_STORES, place=str(memory), by_hand=by_hand)


def _environment() -> Iterator[InstalledPart]:
    prefix = Path(sys.prefix)
    if is_image():
        by_hand = "remove the container and its image; the volume has the home"
        yield InstalledPart(kind=PartKind.ENVIRONMENT, place=str(prefix), by_hand=by_hand)
        return
    try:
        place = find_environment()
    except GatepostError:
        by_hand = f"{sys.executable} -m pip uninstall gatepost"
        yield InstalledPart(kind=PartKind.ENVIRONMENT, place=str(prefix), by_hand=by_hand)
        return
    yield InstalledPart(kind=PartKind.ENVIRONMENT, place=str(place), by_hand=find_remover(place))
    versions = place.with_name(place.name + VERSIONS)
    if versions.is_dir():
        by_hand = f"versions of upgrades; rm -rf {shlex.quote(str(versions))}"
        yield InstalledPart(kind=PartKind.ENVIRONMENT, place=str(versions), by_hand=by_hand)


def find_remover(place: Path) -> str:
    """By the files of the program that made it. After an upgrade they lie in the version that it made."""
    made = (place, place.with_name(place.name + VERSIONS) / FIRST)
    if any((each / PIPX).exists() for each in made):
        return "pipx uninstall gatepost"
    if any((each / UV).exists() for each in made):
        return "uv tool uninstall gatepost"
    clone = find_clone()
    if clone is not None:
        return f"rm -rf {shlex.quote(str(place))}, and {clone} if you do not want the source"
    return f"rm -rf {shlex.quote(str(place))}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
