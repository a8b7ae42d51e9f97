"""The declaration of an operation: its name, the right that it needs, its arguments, its answer and its help.

A declaration is a struct of arguments in `arguments/<subject>.py`; the function that runs it is in
`operations/<subject>.py`. Declarations import msgspec and little else, because a command reads them before it starts.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from inspect import cleandoc
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args, get_origin

from msgspec import NODEFAULT, Struct, json, structs, to_builtins

from gatepost.core.record_fields import ArgumentSpec, get_argument_spec, get_bare_type, split_notes
from gatepost.core.registry import load_package

R = TypeVar("R", covariant=True)


class OperationInfo(Struct, frozen=True, kw_only=True):
    """`right`: what a caller other than the operator needs an ACL row for (`op:<right>`). `offline`: it runs without a
    gateway. `reads`: it only reads the store. `answers_all`: it refuses nobody and answers each with what their rights
    let them see. `judges`: the operation itself decides whom it answers, since more people may than those with the
    right. `needs_home`: it looks at what a home holds, and makes none to do so. `of_machine`: its arguments name what
    the caller's machine has, so no other gateway runs it in the place of this one."""

    name: str
    right: str
    offline: bool = True
    reads: bool = False
    judges: bool = False
    answers_all: bool = False
    needs_home: bool = False
    of_machine: bool = False


class OperationArgs(Struct, Generic[R], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of an operation that answers an R. Its docstring is the help of the operation."""

    info: ClassVar[OperationInfo]

    def get_scope(self) -> str:
        """The group where the caller needs the right; '': the whole gateway."""
        marked = (getattr(self, field.name) for field in list_fields(type(self)) if field.spec.scope)
        return str(next(marked, ""))

    def __repr__(self) -> str:
        """Without the values of secrets."""
        shown = (f"{name}={value!r}" for name, value in summarize(self).items())
        return f"{type(self).__name__}({', '.join(shown)})"


A = TypeVar("A", bound=OperationArgs[Any])


def declares(
    name: str,
    *,
    right: str,
    offline: bool = True,
    reads: bool = False,
    answers_all: bool = False,
    judges: bool = False,
    needs_home: bool = False,
    of_machine: bool = False,
) -> Callable[[type[A]], type[A]]:
    """Declare the struct below as the arguments of an operation."""

    def declare(args: type[A]) -> type[A]:
        args.info = OperationInfo(
            name=name,
            right=right,
            offline=offline,
            reads=reads,
            answers_all=answers_all,
            judges=judges,
            needs_home=needs_home,
            of_machine=of_machine,
        )
        return args

    return declare


def list_declarations() -> list[type[OperationArgs[Any]]]:
    """Every declaration of the package, by the operation's name."""
    modules = load_package("gatepost.serve.control.arguments")
    found = {each for module in modules for each in vars(module).values() if isinstance(each, type)}
    return sorted((each for each in found if "info" in vars(each)), key=lambda each: str(each.info.name))


def get_answer_type(args: type[OperationArgs[Any]]) -> Any:
    """Return the type of what the operation answers, as its declaration says."""
    bases = [base for each in args.__mro__ for base in vars(each).get("__orig_bases__", ())]
    return next(get_args(base)[0] for base in bases if get_origin(base) is OperationArgs)


def get_help(args: type[OperationArgs[Any]]) -> str:
    """Return its docstring, and a line for each setting of a change that is among its arguments."""
    changes = [each.kind for each in list_fields(args) if each.is_change]
    settings = [f"{_render_name(field)}: {field.description}" for kind in changes for field in list_fields(kind)]
    how = ["An empty value sets the default."] if settings else []
    return "\n\n".join([cleandoc(args.__doc__ or ""), *how, *settings])


def _render_name(field: "ArgumentField") -> str:
    return f"{field.name}.NAME" if get_origin(field.kind) is dict else field.name


class ArgumentField(Struct, frozen=True):
    """A field of a declaration. `kind` is its type without None and notes."""

    name: str
    kind: Any
    required: bool
    default: Any
    description: str
    spec: ArgumentSpec

    @property
    def is_change(self) -> bool:
        """True: the value is a change of a record, some of its fields."""
        return isinstance(self.kind, type) and issubclass(self.kind, Struct)

    @property
    def choices(self) -> tuple[str, ...]:
        if isinstance(self.kind, type) and issubclass(self.kind, StrEnum):
            return tuple(each.value for each in self.kind)
        return get_args(self.kind) if get_origin(self.kind) is Literal else self.spec.choices

    @property
    def examples(self) -> tuple[str, ...]:
        """As they are written on the command line."""
        return tuple(each if isinstance(each, str) else json.encode(each).decode() for each in self.spec.examples)


@lru_cache(maxsize=256)
def list_fields(args: type[Struct]) -> tuple[ArgumentField, ...]:
    return tuple(map(_read_field, structs.fields(args)))


def list_inputs(args: type[OperationArgs[Any]]) -> list[ArgumentField]:
    """Return the fields of a declaration. Each setting of a change is one: `values.name`."""
    found: list[ArgumentField] = []
    for field in list_fields(args):
        settings = list_fields(field.kind) if field.is_change else ()
        found += [structs.replace(each, name=f"{field.name}.{each.name}") for each in settings] or [field]
    return found


def _read_field(field: structs.FieldInfo) -> ArgumentField:
    _, notes = split_notes(field.type)
    description = next((note.description for note in notes if note.description), "")
    default = field.default_factory() if field.default_factory is not NODEFAULT else field.default
    default = default.value if isinstance(default, StrEnum) else default
    return ArgumentField(
        name=field.name,
        kind=get_bare_type(field.type),
        required=field.required,
        default=None if field.required else default,
        description=description,
        spec=get_argument_spec(notes) or ArgumentSpec(),
    )


def summarize(args: OperationArgs[Any], *, secrets: bool = False) -> dict[str, Any]:
    """The arguments that differ from their defaults. Without `secrets` for the audit log."""
    fields = (field for field in list_fields(type(args)) if secrets or not field.spec.secret)
    given = [(field, getattr(args, field.name)) for field in fields]
    changed = {field.name: value for field, value in given if field.required or value != field.default}
    return {name: to_builtins(value) if isinstance(value, Struct) else value for name, value in changed.items()}
