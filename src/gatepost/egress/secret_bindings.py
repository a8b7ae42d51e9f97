"""Secrets bound to hosts: how a binding is written, and which one holds.

A binding names one host, one port and whether it is asked in the clear. The header is the gateway's: what comes from
inside under that name is dropped. Pure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from gatepost.core.errors import Invalid
from gatepost.core.secret_scrubber import SHORTEST_SECRET, render_too_short
from gatepost.egress import rules
from gatepost.egress.http import HttpRefusal
from gatepost.store.rights.secret_rows import Binding

MARK = "{}"
PORTS = {"https": 443, "http": 80}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z")
_VALUE = re.compile(r"[\x20-\x7e]+\Z")
# What frames or leads a request is nobody's to choose.
_OURS = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect")
)

HostOrigin = tuple[str, str, int]  # scheme, host, port


@dataclass(frozen=True, slots=True)
class SecretHeader:
    """A header as it is sent, and the value in it that must not come back."""

    header: str
    text: str = field(repr=False)
    value: str = field(repr=False)


def parse_binding_host(text: str) -> HostOrigin:
    """`host`, `host:port` (both https), or `http://host[:port]`."""
    scheme, there, rest = text.strip().partition("://")
    scheme, rest = (scheme.lower(), rest.removesuffix("/")) if there else ("https", text.strip())
    if scheme not in PORTS:
        raise Invalid("host", f"{text[:80]!r} is neither https nor http")
    target = rules.read_target(rest, PORTS[scheme])
    return scheme, target.host, target.port


def parse_binding_header(text: str) -> tuple[str, str]:
    """`Name: value with {}`, as (name in lower case, template)."""
    name, colon, template = text.partition(":")
    name, template = name.strip().lower(), template.strip()
    if not colon or not _TOKEN.match(name) or name in _OURS or name.startswith(("proxy-", "accept-encoding")):
        raise Invalid("header", "write it like `Authorization: Bearer {}`; the name is one that a request may carry")
    if template.count(MARK) != 1 or not _VALUE.match(template):
        raise Invalid("header", f"the value holds {MARK} once, where the secret goes, and plain signs around it")
    return name, template


def select_bindings(found: Sequence[Binding], folder: str) -> list[Binding]:
    """Those of a group, one for each header: the deepest folder's."""
    chosen: dict[str, Binding] = {}
    for each in sorted(found, key=lambda binding: len(binding.folder or "")):
        if each.folder is None or rules.inherits(each.folder, folder):
            chosen[each.header] = each
    return list(chosen.values())


def make_secret_header(binding: Binding, value: str | None) -> SecretHeader:
    """Raises Refusal if there is no value, or none that a header can hold."""
    if not value:
        raise HttpRefusal(
            401, f"{binding.name}, bound to {binding.host}, is not set: gatepost secret set {binding.name}"
        )
    if not _VALUE.match(value):
        raise HttpRefusal(502, f"{binding.name}, bound to {binding.host}, holds signs that no header can; set it anew")
    if len(value) < SHORTEST_SECRET:
        raise HttpRefusal(502, render_too_short(f"{binding.name}, bound to {binding.host},"))
    return SecretHeader(binding.header, binding.template.replace(MARK, value), value)
