"""Operations are complete on every surface: what is declared once is there for the command line, the API and the
docs."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest

from gatepost.core.registry import Registry
from gatepost.serve.control import contract
from gatepost.serve.control.contract import OPERATIONS, Operation, OperationDeps
from gatepost.serve.control.declaration import OperationArgs, declares, list_declarations, list_fields, option
from gatepost.serve.control.openapi import make_openapi

ROOT = Path(__file__).resolve().parent.parent


def load_printer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("print_docs", ROOT / "scripts" / "print_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.declarations.load_package()
    return module


def find_gaps(operations: Registry[Operation], commands: set[str], document: dict[str, Any], page: str) -> list[str]:
    """What an operation lacks on one of its surfaces. `commands`: the operations that have a command, or a reason to
    have none."""
    gaps = []
    for name, each in operations.items():
        missing = {
            "a right": each.info.right,
            "a summary": each.summary,
            "a result type": each.result not in (dict, Any, None),
            "an entry in OpenAPI": f"/v1/ops/{name}" in document["paths"],
            "a section in the reference": f"\n### {name}\n" in page,
            "a command": name in commands,
        }
        missing |= {f"a description of {field.name}": field.description for field in list_fields(each.args)}
        gaps += [f"{name} has not {what}" for what, there in missing.items() if not there]
    return gaps


@pytest.fixture(scope="module")
def printer() -> ModuleType:
    return load_printer()


def test_every_operation_is_complete_on_every_surface(printer: ModuleType) -> None:
    commands = set(printer.find_commands()) | set(printer.WITHOUT_COMMAND)
    page = (ROOT / "docs" / "operations-reference.md").read_text(encoding="utf-8")
    document = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))

    assert len(OPERATIONS) > 60
    assert find_gaps(OPERATIONS, commands, document, page) == []
    assert commands - {*OPERATIONS} == set(), "a command is named for an operation that is gone"


def test_every_declaration_has_a_function_and_its_module_is_named_alike() -> None:
    load_printer()
    declared = {each.info.name: each.__module__ for each in list_declarations()}

    assert declared.keys() == {*OPERATIONS}
    wrong = {name for name in declared if OPERATIONS.origin(name) != declared[name].replace("arguments", "operations")}
    assert wrong == set(), "a command imports the function from there"


def test_an_operation_that_lacks_something_is_found() -> None:
    planted: Registry[Operation] = Registry("operation")

    @declares("plant.grow", right="")
    class GrowArgs(OperationArgs, frozen=True):
        pot: str
        water: Annotated[int, option("How much.")] = 1

    async def grow(deps: OperationDeps, args: GrowArgs) -> None: ...

    grow.__annotations__["args"] = GrowArgs
    contract.operation(grow, planted)

    assert find_gaps(planted, set(), make_openapi(Registry("operation")), "") == [
        "plant.grow has not a right",
        "plant.grow has not a summary",
        "plant.grow has not a result type",
        "plant.grow has not an entry in OpenAPI",
        "plant.grow has not a section in the reference",
        "plant.grow has not a command",
        "plant.grow has not a description of pot",
    ]
