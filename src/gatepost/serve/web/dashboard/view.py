"""Contents of a page, as data: a page's file decides what, a template how. No page writes HTML."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from gatepost.core.money import render_usd


class Tone(StrEnum):
    PLAIN = "plain"
    QUIET = "quiet"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


class Link(Struct, frozen=True, tag="link"):
    text: str
    href: str


class Moment(Struct, frozen=True, tag="moment"):
    """A time, as the operations give it: RFC 3339, or None. It is shown by its age, and exactly on hover."""

    at: str | None


class Badge(Struct, frozen=True, tag="badge"):
    text: str
    tone: Tone = Tone.PLAIN


class Code(Struct, frozen=True, tag="code"):
    text: str


class Prose(Struct, frozen=True, tag="prose"):
    """A text of ours, in which `…` is code."""

    text: str


class Money(Struct, frozen=True, tag="money"):
    """In millionths of a US dollar."""

    micros: int


class Share(Struct, frozen=True, tag="share"):
    """How much of something is used, as a bar with words beside it."""

    used: int
    limit: int
    text: str


Cell = str | int | None | Link | Moment | Badge | Code | Prose | Money | Share


class Action(Struct, frozen=True, kw_only=True):
    """A button that runs an operation with these arguments. `asks`: in a form for the arguments that are left, or, if
    none is, to confirm it. `start`: with these values in it, which may be changed."""

    label: str
    operation: str
    args: Mapping[str, Any] = field(default_factory=dict)
    start: Mapping[str, str] = field(default_factory=dict)
    asks: bool = False
    tone: Tone = Tone.PLAIN


class Column(Struct, frozen=True):
    """`name` is that of the exported files. `in_files`: it stands there alone."""

    name: str
    label: str
    right: bool = False
    in_files: bool = False


class Row(Struct, frozen=True, kw_only=True):
    """`key`: by which an operation knows it. `depth`: how far below the top of a tree it is."""

    cells: tuple[Cell, ...]
    actions: tuple[Action, ...] = ()
    tone: Tone = Tone.PLAIN
    key: str = ""
    depth: int = 0


class EmptyState(Struct, frozen=True, kw_only=True):
    """The words in the place of rows. It says what to do."""

    text: str
    action: Action | None = None
    command: str = ""


class TableBlock(Struct, frozen=True, kw_only=True, tag="table"):
    """`more`: the address of the next page of rows. `moves`: the operation that puts the row of the key `id` before
    that of the key `before`; rows can then be dragged."""

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    empty: EmptyState
    title: str = ""
    more: str = ""
    moves: str = ""


class Fact(Struct, frozen=True):
    label: str
    value: Cell


class Facts(Struct, frozen=True, kw_only=True, tag="facts"):
    items: list[Fact]
    title: str = ""


class Note(Struct, frozen=True, kw_only=True, tag="note"):
    """A sentence that must be seen: a finding, a warning, a result. `hint`: the way out."""

    text: str
    tone: Tone = Tone.PLAIN
    action: Action | None = None
    link: Link | None = None
    hint: str = ""


class LongText(Struct, frozen=True, kw_only=True, tag="text"):
    """Many lines as they are: a log, a file, a prompt."""

    text: str
    title: str = ""


class TimelineMoment(Struct, frozen=True, kw_only=True):
    at: str | None
    what: str
    who: str = ""
    text: str = ""
    tone: Tone = Tone.PLAIN
    link: Link | None = None


class TimelineBlock(Struct, frozen=True, kw_only=True, tag="timeline"):
    """`more`: the address of what came before. `by_day`: each day has a heading, and each entry its time of the day, by
    the reader's own clock."""

    entries: list[TimelineMoment]
    empty: str
    by_day: bool = False
    title: str = ""
    more: str = ""


class Bar(Struct, frozen=True):
    label: str
    value: int
    shown: str


class BarChart(Struct, frozen=True, kw_only=True, tag="bars"):
    """`limit`: a line across, in the unit of the values; 0: none."""

    title: str
    bars: list[Bar]
    limit: int = 0
    limit_shown: str = ""


class AgentCard(Struct, frozen=True, kw_only=True):
    """`key`: what it is known by when the page is drawn anew. `href` '': it has no page. `by`: who spoke last."""

    key: str
    title: str
    href: str
    state: Badge
    facts: list[Fact]
    by: str = ""
    last: str = ""
    last_at: str | None = None
    waits: str = ""
    trouble: str = ""
    action: Action | None = None
    link: Link | None = None  # where it can be looked at first


class AgentCards(Struct, frozen=True, kw_only=True, tag="cards"):
    """`more`: the address of the next ones."""

    cards: list[AgentCard]
    empty: EmptyState
    more: str = ""


class Tile(Struct, frozen=True, kw_only=True):
    """Something to choose."""

    title: str
    href: str
    text: str = ""
    badge: Badge | None = None


class TileBlock(Struct, frozen=True, kw_only=True, tag="tiles"):
    tiles: list[Tile]
    title: str = ""
    help: str = ""


class InputKind(StrEnum):
    TEXT = "text"
    LONG_TEXT = "long_text"
    NUMBER = "number"
    CHOICE = "choice"
    FLAG = "flag"
    LINES = "lines"  # a list of texts, one on each line
    PAIRS = "pairs"  # names with their values, one on each line
    JSON = "json"  # what has a structure of its own
    SECRET = "secret"
    FILE = "file"
    ZONE = "zone"  # a time zone
    MONEY = "money"  # an amount in USD
    MODEL = "model"
    HOST = "host"
    TOOL = "tool"


class FormInput(Struct, frozen=True, kw_only=True):
    """`preview`: the operation that says beside it, while somebody types, what would come of it. It is asked with the
    inputs of the form that `previewed` names."""

    name: str
    label: str
    kind: InputKind
    value: str = ""
    required: bool = False
    description: str = ""
    choices: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()  # how the choices are named, if not by themselves
    example: str = ""
    offered: tuple[str, ...] = ()  # what may be picked; anything else may be typed
    said: tuple[str, ...] = ()  # beside each that is offered
    least: int | None = None
    most: int | None = None
    rows: int = 3  # of a long text
    front: bool = False  # among those that are needed, though it is not
    autocomplete: str = "off"  # what a browser may fill in
    own_zone: bool = False  # the browser's, until another is named
    preview: str = ""
    previewed: tuple[str, ...] = ()

    @property
    def is_kept(self) -> bool:
        """Return True if a browser may keep what is typed. Tables of names hold keys of platforms among others."""
        return self.kind not in (InputKind.SECRET, InputKind.FILE, InputKind.PAIRS, InputKind.JSON)


class FormStep(Struct, frozen=True, kw_only=True):
    """One operation of a form that runs several. `remedies`: what to do, by the `trouble` that it answers."""

    operation: str
    label: str
    remedies: Mapping[str, str] = field(default_factory=dict)


class StepForm(Struct, frozen=True, kw_only=True, tag="steps"):
    """A form of the page's own for operations. An input named `settings.url` is the entry `url` of the argument
    `settings`. The steps run in their order, each with all inputs, until one fails; without steps the inputs become the
    page's address. `done`: where to go on. `further`: inputs that may be left alone."""

    steps: tuple[FormStep, ...]
    inputs: list[FormInput]
    submit: str
    fixed: Mapping[str, str] = field(default_factory=dict)
    further: list[FormInput] = field(default_factory=list)
    title: str = ""
    help: str = ""
    done: Link | None = None
    goes_on: bool = False  # to `done` by itself
    skip: Link | None = None


class ProgressStep(Struct, frozen=True, kw_only=True):
    label: str
    href: str
    is_current: bool
    is_done: bool


class ProgressBlock(Struct, frozen=True, kw_only=True, tag="progress"):
    """The steps of a way with several pages."""

    steps: tuple[ProgressStep, ...]


class DiffBlock(Struct, frozen=True, kw_only=True, tag="diff"):
    """Lines of a unified diff."""

    lines: list[str]
    title: str = ""


class FormBlock(Struct, frozen=True, kw_only=True, tag="form"):
    """A form on the page itself, with the inputs of an operation. `operation`: what it runs with `args`; '': it is part
    of the page's address. `clears`: it is empty again once that was done. `keeps`: what stands in it is not renewed
    when the page is; a version in the answer becomes that of the form."""

    label: str
    inputs: list[FormInput]
    operation: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    clears: bool = False
    keeps: bool = False

    @property
    def draft(self) -> str:
        """The name by which a browser keeps what was typed into a long text, of the version that it began with."""
        is_long = any(each.kind is InputKind.LONG_TEXT for each in self.inputs)
        return json.dumps([self.operation, *sorted(self.args.items())]) if self.keeps and is_long else ""


class Span(Struct, frozen=True, kw_only=True):
    """Something that took its time. `start` and `end` are in milliseconds."""

    label: str
    start: float
    end: float
    shown: str
    tone: Tone = Tone.PLAIN


class SpanBlock(Struct, frozen=True, kw_only=True, tag="spans"):
    """Bars on one axis of time, from 0 to `total` milliseconds."""

    title: str
    spans: list[Span]
    total: float


class TextPart(Struct, frozen=True):
    text: str
    changed: bool = False


class ComparedText(Struct, frozen=True, kw_only=True):
    """`about`: how it came to be."""

    title: str
    parts: list[TextPart]
    about: str = ""
    tone: Tone = Tone.PLAIN


class CompareBlock(Struct, frozen=True, kw_only=True, tag="compare"):
    """Two texts side by side; what differs is marked."""

    title: str
    left: ComparedText
    right: ComparedText


class ScriptForm(Struct, frozen=True, kw_only=True, tag="script_form"):
    """A form that a module of ours sends, because only a browser can do what it asks for. `script`: the module, one of
    our static files; it has a function `submit`."""

    script: str
    inputs: list[FormInput]
    submit: str
    title: str = ""
    help: str = ""


class ChoiceOption(Struct, frozen=True, kw_only=True):
    """`action`: chooses it; None for what is chosen already, or may not be chosen by this person."""

    label: str
    tone: Tone = Tone.PLAIN
    is_chosen: bool = False
    action: Action | None = None


class Choice(Struct, frozen=True, kw_only=True):
    """A sentence with its answers, of which one holds. `note`: why it does not hold everywhere."""

    sentence: str
    options: tuple[ChoiceOption, ...]
    hint: str = ""
    note: str = ""


class ChoiceList(Struct, frozen=True, kw_only=True, tag="choices"):
    choices: list[Choice]
    title: str = ""
    help: str = ""


class Disclosure(Struct, frozen=True, kw_only=True, tag="disclosure"):
    """Exact views that are one click deeper."""

    label: str
    blocks: list[Any]


Block = (
    TableBlock
    | Facts
    | Note
    | LongText
    | TimelineBlock
    | BarChart
    | AgentCards
    | TileBlock
    | FormBlock
    | StepForm
    | ProgressBlock
    | DiffBlock
    | CompareBlock
    | SpanBlock
    | ScriptForm
    | ChoiceList
    | Disclosure
)


class Tab(Struct, frozen=True, kw_only=True):
    label: str
    href: str
    is_current: bool = False


class Filter(Struct, frozen=True, kw_only=True):
    """A choice that is part of the page's address."""

    name: str
    label: str
    choices: tuple[tuple[str, str], ...]  # value, and how it is shown
    chosen: str


class PageView(Struct, frozen=True, kw_only=True):
    """`searches`: the page itself looks for what is typed (`q`), among more than it shows."""

    blocks: list[Block]
    title: str = ""  # '': the page's own
    lead: str = ""
    actions: tuple[Action, ...] = ()
    filters: tuple[Filter, ...] = ()
    searches: bool = False
    banner: tuple[Note, ...] = ()  # above everything else
    tabs: tuple[Tab, ...] = ()  # of the thing that it shows


def make_card_table(block: AgentCards) -> TableBlock:
    """Cards as a file has them."""
    labels = list(dict.fromkeys(fact.label for card in block.cards for fact in card.facts))
    names = ("key", "title", "state", "by", "last", "last_at", "waits", "trouble")
    rows = []
    for card in block.cards:
        facts = {fact.label: fact.value for fact in card.facts}
        own = (card.key, card.title, card.state.text, card.by, card.last, card.last_at, card.waits, card.trouble)
        rows.append(Row(cells=(*own, *(facts.get(label) for label in labels))))
    columns = (*(Column(name, name) for name in names), *(Column(label.lower(), label) for label in labels))
    return TableBlock(columns=columns, rows=rows, empty=block.empty)


def make_timeline_table(block: TimelineBlock) -> TableBlock:
    """Moments as a file has them."""
    columns = tuple(Column(name, name) for name in ("at", "what", "who", "text"))
    rows = [Row(cells=(each.at, each.what, each.who, each.text)) for each in block.entries]
    return TableBlock(columns=columns, rows=rows, empty=EmptyState(text=block.empty))


def get_plain(cell: Cell) -> str | int | None:
    """A cell without its form, as files have it."""
    match cell:
        case Moment(at=at):
            return at
        case Money(micros=micros):
            return render_usd(micros)
        case Link(text=text) | Badge(text=text) | Code(text=text) | Prose(text=text) | Share(text=text):
            return text
        case _:
            return cell


def list_shown(table: TableBlock) -> list[int]:
    """The columns that a page has room for, by their places: those with something in them. A file has all."""
    return [
        at
        for at, column in enumerate(table.columns)
        if not column.in_files and (at == 0 or any(has_content(row.cells[at]) for row in table.rows))
    ]


def has_content(cell: Cell) -> bool:
    return get_plain(cell) not in (None, "")


def find_rows(table: TableBlock, words: str) -> TableBlock:
    """The rows of a table in which each of the words stands."""
    wanted = words.casefold().split()
    if not wanted:
        return table
    kept = [row for row in table.rows if _has_words(row, wanted)]
    empty = EmptyState(text=f"Nothing here has “{words}”.")
    return TableBlock(columns=table.columns, rows=kept, empty=empty, title=table.title, moves=table.moves)


def _has_words(row: Row, wanted: list[str]) -> bool:
    said = " ".join(str(get_plain(cell) or "") for cell in row.cells).casefold()
    return all(word in said for word in wanted)
