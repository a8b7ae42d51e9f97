"""A command that is one operation: its options, arguments and help come from the operation's declaration. The function
below the decorator only prints the answer."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, TypeVar

import click
import msgspec
from msgspec import Struct

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of, read_operation, run_operation
from gatepost.core.errors import Invalid, SetupError, Unavailable
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.core.record_changes import parse_pairs, parse_texts
from gatepost.serve.control.answers import read_sent
from gatepost.serve.control.client import TIMEOUT_S
from gatepost.serve.control.declaration import ArgumentField, OperationArgs, get_answer_type, get_help, list_fields
from gatepost.store.engine.place import has_store, render_missing

Given = dict[str, Any]
Show = Callable[..., int | None]
R = TypeVar("R")


class NumberRange(click.IntRange):
    """A whole number within bounds: a wrong one is no valid number, and not no valid range."""

    name = "number"


class CommandRun(Struct, frozen=True):
    """A use of a command: where, and with which arguments of its operation."""

    home: Home
    args: Given


def with_arguments(declared: type[OperationArgs[Any]], **fixed: Any) -> Callable[[Show], Show]:
    """Give a command the options, arguments and help of an operation, and `--json`. The function below runs it:
    `fn(home, args, as_json)`, with the options of the command that are no argument of the operation. `fixed`: arguments
    that the command line does not offer."""
    fields = [each for each in list_fields(declared) if not each.spec.hidden and each.name not in fixed]
    names = {_get_parameter_name(each): each for each in fields}

    def decorate(fn: Show) -> Show:
        def run(home: str | None, /, as_json: bool, **given: Any) -> int | None:
            args = {each.name: _parse(declared, each, given.pop(name)) for name, each in names.items()}
            return fn(home_of(home), args | fixed, as_json, **given)

        run.__name__, run.__doc__ = fn.__name__, fn.__doc__ or get_help(declared)
        run.__dict__["__click_params__"] = [
            click.Option(["--json", "as_json"], is_flag=True, help="Print the answer as JSON."),
            *fn.__dict__.get("__click_params__", ()),
            *map(make_parameter, reversed(fields)),
        ]
        run.__dict__["operation"] = declared
        return click.pass_obj(run)

    return decorate


def from_operation(
    declared: type[OperationArgs[R]],
    *,
    prepare: Callable[..., Given] | None = None,
    timeout: Callable[[Home], float] | None = None,
    exit_code: Callable[[R], int] | None = None,
    **fixed: Any,
) -> Callable[[Callable[Concatenate[CommandRun, R, ...], int | None]], Show]:
    """Make a function a command that runs an operation; with --json it prints the answer itself.

    `show(run, answer)` prints. `prepare(home, args)` completes or checks the arguments before. Both also get the
    options of the command that are no argument of the operation. `exit_code` reads it from the answer.
    """

    def decorate(show: Callable[Concatenate[CommandRun, R, ...], int | None]) -> Show:
        @wraps(show)
        def run(home: Home, args: Given, as_json: bool, **given: Any) -> int:
            if prepare is not None:
                args = prepare(home, args, **given)
            found = _call(home, declared, args, timeout(home) if timeout else TIMEOUT_S)
            if as_json:
                output.print_json(found)
            else:
                show(CommandRun(home, args), read_answer(declared, found), **given)
            return exit_code(read_answer(declared, found)) if exit_code else 0

        return with_arguments(declared, **fixed)(run)

    return decorate


def call_operation(
    home: Home, declared: type[OperationArgs[R]], args: Given, timeout: float = TIMEOUT_S, *, awake: bool = False
) -> R:
    """Return what an operation answers. `awake`: it must run an agent, also while the daemon is down."""
    return read_answer(declared, _call(home, declared, args, timeout, awake=awake))


def read_answer(declared: type[OperationArgs[R]], found: Any) -> R:
    """Return the record that an answer's JSON stands for. Raises Unavailable for the answer of another version."""
    answer: R = read_sent(get_answer_type(declared), found, declared.info.name)
    return answer


def _call(home: Home, declared: type[OperationArgs[Any]], args: Given, timeout: float, *, awake: bool = False) -> Any:
    """The answer as JSON has it."""
    if declared.info.reads:
        return read_operation(home, declared, args)
    if home_lock.find_holder(home) is None:
        if not declared.info.offline:
            raise Unavailable(declared.info.name, "the gateway is not running; `gatepost up` starts it")
        if declared.info.needs_home and not has_store(home):
            raise SetupError(render_missing(home.path))
    return run_operation(home, declared.info.name, args, awake=awake, timeout=timeout)


def _get_parameter_name(field: ArgumentField) -> str:
    return (field.spec.name or field.name).lower() if field.spec.positional else field.name


def make_parameter(field: ArgumentField) -> click.Parameter:
    spec, name = field.spec, field.spec.name or field.name
    kind, many = _get_click_type(field), field.kind in (list[str], dict[str, str]) or field.is_change
    default = {"default": field.default} if field.default and not many else {}
    if spec.positional:
        nargs = -1 if many else 1
        return click.Argument([name], type=kind, required=field.required, nargs=nargs, metavar=spec.metavar, **default)
    help_text = spec.cli or field.description
    if field.examples:
        help_text += f" For example: {'; '.join(field.examples)}"
    flags = [f"--{name.replace('_', '-')}", field.name]
    if field.kind is bool:
        return click.Option(flags, is_flag=True, help=help_text)
    return click.Option(
        flags,
        type=kind,
        required=field.required,
        multiple=many,
        metavar=spec.metavar,
        help=help_text,
        show_default=bool(default),
        **default,
    )


def _get_click_type(field: ArgumentField) -> Any:
    if field.choices:
        return click.Choice(field.choices)
    if field.spec.positional:
        return str  # an id: `_parse_id` says more of a wrong one than click does
    if field.spec.least is not None or field.spec.most is not None:
        kind = click.FloatRange if field.kind is float else NumberRange
        return kind(field.spec.least, field.spec.most)
    return field.kind if field.kind in (int, float) else str


def _parse(declared: type[OperationArgs[Any]], field: ArgumentField, value: Any) -> Any:
    if value is None:
        return field.default
    if field.kind is int and field.spec.positional:
        return _parse_id(declared.info.name.partition(".")[0], field, value)
    if field.kind == dict[str, str]:
        return dict(parse_pairs(value, f"--{field.spec.name or field.name}" if not field.spec.positional else ""))
    if field.is_change:
        return parse_texts(field.kind, dict(parse_pairs(value)), declared.info.name.partition(".")[0])
    if field.kind == dict[str, Any]:
        return _parse_object(f"--{field.spec.name or field.name}", value)
    return list(value) if field.kind == list[str] else value


def _parse_object(option: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Invalid(option, f"is no JSON object: {error}") from None


def _parse_id(group: str, field: ArgumentField, text: str) -> int:
    name = field.spec.name or field.name
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) >= (field.spec.least or 0)):
        what = "one of the ids" if name == "id" else f"a {name}'s id"
        raise Invalid(name, f"{text[:80]!r} is not {what}; `gatepost {group} list` shows them")
    return int(text)
