"""The checks of gateways that share a store. A gateway that is alone has no findings."""

from collections.abc import Iterable, Iterator

from gatepost.core.clock import SECOND, iso
from gatepost.flow.gateways.duties import parse_health
from gatepost.serve.health.findings import Finding
from gatepost.store.gateways import database_lives, gateways, group_places
from gatepost.store.gateways.database_lives import DatabaseLife
from gatepost.store.gateways.gateway_checks import is_living, list_differences, split_digest
from gatepost.store.gateways.gateways import DutyRow, GatewayIdentity, GatewayRow
from gatepost.store.gateways.group_places import AwayWorld, render_wait
from gatepost.store.port import Db
from gatepost.store.rights import secrets

MOST_OFF = 2 * SECOND  # a clock that is off by less is well


def check_gateways(db: Db, own: GatewayIdentity, now: int, offset: int) -> list[Finding]:
    """`now` is the database's time, `offset` by how much it is ahead of this machine's clock."""
    known = gateways.list_all(db)
    missing = sorted(secrets.list_key_ids(db) - split_digest(own.key_ids).keys())
    return [
        *judge_lives(own.name, known, now),
        *judge_places(group_places.list_away(db)),
        *judge_devices(gateways.list_duty_rows(db), sum(is_living(each, now) for each in known)),
        *judge_failovers(database_lives.list_all(db)),
        *judge_clock(offset),
        *judge_keys(missing),
        *judge_differences(own, known, now),
    ]


def judge_lives(own: str, known: Iterable[GatewayRow], now: int) -> Iterator[Finding]:
    """That this one is down is told as such."""
    for each in known:
        if is_living(each, now):
            where = f" at {each.listen}" if each.listen else ""
            yield Finding("ok", "gateways", f"{each.name} is {each.state} on {each.host}{where}")
        elif each.state != gateways.GatewayState.GONE:
            text = f"{each.name} on {each.host} is dead, and nobody has taken over from it yet"
            yield Finding("warn", "gateways", text, "a running gateway does so within seconds; start one")
        elif each.name != own:
            text = f"{each.name} on {each.host} is gone{f' since {iso(each.until)}' if each.until else ''}"
            remedy = f"start it again; if it never comes back: `gatepost gateway forget {each.name}`"
            yield Finding("warn", "gateways", text, remedy)


def judge_places(away: Iterable[AwayWorld]) -> Iterator[Finding]:
    for each in away:
        text = f"{each.world} {render_wait(each.gateway)}: what is written to it is kept"
        put = "put them into `groups` of the gateway that is to have it"
        yield Finding("warn", "groups", text, f"start {each.gateway} again, with its folders" if each.gateway else put)


def judge_devices(duties: Iterable[DutyRow], living: int) -> Iterator[Finding]:
    """Yield a finding for each channel that keeps its keys on one gateway: after a takeover it is a new device."""
    for each in duties:
        status, instance = parse_health(each), each.name.removeprefix("channel/")
        if living > 1 and each.gateway and status is not None and status.device:
            text = f"{instance} keeps the keys of its device on {each.gateway}; for another gateway it is a new device"
            yield Finding("ok", "channels", text, "if that gateway is lost, the channel may have to be linked anew")


def judge_failovers(lives: Iterable[DatabaseLife]) -> Iterator[Finding]:
    """Those after which something was held, or would have been."""
    for each in lives:
        if each.held >= 0:
            held = f"{each.held} message{'' if each.held == 1 else 's'} held"
            text = f"failed over at {iso(each.since)} and may have forgotten the last moments; {held}"
            way = "`gatepost ledger list` shows them; with a synchronous standby nothing is forgotten (docs/scale.md)"
            yield Finding("warn", "database", text, way)


def judge_clock(offset: int) -> Iterator[Finding]:
    if abs(offset) > MOST_OFF:
        side = "behind" if offset > 0 else "ahead of"
        text = (
            f"this machine's clock is {abs(offset) / SECOND:.0f} s {side} the database's, which is the one that counts"
        )
        yield Finding("warn", "clock", text, "set it by NTP: logs and agents go by the machine's")


def judge_keys(missing: list[str]) -> Iterator[Finding]:
    if missing:
        text = f"secrets were sealed with {', '.join(missing)}, which this key ring lacks: they do not open here"
        yield Finding("fail", "keys", text, "copy keyring.json from the home of the gateway that has it")


def judge_differences(own: GatewayIdentity, known: Iterable[GatewayRow], now: int) -> Iterator[Finding]:
    for each in list_differences(own, known, now):
        yield Finding("warn", "gateways", f"{each.gateway}: {each.what}", each.remedy)
