"""The pages of the API."""

import json
from typing import Any

import pytest

from gatepost.core.registry import load_package
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.control.declaration import list_fields, list_inputs
from gatepost.serve.web.pages.people.api import render_answer, render_default, render_example, render_kind

load_package("gatepost.serve.control.operations")


@pytest.mark.parametrize("name", [name for name, _ in OPERATIONS.items()])
def test_every_operation_has_an_example_and_the_schema_of_its_answer(name: str) -> None:
    operation = OPERATIONS[name]
    body = render_example(operation).partition("-d '")[2].partition("' \\\n")[0].replace("'\\''", "'")
    assert set(json.loads(body)) == {each.name for each in list_fields(operation.args) if each.required}
    assert isinstance(json.loads(render_answer(OPERATIONS, name)), dict)


def test_an_argument_is_shown_with_its_choices_and_default() -> None:
    fields = {each.name: each for each in list_fields(OPERATIONS["cost.show"].args)}
    assert render_kind(fields["by"]) == "group, user, model, day" and render_default(fields["by"]) == '"group"'


@pytest.mark.slow
async def test_the_pages_and_the_document_are_there_for_who_is_signed_in(site: Any) -> None:
    async with site.signed_in() as browser:
        page = await browser.get("/dashboard/api")
        assert page.status_code == 200 and "/dashboard/api/task.add" in page.text and "New token" in page.text
        one = await browser.get("/dashboard/api/task.add")
        assert "op:tasks.write" in one.text and "Bearer TOKEN" in one.text
        assert (await browser.get("/dashboard/api/no.such")).status_code == 404
        assert (await browser.get("/docs")).headers["location"] == "/dashboard/api"
        document = (await browser.get("/openapi.json")).json()
        assert document["openapi"] == "3.1.0" and "/v1/ops/task.add" in document["paths"]
    async with site.browser() as stranger:
        assert (await stranger.get("/openapi.json")).status_code == 401


def test_a_setting_of_a_change_has_no_default() -> None:
    inputs = {each.name: each for each in list_inputs(OPERATIONS["group.set"].args)}
    assert {name: render_default(each) for name, each in inputs.items() if render_default(each)} == {}
