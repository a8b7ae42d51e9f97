"""Settings that gateways which share a store must have in common, and what else differs between them. Pure."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from gatepost.core.errors import SetupError
from gatepost.store.gateways.gateways import GatewayIdentity, GatewayRow, GatewayState, LeaseRenewal

DRAIN_ASKED = "it was asked to drain"
MOST_NAMED = 5  # settings or keys that are named at once


class GatewayDifference(Struct, frozen=True):
    """`what` differs on the other gateway; the way out."""

    gateway: str
    what: str
    remedy: str


def is_living(row: GatewayRow, now: int) -> bool:
    """`now` is the database's time."""
    return row.state is not GatewayState.GONE and row.until >= now


def check_companions(new: GatewayIdentity, known: Iterable[GatewayRow], now: int) -> None:
    """Check that this gateway may join the living ones. Raises the reason if it may not."""
    for other in known:
        if other.name == new.name or not is_living(other, now):
            continue
        check_schema(other.name, other.host, other.version, other.schema_number, new.schema_number)
        missing = sorted(split_digest(other.key_ids).keys() - split_digest(new.key_ids).keys())
        if missing:
            raise SetupError(
                f"the key ring of this gateway lacks {_name(missing)}, which the gateway {other.name!r} on {other.host}"
                " has: secrets would not open here; copy keyring.json from its home to this one"
            )


def check_connections(new: GatewayIdentity, known: Iterable[GatewayRow], most: int, limit: str, now: int) -> None:
    """Raise SetupError if the server has too few connections for all gateways: those that run would fail, too.
    `limit`: the setting that says `most`."""
    others = [each for each in known if each.name != new.name and is_living(each, now)]
    used = sum(each.connections for each in others)
    if others and used + new.connections > most:
        raise SetupError(
            f"the database has {most} connections for gateways, {len(others)} that run use up to {used} of them, and"
            f" this one needs {new.connections}; raise {limit}, or lower store.lanes on all gateways"
        )


def check_rotation(own_home: str, current: str, known: Iterable[GatewayRow], now: int) -> None:
    """Check that secrets may be sealed with another key while other gateways live. `current` is that key; '' means that
    it is yet to be made, so that nobody else has it. Raises the reason if they may not."""
    for other in known:
        if other.home == own_home or not is_living(other, now):
            continue
        if not current:
            raise SetupError(
                f"the gateway {other.name!r} on {other.host} has a key ring of its own and would open no secret any"
                f" more; drain the others first (`gatepost gateway drain {other.name}`), rotate, copy keyring.json to"
                " them, and start them again"
            )
        if current not in split_digest(other.key_ids):
            raise SetupError(
                f"the key ring of the gateway {other.name!r} on {other.host} lacks {current} and would open no secret"
                " any more; add it there and restart that gateway first"
            )


def check_schema(name: str, host: str, version: str, schema_number: int, wanted: int) -> None:
    """All gateways on a store know the same schema."""
    if schema_number != wanted:
        raise SetupError(
            f"the gateway {name!r} on {host} (gatepost {version}) runs with schema {schema_number}, this one knows"
            f" {wanted}; end that one first (`gatepost gateway drain {name}` on its version), or start the same"
            " version here"
        )


def find_order(own: GatewayIdentity, renewal: LeaseRenewal) -> str:
    """Why a gateway is to drain and stop; '': it goes on."""
    if renewal.schema_number > own.schema_number:
        return (
            f"a newer gatepost has brought the store to schema {renewal.schema_number}, this one knows"
            f" {own.schema_number}; upgrade gatepost here"
        )
    return DRAIN_ASKED if renewal.state is GatewayState.DRAINING else ""


def list_differences(own: GatewayIdentity, known: Iterable[GatewayRow], now: int) -> Iterator[GatewayDifference]:
    """Yield what the gateways that live have otherwise than this one. None of it keeps one from starting."""
    for other in known:
        if other.name == own.name or not is_living(other, now):
            continue
        if settings := compare_digests(own.config_digest, other.config_digest):
            yield GatewayDifference(
                other.name,
                f"its gatepost.toml differs from this one's in {_name(settings)}",
                "give all gateways the same settings, then restart those that you changed",
            )
        if files := compare_digests(own.plugin_digest, other.plugin_digest):
            yield GatewayDifference(
                other.name,
                f"its plug-ins differ from this one's in {_name(files)}",
                "give all gateways the same plug-ins, then restart those that you changed",
            )
        if lacking := sorted(split_digest(own.key_ids).keys() - split_digest(other.key_ids).keys()):
            yield GatewayDifference(
                other.name,
                f"its key ring lacks {_name(lacking)}, so it opens no secret that was sealed with it",
                f"copy keyring.json to {other.host}, then restart that gateway",
            )
        if own.version != other.version:
            yield GatewayDifference(other.name, f"it runs gatepost {other.version}, this one {own.version}", "")


def join_digest(parts: dict[str, str]) -> str:
    """Names with a digest each, as one text."""
    return "\n".join(f"{name} {digest}" for name, digest in sorted(parts.items()))


def split_digest(text: str) -> dict[str, str]:
    pairs = (line.rpartition(" ") for line in text.splitlines())
    return {name: digest for name, _, digest in pairs}


def compare_digests(one: str, other: str) -> list[str]:
    """The names of what differs, or is in one of them only."""
    left, right = split_digest(one), split_digest(other)
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))


def _name(things: list[str]) -> str:
    rest = len(things) - MOST_NAMED
    return ", ".join(things[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
