"""Which channel instances there are, and with which settings: those of `gatepost.toml` and those of the store.

Pure but for the registry of kinds. Nothing is made or started here. An instance sees its own settings alone: two bots
of one kind never share a value, but for what the kind declares as its default.
"""

import importlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gatepost.channels.contract import CHANNELS, DRAFTS, READ_MARKS, ChannelKind, SpecOrigin
from gatepost.core.errors import Invalid, SetupError, did_you_mean
from gatepost.core.home import Home
from gatepost.core.registry import Registry, list_package_modules, load_folder
from gatepost.core.settings import (
    KIND,
    Config,
    Setting,
    check_name,
    needs_further_declarations,
    setting,
    setting_instances,
)
from gatepost.store.rights.secret_rows import get_channel_secret_name

if TYPE_CHECKING:
    from gatepost.store.rooms.channel_instances import StoredChannel

CHANNELS_ON = setting(
    "channels.on", (), help="Channels to run besides web and terminal: a name, or instance=name for a second one."
)
TABLES = setting_instances(
    "channels",
    help="An instance of a channel: a table [channels.NAME] with kind, and with the settings of that kind by their last"
    " names. on = false switches it off.",
)
ON = "on"
PACKAGE = "gatepost.channels"
SHARED = "kit"  # the one folder beside the channels that is none


class ChannelSpec(Struct, frozen=True, kw_only=True):
    """An instance as it is to run. `values`: its own settings, by their whole names."""

    instance: str
    kind: ChannelKind
    origin: SpecOrigin
    values: Mapping[str, Any] = {}
    is_on: bool = True

    def make_config(self, config: Config) -> Config:
        """Return what this instance sees of the settings. The one that is named like its kind has the plain settings of
        the kind (`channels.telegram.api_url`, also from the environment) below its own."""
        if self.instance != self.kind.name:
            config = config.without(each.name for each in self.kind.settings)
        return config.with_values(self.values, f"[channels.{self.instance}]")

    def make_kind(self, config: Config) -> ChannelKind:
        """Return what this instance can do."""
        own, tailor = self.make_config(config), self.kind.tailor
        kind = self.kind if tailor is None else tailor(self.kind, self.instance, own)
        on = {get_last_name(each) for each in kind.settings if own[each] is True} & {DRAFTS, READ_MARKS}
        return replace(kind, drafts=DRAFTS in on, read_marks=READ_MARKS in on) if on else kind

    def list_secrets(self) -> dict[str, str]:
        """The name in the store of each secret, by the setting's last name."""
        names = (get_last_name(each) for each in self.kind.settings if each.secret)
        return {name: get_channel_secret_name(self.instance, name) for name in names}


class BrokenSpec(Struct, frozen=True):
    """A row of the store that cannot run."""

    instance: str
    kind_name: str
    error: SetupError


def find_kinds(home: Home) -> None:
    """Know every kind: the package's own, then the home's."""
    find_package_kinds()
    load_folder(home.plugins / "channels", "channels")


def find_package_kinds() -> None:
    """Register the kinds of the package. Those in folders are imported when they are wanted: a start with no channels
    is not to read two dozen of them."""
    for info in list_package_modules(PACKAGE):
        module = f"{PACKAGE}.{info.name}"
        if not info.ispkg:
            importlib.import_module(module)
        elif info.name != SHARED:
            CHANNELS.defer(info.name, module)


def load_kinds(home: Home) -> None:
    """Import every declaration, but no adapter."""
    find_kinds(home)
    CHANNELS.items()


def check_platform(home: Home, field: str, platform: str) -> None:
    """Refuse a platform that no channel has and that is spelt nearly like one: a misspelt denial protects nobody."""
    find_kinds(home)
    if platform not in CHANNELS and (near := did_you_mean(platform, CHANNELS)):
        raise Invalid(field, f"no channel has the platform {platform!r}{near}")


def load_set_kinds(home: Home) -> None:
    """All kinds, if what the file or the environment sets may be theirs. An instance of the store asks for its own."""
    if needs_further_declarations(home.path, "channels"):
        load_kinds(home)


def get_last_name(each: Setting[Any]) -> str:
    return each.name.rpartition(".")[2]


def get_kind(name: str, where: str, registry: Registry[ChannelKind] = CHANNELS) -> ChannelKind:
    kind = registry.get(name)
    if kind is None:
        near = did_you_mean(name, registry)
        raise SetupError(f"{where}: there is no channel {name!r}; there are: {', '.join(registry)}{near}")
    return kind


def parse_values(kind: ChannelKind, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The values by the whole names of their settings. `given` has their last names. No error shows a value of what is
    not declared, or is a secret: it may be one."""
    known = {get_last_name(each): each for each in kind.settings}
    values: dict[str, Any] = {}
    for name, raw in given.items():
        declared = known.get(name)
        if declared is None:
            near = did_you_mean(name, known)
            has = f"it has: {', '.join(sorted(known))}" if known else "it has none"
            raise SetupError(f"{where}: {kind.name} has no setting {name!r}{near or f'; {has}'}")
        if declared.secret:
            raise SetupError(f"{where}: {name} is a secret; give it with --secret {name}=- instead")
        values[declared.name] = declared.parse(raw, where)
    return values


def render_values(kind: ChannelKind, values: Mapping[str, Any]) -> dict[str, Any]:
    """By the last names, as a row has them."""
    last = {each.name: get_last_name(each) for each in kind.settings}
    found: dict[str, Any] = msgspec.to_builtins({last[name]: value for name, value in values.items()})
    return found


def list_file_specs(config: Config, registry: Registry[ChannelKind] = CHANNELS) -> list[ChannelSpec]:
    """Those that run always, and those that `gatepost.toml` names. A wrong one is a SetupError, which stops a start."""
    found: dict[str, ChannelSpec] = {}
    for name, kind in registry.list_loaded():
        if kind.always:
            found[name] = ChannelSpec(instance=name, kind=kind, origin=SpecOrigin.ALWAYS)
    for instance, table in config[TABLES].items():
        where = f"[channels.{instance}]"
        if instance in found:
            raise SetupError(f"{where}: {instance} always runs, and has no table; choose another name")
        found[instance] = _parse_table(instance, table, where, registry)
    for entry in config[CHANNELS_ON]:
        instance, kind = _parse_entry(entry, registry)
        known = found.get(instance)
        if known is None:
            found[instance] = ChannelSpec(instance=instance, kind=kind, origin=SpecOrigin.FILE)
        elif known.kind is not kind or not known.is_on:
            raise SetupError(f"channels.on: {entry!r} says something else than [channels.{instance}]")
    check_secret_names(found.values())
    return list(found.values())


def _parse_entry(entry: str, registry: Registry[ChannelKind]) -> tuple[str, ChannelKind]:
    """An entry of the list: the instance, and its kind. A folder is named like the instance, so its name is no path."""
    instance, _, name = entry.rpartition("=")
    kind = get_kind(name, CHANNELS_ON.name, registry)
    try:
        return check_name(instance or name), kind
    except ValueError as error:
        raise SetupError(f"{CHANNELS_ON.name} {error}") from None


def _parse_table(instance: str, table: Mapping[str, Any], where: str, registry: Registry[ChannelKind]) -> ChannelSpec:
    kind = get_kind(table[KIND], where, registry)
    if kind.always:
        raise SetupError(f"{where}: {kind.name} always runs, and there is one of it")
    is_on = table.get(ON, True)
    if not isinstance(is_on, bool):
        raise SetupError(f"{where}: on = {is_on!r} is neither true nor false")
    given = {name: raw for name, raw in table.items() if name not in (KIND, ON)}
    values = parse_values(kind, given, where)
    return ChannelSpec(instance=instance, kind=kind, origin=SpecOrigin.FILE, values=values, is_on=is_on)


def parse_stored(row: "StoredChannel", registry: Registry[ChannelKind] = CHANNELS) -> ChannelSpec:
    where = f"the channel {row.instance}"
    kind = get_kind(row.kind, where, registry)
    return ChannelSpec(
        instance=row.instance,
        kind=kind,
        origin=SpecOrigin.STORE,
        values=parse_values(kind, row.settings, where),
        is_on=row.is_on,
    )


def list_specs(
    config: Config, rows: Iterable["StoredChannel"], registry: Registry[ChannelKind] = CHANNELS
) -> tuple[list[ChannelSpec], list[BrokenSpec]]:
    """All of them. If the store has one of the same name, the file counts. A row that cannot run stops nobody."""
    found, broken = {each.instance: each for each in list_file_specs(config, registry)}, []
    for row in rows:
        if row.instance in found:
            continue
        try:
            spec = parse_stored(row, registry)
            check_secret_names([*found.values(), spec])
            found[row.instance] = spec
        except SetupError as error:
            broken.append(BrokenSpec(row.instance, row.kind, error))
    return list(found.values()), broken


def check_secret_names(specs: Iterable[ChannelSpec]) -> None:
    """`a-b` and `a_b` would share their secrets."""
    owners: dict[str, str] = {}
    for spec in specs:
        for name in spec.list_secrets().values():
            other = owners.setdefault(name, spec.instance)
            if other != spec.instance:
                raise SetupError(
                    f"the channels {other} and {spec.instance} would share the secret {name}; rename one of them"
                )
