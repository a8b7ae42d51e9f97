"""Targets of a message, and by what they were decided. Pure. The first of these that leads anywhere counts:

1. a reply to an agent's message: the group that wrote it;
2. `@child` before the text: that child of the group which gets it;
3. what the sender chose before (`@group` alone): that group;
4. groups that are engaged there, for what speaks to nobody;
5. routes.

The first three are what somebody says; only then comes what follows from what was said before. Each leads only where
the routes let this sender reach, and none makes a turn of what routes only let a group observe.
"""

from enum import StrEnum

from msgspec import Struct

from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core.records import replace
from gatepost.flow.intake.addressing import TextAddress
from gatepost.flow.intake.engagement import apply_engagements
from gatepost.flow.intake.route_question import RouteQuestion
from gatepost.flow.intake.routing import RouteChoice, RouteDecision
from gatepost.store.engagements import Engagement
from gatepost.store.sticky_choices import StickyChoice


class DecidedBy(StrEnum):
    """The reason why a message goes to its groups."""

    REPLY = "reply"
    CHILD = "child"
    CHOICE = "choice"
    ENGAGEMENT = "engagement"
    ROUTE = "route"


class Spoken(Struct, frozen=True):
    """Facts of a message besides what routes ask."""

    parent: str = ""  # the group whose words it replies or reacts to
    address: TextAddress | None = None
    choice: StickyChoice | None = None  # of the sender, there
    engaged: tuple[Engagement, ...] = ()  # there, now
    plain: bool = False  # it speaks to nobody by its verb


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
    change = _find_change(question, spoken)
    if change is not None:
        return change
    found = _find_addressed(question, spoken, routed) or _find_chosen(question, spoken, routed)
    if found is None and spoken.plain and spoken.engaged:
        engaged = apply_engagements(question, routed, spoken.engaged)
        found = TargetDecision(engaged, DecidedBy.ENGAGEMENT) if engaged is not None else None
    return _apply_topic(question, spoken, found or TargetDecision(routed))


def _find_addressed(question: RouteQuestion, spoken: Spoken, routed: RouteDecision) -> TargetDecision | None:
    """Whom the message itself is for."""
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
    """To one group. Who observes the room still does."""
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
