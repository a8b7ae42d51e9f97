"""A provider's declaration: its needs in the sandbox, its modes, the media it accepts, and how it is connected.

`@provider(…)` and the host build it by the same function. The host reads the decorator's literals and runs no code.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from gatepost.inside.sandbox_needs import DeclaredNeeds, Need, declare
from gatepost.jsonrpc.mcp_clients import McpClientFormat

Word = Annotated[str, Meta(max_length=80)]
Words = Annotated[tuple[Word, ...], Meta(max_length=32)]


class Mode(Struct, frozen=True):
    """When an agent asks before it acts, in the agent's own words."""

    id: Word
    label: Word
    description: Annotated[str, Meta(max_length=300)] = ""


class MediaHandling(StrEnum):
    BLOCK = "block"  # the model gets the bytes
    FILE = "file"  # the prompt says where it lies
    WORDS = "words"  # the same, and what is said in it (the group's option `transcribe`)
    BOTH = "both"  # a block if the agent says that it takes one, which is not known beforehand; words in any case


class MediaSupport(Struct, frozen=True, forbid_unknown_fields=True):
    """How the model gets an attachment. Other kinds than these are always files."""

    image: MediaHandling = MediaHandling.FILE  # JPEG, PNG, GIF, WebP
    pdf: MediaHandling = MediaHandling.FILE
    audio: MediaHandling = MediaHandling.WORDS
    native: Words = ()  # formats of audio that are blocks if the group's option `audio` is `native`


class ProviderSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `@provider`. `gatepost connect` offers every provider that has a vendor."""

    name: str
    title: Word = ""  # the product's name
    programs: Words = ()  # to be mounted in its sandbox
    mounts: Annotated[tuple[Need, ...], Meta(max_length=32)] = ()
    env: Annotated[dict[str, str | Need], Meta(max_length=32)] = {}
    modes: Annotated[tuple[Mode, ...], Meta(max_length=32)] = ()  # the first is the default
    mode_option: Word = "mode"  # the group's option that holds its mode
    edits_input: bool = False  # of what it asks for, it uses the input that a person puts in place of its own
    media: MediaSupport = MediaSupport()
    vendor: Literal["", "anthropic", "openai", "google"] = ""  # whose endpoint and key it uses
    any_vendor: bool = False  # it may use another vendor's endpoint
    subscription: bool = False  # it accepts a subscription's token
    model: Word = ""  # for a group that names none; '': the agent's own choice
    library: Word = ""  # the Python module that it needs, of the extra with its name
    package: Annotated[str, Meta(max_length=214, pattern=r"^$|^(@[a-z0-9._-]+/)?[a-z0-9][a-z0-9._-]*$")] = ""  # npm's
    options: Annotated[tuple[Word, ...], Meta(max_length=64)] = ()  # that it reads; without them, any may be set
    command_options: Words = ()  # the group's options that name its program; one of them must be set
    mcp_client: McpClientFormat | None = None  # how servers are written into its own configuration
    compacts: bool = False  # it understands /compact; the gateway does it by a summary for those that do not
    trial: Annotated[dict[Word, str | int], Meta(max_length=8)] = {}  # options for the one turn that tries it

    def __post_init__(self) -> None:
        declare(f"the provider {self.name}", self.programs, self.mounts, self.env)

    @property
    def needs(self) -> DeclaredNeeds:
        return declare(f"the provider {self.name}", self.programs, self.mounts, self.env)


def make_spec(name: str, declared: Mapping[str, object]) -> ProviderSpec:
    """Raises ValueError for an argument that is unknown, of another type or out of bounds."""
    return msgspec.convert({"name": name, **declared}, ProviderSpec)
