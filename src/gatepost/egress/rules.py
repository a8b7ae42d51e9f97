"""Which host a group may reach, and at which address: pure decisions.

A target is a name and a port; an address in its place is refused, in every spelling that a resolver takes. Rules
inherit down the tree, a denial wins, nothing said means no. A name is allowed; an address is checked after it was
looked up, and the one that was checked is the one that is connected to.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from gatepost.access.tiers import covers
from gatepost.core.errors import Invalid
from gatepost.core.settings import setting
from gatepost.store.rights.egress import EgressRule

ASK, REFUSE = CHOICES = ("ask", "refuse")
UNKNOWN_HOSTS = setting(
    "egress.unknown_hosts",
    ASK,
    help="What follows if an agent connects to a host that no rule mentions. It is refused in any case; `ask` also asks"
    " an admin or owner who can be reached. The option `egress` of a group says it for that group and those below.",
    choices=CHOICES,
)
OPTION = "egress"  # of a group: the same for it and for the groups below
WEB_PORTS = (80, 443)
MODEL_HOSTS = frozenset({"api.anthropic.com", "api.openai.com"})  # reached through their endpoints here, with our keys
PRIVATE = "it has an address of this machine or a private network"
EVERY = "*"
LONGEST_OFFERED = 100  # characters of a name that people are asked about
_INNER = (  # names that public resolvers do not know, or that mean this machine, its network or its cloud
    *("localhost", "localdomain", "local", "internal", "intranet", "lan", "home", "corp", "private", "arpa"),
    *("test", "invalid", "example", "onion", "alt"),
)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\Z")
_PORT = re.compile(r"[1-9][0-9]{0,4}\Z")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Addresses of a network's own translation: the IPv4 one stands in them at a place that only that network knows.
_OWN_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_PUBLIC = ipaddress.IPv6Network("2000::/3")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_NEVER = tuple(
    ipaddress.ip_network(each)
    for each in (
        *("0.0.0.0/8", "169.254.0.0/16", "240.0.0.0/4", str(_OWN_NAT64)),
        # Where clouds tell a machine about itself, keys and all, if that is not link-local.
        *("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::/32", "fd20:ce::254", "fd00:42::42"),
    )
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class EgressTarget(Struct, frozen=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class EgressVerdict(Struct, frozen=True):
    allowed: bool
    reason: str
    local: bool = False  # it may have an address of this machine or network
    way_in: str = ""  # what an operator types to let this group there, wherever it is
    unsaid: bool = False  # no rule speaks of it, so a person may be asked


def read_host(text: str) -> str:
    """A host's name in its one spelling. Raises Invalid."""
    host = text.lower().removesuffix(".")
    if not host or len(host) > 253:
        raise Invalid("host", "is empty or longer than 253 characters")
    labels = host.split(".")
    if ":" in host or host.startswith("[") or _NUMBER.match(labels[-1]):
        raise Invalid("host", f"{text[:80]!r} is an address; only names can be allowed, say the host's name")
    if not all(map(_LABEL.match, labels)):
        raise Invalid("host", f"{text[:80]!r} is not a host's name (letters, digits, `-`, dots; others as xn--…)")
    return host


def read_port(text: str) -> int:
    if not _PORT.match(text) or int(text) > 65535:
        raise Invalid("port", f"{text[:20]!r} is not a port between 1 and 65535")
    return int(text)


def read_target(text: str, port: int | None = None) -> EgressTarget:
    """`host:port`; without a port only if there is a usual one. No user, no path, no address."""
    host, colon, after = text.rpartition(":")
    if not colon and port is not None:
        return EgressTarget(read_host(text), port)
    if not colon:
        raise Invalid("target", f"{text[:80]!r} names no port")
    return EgressTarget(read_host(host), read_port(after))


def read_pattern(text: str) -> tuple[str, int]:
    """Return what a rule is written for: `host`, `host:port`, `*.host`, `*`. Port 0: the usual ones."""
    if "://" in text or "/" in text:
        raise Invalid("host", f"{text[:80]!r} is the address of a page; {_host_alone(text)}")
    host, colon, after = text.strip().partition(":")
    if ":" in after:
        raise Invalid("host", f"{text[:80]!r} is an address; only names can be allowed, say the host's name")
    port = read_port(after) if colon else 0
    if host == EVERY:
        return EVERY, port
    if host.startswith("*."):
        return f"*.{read_host(host[2:])}", port
    return read_host(host), port


def _host_alone(text: str) -> str:
    """Return what whoever wrote an address in the place of a host meant."""
    scheme, there, rest = text.strip().rpartition("://")
    name = rest.split("/", 1)[0]
    with suppress(Invalid):
        target = read_target(name, 80 if scheme.lower() == "http" else 443)
        return f"a rule names its host: {target}" if there else f"a rule names its host: {target.host}"
    return "a rule names a host, like example.com or example.com:8443"


def is_one_host(host: str, port: int) -> bool:
    """Return True if a rule names one place exactly; only such a rule can lead to a local address."""
    return not host.startswith(EVERY) and port != 0


def _names(rule: EgressRule, target: EgressTarget) -> bool:
    if rule.host != EVERY:
        name = rule.host.removeprefix("*.")
        below = target.host.endswith(f".{name}")
        if not below and (target.host != name or rule.host != name):
            return False
    return rule.port == target.port or (rule.port == 0 and (not rule.allow or target.port in WEB_PORTS))


def list_folder_rules(rules: Iterable[EgressRule], folder: str) -> list[EgressRule]:
    """The rules that hold for a group: the instance's, its parents' and its own. Root's are its own alone: it has no
    children."""
    return [rule for rule in rules if rule.folder is None or inherits(rule.folder, folder)]


def inherits(parent: str, folder: str) -> bool:
    return parent == folder or (parent != "root" and covers(parent, folder))


def check_target(
    rules: Sequence[EgressRule], folder: str, target: EgressTarget, models: frozenset[EgressTarget] = frozenset()
) -> EgressVerdict:
    """May this group's sandboxes connect there?"""
    # Below them, too: vendors serve the same API at regional names (eu.api…).
    if any(f".{target.host}".endswith(f".{host}") for host in MODEL_HOSTS) or target in models:
        return EgressVerdict(False, f"{target.host} serves models and is reached only through the model endpoints")
    found = [rule for rule in list_folder_rules(rules, folder) if _names(rule, target)]
    denied = _find_denial(found, target)
    if denied is not None:
        return denied
    way_in = f"gatepost egress allow {target} --folder {folder}"  # for this group, and no other
    if not found:
        return EgressVerdict(False, f"{target} is not allowed for {folder}; the operator can: {way_in}", unsaid=True)
    exact = any(rule.local and rule.host == target.host and rule.port == target.port for rule in found)
    return EgressVerdict(True, "", local=exact, way_in=way_in)


def find_own_word(options: Mapping[str, Any]) -> bool | None:
    """Return True if a group's options say that people are asked about unknown hosts. None: they say nothing."""
    return options[OPTION] == ASK if OPTION in options else None


def check_service(rules: Sequence[EgressRule], folder: str, target: EgressTarget) -> EgressVerdict:
    """May the gateway ask this service of the operator's for a group? Only a denial says no."""
    found = [rule for rule in list_folder_rules(rules, folder) if _names(rule, target)]
    return _find_denial(found, target) or EgressVerdict(True, "", local=True)


def _find_denial(found: Iterable[EgressRule], target: EgressTarget) -> EgressVerdict | None:
    denied = next((rule for rule in found if not rule.allow), None)
    if denied is None:
        return None
    return EgressVerdict(False, f"{target} is denied to {denied.folder or 'everybody'} by a rule for {denied.host}")


def may_be_offered(target: EgressTarget) -> bool:
    """Return True if people may be asked about it: not about a name of this machine or of a private network, nor about
    one that nobody reads to its end. It is not looked up for that: the look-up of a name is a way out by itself."""
    inner = any(f".{target.host}".endswith(f".{each}") for each in _INNER)
    return "." in target.host and not inner and len(target.host) <= LONGEST_OFFERED


def check_address(text: str, *, local: bool) -> str:
    """Why a resolved address may not be connected to; '' if it may."""
    address = _innermost(ipaddress.ip_address(text.partition("%")[0]))
    never = any(address in network for network in _NEVER)
    if isinstance(address, ipaddress.IPv4Address):
        public = address.is_global
    else:
        never = never or address.is_link_local or address.is_unspecified
        public = address.is_global and address in _PUBLIC
    if never or address.is_multicast:
        return "it has an address that nobody may reach from a sandbox"
    if not public and not local:
        return PRIVATE
    return ""


def _innermost(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for: a wall that looks at the outer one only has a hole."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    teredo = address.teredo
    inner = address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)
    if inner is None and (address in _NAT64 or (address in _COMPATIBLE and int(address) > 1)):
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return inner or address
