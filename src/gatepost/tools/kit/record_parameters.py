"""Tools whose parameters are fields of a record: a further field of the record is a further parameter."""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, structs

from gatepost.core.record_fields import ArgumentSpec, get_argument_spec, split_notes
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body

Function = Callable[..., Awaitable[Any]]


def with_fields_of(
    record: type[Struct], own: Mapping[str, Any], *, changes: bool = False, without: Collection[str] = ()
) -> Callable[[Function], Function]:
    """Give a tool the fields of a record that have a name in tools, before its own keyword parameters. Each has a
    default. The tool gets the values by field, as its second parameter.

    `own`: the types of some parameters, with their words for agents. `changes`: a field that is left out, or null, is
    not among the values. `without`: fields that are no parameters."""
    fields = {
        spec.tool: field
        for field in structs.fields(record)
        if (spec := _get_spec(field)).tool and field.name not in without
    }

    def decorate(fn: Function) -> Function:
        async def run(call: ToolCall, **given: Any) -> Any:
            values = {field.name: given.pop(name) for name, field in fields.items() if name in given}
            if changes:
                values = {name: value for name, value in values.items() if value is not None}
            return await fn(call, values, **given)

        def make_parameter(name: str, field: structs.FieldInfo) -> inspect.Parameter:
            kind = own.get(field.name) or _make_kind(field)
            default = None if changes else field.default
            kind = kind | None if changes else kind
            return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)

        return with_parameters(fn, run, [make_parameter(name, field) for name, field in fields.items()])

    return decorate


def with_parameters(fn: Function, run: Function, made: Sequence[inspect.Parameter]) -> Function:
    """Return `run` as a tool that is named and described like `fn`. Its second parameter gives way to those made."""
    signature = inspect.signature(fn, eval_str=True)
    call, _, *rest = signature.parameters.values()
    run.__name__, run.__doc__, run.__module__ = fn.__name__, fn.__doc__, fn.__module__
    run.__dict__["__signature__"] = signature.replace(parameters=[call, *made, *rest])
    return run


def _get_spec(field: structs.FieldInfo) -> ArgumentSpec:
    return get_argument_spec(split_notes(field.type)[1]) or ArgumentSpec()


def _make_kind(field: structs.FieldInfo) -> Any:
    kind, notes = split_notes(field.type)
    said = next((note.description for note in notes if note.description), "")
    return Annotated[Body if _get_spec(field).secret else kind, Meta(description=said)]
