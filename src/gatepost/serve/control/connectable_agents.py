"""The agents that can be connected, by what their providers declare: keys, libraries and packages."""

import re
import shutil
from importlib import metadata, util

from msgspec import structs

from gatepost.core import settings
from gatepost.core.errors import Invalid, did_you_mean
from gatepost.core.home import Home
from gatepost.egress.endpoints import BASES, KEYS
from gatepost.egress.model_services import list_services
from gatepost.flow.sessions.sandbox.provider_specs import find_spec, list_provider_names
from gatepost.inside.provider_spec import ProviderSpec
from gatepost.store.rights.secrets import ANTHROPIC_AUTH_TOKEN
from gatepost.store.sessions.groups import Group

TITLES = {"anthropic": "Anthropic", "openai": "OpenAI", "google": "Google"}
TOKEN, ANTHROPICS = "sk-ant-oat", "sk-ant-"  # how a subscription's token begins, and everything of Anthropic's


def list_agents(home: Home) -> dict[str, ProviderSpec]:
    """By name: the providers that use a vendor's endpoint."""
    specs = (find_spec(home, name) for name in list_provider_names(home))
    return {spec.name: spec for spec in specs if spec.vendor}


def get_agent(home: Home, name: str, vendor: str = "") -> ProviderSpec:
    """`vendor`: another than the agent's own, where it can have one."""
    known = list_agents(home)
    if name not in known:
        near = did_you_mean(name, {*known, *list_services()})
        raise Invalid(
            "agent", f"{name!r} is nothing to connect; there are: {', '.join(known)}, and model services{near}"
        )
    found = known[name]
    if not vendor or vendor == found.vendor:
        return found
    if found.any_vendor and vendor in ("anthropic", "openai"):
        return structs.replace(found, vendor=vendor)
    raise Invalid("vendor", f"{name} asks {found.vendor}'s endpoint{did_you_mean(vendor, BASES)}")


def get_secret_name(chosen: ProviderSpec, value: str) -> str:
    """Under which name a key is kept, by how it begins. Says nothing of the value itself."""
    if chosen.vendor != "anthropic" and value.startswith(ANTHROPICS):
        raise Invalid("key", f"that is one of Anthropic's, and {chosen.name} asks {TITLES[chosen.vendor]}'s endpoint")
    if value.startswith(TOKEN):
        if not chosen.subscription:
            raise Invalid("key", "that is a subscription's token, which is for Claude Code: `gatepost connect claude`")
        return ANTHROPIC_AUTH_TOKEN
    return KEYS[chosen.vendor]


def list_key_names(chosen: ProviderSpec) -> tuple[str, ...]:
    """The secrets it could use, the one that wins first."""
    return (KEYS[chosen.vendor], ANTHROPIC_AUTH_TOKEN) if chosen.subscription else (KEYS[chosen.vendor],)


def has_command(chosen: ProviderSpec, group: Group) -> bool:
    """Return True if the group says which program it is, where that is needed."""
    return not chosen.command_options or any(group.options.get(name) for name in chosen.command_options)


def has_library(chosen: ProviderSpec) -> bool:
    return not chosen.library or util.find_spec(chosen.library) is not None


def has_program(home: Home, chosen: ProviderSpec) -> bool:
    from gatepost.flow.sessions.sandbox.sandbox_requirements import PROGRAMS, find_program  # heavy

    config = settings.load_declared(home.path, PROGRAMS)
    return all(
        find_program(config, home, each) is not None or shutil.which(each) is not None for each in chosen.programs
    )


def list_requirements(chosen: ProviderSpec) -> list[str]:
    """Return what its extra stands for, by the package's own word."""
    listed = metadata.requires("gatepost") or []
    wanted = re.compile(rf"extra\s*==\s*['\"]{re.escape(chosen.name)}['\"]")
    return [line.partition(";")[0].strip() for line in listed if wanted.search(line.partition(";")[2])]
