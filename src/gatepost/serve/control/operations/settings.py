"""Settings: what the running gateway uses, which is what it read when it started."""

from typing import Any

import msgspec

from gatepost.core.settings import SETTINGS, Config, Setting
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
    return {name: get_visible_value(each, deps.config) for name, each in SETTINGS.items()}
