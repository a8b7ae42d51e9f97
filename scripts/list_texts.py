"""Print the texts of page, cards, notices and chat commands that a language lacks, as entries of its file.

    python scripts/list_texts.py de >> src/gatepost/core/languages/de.po
    python scripts/list_texts.py fr >  src/gatepost/core/languages/fr.po     # a new language

Texts are read from the source: a text with something put in is an entry with holes, and one with two endings is two.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from gatepost.core.languages.catalogue import FOLDER, read_po
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.web.dashboard.operation_form import make_form
from gatepost.serve.web.static_pages import list_script_texts

ROOT = Path(__file__).parent.parent / "src" / "gatepost"
PLACES = (
    "serve/web/pages/*.py",
    "serve/web/dashboard/*.py",
    "flow/notices.py",
    "flow/intake/commands/*.py",
    "flow/intake/slash_commands.py",
    "flow/requests/*.py",
    "flow/activity_words.py",
    "flow/missing_answer.py",
    "serve/control/operations/activity.py",
    "flow/schedule/spoken_times.py",
    "serve/health/*.py",
    "serve/alerts/conditions.py",
    "serve/alerts/alert_messages.py",
)
MOST_FORMS = 16  # of one text with several endings
# What looks like a text and is none, or is the same in each language: names of files and of the code, commands, words
# of the parsers.
NO_TEXTS = frozenset(
    (
        "Gatepost",
        "web:",
        "activity {caller}",
        "asks a person",
        "turn done",
        "turn failed",
        "turn interrupted",
        "give either a prompt, which",
        "budget.set none",
        "alert.mute 0",
        "say when with exactly one of",
        "whose budget? name",
        "how much? give",
        "gatepost login",
        "AGENTS.md",
        "gatepost grant allow {person} op:overview.read --scope FOLDER",
        "SKILL.md",
        "Etc/",
        "NAME=VALUE",
        "LazyRows",
        "Row | LazyRows",
        "gatepost panic --off",
        "gatepost group wake {folder}",
        "ID [JSON]",
        "ID WORDS",
        "failover {name}",
        "incarnation {now}",
        "group {folder} {now}",
        "half hour",
        "quarter of an hour",
        "day after tomorrow",
    )
)
_IN_TEMPLATE = re.compile(r'"([^"{}]+)" (?:~[^|]*)?\| tr|\("([^"]+)" if [^|]*?else "([^"]+)"\) \| tr')
_HOLE = re.compile(r"\{\w*\}")
_WORD = re.compile(r"[A-Za-z]{2}")
# What is no text for people: paths, names of the code, headers, SQL, markup, conditions of routes.
_CODE = re.compile(
    r"[/#.:<_?&\[]|[a-z_.]+[=:]|[a-z]+(_[a-z]+)+\Z|[A-Z_]+\Z|(SELECT|INSERT|UPDATE|DELETE|WHERE|ORDER|AND)\b|op:|hx-|\S+/\S+\Z|"
    r"gatepost [a-z]+ [a-z]|`gatepost channel rm \{\w+\}`\Z|chmod |pip install |set \{|gatepost doctor(\Z| --)"
    r"|[\w-]+; |private, |text/|\(\(|\^|curl |`gatepost \("
    r"|.*(\(\?|\\d|\[a-z\]|\(\[a-z)|(up active|paused queued|failed uncertain) "
)


def list_texts() -> list[str]:
    """Return all texts, each once, in the order of their files."""
    found = dict[str, None]()
    for place in PLACES:
        for path in sorted(ROOT.glob(place)):
            found |= dict.fromkeys(read_texts(path.read_text(encoding="utf-8")))
    for path in sorted(ROOT.glob("serve/web/dashboard/templates/*.html")):
        for groups in _IN_TEMPLATE.findall(path.read_text(encoding="utf-8")):
            found |= dict.fromkeys(each for each in groups if each)
    for path in sorted(ROOT.rglob("*.py")):
        if path.relative_to(ROOT).parts[0] != "cli":
            found |= dict.fromkeys(read_columns(path.read_text(encoding="utf-8")))
    return [*(found | dict.fromkeys(_list_forms()) | dict.fromkeys(list_script_texts()))]


def _list_forms() -> Iterator[str]:
    """Yield the texts of the dialogs, which come from the declarations of operations."""
    for _, operation in OPERATIONS.items():  # noqa: PERF102  it is no dict
        form = make_form(operation, {})
        texts = [form.title, form.submit, *form.help.split("\n\n"), operation.summary]
        for each in form.inputs:
            texts += [each.label, each.description, *each.shown]
        yield from (" ".join(each.split()) for each in texts if _WORD.search(each))


def read_columns(source: str) -> Iterator[str]:
    """Yield what notes on fields say on a page: `shown("TITLE", word="…", empty="…")`."""
    if "shown(" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "shown":
            said = [*node.args[:1], *(each.value for each in node.keywords if each.arg in ("word", "empty"))]
            texts = (each.value for each in said if isinstance(each, ast.Constant) and isinstance(each.value, str))
            yield from (each for each in texts if _WORD.search(each) and each not in NO_TEXTS and not _CODE.match(each))


def read_texts(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    left_out = {id(each) for each in _list_left_out(tree)}
    for node in ast.walk(tree):
        if id(node) in left_out or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        for text in _read_forms(node):
            if _is_text(text):
                yield " ".join(text.split())


def _list_left_out(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield docstrings, parts of texts, and what is said to developers and to the log."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield from (each for each in ast.walk(node) if each is not node)
        elif isinstance(node, ast.Subscript | ast.Compare) or _is_for_developers(node):
            yield from ast.walk(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.arg):  # a type may be named in quotes
            kind = node.annotation if isinstance(node, ast.arg) else node.returns
            yield from ast.walk(kind) if kind is not None else ()


def _is_for_developers(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("_log.", "setting"))


def _is_text(text: str) -> bool:
    words = text.strip()
    return (
        bool(_WORD.search(_HOLE.sub("", words)))
        and (" " in words or words[0].isupper())
        and words not in NO_TEXTS
        and not _CODE.match(words)
    )


def _read_forms(node: ast.expr) -> list[str]:
    """Return a text in each of its forms; what is put in becomes a hole."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if not isinstance(node, ast.JoinedStr):
        return []
    parts, names = list[list[str]](), list[str]()
    for each in node.values:
        if isinstance(each, ast.Constant):
            parts.append([str(each.value)])
        elif isinstance(each, ast.FormattedValue) and isinstance(each.value, ast.IfExp):
            parts.append(_read_choice(each.value, names))
        elif isinstance(each, ast.FormattedValue):
            parts.append([_make_hole(each.value, names)])
    return ["".join(form) for form in list(product(*parts))[:MOST_FORMS]]


def _read_choice(choice: ast.IfExp, names: list[str]) -> list[str]:
    forms = list[str]()
    for branch in (choice.body, choice.orelse):
        forms += _read_forms(branch) or [_make_hole(branch, names)]
    return forms


def _make_hole(value: ast.expr, names: list[str]) -> str:
    """Name a hole as the value is named; a second one of that name has a letter more."""
    found = re.findall(r"[a-z]+", ast.unparse(value).partition("(")[2] or ast.unparse(value)) or ["x"]
    name = found[-1]
    while name in names:
        name += "_"
    names.append(name)
    return f"{{{name}}}"


def list_missing(language: str) -> list[str]:
    path = FOLDER / f"{language}.po"
    known = read_po(path.read_text(encoding="utf-8"), path.name) if path.exists() else {}
    return [each for each in list_texts() if each not in known]


def main() -> None:
    for text in list_missing(sys.argv[1]):
        print(f'\nmsgid {json.dumps(text, ensure_ascii=False)}\nmsgstr ""')


if __name__ == "__main__":
    main()
