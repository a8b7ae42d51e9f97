"""The values by which a group goes: its own, the gateway's, and those of a group above it; for `gatepost group`."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from gatepost.cli import output
from gatepost.core import settings
from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.record_changes import NO, YES
from gatepost.core.records import asdict, replace
from gatepost.flow.gateways.folder_check import find_elsewhere
from gatepost.flow.gateways.group_place import PLACE, SHARED_FOLDER, place_home
from gatepost.flow.reports import InheritedSetting
from gatepost.flow.sessions.sandbox.effective_group import FOLDER, find_lender, load_effective_group
from gatepost.flow.sessions.sandbox.extra_mounts import ALLOWED, grant_mount, parse_mount_request
from gatepost.flow.sessions.sandbox.group_limits import (
    CPU_PERCENT,
    DISK_MB,
    FILES,
    MAY_EXCEED,
    MEMORY_MB,
    PROCESSES,
    TURN_S,
    limits_of,
)
from gatepost.flow.sessions.sandbox.inherited_settings import list_inherited
from gatepost.flow.sessions.sandbox.sandbox_plan import KIND
from gatepost.flow.sessions.session_deps import PROVIDER, WINDOW, WINDOW_CHARS
from gatepost.serve.control.arguments.groups import GroupView
from gatepost.store.engine.place import URL
from gatepost.store.engine.readonly import read_store
from gatepost.store.gateways.gateway_identity import NAME
from gatepost.store.port import Db
from gatepost.store.sessions import groups
from gatepost.store.sessions.groups import Group

G = TypeVar("G", bound=Group)


class EffectiveValues:
    """Those of the groups of one home."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def describe_folder(self, folder: str) -> str:
        """Return where it lies, which may be on another gateway."""
        place = place_home(self._home, settings.load_declared(self._home.path, PLACE, SHARED_FOLDER, NAME, URL))
        found = read_store(self._home, find_elsewhere, place, folder) if place.gateway else ""
        return f"groups/{folder} of gateway {found}" if found else str(place.group(folder))

    def show_effective(self) -> dict[str, output.Show]:
        """Return how the values are shown for which the gateway has a default."""
        defaults = self._defaults()
        return {key: partial(_effective_value, key=key, defaults=defaults) for key in defaults}

    def add_inherited(self, found: list[G]) -> list[G]:
        """Return groups with the provider, model and options that they go by, and the group above that lends them."""
        config = settings.load_declared(self._home.path, PROVIDER, FOLDER)

        def read(db: Db) -> list[G]:
            return [
                _add_lent(each, load_effective_group(db, config, each.folder), find_lent(db, each)) for each in found
            ]

        def find_lent(db: Db, group: G) -> Group | None:
            own = groups.get(db, group.folder)
            return find_lender(db, config, own) if own is not None else None

        return read_store(self._home, read)

    def list_inherited(self, folder: str) -> list[InheritedSetting]:
        """Return what a group has from elsewhere."""
        config = settings.load_declared(self._home.path, PROVIDER, FOLDER)
        return read_store(self._home, list_inherited, config, folder, SystemClock().now())

    def _defaults(self) -> dict[str, str]:
        config = settings.load_declared(self._home.path, PROVIDER, WINDOW, WINDOW_CHARS, KIND)
        return {
            "provider": config[PROVIDER],
            "model": "the provider's own",
            "sandbox": config[KIND],
            "window_messages": str(config[WINDOW]),
            "window_chars": str(config[WINDOW_CHARS]),
        }

    def _limits(self, folder: str) -> dict[str, str]:
        """Those in force, with the words of the groups above it."""
        group = read_store(self._home, groups.get, folder)
        if group is None:
            return {}
        config = settings.load_declared(
            self._home.path, MEMORY_MB, CPU_PERCENT, PROCESSES, TURN_S, DISK_MB, FILES, MAY_EXCEED
        )
        found = asdict(limits_of(config, group, read_store(self._home, groups.list_ancestors, folder)))
        return {name: f"{value:g}" if value else "none" for name, value in found.items()}

    def show_limits(self, group: Group) -> dict[str, str]:
        """Those in force, each with a word if it is not the group's own."""
        found, above = self._limits(group.folder).items(), read_store(self._home, groups.list_ancestors, group.folder)
        return {
            name: value + _inherited(group.limits.get(name), value, _find_source(name, above)) for name, value in found
        }

    def render_mount(self, wish: str) -> str:
        """A mount as it would come about now."""
        try:
            granted = grant_mount(
                settings.load_declared(self._home.path, ALLOWED), self._home, parse_mount_request(wish)
            ).mount
        except GatepostError as error:
            return f"{wish}, refused: {error}"
        return f"{granted.source} at {granted.target}, {'to read and write' if granted.writable else 'read-only'}"

    def list_changed(self, changed: GroupView, given: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
        defaults = self._defaults()
        for key, value in given.items():
            if key == "mounts":
                yield key, "; ".join(self.render_mount(each) for each in changed.mounts) or "none"
            elif key == "limits":
                yield from ((f"{key}.{name}", self.show_limits(changed)[name]) for name in value)
            elif key == "options":
                yield from ((f"{key}.{name}", str(changed.options.get(name, "not set"))) for name in value)
            else:
                yield key, _effective_value(changed, key, defaults)


def _effective_value(group: Group, key: str, defaults: dict[str, str]) -> str:
    """Return what holds for a group: its own value, or the gateway's with a word that it is that."""
    own = getattr(group, key)
    if isinstance(own, bool):
        return YES if own else NO
    return str(own) if own not in ("", None) else f"{defaults[key]} (default)" if key in defaults else "-"


def _add_lent(group: G, run: Group | None, lender: Group | None) -> G:
    if lender is None or run is None:
        return group
    mark = f" (as {lender.folder})"
    model = f"{run.model}{mark}" if run.model and not group.model else group.model
    options = {key: value if key in group.options else f"{value}{mark}" for key, value in run.options.items()}
    return replace(group, provider=f"{run.provider}{mark}", model=model, options=options)


def _find_source(limit: str, above: list[Group]) -> str:
    """Return the words for whose limit it is, where it is not the group's own."""
    return next((f"as {each.folder}" for each in above if limit in each.limits), "the gateway's")


def _inherited(own: int | None, in_force: str, source: str) -> str:
    if in_force == "none":
        return ""
    if own is None:
        return f" ({source})"
    return "" if f"{own:g}" == in_force else f" (its own {own} is above the gateway's)"
