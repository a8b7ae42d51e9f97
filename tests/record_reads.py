"""The fields of records that commands and pages read, found in their source.

A function is followed into all that it names in its package. Annotations and declarations of operations give the types
of most expressions. A read from an expression of unknown type counts for every record: a gap that is found is one.
"""

import ast
import builtins
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import FunctionType, ModuleType, NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

from msgspec import Struct, structs

from gatepost.core.record_fields import ShownAs, list_views, split_notes
from gatepost.serve.control.declaration import OperationArgs, get_answer_type, list_declarations
from gatepost.serve.web.dashboard import tables

from .source_trees import SOURCE, find_nodes, get_place, list_source_files

ASKING = ("from_operation", "with_arguments", "call_operation", "ask")  # calls that name an operation
SHOWING = ("make_columns", "make_texts", "print_records", "print_details")  # calls that show what a record says
WHOLE = ("to_json", "asdict", "to_builtins")  # calls that give every field of a record
FOR_PROGRAMS = ("print_json", "print_json_line")  # calls that print for no person
KEEPING = ("list", "tuple", "sorted", "reversed", "filter", "islice")  # calls that return what they were given


class SourceModule(NamedTuple):
    """A module: its statements, and what its names mean when it runs."""

    name: str
    tree: ast.Module
    names: Mapping[str, Any]

    def find_definition(self, name: str) -> ast.stmt | None:
        return _list_definitions(self.tree).get(name)

    def find_import(self, name: str) -> tuple[str, str] | None:
        return _list_imports(self.tree).get(name)


class FieldReads(NamedTuple):
    """`typed`: (record, field). `untyped`: names that were read from what may be any record. `asked`: the operations
    whose answers these may be. `whole`: records of which every field is shown."""

    typed: set[tuple[type, str]]
    untyped: set[str]
    asked: set[type[OperationArgs[Any]]]
    whole: set[type]


def load_modules(package: str) -> list[SourceModule]:
    files = list_source_files(SOURCE.joinpath(*package.split(".")))
    named = [(".".join(get_place(each.path).with_suffix("").parts).removesuffix(".__init__"), each) for each in files]
    return [SourceModule(name, each.tree, vars(import_module(name))) for name, each in named]


def list_reads(modules: Sequence[SourceModule]) -> list[FieldReads]:
    """Return what each statement of the modules reads that asks for an answer, itself or by what it names."""
    found = [
        _ReadFinder(modules).find(module, statement) for module in modules for statement in _list_statements(module)
    ]
    return [each for each in found if each.asked]


def list_records(kind: Any) -> list[type[Struct]]:
    """Return the records in a type, those in their fields included."""
    found: dict[type[Struct], None] = {}
    waiting = [kind]
    while waiting:
        each = waiting.pop(0)
        if _is_record(each) and each not in found:
            found[each] = None
            waiting += _get_field_types(each).values()
        waiting += get_args(each)
    return list(found)


def is_read(record: type[Struct], field: str, reads: Iterable[FieldReads]) -> bool:
    """Return True if one of them reads the field, by this class, by one above or by one below it."""
    names = {field, dict(zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True))[field]}
    return any(
        names & each.untyped
        or any(name in names and _are_related(record, kind) for kind, name in each.typed)
        or any(_are_related(record, kind) for kind in each.whole)
        for each in reads
    )


def _are_related(one: type, other: type) -> bool:
    return issubclass(one, other) or issubclass(other, one)


def _list_statements(module: SourceModule) -> Iterator[ast.stmt]:
    skipped = (ast.Import, ast.ImportFrom)
    return (each for each in module.tree.body if not isinstance(each, skipped))


@cache
def _list_definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for each in tree.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[each.name] = each
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            found |= {node.id: each for target in targets for node in find_nodes(target, ast.Name)}
    return found


@cache
def _list_imports(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Return (module, name in it) of what is imported, also in functions."""
    nodes = find_nodes(tree, ast.ImportFrom)
    return {each.asname or each.name: (node.module or "", each.name) for node in nodes for each in node.names}


@cache
def _get_operations() -> dict[str, type[OperationArgs[Any]]]:
    return {each.info.name: each for each in list_declarations()}


@cache
def _get_column_makers() -> frozenset[str]:
    """Return the functions that make a column of a field: they are given its name, and no function that shows it."""
    made = ((name, inspect.signature(each)) for name, each in vars(tables).items() if inspect.isfunction(each))
    return frozenset(
        name
        for name, signature in made
        if signature.return_annotation is tables.TableField and "show" not in signature.parameters
    )


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


@cache
def _get_field_types(record: type[Struct]) -> dict[str, Any]:
    try:
        return {each.name: split_notes(each.type)[0] for each in structs.fields(record)}
    except NameError:  # of a type that only a type checker imports: it is no answer
        return {}


def _list_own_records(kind: Any) -> list[type[Struct]]:
    """Return the records that a value of the type may be, or the items of it."""
    if _is_record(kind):
        return [kind]
    return [each for part in get_args(kind) for each in _list_own_records(part)]


def _get_item_type(kind: Any) -> Any:
    """Return the type of an item; None: it is not known."""
    given = [each for each in get_args(kind) if each not in (Ellipsis, NoneType)]
    return given[0] if len(given) == 1 else None


@cache
def _get_property(record: type, name: str) -> tuple[Any, frozenset[str]]:
    """Return the type of a property or method of a record, and the fields that it reads."""
    found = inspect.getattr_static(record, name, None)
    function = found.fget if isinstance(found, property) else found
    if not isinstance(function, FunctionType):
        return None, frozenset()
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    nodes = (node for node in find_nodes(tree, ast.Attribute) if ast.unparse(node.value) == "self")
    return _get_return_type(function), frozenset(node.attr for node in nodes)


def _get_return_type(function: Any) -> Any:
    try:
        kind = get_type_hints(function).get("return")
    except (NameError, TypeError):  # of names that only a type checker imports
        return None
    return None if kind is Any or isinstance(kind, TypeVar) or getattr(kind, "__parameters__", ()) else kind


class _ReadFinder:
    """One search, from one statement on."""

    def __init__(self, modules: Sequence[SourceModule]) -> None:
        self._modules = {each.name: each for each in modules}
        self._seen: set[tuple[int, Any]] = set()
        self.reads = FieldReads(set(), set(), set(), set())

    def find(self, module: SourceModule, statement: ast.stmt) -> FieldReads:
        self.follow(module, statement, None)
        return self.reads

    def follow(self, module: SourceModule, statement: ast.stmt, row: Any) -> None:
        """`row`: the type of the rows that columns in it are about."""
        if (id(statement), row) not in self._seen:
            self._seen.add((id(statement), row))
            _ScopeVisitor(self, module, row).visit(statement)

    def follow_name(self, module: SourceModule, name: str, row: Any) -> None:
        where = module.find_import(name)
        if (found := module.find_definition(name)) is not None:
            self.follow(module, found, row)
        elif where is not None and where[0] in self._modules:
            self.follow_name(self._modules[where[0]], where[1], row)

    def follow_member(self, module: SourceModule, name: str, member: str, row: Any) -> None:
        """What an imported module defines."""
        where = module.find_import(name)
        if where is not None and (found := self._modules.get(".".join(where))) is not None:
            self.follow_name(found, member, row)


class _ScopeVisitor(ast.NodeVisitor):
    """Visits one function, or a statement of a module. `above`: the scope that it is in."""

    def __init__(
        self, finder: _ReadFinder, module: SourceModule, row: Any, above: "_ScopeVisitor | None" = None
    ) -> None:
        self._finder, self._module, self._row = finder, module, row
        self._in_function = above is not None
        self._types: dict[str, Any] = dict(above._types) if above else {}  # of variables; None: not known
        self._columns: dict[str, ast.expr] = dict(above._columns) if above else {}  # those that a variable holds

    def _enter(self, row: Any) -> "_ScopeVisitor":
        return _ScopeVisitor(self._finder, self._module, row, self)

    # What is read

    def visit_Attribute(self, node: ast.Attribute) -> None:
        kind = self._infer(node.value)
        for record in _list_own_records(kind):
            self._finder.reads.typed.add((record, node.attr))
            self._finder.reads.typed.update((record, each) for each in _get_property(record, node.attr)[1])
        if kind is None:
            self._finder.reads.untyped.add(node.attr)
        if isinstance(node.value, ast.Name) and node.value.id not in self._types:
            self._finder.follow_member(self._module, node.value.id, node.attr, self._row)
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            self._add_name(node.slice.value, self._infer(node.value))
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self._columns:
            self.visit(self._columns[node.id])
        elif node.id not in self._types:
            self._finder.follow_name(self._module, node.id, self._row)

    def visit_Call(self, node: ast.Call) -> None:
        name = _get_called(node)
        if name in FOR_PROGRAMS:
            return
        given = self._infer(node.args[0]) if node.args else None
        if name in ASKING:
            self._finder.reads.asked.update(filter(None, map(self._find_operation, node.args)))
        if (name in WHOLE and node.args) or (name == "getattr" and not isinstance(node.args[1], ast.Constant)):
            self._finder.reads.whole.update(_list_own_records(given) if given is not None else [Struct])
        if name in _get_column_makers():
            by = [each.value for each in node.keywords if each.arg == "by"]
            for each in (*node.args[:1], *by):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    self._add_name(each.value, self._row)
        if name in SHOWING:
            self._add_views(node)
        elif name not in ASKING:  # how an answer is fetched reads no field of it
            self.visit(node.func)
        for each in node.args[:1]:
            self.visit(each)
        shown = self._find_object(node.args[0]) if name in SHOWING else None
        inner = self._enter(shown if _is_record(shown) else self._get_row(given))
        for rest in (*node.args[1:], *(each.value for each in node.keywords)):
            inner.visit(rest)

    def _get_row(self, given: Any) -> Any:
        """Further arguments of a call are about its first one, if that is a record or a list of them."""
        records = _list_own_records(given)
        return records[0] if records else self._row

    def _add_views(self, node: ast.Call) -> None:
        """What a record says itself how to show."""
        record, called = self._find_object(node.args[0]), _get_called(node)
        details = called in ("make_texts", "print_details") or any(each.arg == "details" for each in node.keywords)
        left_out = [each.value for each in node.keywords if each.arg == "without"]
        without = {each.value for part in left_out for each in find_nodes(part, ast.Constant)}
        for name, view in list_views(record).items() if _is_record(record) else ():
            on_page = called in ("make_columns", "make_texts")
            if on_page and (view.kind is ShownAs.LONG) != (called == "make_texts"):
                continue
            if name not in without and (details or not view.details):
                self._finder.reads.typed.add((record, name))

    def _add_name(self, name: str, kind: Any) -> None:
        for record in _list_own_records(kind):
            self._finder.reads.typed.add((record, name))
        if kind is None:
            self._finder.reads.untyped.add(name)

    # Variables

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for each in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(each)
        inner = self._enter(None)
        for argument in find_nodes(node.args, ast.arg):
            inner._types[argument.arg] = self._read_annotation(argument.annotation)
        for statement in node.body:
            inner.visit(statement)
        self._types[node.name] = None

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        inner = self._enter(self._row)
        inner._types |= dict.fromkeys((each.arg for each in node.args.args), self._row)
        inner.visit(node.body)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        inner = self._enter(self._row)
        inner._bind_loops(node)
        for each in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            inner.visit(each)

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp

    def _bind_loops(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        for loop in node.generators:
            self.visit(loop.iter)
            self._bind(loop.target, _get_item_type(self._infer(loop.iter)))
            for condition in loop.ifs:
                self.visit(condition)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._bind(node.target, _get_item_type(self._infer(node.iter)))
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    visit_AsyncFor = visit_For

    def visit_Assign(self, node: ast.Assign) -> None:
        [target, *others] = node.targets
        if self._in_function and isinstance(target, ast.Name) and self._holds_columns(node.value):
            self._columns[target.id] = node.value  # they are visited where rows are shown in them
            return
        self.visit(node.value)
        for each in (target, *others):
            self._assign(each, node.value)

    def _holds_columns(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            found = self._module.names.get(node.id)
            first = found[0] if isinstance(found, tuple) and found else found
            return node.id in self._columns or isinstance(first, tables.TableField)
        if isinstance(node, ast.Call):
            return self._infer(node) is tables.TableField
        if isinstance(node, ast.Tuple | ast.List):
            return any(map(self._holds_columns, node.elts))
        if isinstance(node, ast.Starred):
            return self._holds_columns(node.value)
        return isinstance(node, ast.IfExp) and self._holds_columns(node.body)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._assign(node.target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
        self._bind(node.target, self._read_annotation(node.annotation))

    def visit_withitem(self, node: ast.withitem) -> None:
        self.visit(node.context_expr)
        if node.optional_vars is not None:
            self._bind(node.optional_vars, None)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, other in zip(target.elts, value.elts, strict=True):
                self._assign(one, other)
            return
        self._bind(target, self._infer(value))

    def _bind(self, target: ast.expr, kind: Any) -> None:
        if isinstance(target, ast.Name):
            self._types[target.id] = kind
            return
        for each in find_nodes(target, ast.Name):
            self._types[each.id] = None

    def _read_annotation(self, node: ast.expr | None) -> Any:
        if node is None or isinstance(node, ast.Starred):
            return None
        written = node.value if isinstance(node, ast.Constant) else ast.unparse(node)
        try:
            kind = eval(str(written), dict(self._module.names))
        except (NameError, TypeError):  # a name that only a type checker imports
            return None
        return None if kind is Any else kind

    # Types of expressions; None: not known

    def _infer(self, node: ast.expr) -> Any:
        found = getattr(self, f"_infer_{type(node).__name__}", None)
        return found(node) if found else None

    def _infer_Constant(self, node: ast.Constant) -> Any:
        return type(node.value)

    def _infer_JoinedStr(self, node: ast.JoinedStr) -> Any:
        return str

    def _infer_Name(self, node: ast.Name) -> Any:
        if node.id in self._types:
            return self._types[node.id]
        return object if node.id in self._module.names or hasattr(builtins, node.id) else None

    def _infer_Attribute(self, node: ast.Attribute) -> Any:
        kind = self._infer(node.value)
        records = _list_own_records(kind)
        if not records:
            return None if kind is None else object
        found = [_get_field_types(each).get(node.attr) or _get_property(each, node.attr)[0] for each in records]
        return next((each for each in found if each is not None and each is not Any), None)

    def _infer_Subscript(self, node: ast.Subscript) -> Any:
        kind = self._infer(node.value)
        return kind if isinstance(node.slice, ast.Slice) else _get_item_type(kind)

    def _infer_Await(self, node: ast.Await) -> Any:
        return self._infer(node.value)

    def _infer_NamedExpr(self, node: ast.NamedExpr) -> Any:
        return self._infer(node.value)

    def _infer_IfExp(self, node: ast.IfExp) -> Any:
        return self._pick(node.body, node.orelse)

    def _infer_BoolOp(self, node: ast.BoolOp) -> Any:
        return self._pick(*node.values)

    def _pick(self, *nodes: ast.expr) -> Any:
        """The type of the first that may be a record; None if one of them is not known."""
        found = [self._infer(each) for each in nodes]
        return None if None in found else next((each for each in found if _list_own_records(each)), found[0])

    def _infer_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> Any:
        inner = self._enter(self._row)
        for loop in node.generators:
            inner._bind(loop.target, _get_item_type(inner._infer(loop.iter)))
        kind = inner._infer(node.elt)
        return None if kind is None else list[kind]

    _infer_GeneratorExp = _infer_ListComp

    def _infer_List(self, node: ast.List) -> Any:
        kind = self._infer(node.elts[0]) if node.elts else None
        return None if kind is None else list[kind]

    def _infer_Call(self, node: ast.Call) -> Any:
        name = _get_called(node)
        if name in ("call_operation", "ask"):
            return self._infer_answer(node)
        if name in KEEPING and node.args:
            return self._infer(node.args[-1 if name == "filter" else 0])
        if name == "next" and node.args:
            return _get_item_type(self._infer(node.args[0]))
        called = self._find_object(node.func)
        if isinstance(called, type):
            return called
        if not isinstance(called, FunctionType):
            return None
        # What reads the store answers as the function does that it is given.
        given = [each for each in map(self._find_object, node.args) if isinstance(each, FunctionType)]
        return _get_return_type(called) or next(map(_get_return_type, given), None)

    def _infer_answer(self, node: ast.Call) -> Any:
        if node.args and isinstance(node.args[0], ast.Constant):
            return None  # its JSON
        asked = next(filter(None, map(self._find_operation, node.args)), None)
        kind = get_answer_type(asked) if asked else None
        return None if kind is Any else kind

    def _find_operation(self, node: ast.expr) -> type[OperationArgs[Any]] | None:
        if isinstance(node, ast.Constant):
            return _get_operations().get(str(node.value))
        found = [self._infer(node), *map(self._find_object, find_nodes(node, ast.Name))]
        return next((each for each in found if isinstance(each, type) and issubclass(each, OperationArgs)), None)

    def _find_object(self, node: ast.expr) -> Any:
        """Return what a name of the module, or of one that it imports, means."""
        if isinstance(node, ast.Name):
            return None if node.id in self._types else self._find_global(node.id)
        above = self._find_object(node.value) if isinstance(node, ast.Attribute) else None
        return getattr(above, node.attr, None) if isinstance(above, ModuleType) else None  # type: ignore[attr-defined]

    def _find_global(self, name: str) -> Any:
        where = self._module.find_import(name)
        if name in self._module.names or where is None:
            return self._module.names.get(name)
        return getattr(import_module(where[0]), where[1], None)  # a function imports it itself


def _get_called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
