"""The conditions that somebody is told of: one table, from facts to what is not well. Pure.

A message is made of our own words, a day or a number, and a name that the operator or the gateway has given. Words of a
platform or an agent are never in it.
"""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from gatepost.channels.contract import ChannelState, EndReason
from gatepost.core.clock import DAY, MINUTE, SECOND, iso
from gatepost.flow.channel_health import ChannelReport
from gatepost.flow.reports import SandboxIsolation
from gatepost.serve.health.findings import Finding, Mend
from gatepost.serve.health.machine_checks import LITTLE_SPACE, NO_SPACE
from gatepost.store.engine.damage_check import DISK_FULL, READ_ONLY
from gatepost.store.gateways.alerts import Alert, AlertKey

MOST_SUBJECTS = 20  # of one condition: an agent that makes hundreds of groups fills nobody's day
LONGEST_SUBJECT = 100  # characters; a longer name is no one that people read
SOON = 7 * DAY  # before a key or a certificate ends
MINUTE_S = 60.0
_CLAUSE = re.compile(r"[;.]")  # what follows it is for operators
# Found by the doctor, too, and told of by themselves.
OWN_SUBJECTS = frozenset({"channels", "disk", "sandbox", "store", "backups"})


class Severity(StrEnum):
    SEVERE = "severe"  # told in quiet hours, too
    NORMAL = "normal"


class Expiry(Struct, frozen=True):
    """`name`: of the token, or of the channel whose certificates they are."""

    name: str
    ends_at: int


class AlertFacts(Struct, frozen=True, kw_only=True):
    """The facts that were looked at. None: it could not be, so nothing is known of it, and nothing is over."""

    now: int
    channels: Sequence[ChannelReport] | None = None
    free_bytes: int | None = None
    walls: SandboxIsolation | None = None
    is_open_by_choice: bool = False  # the operator has chosen to have no walls
    findings: Sequence[Finding] | None = None  # of the doctor
    store_troubles: Sequence[str] | None = None  # the store's own words
    unproven_days: int | None = None  # since the last proven backup, or since there is something to back up
    backup_days: int = 0  # after which that is told; 0: never
    failing: Sequence[str] | None = None  # groups
    spent: Sequence[str] | None = None  # groups whose budget is spent; '': the gateway's
    tokens: Sequence[Expiry] | None = None
    certificates: Sequence[Expiry] | None = None
    gone: Sequence[str] | None = None  # gateways
    uncertain: int | None = None  # messages of the last day


class Observation(Struct, frozen=True):
    subject: str = ""
    detail: str = ""


FindConditions = Callable[[AlertFacts], Iterable[Observation] | None]


class Condition(Struct, frozen=True, kw_only=True):
    """`find` returns None where the facts were not looked at. `sentence` begins it, `cure` says what helps, and `over`
    is said when it is not found any more. `command` does or shows that at a terminal; '' if none does. `is_local`: each
    gateway sees it of its own machine."""

    key: str
    severity: Severity
    sentence: str
    cure: str
    over: str
    page: str
    command: str = ""
    find: FindConditions
    general: str = ""  # the sentence and the end where there is no subject
    general_over: str = ""
    mend: Mend | None = None
    family: str = ""  # of several about one subject one takes another's place, and is not said to be over then
    hold_s: float = 30.0  # it has to last so long
    is_local: bool = False


def _find_channels(facts: AlertFacts, *states: ChannelState) -> list[ChannelReport] | None:
    return None if facts.channels is None else [each for each in facts.channels if each.state in states]


def _find_deaf(facts: AlertFacts) -> Iterable[Observation] | None:
    found = _find_channels(facts, ChannelState.RETRYING, ChannelState.DEAF)
    return None if found is None else [Observation(each.instance) for each in found]


def _find_ended(facts: AlertFacts) -> Iterable[Observation] | None:
    found = _find_channels(facts, ChannelState.ENDED)
    return None if found is None else [Observation(each.instance) for each in found if not _is_refused(each)]


def _find_refused(facts: AlertFacts) -> Iterable[Observation] | None:
    found = _find_channels(facts, ChannelState.ENDED)
    return None if found is None else [Observation(each.instance) for each in found if _is_refused(each)]


def _is_refused(report: ChannelReport) -> bool:
    return report.reason is EndReason.TOKEN


def _find_low_disk(facts: AlertFacts) -> Iterable[Observation] | None:
    if facts.free_bytes is None:
        return None
    return [Observation(detail=_render_space(facts.free_bytes))] if NO_SPACE <= facts.free_bytes < LITTLE_SPACE else []


def _find_full_disk(facts: AlertFacts) -> Iterable[Observation] | None:
    """A write that was refused counts, too, although there may be space again."""
    if facts.free_bytes is None:
        return None
    is_full = facts.free_bytes < NO_SPACE or DISK_FULL in (facts.store_troubles or ())
    return [Observation()] if is_full else []


def _render_space(size: int) -> str:
    """Return it in steps of 100 MB: a smaller change is no news."""
    return f"{size // (100 * 1024**2) / 10:.1f} GB"


def _find_walls(facts: AlertFacts) -> Iterable[Observation] | None:
    if facts.walls is None:
        return None
    return [] if facts.walls.isolated or facts.is_open_by_choice else [Observation()]


def _find_backups(facts: AlertFacts) -> Iterable[Observation] | None:
    if facts.unproven_days is None:
        return None
    is_late = 0 < facts.backup_days <= facts.unproven_days
    return [Observation(detail=str(facts.unproven_days))] if is_late else []


def _find_failing(facts: AlertFacts) -> Iterable[Observation] | None:
    return None if facts.failing is None else map(Observation, facts.failing)


def _find_spent(facts: AlertFacts) -> Iterable[Observation] | None:
    return None if facts.spent is None else map(Observation, facts.spent)


def _find_tokens(facts: AlertFacts) -> Iterable[Observation] | None:
    return None if facts.tokens is None else list(_list_ending(facts.tokens, facts.now))


def _find_certificates(facts: AlertFacts) -> Iterable[Observation] | None:
    return None if facts.certificates is None else list(_list_ending(facts.certificates, facts.now))


def _list_ending(found: Iterable[Expiry], now: int) -> Iterable[Observation]:
    """One that ended is told of for a while: then somebody has let it go."""
    for each in found:
        if now - SOON < each.ends_at < now + SOON:
            yield Observation(each.name, (iso(each.ends_at) or "")[:10])


def _find_gone(facts: AlertFacts) -> Iterable[Observation] | None:
    return None if facts.gone is None else map(Observation, facts.gone)


def _find_uncertain(facts: AlertFacts) -> Iterable[Observation] | None:
    if facts.uncertain is None:
        return None
    return [Observation(detail=str(facts.uncertain))] if facts.uncertain else []


def _find_faults(facts: AlertFacts) -> Iterable[Observation] | None:
    if facts.findings is None:
        return None
    failed = {each.subject for each in facts.findings if each.level == "fail"}
    return [Observation(each) for each in sorted(failed - OWN_SUBJECTS)]


def _find_store(facts: AlertFacts) -> Iterable[Observation] | None:
    if facts.store_troubles is None:
        return None
    troubles = [each for each in facts.store_troubles if each != DISK_FULL]
    return [Observation(_name_trouble(each), _CLAUSE.split(each)[0]) for each in troubles]


def _name_trouble(trouble: str) -> str:
    return "read_only" if trouble == READ_ONLY else "damaged" if "damaged" in trouble else "lost"


_LOOK = "Health below System says what helps."
CONDITIONS: Mapping[str, Condition] = {
    each.key: each
    for each in (
        Condition(
            key="store",
            severity=Severity.SEVERE,
            sentence="The store of this gateway is not well ({detail}).",
            cure="What happens now may get lost, so look at Health below System.",
            over="The store is well again.",
            page="/doctor",
            command="gatepost doctor",
            find=_find_store,
            hold_s=0.0,
            is_local=True,
        ),
        Condition(
            key="disk_full",
            family="disk",
            severity=Severity.SEVERE,
            sentence="The disk is full.",
            cure="Until somebody removes something, messages wait.",
            over="The disk is not full any more.",
            page="/doctor",
            command="gatepost doctor",
            find=_find_full_disk,
            hold_s=0.0,
            is_local=True,
        ),
        Condition(
            key="walls",
            severity=Severity.SEVERE,
            sentence="Agents cannot be kept apart from this machine.",
            cure=_LOOK,
            over="Agents have walls again.",
            page="/doctor",
            command="gatepost doctor",
            find=_find_walls,
            is_local=True,
        ),
        Condition(
            key="gateway",
            severity=Severity.SEVERE,
            sentence="The gateway {subject} is gone.",
            cure="Others do its work until you start it again, or forget it under Gateways.",
            over="The gateway {subject} is back, or forgotten.",
            page="/gateways",
            command="gatepost gateway forget {subject}",
            find=_find_gone,
            hold_s=MINUTE_S,  # a restart is shorter
        ),
        Condition(
            key="channel_refused",
            family="channel",
            severity=Severity.NORMAL,
            sentence="The platform of the channel {subject} does not accept its key any more.",
            cure="Give it a new one under Channels.",
            over="The channel {subject} has a key that is accepted.",
            page="/channels",
            command="gatepost channel test {subject}",
            find=_find_refused,
        ),
        Condition(
            key="channel_ended",
            family="channel",
            severity=Severity.NORMAL,
            sentence="The channel {subject} has stopped, and does not start again by itself.",
            cure="Channels says what is missing.",
            over="The channel {subject} runs again.",
            page="/channels",
            command="gatepost channel test {subject}",
            find=_find_ended,
        ),
        Condition(
            key="channel_deaf",
            family="channel",
            severity=Severity.NORMAL,
            sentence="The channel {subject} receives nothing.",
            cure="It is started again and again, and Channels says what is known.",
            over="The channel {subject} receives again.",
            page="/channels",
            command="gatepost channel logs {subject}",
            find=_find_deaf,
        ),
        Condition(
            key="backup",
            severity=Severity.NORMAL,
            sentence="No backup was proven for {detail} days.",
            cure="Make one under Backups, and keep it elsewhere.",
            over="There is a proven backup again.",
            page="/backups",
            command="gatepost backup create --prove",
            find=_find_backups,
            mend=Mend("backup.create", "Back up now"),
        ),
        Condition(
            key="disk_low",
            family="disk",
            severity=Severity.NORMAL,
            sentence="The disk is nearly full, with {detail} left.",
            cure="Remove what nobody needs, or give it more.",
            over="The disk has space again.",
            page="/doctor",
            command="gatepost doctor",
            find=_find_low_disk,
            is_local=True,
        ),
        Condition(
            key="budget",
            severity=Severity.NORMAL,
            sentence="The budget of {subject} is spent.",
            general="The budget of the whole gateway is spent.",
            cure="Agents wait until there is more or the next period begins, and Costs has the limits.",
            over="The budget of {subject} has room again.",
            general_over="The budget of the whole gateway has room again.",
            page="/costs",
            command="gatepost budget show",
            find=_find_spent,
        ),
        Condition(
            key="agent",
            severity=Severity.NORMAL,
            sentence="Nothing is answered by {subject} any more, because it fails.",
            cure="Its page shows what it could not answer, and why.",
            over="The agent {subject} does not fail any more.",
            page="/groups/{subject}",
            command="gatepost group show {subject}",
            find=_find_failing,
        ),
        Condition(
            key="uncertain",
            severity=Severity.NORMAL,
            sentence="Of the last day, {detail} messages may not have arrived.",
            cure="Activity shows them, and what surely did not arrive can be sent again.",
            over="For a day, every message has surely arrived.",
            page="/ledger",
            command="gatepost ledger list --state uncertain",
            find=_find_uncertain,
        ),
        Condition(
            key="token",
            severity=Severity.NORMAL,
            sentence="On {detail} a key ends by which a program uses this gateway.",
            cure="Make a new one below API, and give it to the program.",
            over="A key that was about to end was ended or let go.",
            page="/api",
            command="gatepost token api list",
            find=_find_tokens,
        ),
        Condition(
            key="certificate",
            severity=Severity.NORMAL,
            sentence="On {detail} the certificate ends that the channel {subject} trusts.",
            cure="Put the new one in its place before then.",
            over="The channel {subject} trusts a certificate that lasts.",
            page="/channels",
            find=_find_certificates,
            is_local=True,
        ),
        Condition(
            key="doctor",
            severity=Severity.NORMAL,
            sentence="Health found something at fault with {subject}, which needs a look.",
            cure=_LOOK,
            over="What Health found with {subject} is mended.",
            page="/doctor",
            command="gatepost doctor",
            find=_find_faults,
            is_local=True,
        ),
    )
}


class SeenConditions(Struct, frozen=True):
    """`looked`: the conditions that were looked at; of the others nothing is known. `beyond`: found, too, and too many
    for an alert each: they begin none, and are not over."""

    found: Mapping[AlertKey, str]  # with the detail
    looked: frozenset[str]
    beyond: frozenset[AlertKey] = frozenset()


def find_conditions(facts: AlertFacts, wanted: Iterable[Condition], gateway: str = "") -> SeenConditions:
    """`gateway`: this one, if several share the store. Each condition counts for a bounded number of subjects, and
    those of one world hide no other world's."""
    found, looked, beyond = dict[AlertKey, str](), set[str](), set[AlertKey]()
    for condition in wanted:
        observed = condition.find(facts)
        if observed is None:
            continue
        looked.add(condition.key)
        where = gateway if condition.is_local else ""
        keys = {
            AlertKey(condition.key, each.subject[:LONGEST_SUBJECT], where): each.detail for each in _share_out(observed)
        }
        found |= dict(list(keys.items())[:MOST_SUBJECTS])
        beyond |= set(list(keys)[MOST_SUBJECTS:])
    return SeenConditions(found, frozenset(looked), frozenset(beyond))


def _share_out(observed: Iterable[Observation]) -> list[Observation]:
    """Return the first of each world, then the second of each, and so on."""
    counts, ranked = Counter[str](), list[tuple[int, Observation]]()
    for each in sorted(observed, key=lambda each: each.subject):
        world = each.subject.partition("/")[0]
        ranked.append((counts[world], each))
        counts[world] += 1
    return [each for _, each in sorted(ranked, key=lambda pair: pair[0])]


def render_alert(alert: Alert) -> str:
    """Return what is not well, in one sentence."""
    condition = CONDITIONS.get(alert.condition)
    if condition is None:
        return ""
    return _fill(condition.sentence if alert.subject or not condition.general else condition.general, alert)


def render_begin(alert: Alert) -> str:
    """Return the message that begins it."""
    condition = CONDITIONS.get(alert.condition)
    return f"{render_alert(alert)} {condition.cure}" if condition is not None else ""


def render_command(alert: Alert) -> str:
    """Return the command that does or shows what helps, to be copied; '' if there is none."""
    condition = CONDITIONS.get(alert.condition)
    return condition.command.format(subject=shlex.quote(alert.subject)) if condition is not None else ""


def render_over(alert: Alert) -> str:
    """Return the message that ends it; if nobody could be told before, all of it."""
    condition = CONDITIONS.get(alert.condition)
    if condition is None:
        return ""
    if alert.told_at is None:
        minutes = max(((alert.cleared_at or alert.since) - alert.since) // MINUTE, 1)
        lasted = f"That lasted {minutes} minute{'' if minutes == 1 else 's'} and is over."
        return " ".join([render_alert(alert), lasted, "Nobody could be told before."])
    text = condition.over if alert.subject or not condition.general_over else condition.general_over
    return _fill(text, alert)


def _fill(text: str, alert: Alert) -> str:
    filled = text.format(subject=alert.subject, detail=alert.detail)
    return f"{alert.gateway}: {filled}" if alert.gateway else filled


def is_severe(alert: Alert) -> bool:
    condition = CONDITIONS.get(alert.condition)
    return condition is not None and condition.severity is Severity.SEVERE


def get_family(key: AlertKey) -> AlertKey:
    """Return what conditions of which one takes another's place have in common."""
    condition = CONDITIONS.get(key.condition)
    family = condition.family if condition is not None else ""
    return AlertKey(family or key.condition, key.subject, key.gateway)


def get_hold(alert: Alert) -> int:
    """Return for how many microseconds it has to last before it is told."""
    condition = CONDITIONS.get(alert.condition)
    return int(condition.hold_s * SECOND) if condition is not None else 0
