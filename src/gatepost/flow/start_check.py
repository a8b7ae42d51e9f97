"""Checks before a start: those of the flows, and all that other files have registered."""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gatepost.core.errors import SetupError, did_you_mean
from gatepost.core.home import Home
from gatepost.core.languages.catalogue import list_languages
from gatepost.core.process.listen_address import LISTEN, parse
from gatepost.core.settings import Config, list_start_errors, start_check
from gatepost.egress import audio, embeddings, speech
from gatepost.egress.endpoints import gateway_bases
from gatepost.egress.prices import load_own_prices
from gatepost.flow.channel_specs import list_file_specs
from gatepost.flow.delivery.outgoing_messages import LANGUAGE
from gatepost.flow.schedule import TIMEZONE
from gatepost.flow.sessions.host.host_uids import sandbox_uid, uid_range
from gatepost.flow.sessions.sandbox.extra_mounts import read_allowed
from gatepost.flow.sessions.sandbox.provider_specs import list_own_providers, list_plugin_providers, list_provider_names
from gatepost.flow.sessions.sandbox.sandbox_plan import KIND
from gatepost.flow.sessions.sandbox.sandbox_requirements import parse_programs
from gatepost.flow.sessions.session_deps import MOST_AWAKE, PROVIDER
from gatepost.sandboxes.contract import SANDBOXES


def check_config(home: Home, config: Config) -> None:
    """Check what the declarations alone cannot: names that must exist. The error comes at the start, not with the first
    message."""
    for error in list_start_errors(home, config):
        raise error


@start_check
def check_providers(home: Home, config: Config) -> None:
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


@start_check
def check_sandbox(home: Home, config: Config) -> None:
    if config[KIND] != "auto" and config[KIND] not in SANDBOXES:
        near = did_you_mean(config[KIND], ("auto", *SANDBOXES))
        raise SetupError(
            f"sandbox.kind = {config[KIND]!r}: there is none such; there are: auto, {', '.join(SANDBOXES)}{near}"
        )
    if config[MOST_AWAKE] < 1:
        raise SetupError(f"{MOST_AWAKE.name} = {config[MOST_AWAKE]}: no agent would ever run; the least is 1")


@start_check
def check_language(home: Home, config: Config) -> None:
    if config[LANGUAGE] not in list_languages():
        known = ", ".join(list_languages())
        raise SetupError(f"{LANGUAGE.name} = {config[LANGUAGE]!r}: there are no texts in it; there are: {known}")


@start_check
def check_timezone(home: Home, config: Config) -> None:
    try:
        ZoneInfo(config[TIMEZONE])
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SetupError(f"timezone = {config[TIMEZONE]!r} is no time zone; write it like Europe/Berlin") from None


@start_check
def check_addresses(home: Home, config: Config) -> None:
    parse(config[LISTEN])
    gateway_bases(config)
    speech.find_speech_base(config)
    speech.split_command(config)
    audio.find_transcription_endpoint(config)
    audio.split_command(config)
    if embeddings.find_embedding_endpoint(config) is not None:
        embeddings.find_embedding_price(home, config)


@start_check
def check_prices(home: Home, config: Config) -> None:
    load_own_prices(home, config)


@start_check
def check_channels(home: Home, config: Config) -> None:
    list_file_specs(config)


@start_check
def check_sandbox_files(home: Home, config: Config) -> None:
    read_allowed(config, home)
    parse_programs(config)


@start_check
def check_uids(home: Home, config: Config) -> None:
    sandbox_uid(config)
    uid_range(config)
