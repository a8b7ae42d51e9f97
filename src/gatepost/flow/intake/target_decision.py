"""Targets of a message, and by what they were decided. Pure. The first of these that leads anywhere counts:

1. a reply to an agent's message: the group that wrote it;
2. `@child` before the text: that child of the group which gets it;
3. what the sender chose before (`@group` alone): that group;
4. groups that are engaged there, for what speaks to nobody;
5. routes.

The first three are what somebody says; only then comes what follows from what was said before. Each leads only where
the routes let this sender reach, and none makes a turn of what routes only let a group observe.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gatepost.access.tiers import ROOT_FOLDER, covers
from gatepost.core.errors import Invalid
from gatepost.core.late_pattern import late_pattern
from gatepost.flow.intake.message_outcome import DecidedBy
from gatepost.flow.intake.routing import (
    MatchInput,
    RouteChoice,
    RouteDecision,
    RouteTable,
    find_target_parent,
    needs_words,
    parse_target,
)
from gatepost.flow.intake.slash_commands import skip_own_mention
from gatepost.messages.inbound import Verb
from gatepost.store.rooms.engagements import Engagement, StickyChoice
from gatepost.store.rooms.routes import Route

PLAIN = frozenset((Verb.MESSAGE, Verb.REPLY, Verb.COMMENT))  # what speaks to nobody by itself

_START = late_pattern(r"\s*[@#<\[]")
_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_-])?"
_GROUP = late_pattern(rf"@((?:{_NAME})(?:/{_NAME}){{0,8}})?(?:\s+|\Z)")
_TOPIC = late_pattern(r"#([A-Za-z][A-Za-z0-9_-]{0,63})?(?:\s+|\Z)")  # `#1` is a number


class TextAddress(Struct, frozen=True):
    """Whom a text names at its start, by `@group` and `#topic`. Alone they are kept for what follows; before other
    words they hold for that message. It is not known here whether there is such a group.

    `group`, `topic`: None if it names none, '' for the sign alone. `rest`: what follows them.
    """

    group: str | None = None
    topic: str | None = None
    rest: str = ""


def parse_address(text: str, own_names: frozenset[str] = frozenset()) -> TextAddress | None:
    """Return whom a text names; None for nobody. `own_names`: what we are called on the platform, in lower case; such
    a mention may stand before the rest."""
    if _START.match(text) is None:
        return None  # as mostly: a text begins with a letter
    start = skip_own_mention(text, own_names)
    if text[start : start + 1] not in ("@", "#"):
        return None
    group = _GROUP.match(text, start)
    if group is not None:
        if (group[1] or "").lower() in own_names:
            return None  # we are called, and nothing else
        start = group.end()
    topic = _TOPIC.match(text, start)
    found = TextAddress(
        group=group and (group[1] or ""), topic=topic and (topic[1] or ""), rest=text[topic.end() if topic else start :]
    )
    return found if _is_meant(found) else None


def _is_meant(found: TextAddress) -> bool:
    """Return True if what was found names somebody. A sign without a name, and a group with its whole path, do so alone
    only."""
    if found.group is None and found.topic is None:
        return False
    if not found.rest:
        return found.group is None or found.topic is None or bool(found.group and found.topic)
    return found.group != "" and found.topic != "" and "/" not in (found.group or "")


class RouteQuestion(Struct, frozen=True):
    """One message, asked of the routes in several ways: as it is, as if somebody spoke to the agent, or for the way to
    one group. All ways of asking share one effort. `exists`: whether there is a group of that folder."""

    table: RouteTable
    facts: MatchInput
    exists: Callable[[str], bool]

    def decide(self) -> RouteDecision:
        """Return who gets it as it is."""
        return self.table.decide(self.facts, self.exists)

    def list_addressed(self) -> tuple[RouteChoice, ...]:
        """Return who is woken by it as a mention."""
        return _list_woken(self._decide_mention())

    def list_woken_plainly(self) -> tuple[RouteChoice, ...]:
        """Return who is woken by other words of the same sender here that speak to nobody."""
        plain = replace(self.facts, verb=Verb.MESSAGE, text="")
        return _list_woken(self.table.decide(plain, self.exists))

    def find_way(self, folder: str, route_id: int | None = None) -> RouteChoice | None:
        """Return how this sender reaches a group from here; None if no route leads to it, or above it, for whoever
        speaks to it by a verb or by words. `route_id`: by this route alone."""
        if route_id is not None:
            found = self._decide_mention(lambda route: route.id == route_id)
            return self._find_nearest([each for each in _list_woken(found) if each.route.id == route_id], folder)
        way = self._find_nearest(self.list_addressed(), folder)
        return way or self._find_nearest(
            _list_woken(self._decide_mention(lambda route: _is_way_to(route, folder))), folder
        )

    def _decide_mention(self, waives: Callable[[Route], bool] = lambda route: False) -> RouteDecision:
        return self.table.decide(replace(self.facts, verb=Verb.MENTION), self.exists, waives)

    def _find_nearest(self, chosen: Sequence[RouteChoice], folder: str) -> RouteChoice | None:
        """Return the way to the group itself, else from one above it."""
        near = [each for each in chosen if covers(each.folder, folder)]
        found = next((each for each in near if each.folder == folder), near[0] if near else None)
        if found is None or found.folder == folder:
            return found
        return replace(found, folder=folder, via=found.folder) if self.exists(folder) else None


def _list_woken(decision: RouteDecision) -> tuple[RouteChoice, ...]:
    return tuple(each for each in decision.chosen if not each.observe)


def _is_way_to(route: Route, folder: str) -> bool:
    try:
        target = parse_target(route.target)
    except Invalid:
        return False
    if target.drops or target.observe:
        return False
    return covers(find_target_parent(target), folder) if target.template else covers(target.folder, folder)


class Spoken(Struct, frozen=True):
    """Facts of a message besides what routes ask."""

    parent: str = ""  # the group whose words it replies or reacts to
    address: TextAddress | None = None
    choice: StickyChoice | None = None  # of the sender, there
    engaged: tuple[Engagement, ...] = ()  # there, now
    plain: bool = False  # it speaks to nobody by its verb
    can_engage: bool = False  # a person wrote it, and it is no command: whom it speaks to stays in the conversation


class ChoiceChange(Struct, frozen=True):
    """The sender's choice for what follows; None: that stays as it was, '': as routes say."""

    folder: str | None = None
    topic: str | None = None


class TargetDecision(Struct, frozen=True):
    decision: RouteDecision
    by: DecidedBy = DecidedBy.ROUTE
    rest: str | None = None  # what the agent is given in the place of the text
    change: ChoiceChange | None = None


def decide_target(question: RouteQuestion, spoken: Spoken) -> TargetDecision:
    routed = question.decide()
    names_somebody = bool(spoken.parent) or spoken.address is not None or spoken.choice is not None
    found: TargetDecision | None = None
    if names_somebody:
        change = _find_change(question, spoken)
        if change is not None:
            return change
        found = _find_addressed(question, spoken, routed) or _find_chosen(question, spoken, routed)
    if found is None and spoken.plain and spoken.engaged:
        engaged = _apply_engagements(question, routed, spoken.engaged)
        found = TargetDecision(engaged, DecidedBy.ENGAGEMENT) if engaged is not None else None
    found = found or TargetDecision(routed)
    return _apply_topic(question, spoken, found) if names_somebody else found


def _find_addressed(question: RouteQuestion, spoken: Spoken, routed: RouteDecision) -> TargetDecision | None:
    """Return the group that the message itself is for."""
    if spoken.parent and (way := question.find_way(spoken.parent)) is not None:
        return TargetDecision(_narrow(routed, way), DecidedBy.REPLY)
    address = spoken.address
    if address is None or not address.group or not address.rest:
        return None
    child = _find_child(question, address.group)
    return TargetDecision(_narrow(routed, child), DecidedBy.CHILD, address.rest) if child is not None else None


def _find_chosen(question: RouteQuestion, spoken: Spoken, routed: RouteDecision) -> TargetDecision | None:
    if spoken.choice is None or not spoken.choice.folder:
        return None
    way = question.find_way(spoken.choice.folder)
    return TargetDecision(_narrow(routed, way), DecidedBy.CHOICE) if way is not None else None


def _find_child(question: RouteQuestion, name: str) -> RouteChoice | None:
    for each in question.list_addressed():
        folder = name if each.folder == ROOT_FOLDER else f"{each.folder}/{name}"
        if question.exists(folder):
            return replace(each, folder=folder, via=each.folder)
    return None


def _narrow(routed: RouteDecision, way: RouteChoice) -> RouteDecision:
    """Narrow a decision to one group. Groups that observe the room still do."""
    observing = [each for each in routed.chosen if each.observe and each.folder != way.folder]
    return RouteDecision((way, *observing))


def _apply_topic(question: RouteQuestion, spoken: Spoken, found: TargetDecision) -> TargetDecision:
    """Return what the sender says of the topic, where a route says nothing of it and somebody is woken."""
    address, decision = spoken.address, found.decision
    inline = address.topic if address is not None and address.rest else None
    if inline and address is not None and address.group and found.by is not DecidedBy.CHILD:
        inline = None  # `@nobody #topic`: all of it is text
    topic = inline or (spoken.choice.topic if spoken.choice is not None else "")
    if not topic or all(each.observe for each in decision.chosen):
        return found
    chosen = tuple(
        each if each.observe or each.topic is not None else replace(each, topic=topic) for each in decision.chosen
    )
    rest = address.rest if inline and address is not None else found.rest
    return replace(found, decision=replace(decision, chosen=chosen), rest=rest)


def _find_change(question: RouteQuestion, spoken: Spoken) -> TargetDecision | None:
    """Return what a text that is nothing but `@group` or `#topic` asks for. The groups are those whose agents it
    concerns."""
    address, choice = spoken.address, spoken.choice
    if address is None or address.rest or spoken.parent:
        return None
    addressed = question.list_addressed()
    if address.group:
        way = _find_child(question, address.group) or question.find_way(address.group)
        change = ChoiceChange(folder=way.folder, topic=address.topic) if way is not None else None
        return _make_change((way,), change) if way is not None and change is not None else None
    if address.topic:
        woken = tuple(each for each in question.decide().chosen if not each.observe)
        return _make_change(woken, ChoiceChange(topic=address.topic)) if woken else None
    if choice is None or not (choice.folder if address.group == "" else choice.topic):
        return None
    return _make_change(addressed, ChoiceChange(folder="") if address.group == "" else ChoiceChange(topic=""))


def _make_change(concerned: tuple[RouteChoice, ...], change: ChoiceChange) -> TargetDecision:
    return TargetDecision(RouteDecision(concerned), DecidedBy.CHOICE, change=change)


def _apply_engagements(
    question: RouteQuestion, routed: RouteDecision, engaged: Sequence[Engagement]
) -> RouteDecision | None:
    """Return who gets a message that speaks to nobody while these are engaged; None if that changes nothing. `routed`:
    who gets it otherwise. Groups that only observe still do. Another that would be woken is, if the engaged routes go
    on."""
    woken = [each for each in routed.chosen if not each.observe]
    if any(needs_words(each.route) for each in woken):
        return None  # it names somebody
    choices = [choice for each in engaged if (choice := question.find_way(each.folder, each.route_id)) is not None]
    folders = {choice.folder for choice in choices}
    if folders <= {each.folder for each in woken}:
        return None
    goes_on = all(choice.route.also for choice in choices)
    others = [each for each in routed.chosen if each.folder not in folders and (each.observe or goes_on)]
    return RouteDecision((*choices, *others))
