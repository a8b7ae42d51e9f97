"""What can be pressed on the pages of the dashboard, read from their source; and which tests press it.

An action is written `operation: label`. The name of a page is that of its file. Where a label or an operation is not
written in the source but comes from an answer, a `*` stands for it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from gatepost.serve.web import pages
from gatepost.serve.web.dashboard import hosts, permissions, sidebar
from gatepost.serve.web.pages import overview

from .source_trees import find_nodes

FLOWS = Path(__file__).parent / "flows"
OTHERS = (sidebar, permissions, hosts)
PAGES = [*sorted(Path(pages.__path__[0]).glob("*.py")), *(Path(str(each.__file__)) for each in OTHERS)]
ANY = "*"
# What the overview's cards offer comes from an operation; those that lead to a page are no buttons.
NEXT_STEPS = {label for step, (label, _) in overview.STEPS.items() if step not in overview.STEP_PAGES}
# By the call that declares an action: the arguments that name its operation and its label.
DECLARED_BY = {
    "Action": ("operation", "label"),
    "FormBlock": ("operation", "label"),
    "FormStep": ("operation", "label"),
    "ScriptForm": ("script", "submit"),
    "make_table": ("moves", ""),
}
DRAGGED = "drag"


def list_actions() -> set[tuple[str, str]]:
    """Every page with each of its actions."""
    found = {(path.stem, action) for path in PAGES for action in read_actions(path.read_text(encoding="utf-8"))}
    steps = {("overview", f"{ANY}: {label}") for label in NEXT_STEPS}
    return (found - {("overview", f"{ANY}: {ANY}")}) | steps


def read_actions(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    for call in find_nodes(tree, ast.Call):
        names = DECLARED_BY.get(ast.unparse(call.func))
        given = {each.arg: each.value for each in call.keywords}
        if names is None or names[0] not in given:
            continue
        for operation in _read_texts(given[names[0]], tree):
            for label in _read_texts(given[names[1]], tree) if names[1] else (DRAGGED,):
                yield f"{operation}: {label}"


def _read_texts(value: ast.expr, tree: ast.Module) -> set[str]:
    """The texts that an expression may have: of a name, those that are assigned to it."""
    if isinstance(value, ast.Constant):
        return {str(value.value)}
    if isinstance(value, ast.IfExp):
        return _read_texts(value.body, tree) | _read_texts(value.orelse, tree)
    if isinstance(value, ast.Name):
        assigned = [each.value for each in find_nodes(tree, ast.Assign) if ast.unparse(each.targets[0]) == value.id]
        plain = [each for each in assigned if isinstance(each, ast.IfExp | ast.Constant)]
        return {text for each in plain for text in _read_texts(each, tree)} or {ANY}
    return {ANY}


def list_pressed() -> dict[tuple[str, str], list[str]]:
    """Every page and action that a test declares by `@pytest.mark.page(page, *actions)`, with those tests."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in sorted(FLOWS.glob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "pytest.mark.page(" not in text:
            continue
        for test in find_nodes(ast.parse(text), ast.AsyncFunctionDef):
            for page, action in _read_marks(test):
                found.setdefault((page, action), []).append(f"{path.name}::{test.name}")
    return found


def _read_marks(test: ast.AsyncFunctionDef) -> Iterator[tuple[str, str]]:
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.page":
            page, *actions = (ast.literal_eval(each) for each in mark.args)
            for action in actions:
                yield page, action
