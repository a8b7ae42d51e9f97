"""A column is named in its migration and in its struct: no module of the store writes out what a `Table` declares."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from .source_trees import SOURCE, find_nodes, list_source_files

STORE = SOURCE / "gatepost" / "store"
INSERT = re.compile(r"INSERT INTO (\w+) \([^)]*\)\s*(VALUES)?")  # with SELECT in place of VALUES it is its own query
LIST = re.compile(r"(?:\w+\.)?\w+(?:,\s*(?:\w+\.)?\w+)+")


def list_fields(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """The fields of every class, with those of its bases."""
    classes = [node for tree in trees for node in find_nodes(tree, ast.ClassDef)]
    found: dict[str, set[str]] = {}
    for node in classes:
        own = {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
        found[node.name] = own.union(*(found.get(ast.unparse(base), set()) for base in node.bases))
    return found


def list_tables(trees: Iterable[ast.Module]) -> Iterator[tuple[str, str]]:
    """(table, struct) of every `Table(…)`."""
    for node in (node for tree in trees for node in find_nodes(tree, ast.Call)):
        named = isinstance(node.func, ast.Name) and node.func.id == "Table"
        if named and isinstance(node.args[0], ast.Constant):
            yield str(node.args[0].value), ast.unparse(node.args[1])


def list_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, text) of every string; what an f-string computes is `{}`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def list_repeated(trees: Mapping[str, ast.Module]) -> list[str]:
    """Return where the columns of a declared table stand again. `trees`: by path."""
    fields = list_fields(trees.values())
    tables = {table: fields[struct] for table, struct in list_tables(trees.values())}
    wrong = []
    for path, tree in trees.items():
        for line, text in list_texts(tree):
            inserts = [name for name, values in INSERT.findall(text) if values and name in tables]
            wrong += [f"{path}:{line} INSERT INTO {name}" for name in inserts]
            for names in LIST.findall(INSERT.sub("", text)):
                named = {each.strip().rpartition(".")[2] for each in names.split(",")}
                wrong += [f"{path}:{line} columns of {table}" for table, columns in tables.items() if columns <= named]
    return list(dict.fromkeys(wrong))  # the parts of an f-string are found twice


def test_no_module_of_the_store_writes_out_the_columns_of_a_declared_table() -> None:
    trees = {
        str(each.path.relative_to(STORE)): each.tree
        for each in list_source_files()
        if STORE in each.path.parents and not {"migrations", "postgres"} & set(each.path.parts)
    }
    assert len(list(list_tables(trees.values()))) >= 18
    assert list_repeated(trees) == []


def test_a_list_of_columns_and_an_insert_of_a_declared_table_are_found() -> None:
    declared = 'class NewPet(Struct):\n    name: str\nclass Pet(NewPet):\n    id: int\nPETS = Table("pets", Pet)\n'
    planted = (
        'COLUMNS = "id, name"\n'
        'a = "INSERT INTO pets (name) VALUES (?)"\n'
        'b = f"SELECT p.id, p.name FROM {x}"\n'
        'fine = "SELECT name FROM pets", "INSERT INTO toys (id) VALUES (?)", "INSERT INTO pets (name) SELECT 1"\n'
    )
    assert list_repeated({"pets.py": ast.parse(declared), "other.py": ast.parse(planted)}) == [
        "other.py:1 columns of pets",
        "other.py:2 INSERT INTO pets",
        "other.py:3 columns of pets",
    ]
