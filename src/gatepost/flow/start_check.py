"""What is checked before a start: settings whose declarations alone cannot judge them."""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.listen_address import LISTEN, parse
from gatepost.core.name_suggestions import did_you_mean
from gatepost.core.settings import Config
from gatepost.egress.endpoints import gateway_bases
from gatepost.egress.prices import load_own_prices
from gatepost.flow.channel_specs import list_file_specs
from gatepost.flow.sessions.extra_mounts import read_allowed
from gatepost.flow.sessions.provider_specs import list_own_providers, list_plugin_providers, list_provider_names
from gatepost.flow.sessions.sandbox_plan import KIND, TIMEZONE
from gatepost.flow.sessions.session_deps import MOST_AWAKE, PROVIDER
from gatepost.sandboxes.contract import SANDBOXES


def check_config(home: Home, config: Config) -> None:
    """What the declarations alone cannot judge: names that must exist. Said now, not with the first message."""
    twins = list_own_providers() & list_plugin_providers(home)
    if twins:
        raise SetupError(
            f"two providers are named {min(twins)!r}: gatepost's own and one in {home.plugins}; rename yours"
        )
    known = list_provider_names(home)
    if config[PROVIDER] not in known:
        near = did_you_mean(config[PROVIDER], known)
        raise SetupError(
            f"sessions.provider = {config[PROVIDER]!r}: there is none such; there are: {', '.join(known)}{near}"
        )
    if config[KIND] != "auto" and config[KIND] not in SANDBOXES:
        near = did_you_mean(config[KIND], ("auto", *SANDBOXES))
        raise SetupError(
            f"sandbox.kind = {config[KIND]!r}: there is none such; there are: auto, {', '.join(SANDBOXES)}{near}"
        )
    try:
        ZoneInfo(config[TIMEZONE])
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SetupError(f"timezone = {config[TIMEZONE]!r} is no time zone; write it like Europe/Berlin") from None
    if config[MOST_AWAKE] < 1:
        raise SetupError(f"{MOST_AWAKE.name} = {config[MOST_AWAKE]}: no agent would ever run; the least is 1")
    parse(config[LISTEN])
    gateway_bases(config)
    load_own_prices(home, config)
    list_file_specs(config)
    read_allowed(config, home)
