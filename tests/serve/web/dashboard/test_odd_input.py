"""Every number of every form, with what no browser would send: each says no, and none breaks."""

from typing import Any

from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.control.declaration import ArgumentField, list_fields
from gatepost.serve.web.dashboard.contract import PREFIX
from gatepost.serve.web.dashboard.operation_form import find_kind
from gatepost.serve.web.dashboard.view import InputKind

NO_NUMBERS = ("nan", "inf", "1e400", "9" * 5000)
TOO_LARGE = ("1" + "0" * 30, "-" + "9" * 25)


def fill(each: ArgumentField) -> str:
    """Something that fits an argument which must be given."""
    known = {InputKind.NUMBER: "1", InputKind.JSON: "{}", InputKind.FLAG: "on"}
    example = each.examples[0] if each.examples else "home"
    return str(each.choices[0]) if each.choices else known.get(find_kind(each), example)


def list_forms() -> list[tuple[str, dict[str, str]]]:
    found = []
    for name, operation in OPERATIONS.items():
        fields = list_fields(operation.args)
        needed = {each.name: fill(each) for each in fields if each.required}
        for each in fields:
            if find_kind(each) is InputKind.NUMBER:
                odd = NO_NUMBERS if each.kind is float else (*NO_NUMBERS, *TOO_LARGE)
                found += [(name, {**needed, each.name: value}) for value in odd]
    return found


async def test_numbers_that_no_row_and_no_timer_holds_are_refused(site: Any) -> None:
    forms = list_forms()
    assert len(forms) > 100
    async with site.signed_in() as browser:
        answers = [(form, await browser.post(f"{PREFIX}/do/{form[0]}", data=form[1])) for form in forms]
    assert [(form, answer.status_code) for form, answer in answers if answer.status_code != 400] == []
