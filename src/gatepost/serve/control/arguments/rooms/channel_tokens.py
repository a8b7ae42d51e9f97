"""The token of a program that is the adapter of a channel."""

from typing import Annotated

from msgspec import Struct, field

from gatepost.core.record_fields import argument, option
from gatepost.serve.control.arguments.rooms.channels import WRITE
from gatepost.serve.control.declaration import OperationArgs, declares


class ChannelTokenView(Struct, frozen=True, kw_only=True):
    """`secret`: it is shown once, because only its hash is kept."""

    secret: str
    instance: str
    url: str
    is_new: bool  # the channel was made for it
    revoked: int  # tokens that it had before
    features: list[str]
    max_text: int


@declares("channel.token", right=WRITE)
class AddChannelTokenArgs(OperationArgs[ChannelTokenView], frozen=True):
    """Make a channel whose adapter is a program elsewhere, in any language, and print its token.

    NAME is also the platform's name in its addresses. If there is such a channel, it gets a new token and the old one
    works no longer. docs/extend/adapter-protocol.md says what the program does with it.
    """

    instance: Annotated[str, argument("The channel's name.", "name", examples=("irc-bridge",))]
    features: Annotated[
        list[str],
        option("Something that the program can do, such as edit or keyed; may be repeated.", "feature", metavar="NAME"),
    ] = field(default_factory=list)
    max_text: Annotated[int | None, option("The longest text of one message, in characters (0: no limit).")] = None
