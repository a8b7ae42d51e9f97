"""The refusal of an operation in the page's words: the input that it is about, and the ways out as buttons.

An error is written for every surface. In the place of a command that it names, the page has the page or the form of
that operation, if this person may open it.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from msgspec import Struct

from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused
from gatepost.core.late_pattern import late_pattern
from gatepost.core.registry import Registry
from gatepost.serve.control.contract import Operation
from gatepost.serve.control.declaration import OperationInfo, list_inputs
from gatepost.serve.web.dashboard.contract import PREFIX, Page
from gatepost.serve.web.dashboard.form_words import ERRORS, WORDS, render_label, render_title
from gatepost.serve.web.dashboard.operation_form import is_question
from gatepost.serve.web.dashboard.view import Link

MOST_WAYS = 2
_COMMAND = late_pattern(r"`gatepost ([a-z-]+) ([a-z-]+)")
_CLAUSE_END = late_pattern(r"((?<=[.!?])\s+|;\s+|:\s+(?=`gatepost ))")
_OPTION = late_pattern(r"(?<![\w-])--([a-z][a-z-]*)")
_SETTING = late_pattern(r" \([a-z_]+(?:\.[a-z_]+)+\)")
_AT_FIELD = late_pattern(r"^(?P<why>.+) - at `\$\.(?P<field>[a-z_.]+)`$")
_CAPITAL = late_pattern(r"(?<=[a-z])([A-Z])")
_VERBS = {"ls": "list"}  # commands whose operation is named otherwise


class FormRefusal(Struct, frozen=True, kw_only=True):
    """`field` '': it is about no input of the form."""

    text: str
    field: str = ""
    ways_out: tuple[Link, ...] = ()


class KnownPlaces(Struct, frozen=True, kw_only=True):
    """The places where this person may go: `pages` that they may see, and whether they may run an operation."""

    pages: Iterable[Page]
    operations: Registry[Operation]
    may: Callable[[OperationInfo], bool]


def make_refusal(
    operation: Operation | None, error: GatepostError, sent: Mapping[str, str], places: KnownPlaces
) -> FormRefusal:
    field = find_field(operation, error, sent) if operation is not None else ""
    ways_out = _list_ways_out(str(error), operation.info.name if operation else "", places)
    return FormRefusal(text=render_refusal(error, field), field=field, ways_out=ways_out)


def find_field(operation: Operation, error: GatepostError, sent: Mapping[str, str]) -> str:
    """Return the input that an error is about, '' for none. A thing that is not there is named by one of them."""
    names = [each.name for each in list_inputs(operation.args)]
    if isinstance(error, NotFound):
        return next((name for name, text in sent.items() if name in names and text.strip() == error.name), "")
    if not isinstance(error, Invalid):
        return ""
    found = _AT_FIELD.match(error.why)
    wanted = found["field"] if found else _CAPITAL.sub(r"_\1", error.target).lower().lstrip("-").replace("-", "_")
    return next((name for name in names if wanted and wanted in (name, name.rpartition(".")[2])), "")


def render_refusal(error: GatepostError, field: str = "") -> str:
    """Return an error in words for whoever reads the page: not by the name of an operation, nor of themselves. Beside
    its field it does not name that."""
    if isinstance(error, Invalid) and (own := _find_own_words(error)):
        return own
    if isinstance(error, NotFound):
        text = f"There is no {WORDS.get(error.kind, error.kind)} named “{error.name}”; {error.hint.lstrip('; ')}"
    elif isinstance(error, Invalid) and (field or "." in error.target):
        found = _AT_FIELD.match(error.why)
        text = "This does not fit here." if found else error.why
    elif type(error) is Refused and error.why:
        text = f"You may not see or do this: {error.why}"
    else:
        text = str(error)
    return render_words(text)


def _find_own_words(error: Invalid) -> str:
    return next((words for start, words in ERRORS.items() if error.why.startswith(start)), "")


def render_words(text: str) -> str:
    """Return a text without commands, with the labels of inputs in the place of options."""
    first, *further = _CLAUSE_END.split(text)
    clauses = [("", first), *zip(further[::2], further[1::2], strict=True)]
    said = "".join(end + clause for end, clause in clauses if "`gatepost " not in clause)
    said = _SETTING.sub("", said or text.partition("`gatepost ")[0])
    said = _OPTION.sub(lambda found: f"“{render_label(found[1].replace('-', '_'))}”", said).strip(" ;,")
    return f"{said[:1].upper()}{said[1:]}"


def _list_ways_out(text: str, own: str, places: KnownPlaces) -> tuple[Link, ...]:
    """Return what stands for the commands that a text names: pages that show something, forms that do something."""
    found = dict[str, Link]()
    for command in islice(_COMMAND.finditer(text), MOST_WAYS):
        name = f"{command[1]}.{_VERBS.get(command[2], command[2])}".replace("-", "_")
        if name == own or name not in places.operations:
            continue
        info = places.operations[name].info
        page = next((each for each in places.pages if each.reads[:1] == (name,)), None)
        if page is not None:
            found[name] = Link(page.title, page.href)
        elif not is_question(info) and places.may(info):
            found[name] = Link(render_title(name), f"{PREFIX}/do/{name}")
    return tuple(found.values())
