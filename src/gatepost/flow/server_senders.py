"""Senders of platforms whose ids are unique on one server only: user 10 of two Zulip servers is two people.

Once, where a channel hands an event in, its sender gets the name of the instance: `zulip:user/10` of the instance
`work` is `zulip:work/user/10` from there on. So rights, pairing and roles hold for one instance. The instance that is
named like its kind keeps the plain addresses. A channel itself knows plain ones alone.
"""

from gatepost.channels.contract import ChannelKind
from gatepost.core.records import replace
from gatepost.messages.inbound import Inbound


def add_server(kind: ChannelKind, instance: str, inbound: Inbound) -> Inbound:
    """Return an event with its senders as the gateway knows them."""
    if not is_apart(kind, instance):
        return inbound
    sender, event, quote = _add(kind, instance, inbound.sender), inbound.event, inbound.reply_to
    if event.endswith(f":{inbound.sender}"):  # a reaction, a join
        event = f"{event.removesuffix(inbound.sender)}{sender}"
    if quote is not None and quote.sender:
        quote = replace(quote, sender=_add(kind, instance, quote.sender))
    return replace(inbound, sender=sender, event=event, reply_to=quote)


def remove_server(kind: ChannelKind, instance: str, identity: str) -> str:
    """Return what the channel calls this person; '' if nobody of this instance is meant."""
    platform, _, rest = identity.partition(":")
    if platform != kind.name:
        return ""
    if not is_apart(kind, instance):
        return identity
    begin = f"{instance}/"
    return f"{platform}:{rest.removeprefix(begin)}" if rest.startswith(begin) else ""


def is_apart(kind: ChannelKind, instance: str) -> bool:
    """Return True if senders of an instance get its name."""
    return kind.per_server and instance != kind.name


def _add(kind: ChannelKind, instance: str, sender: str) -> str:
    """Return a person's address with the instance. Other senders, such as the gateway, are the same everywhere."""
    platform, _, rest = sender.partition(":")
    return f"{platform}:{instance}/{rest}" if platform == kind.name else sender
