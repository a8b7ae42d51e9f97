"""Operations are complete on every surface: what is declared once is there for the command line, the API and the
docs."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest

from gatepost.access import acl, grants
from gatepost.access.operation_rights import check_scopes
from gatepost.access.tiers import check_folder
from gatepost.core import settings
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.languages.catalogue import list_languages
from gatepost.core.money import parse_usd
from gatepost.core.record_fields import option
from gatepost.core.registry import Registry
from gatepost.egress import prices, rules, secret_bindings
from gatepost.flow.group_files import check_path, check_skill_name
from gatepost.flow.intake import routing
from gatepost.flow.intake.patterns import compile_glob
from gatepost.flow.schedule.times import parse_cron, parse_interval, parse_schedule, parse_spoken_time, parse_zone
from gatepost.flow.skills.skill_sources import read_address
from gatepost.flow.web_routes import parse_hostname, parse_site_path
from gatepost.messages import address as addresses
from gatepost.serve.backups.backup_folder import find_moment
from gatepost.serve.control import contract
from gatepost.serve.control.contract import OPERATIONS, Operation, OperationDeps
from gatepost.serve.control.declaration import OperationArgs, declares, list_declarations, list_fields
from gatepost.serve.control.openapi import make_openapi
from gatepost.serve.control.operations.groups import check_link_name
from gatepost.serve.control.operations.ledger import parse_since
from gatepost.serve.control.operations.routes import parse_window
from gatepost.serve.control.operations.users import parse_who
from gatepost.store.rights.acl import AclRow
from gatepost.store.rights.secret_rows import check_name
from gatepost.store.rooms.routes import parse_ttl
from gatepost.store.sessions.sessions import MODES

ROOT = Path(__file__).resolve().parent.parent


def load_printer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("print_docs", ROOT / "scripts" / "print_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(ROOT / "scripts"))  # it imports its neighbours, as a script does
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    module.declarations.load_package()
    return module


def find_gaps(operations: Registry[Operation], commands: set[str], document: dict[str, Any], page: str) -> list[str]:
    """Return what an operation lacks on one of its surfaces. `commands`: the operations that have a command, or a
    reason to have none."""
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
    class GrowArgs(OperationArgs[Any], frozen=True):
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


def check_row(**values: str) -> None:
    if wrong := acl.find_syntax_error(AclRow(**{"id": 0, "principal": "role:ops", "action": "op:*"} | values)):
        raise Invalid(*wrong)


def check_rule(text: str) -> None:
    if wrong := grants.find_syntax_error(text):
        raise Invalid("rule", wrong)


def check_right(text: str) -> None:
    """Of a row: an operation that there is, or a tool."""
    rights = {f"op:{each.info.right}" for _, each in OPERATIONS.items()}
    if text not in rights and not text.startswith("mcp:"):
        raise Invalid("action", text)


# How each value that has an example is read, by its name or by its operation and name.
def read_backup_name(text: str) -> int:
    if (moment := find_moment(text)) == 0:
        raise ValueError(text)
    return moment


READERS: dict[str, Callable[[str], object]] = {
    "id": addresses.parse,
    "user": addresses.parse,
    "sender": addresses.parse,
    "identity": addresses.parse,
    "address": addresses.parse,
    "principal": addresses.parse,
    "role": addresses.parse,
    "daily": lambda text: text == "none" or parse_usd(text, "daily"),
    "monthly": lambda text: parse_usd(text, "monthly"),
    **dict.fromkeys(("turn", "task", "session", "max_cost"), lambda text: text == "none" or parse_usd(text, "limit")),
    "price": prices.parse_price,
    "price.set model": str,
    "folder": check_folder,
    "name": check_name,
    "instance": settings.check_name,
    "host": rules.read_pattern,
    "secret.bind host": secret_bindings.parse_binding_host,
    "secret.unbind host": secret_bindings.parse_binding_host,
    "header": secret_bindings.parse_binding_header,
    "match": lambda text: routing.check_syntax(text, "acme", MODES[0]),
    "target": lambda text: routing.check_syntax("", text, MODES[0]),
    "window": parse_window,
    "user.language language": lambda text: list_languages().index(text),
    "backup.verify file": read_backup_name,
    "connector.check name": settings.check_name,
    "connector.changes name": settings.check_name,
    "connector.accept name": settings.check_name,
    "settings.set name": settings.SETTINGS.__getitem__,
    "settings.unset name": settings.SETTINGS.__getitem__,
    **{f"skill.{each} name": check_skill_name for each in ("agree", "read_draft", "read_update", "rm", "show")},
    "skill.read source": read_address,
    "value": str,
    "path": check_path,
    "site.set path": parse_site_path,
    "site.rm path": parse_site_path,
    "redirect_to": parse_site_path,
    "hostname": lambda text: parse_hostname(text, ()),
    "group.link name": check_link_name,
    "group.unlink name": check_link_name,
    "group": check_folder,
    "rule": check_rule,
    "action": check_right,
    "scope": lambda text: check_row(scope=text),
    "params": lambda text: check_row(params=text),
    "predicate": lambda text: check_row(predicate=text),
    "arguments": json.loads,
    "message": int,
    "since": lambda text: parse_since(text, 0),
    "who": parse_who,
    "person": addresses.parse,
    "scopes": lambda text: check_scopes(json.loads(text), [each.info.right for _, each in OPERATIONS.items()]),
    "senders": compile_glob,
    "at": lambda text: parse_spoken_time(text, "UTC", 1_800_000_000_000_000),
    "when": lambda text: parse_schedule(text, "UTC", 1_800_000_000_000_000),
    "cron": lambda text: parse_cron(text, "UTC", 0),
    "every": lambda text: parse_interval(text, 0),
    "tz": parse_zone,
    "ttl": parse_ttl,
    "room": addresses.parse,
}


def find_bad_examples(operations: Registry[Operation]) -> list[str]:
    """The examples that what reads them refuses, or that nothing here reads."""
    bad = []
    for name, each in operations.items():
        for field in list_fields(each.args):
            for text in field.examples:
                try:
                    (READERS.get(f"{name} {field.name}") or READERS[field.name])(text)
                except (GatepostError, KeyError, ValueError) as error:
                    bad.append(f"{name} {field.name}: {text}: {error}")
    return bad


def test_every_example_can_be_read_and_is_on_every_surface(printer: ModuleType) -> None:
    page = (ROOT / "docs" / "operations-reference.md").read_text(encoding="utf-8")
    schemas = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))["components"]["schemas"]
    shown = [(each.args, field) for _, each in OPERATIONS.items() for field in list_fields(each.args) if field.examples]

    assert len(shown) > 30
    assert find_bad_examples(OPERATIONS) == []
    for args, field in shown:
        assert schemas[args.__name__]["properties"][field.name]["examples"] == list(field.spec.examples)
        assert all(f"`{text}`".replace("|", "\\|") in page for text in field.examples)


def test_an_example_that_cannot_be_read_is_found() -> None:
    planted: Registry[Operation] = Registry("operation")

    @declares("plant.pay", right="plants")
    class PayArgs(OperationArgs[Any], frozen=True):
        daily: Annotated[str, option("How much.", examples=("1.50", "much"))]
        soil: Annotated[str, option("What kind.", examples=("sand",))]

    async def pay(deps: OperationDeps, args: PayArgs) -> None: ...

    pay.__annotations__["args"] = PayArgs
    contract.operation(pay, planted)

    money, unknown = find_bad_examples(planted)
    assert money.startswith("plant.pay daily: much: ") and unknown.startswith("plant.pay soil: sand: ")
