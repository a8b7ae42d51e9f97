"""Tools of the management server whose parameters are the fields of an operation's declaration."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from gatepost.serve.control.declaration import ArgumentField, OperationArgs, list_fields
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body
from gatepost.tools.kit.record_parameters import Function, with_parameters

A = TypeVar("A", bound=OperationArgs[Any])


def with_fields_of(declared: type[A]) -> Callable[[Function], Function]:
    """Give a tool the fields of a declaration that have a name in tools, before its own keyword parameters. The tool
    gets the declaration as its second parameter. A field that is left out, or null, has its default."""
    fields = {each.spec.tool: each for each in list_fields(declared) if each.spec.tool}

    def decorate(fn: Function) -> Function:
        async def run(call: ToolCall, **given: Any) -> Any:
            named = {field.name: given.pop(name, None) for name, field in fields.items()}
            return await fn(call, declared(**{key: each for key, each in named.items() if each is not None}), **given)

        return with_parameters(fn, run, [_make_parameter(name, field) for name, field in fields.items()])

    return decorate


def _make_parameter(name: str, field: ArgumentField) -> inspect.Parameter:
    kind = Body if field.spec.secret else field.kind
    optional = not field.required and field.kind is not bool
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[kind | None if optional else kind, Meta(description=field.description)],
        default=inspect.Parameter.empty if field.required else None if optional else field.default,
    )
