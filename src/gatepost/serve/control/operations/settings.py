"""Settings: what the running gateway uses, which is what it read when it started."""

import asyncio
from typing import Any

import msgspec

from gatepost.core.settings import SETTINGS, Config, Setting
from gatepost.flow.channel_specs import load_kinds
from gatepost.serve.control.arguments.settings import SettingsInUseArgs
from gatepost.serve.control.contract import OperationDeps, operation


def get_visible_value(each: Setting[Any], config: Config) -> Any:
    """A setting's value as it may be shown."""
    value = config[each]
    if each.whole:
        return msgspec.to_builtins(value)
    return "(set)" if each.secret and value else value


@operation
async def list_settings_in_use(deps: OperationDeps, args: SettingsInUseArgs) -> dict[str, Any]:
    await asyncio.to_thread(load_kinds, deps.home)  # also what nobody has set yet has a value
    return {name: get_visible_value(each, deps.config) for name, each in SETTINGS.items()}
