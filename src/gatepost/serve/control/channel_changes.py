"""Changes that a channel may be given, judged before its platform is asked: names, settings, secrets and
completeness."""

import asyncio
from collections.abc import Iterable, Mapping

from gatepost.channels.contract import CHANNELS, BotIdentity, ChannelKind, SpecOrigin
from gatepost.core import settings
from gatepost.core.errors import GatepostError, Invalid, did_you_mean
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow import channel_specs
from gatepost.flow.channel_check import check_channel, check_spec
from gatepost.flow.channel_specs import ChannelSpec, get_last_name
from gatepost.flow.channel_supervisor import ChannelSupervisor, ChannelSurroundings
from gatepost.flow.pairing import PAGE_URL, get_page_url
from gatepost.serve.control.arguments.channels import SetChannelArgs
from gatepost.serve.control.operations.secrets import check_value
from gatepost.store.rights.secret_rows import check_name
from gatepost.store.rooms import channel_instances

OTHERS_S = 10.0  # for the question whether another channel is the same bot


def check_new_name(instance: str, kind: ChannelKind) -> str:
    if kind.always:
        raise Invalid("kind", f"{kind.name} is part of the gateway, and there is one of it")
    try:
        settings.check_name(instance)
    except ValueError as error:
        raise Invalid("name", str(error).removeprefix("has ")) from None
    if instance != kind.name and instance in CHANNELS:
        raise Invalid("name", f"{instance} is the name of another kind of channel; choose another one")
    return instance


def check_secrets(kind: ChannelKind, given: Mapping[str, str]) -> None:
    known = [get_last_name(each) for each in kind.settings if each.secret]
    for name, value in given.items():
        if name not in known:
            near = did_you_mean(name, known) or f"; it has: {', '.join(known) or 'none'}"
            raise Invalid("secret", f"{kind.name} has no secret {name!r}{near}")
        check_value(value)


async def check_complete(deps: ChannelSurroundings, spec: ChannelSpec, secrets: Mapping[str, str]) -> None:
    """Check that every value that the guide asks for is set, in the settings or among the secrets. A list may be
    empty."""
    config, names = spec.make_config(deps.config), spec.list_secrets()
    for name in names.values():
        check_name(name)
    for each in spec.kind.guide.ask:
        last = get_last_name(each)
        if each in spec.kind.guide.optional:
            continue
        if each.secret:
            there = last in secrets or names[last] in await _list_secret_names(deps, spec.instance)
            if not there:
                raise Invalid(last, f"is missing: {each.help} Give it with --secret {last}=-")
        elif config[each] == "":
            raise Invalid(last, f"is missing: {each.help} Give it with --set {last}=…")


async def check_other_bots(
    deps: ChannelSurroundings,
    supervisor: ChannelSupervisor | None,
    new: ChannelSpec,
    identity: BotIdentity | None,
    specs: Iterable[ChannelSpec],
) -> None:
    """One bot in two channels receives everything twice, or half of it in each. It is the same bot if its name and the
    link to it are the same; one without a link cannot be told apart."""
    if identity is None or not identity.link:
        return
    others = [each for each in specs if each.kind.name == new.kind.name and each.is_on]
    found = await asyncio.gather(*(_find_identity(deps, supervisor, each) for each in others))
    for other, known in zip(others, found, strict=True):
        if known is not None and (known.name, known.link) == (identity.name, identity.link):
            raise Invalid("name", f"the channel {other.instance} already is {identity.name}; use another bot")


async def _find_identity(
    deps: ChannelSurroundings, supervisor: ChannelSupervisor | None, spec: ChannelSpec
) -> BotIdentity | None:
    """None: it cannot be asked now."""
    running = supervisor.find_channel(spec.instance) if supervisor is not None else None
    try:
        async with asyncio.timeout(OTHERS_S):
            return await (check_channel(running, spec) if running is not None else check_spec(deps, spec, {}))
    except (GatepostError, TimeoutError):
        return None


async def _list_secret_names(deps: ChannelSurroundings, instance: str) -> list[str]:
    return await deps.store.read(channel_instances.list_secret_names, instance, ())


def change_spec(spec: ChannelSpec, args: SetChannelArgs) -> ChannelSpec:
    if args.on and args.off:
        raise Invalid("off", "it is switched on or off, not both")
    changes = bool(args.settings or args.unset or args.on or args.off)
    if not changes and not args.secrets:
        raise Invalid("", "nothing is given to change: --set KEY=VALUE, --unset KEY, --secret NAME, --on or --off")
    if changes and spec.origin is not SpecOrigin.STORE:
        raise Invalid(
            "instance",
            f"{spec.instance} stands in gatepost.toml: change it there, then `gatepost down` and `gatepost up`;"
            " only its secrets are set here",
        )
    where = f"the channel {spec.instance}"
    known = {get_last_name(each): each.name for each in spec.kind.settings}
    for name in args.unset:
        if name not in known:
            raise Invalid("unset", f"{spec.kind.name} has no setting {name!r}{did_you_mean(name, known)}")
    kept = {name: value for name, value in spec.values.items() if name not in {known[each] for each in args.unset}}
    values = {**kept, **channel_specs.parse_values(spec.kind, args.settings, where)}
    return replace(spec, values=values, is_on=(spec.is_on or args.on) and not args.off)


def render_after(text: str, instance: str, config: Config) -> str:
    """A guide with the names of this instance, and with the gateway's address if one is set."""
    url = get_page_url(config) if config[PAGE_URL] else ""
    return (text.replace("<web.url>", url) if url else text).replace("<instance>", instance)
