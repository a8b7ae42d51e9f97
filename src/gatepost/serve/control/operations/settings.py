"""Settings: what is set and where, what the running gateway uses, and a change of gatepost.toml."""

import asyncio
import difflib
from typing import Any

import msgspec

from gatepost.core import settings, settings_file
from gatepost.core.errors import Invalid, NotFound, SetupError, did_you_mean
from gatepost.core.home import Home
from gatepost.core.log import hide_secrets
from gatepost.core.registry import load_package
from gatepost.core.settings import SECRET_ELSEWHERE, SETTINGS, Config, Setting, list_change_errors
from gatepost.core.settings_file import FileValue
from gatepost.egress.audio import ENDPOINT_SETTINGS
from gatepost.egress.endpoints import BASES
from gatepost.egress.prices import FILE as PRICES
from gatepost.flow.channel_specs import load_kinds
from gatepost.serve.control.arguments.settings import (
    ListSettingsArgs,
    SetSettingArgs,
    SettingChange,
    SettingOrigin,
    SettingShape,
    SettingsInUseArgs,
    SettingView,
    UnsetSettingArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation

NAME = "gatepost.toml"
RUNNING = "channels"  # in `OperationDeps.extra`, while a gateway runs
TAKEN_UP = (*(each.name for each in BASES.values()), PRICES.name)  # a running gateway uses them at once


def get_visible_value(each: Setting[Any], config: Config) -> Any:
    """A setting's value as it may be shown."""
    value = config[each]
    if each.whole:
        return msgspec.to_builtins(value)
    if each.show is not None:
        return each.show(value)
    return "(set)" if each.secret and value else value


@operation
async def list_settings_in_use(deps: OperationDeps, args: SettingsInUseArgs) -> dict[str, Any]:
    await asyncio.to_thread(load_kinds, deps.home)  # also what nobody has set yet has a value
    return {name: get_visible_value(each, deps.config) for name, each in SETTINGS.items()}


@operation
async def list_settings(deps: OperationDeps, args: ListSettingsArgs) -> list[SettingView]:
    found = await asyncio.to_thread(_read_all, deps.home)
    used = deps.config if RUNNING in deps.extra else found
    return [make_view(each, found, used) for _, each in sorted(SETTINGS.items())]


def _read_all(home: Home) -> Config:
    _load_declarations(home)
    return settings.load_declared(home.path)


def _read_readable(home: Home) -> Config:
    """Without what is wrong in the file, which a change may be about to mend."""
    _load_declarations(home)
    return settings.load_readable(home.path)


def _load_declarations(home: Home) -> None:
    """With the settings of channels that nobody has added. A command loads the rest before it asks."""
    load_package("gatepost.serve.control")
    load_kinds(home)


def make_view(each: Setting[Any], found: Config, used: Config) -> SettingView:
    """Make the view of a setting. A value from the command line is known to the running gateway alone, so `used` has
    it."""
    given = used.source(each) == SettingOrigin.COMMAND_LINE
    now = used if given else found
    value, in_use = get_visible_value(each, now), get_visible_value(each, used)
    return SettingView(
        name=each.name,
        value=value,
        in_use=in_use,
        is_pending=value != in_use and each.name not in TAKEN_UP,
        origin=find_origin(each, now),
        default=msgspec.to_builtins(each.default),
        shape=find_shape(each),
        choices=each.choices,
        variable="" if each.secret else each.variable,
        help=each.help,
    )


def find_origin(each: Setting[Any], config: Config) -> SettingOrigin:
    source = config.source(each)
    if source in (SettingOrigin.DEFAULT, SettingOrigin.COMMAND_LINE):
        return SettingOrigin(source)
    return SettingOrigin.ENVIRONMENT if source == each.variable else SettingOrigin.FILE


def find_shape(each: Setting[Any]) -> SettingShape:
    if each.secret or each.whole:
        return SettingShape.SECRET if each.secret else SettingShape.TABLE
    shapes = {bool: SettingShape.FLAG, int: SettingShape.NUMBER, float: SettingShape.NUMBER, tuple: SettingShape.LIST}
    return shapes.get(type(each.default), SettingShape.TEXT)


@operation
async def set_setting(deps: OperationDeps, args: SetSettingArgs) -> SettingChange:
    found = await asyncio.to_thread(_read_readable, deps.home)
    each = _get_setting(args.name)
    check_writable(each, found)
    value = _parse_value(each, args.value)
    await asyncio.to_thread(_check_change, deps.home, found, found.with_values({each.name: value}, NAME))
    return await _write(deps, each, value, dry_run=args.dry_run)


@operation
async def unset_setting(deps: OperationDeps, args: UnsetSettingArgs) -> SettingChange:
    found = await asyncio.to_thread(_read_readable, deps.home)
    each = _get_setting(args.name)
    check_writable(each, found)
    await asyncio.to_thread(_check_change, deps.home, found, found.without([each.name]))
    return await _write(deps, each, None, dry_run=args.dry_run)


async def _write(deps: OperationDeps, each: Setting[Any], value: FileValue | None, *, dry_run: bool) -> SettingChange:
    path = deps.home.path / NAME
    old, new = await asyncio.to_thread(settings_file.change_setting, path, each.name, value, dry_run=dry_run)
    diff = render_diff(old, new)
    if diff and not dry_run:
        await deps.write(lambda db: None)
        if each.name in TAKEN_UP and deps.move_models is not None:
            deps.move_models(settings.load_declared(deps.home.path, *ENDPOINT_SETTINGS, PRICES))
    return _make_change(deps, each, diff, is_written=bool(diff) and not dry_run, is_removed=value is None)


def _get_setting(name: str) -> Setting[Any]:
    each = SETTINGS.get(name)
    if each is None:
        raise NotFound("setting", name, f"`gatepost settings` lists all{did_you_mean(name, SETTINGS)}")
    return each


def check_writable(each: Setting[Any], found: Config) -> None:
    """Refuse a setting that the file cannot hold, or that something else overrides."""
    if each.secret:
        raise Invalid(each.name, SECRET_ELSEWHERE)
    if each.show is not None:
        raise Invalid(each.name, f"may hold a password: write it in {NAME} by hand, or in {each.variable}")
    if each.whole:
        raise Invalid(each.name, f"is a table of tables, which is written in {NAME} by hand")
    if find_origin(each, found) is SettingOrigin.ENVIRONMENT:
        raise Invalid(each.name, f"is set by {each.variable}, which wins over the file: change it where that is set")


def _parse_value(each: Setting[Any], text: str) -> FileValue:
    try:
        value: FileValue = each.parse(text.strip() if find_shape(each) is not SettingShape.TEXT else text, NAME)
    except SetupError as error:
        raise Invalid(each.name, str(error)) from None
    return value


def _check_change(home: Home, found: Config, changed: Config) -> None:
    """Raise the error that `gatepost up` or the next backup would raise after the change. Errors from before do not
    count, so that they can be mended one by one."""
    import gatepost.flow.start_check  # noqa: F401  heavy: it has the checks of the flows

    before = {str(error) for error in list_change_errors(home, found)}
    for error in list_change_errors(home, changed):
        if str(error) not in before:
            raise error


def render_diff(old: str, new: str) -> list[str]:
    """The lines beside a change may hold the password of a database."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), NAME, NAME, lineterm="", n=2)
    return [hide_secrets(each) for each in list(lines)[2:]]  # without the names, which are the same


def _make_change(
    deps: OperationDeps, each: Setting[Any], diff: list[str], *, is_written: bool, is_removed: bool
) -> SettingChange:
    restarts = bool(diff) and RUNNING in deps.extra and each.name not in TAKEN_UP
    if not diff:
        text = f"{NAME} does not have it." if is_removed else f"{NAME} says so already."
    elif restarts:
        text = "It takes effect with the next start: `gatepost down` and `gatepost up`."
    else:
        text = "It is in use now." if RUNNING in deps.extra else "The next start uses it."
    return SettingChange(name=each.name, diff=diff, is_written=is_written, needs_restart=restarts, text=text)
