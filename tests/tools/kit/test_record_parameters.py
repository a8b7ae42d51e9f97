"""Parameters of tools that are fields of a record."""

import asyncio
import inspect
from typing import Annotated, Any

from msgspec import Meta, Struct

from gatepost.core.record_fields import option
from gatepost.store.schedule.tasks import TaskFields
from gatepost.tools import scheduling
from gatepost.tools.kit.record_parameters import with_fields_of


class Boat(Struct, frozen=True, kw_only=True):
    name: Annotated[str, option("How it is called.", tool="boatName")] = ""
    sails: Annotated[int, option("How many.", tool="sails")] = 2
    owner: Annotated[str, option("Whose it is.")] = ""


async def launch(call: Any, fields: dict[str, Any], *, harbour: str = "") -> object:
    return fields, harbour


def list_parameters(tool: Any) -> dict[str, Any]:
    return {name: each.default for name, each in inspect.signature(tool).parameters.items() if name != "call"}


def test_a_tool_has_the_fields_that_have_a_name_in_tools_and_gets_their_values() -> None:
    made = with_fields_of(Boat, {"name": Annotated[str, Meta(description="A name.")]})(launch)
    assert list_parameters(made) == {"boatName": "", "sails": 2, "harbour": ""}
    told = {name: each.annotation.__metadata__[-1].description for name, each in _list_own(made)}
    assert told == {"boatName": "A name.", "sails": "How many."}
    assert asyncio.run(made(None, boatName="Vega", sails=3, harbour="north")) == (  # type: ignore[arg-type]
        {"name": "Vega", "sails": 3},
        "north",
    )


def _list_own(tool: Any) -> list[tuple[str, inspect.Parameter]]:
    return [*inspect.signature(tool).parameters.items()][1:3]


def test_a_change_has_only_what_was_given() -> None:
    made = with_fields_of(Boat, {}, changes=True, without=("sails",))(launch)
    assert list_parameters(made) == {"boatName": None, "harbour": ""}
    assert asyncio.run(made(None, boatName=None)) == ({}, "")  # type: ignore[arg-type]
    assert asyncio.run(made(None, boatName="")) == ({"name": ""}, "")  # type: ignore[arg-type]


def test_a_text_is_scheduled_and_never_changed_by_an_agent() -> None:
    scheduled, updated = map(list_parameters, (scheduling.schedule_task, scheduling.update_task))
    names = {"prompt", "text", "script", "contextMode", "missed"}
    assert names <= scheduled.keys() and names & updated.keys() == names - {"text"}
    assert all(scheduled[name] == getattr(TaskFields(), name) for name in names - {"contextMode"})
