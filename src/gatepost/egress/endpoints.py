"""Endpoints of models: the gateway's by setting, a group's own by option, and which key is for which.

A key belongs to the endpoint that it was given for. Moving an endpoint never moves a key: the new one gets none until
somebody gives it one. A probe asks an endpoint whether it is there and takes a key. It costs nothing: it lists models,
or counts tokens.
"""

import asyncio
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from gatepost.core import settings
from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config, Setting, setting
from gatepost.egress.http import HttpRefusal
from gatepost.egress.upstream import USUAL_VERSION, Bill, Upstream, VendorBaseUrl, VendorKey, parse_base_url
from gatepost.store.port import Db
from gatepost.store.rights.secrets import ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, GEMINI_API_KEY, OPENAI_API_KEY
from gatepost.store.sessions import groups

ANTHROPIC_BASE = setting(
    "anthropic.base_url",
    "https://api.anthropic.com",
    help="Where Anthropic-shaped models are, for groups without an endpoint of their own; local ones too.",
)
OPENAI_BASE = setting(
    "openai.base_url",
    "https://api.openai.com/v1",
    help="Where OpenAI-shaped models are, for groups without an endpoint of their own; local ones too.",
)
GOOGLE_BASE = setting(
    "google.base_url",
    "https://generativelanguage.googleapis.com/v1beta",
    help="Where models are that speak Google's Gemini API, for groups without an endpoint of their own.",
)
BASES = {"anthropic": ANTHROPIC_BASE, "openai": OPENAI_BASE, "google": GOOGLE_BASE}
OPTIONS = {vendor: f"{vendor}_base_url" for vendor in BASES}  # of a group with an endpoint of its own
KEYS = {"anthropic": ANTHROPIC_API_KEY, "openai": OPENAI_API_KEY, "google": GEMINI_API_KEY}
VENDORS = {name: vendor for vendor, name in KEYS.items()} | {ANTHROPIC_AUTH_TOKEN: "anthropic"}
VERSIONS = {"google": "v1beta"}  # of an API, where an address leaves it out
PROBE_S = 8.0
_REFUSED = (401, 403)
_NO_SUCH_PATH = (404, 405, 501)
_COUNT = b'{"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "hello"}]}'


def gateway_base(config: Config, vendor: str) -> VendorBaseUrl:
    where = BASES[vendor]
    return parse_base_url(
        where.name, config[where], default=config[where] == where.default, version=VERSIONS.get(vendor, USUAL_VERSION)
    )


def gateway_bases(config: Config) -> dict[str, VendorBaseUrl]:
    return {vendor: gateway_base(config, vendor) for vendor in BASES}


def parse_command(config: Config, command: Setting[str], *, instead_of: Setting[str]) -> list[str]:
    """The program that does the work of an endpoint, and its arguments; [] if none is set. Raises SetupError."""
    try:
        words = shlex.split(config[command])
    except ValueError as error:
        raise SetupError(f"{command.name} = {config[command]!r} cannot be read: {error}") from None
    if words and config[instead_of].strip():
        raise SetupError(f"{instead_of.name} and {command.name} are both set; one of them does the work, unset one")
    return words


def read_own_base(vendor: str, url: str) -> VendorBaseUrl:
    """A group's own. Raises SetupError."""
    vendors = parse_base_url(vendor, BASES[vendor].default, default=True)
    version = VERSIONS.get(vendor, USUAL_VERSION)
    base = parse_base_url(f"options.{OPTIONS[vendor]}", url, default=False, own=True, version=version)
    return replace(base, default=base.origin == vendors.origin)


def own_bases(options: Iterable[Mapping[str, Any]]) -> dict[str, VendorBaseUrl]:
    """By vendor, from the options of a group and of those above it, the nearest first."""
    found: dict[str, VendorBaseUrl] = {}
    for each in options:
        for vendor, name in OPTIONS.items():
            if vendor not in found and each.get(name):
                found[vendor] = read_own_base(vendor, str(each[name]))
    return found


def base_in_force(db: Db, home: Home, folder: str, vendor: str, lent: Mapping[str, Any] | None = None) -> VendorBaseUrl:
    """The group's own, or that of a group above it, else the gateway's as the settings say now. `lent`: the options
    that the group is run with, where those are not its own alone."""
    group = groups.get(db, folder) if folder else None
    own_options = lent if lent is not None else group.options if group else {}
    own = own_bases((own_options, *(each.options for each in groups.list_ancestors(db, folder)))).get(vendor)
    return own or gateway_base(settings.load_declared(home.path, BASES[vendor]), vendor)


def read_origin(text: str) -> str:
    """`https://host[:port]`, with or without a path, as a key names its endpoint."""
    try:
        return parse_base_url("it", text, default=False).origin
    except SetupError:
        raise Invalid("for", f"{text[:80]!r} is not an address; write it like https://host/v1") from None


def key_origins(config: Config) -> dict[str, str]:
    """The gateway's endpoints, by the names of the keys that they take."""
    return {name: gateway_base(config, vendor).origin for name, vendor in VENDORS.items()}


class EndpointVerdict(Struct, frozen=True):
    reachable: bool
    accepted: bool | None = None  # whether it takes the key; None: it does not say
    reason: str = ""


async def probe_endpoint(upstream: Upstream, vendor: str, base: VendorBaseUrl, key: VendorKey) -> EndpointVerdict:
    """Bounded by PROBE_S."""
    try:
        async with asyncio.timeout(PROBE_S):
            status = await _ask_endpoint(upstream, "GET", f"{base.url}/models", vendor, key)
            status = 401 if vendor == "google" and status == 400 else status  # what it says of a key that is none
            if status in _NO_SUCH_PATH and vendor == "anthropic":
                status = await _ask_endpoint(upstream, "POST", f"{base.url}/messages/count_tokens", vendor, key)
                status = 200 if status == 400 else status  # it judged the body, so the key has passed
    except TimeoutError:
        return EndpointVerdict(False, reason=f"it does not answer within {PROBE_S:g} s")
    except HttpRefusal as error:
        return EndpointVerdict(False, reason=error.reason)
    if status in _REFUSED:
        return EndpointVerdict(True, False, f"it answers {status}")
    return EndpointVerdict(True, True) if status == 200 else EndpointVerdict(True, None, f"it answers {status}")


async def _ask_endpoint(upstream: Upstream, method: str, url: str, vendor: str, key: VendorKey) -> int:
    headers = {"accept": "application/json", "user-agent": "gatepost", **key.headers}
    if vendor == "anthropic":
        headers["anthropic-version"] = "2023-06-01"
    if key.beta:
        headers["anthropic-beta"] = key.beta
    body = None
    if method == "POST":
        headers["content-type"], body = "application/json", _COUNT
    async with upstream.ask(method, url, headers, body, Bill()) as response:
        return int(response.status_code)
