"""One message, asked of the routes in several ways: as it is, as if somebody spoke to the agent, or for the way to one
group. Pure. All ways of asking share one effort."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from gatepost.access.tiers import covers
from gatepost.core.errors import Invalid
from gatepost.core.records import replace
from gatepost.flow.intake import route_targets, routing
from gatepost.flow.intake.routing import MatchInput, RouteChoice, RouteDecision, Waiver
from gatepost.messages.inbound import Verb
from gatepost.store.routes import Route


class RouteQuestion(Struct, frozen=True):
    """`exists`: whether there is a group of that folder."""

    routes: Sequence[Route]
    facts: MatchInput
    exists: Callable[[str], bool]

    def decide(self) -> RouteDecision:
        """Return who gets it as it is."""
        return routing.decide(self.routes, self.facts, self.exists)

    def list_addressed(self) -> tuple[RouteChoice, ...]:
        """Return who is woken by it as a mention."""
        return _list_woken(self._decide_mention(_waive_nothing))

    def list_woken_plainly(self) -> tuple[RouteChoice, ...]:
        """Return who is woken by other words of the same sender here that speak to nobody."""
        plain = replace(self.facts, verb=Verb.MESSAGE, text="")
        return _list_woken(routing.decide(self.routes, plain, self.exists))

    def find_way(self, folder: str, route_id: int | None = None) -> RouteChoice | None:
        """How this sender reaches a group from here, if routes lead to it or above it for whoever speaks to it by a
        verb or by words. `route_id`: by this route alone."""
        if route_id is not None:
            found = self._decide_mention(lambda route: route.id == route_id)
            return self._find_nearest([each for each in _list_woken(found) if each.route.id == route_id], folder)
        way = self._find_nearest(self.list_addressed(), folder)
        return way or self._find_nearest(
            _list_woken(self._decide_mention(lambda route: _is_way_to(route, folder))), folder
        )

    def _decide_mention(self, waives: Waiver) -> RouteDecision:
        return routing.decide(self.routes, replace(self.facts, verb=Verb.MENTION), self.exists, waives)

    def _find_nearest(self, chosen: Sequence[RouteChoice], folder: str) -> RouteChoice | None:
        """To the group itself, else from one above it."""
        near = [each for each in chosen if covers(each.folder, folder)]
        found = next((each for each in near if each.folder == folder), near[0] if near else None)
        if found is None or found.folder == folder:
            return found
        return replace(found, folder=folder, via=found.folder) if self.exists(folder) else None


def _waive_nothing(route: Route) -> bool:
    return False


def _list_woken(decision: RouteDecision) -> tuple[RouteChoice, ...]:
    return tuple(each for each in decision.chosen if not each.observe)


def _is_way_to(route: Route, folder: str) -> bool:
    try:
        target = route_targets.parse(route.target)
    except Invalid:
        return False
    if target.drops or target.observe:
        return False
    return covers(route_targets.parent_of(target), folder) if target.template else covers(target.folder, folder)
