"""The cheaper model that a card about money offers. It is of the same provider at the same endpoint, and its price is
known. It costs half of what the conversation's model does, at most."""

from collections.abc import Sequence

from gatepost.core import log, settings
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.egress.endpoints import own_bases
from gatepost.egress.prices import FILE, Price, PriceList
from gatepost.flow.requests.ask_approver import CheaperModel
from gatepost.flow.requests.choices import LONGEST_GROUP
from gatepost.flow.sessions.sandbox import effective_group
from gatepost.flow.sessions.sandbox.effective_group import ProviderChoices
from gatepost.store.money import costs
from gatepost.store.port import Db
from gatepost.store.sessions import groups
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.sessions import Session

OWN_BASE = "base_url"  # the option of a provider that asks its endpoint past the gateway's
MILLION = 1_000_000
_log = log.get("requests")


class CheaperModels:
    """Reads prices and providers when a card is made, which is seldom: once for a budget and its period."""

    def __init__(self, home: Home, config: Config) -> None:
        self._home, self._config = home, config

    def find(self, db: Db, folder: str, session: Session | None) -> CheaperModel | None:
        """Return what a conversation of a group could go on with; None: nothing is known to cost less. `session`: None
        for a conversation that has not begun."""
        group = effective_group.load_effective_group(db, self._config, folder, session.provider if session else "")
        if group is None:
            return None
        try:
            choices = effective_group.read_choices(self._home, self._config)
            prices = PriceList(self._home, settings.load_declared(self._home.path, FILE))
            used = costs.list_models(db, session.id) if session is not None else ()
            names = list_offered(db, choices, group, used)
        except GatepostError as error:  # a file of the operator's is broken: the card offers money alone
            _log.warning("providers and models cannot be read", error=str(error))
            return None
        spec = choices.specs.get(group.provider)
        usual = group.model or (spec.model if spec is not None else "")
        now = (session.model if session is not None else "") or usual or next(iter(used), "")
        known = prices(now) if now else None
        if spec is None or known is None:
            return None
        vendor = effective_group.vendor_of(now, spec.vendor)
        fit = [each for each in names if each != now and effective_group.vendor_of(each, spec.vendor) == vendor]
        return choose_cheaper(now, known, {each: price for each in fit if (price := prices(each)) is not None})


def list_offered(db: Db, choices: ProviderChoices, group: Group, used: Sequence[str]) -> list[str]:
    """Return the models that a conversation of this group may have. An endpoint that is not the vendor's own is known
    to have only those that the group names, or that the conversation has used."""
    names = effective_group.list_models(choices, group)
    spec = choices.specs.get(group.provider)
    if spec is None or not spec.vendor or spec.command_options:  # a program of one's own has models of its own
        return []
    own = own_bases([group.options, *(each.options for each in groups.list_ancestors(db, group.folder))])
    base = own.get(spec.vendor) or choices.bases.get(spec.vendor)
    if base is not None and base.default and not group.options.get(OWN_BASE):
        return names
    named = effective_group.read_names(group.options.get(effective_group.MODELS_OPTION)) or frozenset()
    return [each for each in names if each in named or each in used]


def choose_cheaper(now: str, price: Price, others: dict[str, Price]) -> CheaperModel | None:
    """Return the dearest of those that cost at most half, in and out; of several the last in the list."""
    found: CheaperModel | None = None
    most = 0
    for name, other in others.items():
        share = max(_divide(other.input, price.input), _divide(other.output, price.output))
        if len(name) <= LONGEST_GROUP and share <= MILLION // 2 and (found is None or share >= most):
            found, most = CheaperModel(name, now, -(-share * 100 // MILLION)), share
    return found


def _divide(other: int, own: int) -> int:
    """Return millionths, rounded up."""
    return -(-other * MILLION // own) if own else 2 * MILLION  # nothing is cheaper than what costs nothing
