"""Docstrings of the package: plain openings, short sentences, *they* for people, and names that still exist."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .source_trees import DOUBLES, SOURCE, SourceFile, find_nodes, list_source_files

# Limits for the whole tree: lower them as it gets better. The aim is 0.02, 0 and 0.
MOST_OPENINGS = 0.02  # share of all sentences
MOST_WORDS = 30

OPENING = re.compile(r"(What|Who|Whose|Of|Where|Whether|Whatever|Whoever)\b")
PEOPLE = re.compile(r"\b(she|her|hers|herself)\b", re.IGNORECASE)
END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")
BLOCK = ("    ", "|", "- ", ">>>")  # how lines of code, tables and lists begin
QUOTED = re.compile(r"`([^`\n]+)`")
CLASS = re.compile(r"(?:[A-Z][a-z0-9]+){2,}(?:\.\w+)?")
FILE = re.compile(r"(?:[a-z_0-9]+/)*[a-z_0-9]+\.py")
MODULE = re.compile(r"gatepost(?:_testing)?(?:\.\w+)+")
FOREIGN = {"gatepost.pid.json": "a file of the home"}  # names in backticks that are not of the code, and what they are


Folders = tuple[Path, ...]
BOTH = (SOURCE, DOUBLES)


def get_relative(path: Path, folders: Folders) -> Path:
    return next(path.relative_to(each) for each in folders if path.is_relative_to(each))


class Docstring(NamedTuple):
    at: str  # path:line
    text: str


def list_docstrings(folders: Folders) -> Iterator[Docstring]:
    for each in list_source_files(*folders):
        for node in find_nodes(each.tree, ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                yield Docstring(f"{get_relative(each.path, folders)}:{node.body[0].lineno}", text)


def split_sentences(text: str) -> list[str]:
    prose = " ".join(line for line in text.splitlines() if line and not line.startswith(BLOCK))
    return [each for each in END_OF_SENTENCE.split(prose) if each.strip()]


@cache
def list_sentences(folders: Folders) -> list[tuple[str, str]]:
    """List each sentence with the place of its docstring."""
    return [(each.at, sentence) for each in list_docstrings(folders) for sentence in split_sentences(each.text)]


def find_openings(folders: Folders) -> list[str]:
    return [f"{at} {sentence}" for at, sentence in list_sentences(folders) if OPENING.match(sentence)]


def find_long(folders: Folders) -> list[str]:
    return [f"{at} {sentence}" for at, sentence in list_sentences(folders) if len(sentence.split()) > MOST_WORDS]


def find_people(folders: Folders) -> list[str]:
    return [f"{at} {sentence}" for at, sentence in list_sentences(folders) if PEOPLE.search(sentence)]


def find_dead_names(folders: Folders) -> list[str]:
    """List names of classes, files and modules in backticks that nothing in the tree bears."""
    sources = list_source_files(*folders)
    words, paths = read_words(sources), [f"/{get_relative(each.path, folders)}" for each in sources]
    return [
        f"{each.at} {name}"
        for each in list_docstrings(folders)
        for name in QUOTED.findall(each.text)
        if name not in FOREIGN and is_dead(name, words, paths)
    ]


def is_dead(name: str, words: set[str], paths: list[str]) -> bool:
    if CLASS.fullmatch(name):
        return not words.issuperset(name.split("."))
    if FILE.fullmatch(name):
        return not any(each.endswith(f"/{name}") for each in paths)
    if MODULE.fullmatch(name):
        return not any(is_module(part, paths) for part in (name, name.rpartition(".")[0]))
    return False


def is_module(name: str, paths: list[str]) -> bool:
    path = name.replace(".", "/")
    return any(each in (f"/{path}.py", f"/{path}/__init__.py") for each in paths)


def read_words(sources: tuple[SourceFile, ...]) -> set[str]:
    """Read every name in the code, and every word of a text that is not a docstring: platforms' names are such."""
    found: set[str] = set()
    for tree in (each.tree for each in sources):
        for node in find_nodes(tree, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef):
            found.add(node.name)
        found.update(node.id for node in find_nodes(tree, ast.Name))
        found.update(node.attr for node in find_nodes(tree, ast.Attribute))
        found.update(node.arg for node in find_nodes(tree, ast.arg))
        found.update(part for node in find_nodes(tree, ast.alias) for part in node.name.split("."))
        bare = {id(node.value) for node in find_nodes(tree, ast.Expr)}
        for text in find_nodes(tree, ast.Constant):
            if isinstance(text.value, str) and id(text) not in bare:
                found.update(re.findall(r"\w+", text.value))
    return found


def test_few_sentences_begin_without_their_subject() -> None:
    sentences, found = list_sentences(BOTH), find_openings(BOTH)
    assert len(sentences) > 10_000
    assert len(found) <= MOST_OPENINGS * len(sentences), "\n".join(found)


def test_no_sentence_is_long() -> None:
    found = find_long(BOTH)
    assert not found, "\n".join(found)


def test_people_are_they() -> None:
    found = find_people(BOTH)
    assert not found, "\n".join(found)


def test_names_in_backticks_exist() -> None:
    assert find_dead_names(BOTH) == []


def test_foreign_names_are_still_named() -> None:
    named = {name for each in list_docstrings(BOTH) for name in QUOTED.findall(each.text)}
    assert FOREIGN.keys() <= named


def plant(folder: Path, source: str) -> Folders:
    """Write a small tree with this module in it."""
    (folder / "gatepost" / "store").mkdir(parents=True)
    (folder / "gatepost" / "store" / "requests.py").write_text("class OpenRequest:\n    def close(self): ...\n")
    (folder / "gatepost" / "planted.py").write_text(source)
    return (folder,)


def test_an_opening_without_its_subject_is_found(tmp_path: Path) -> None:
    source = '"""Plain.\n\nWhatever comes is kept. Of these, one."""\n\ndef f():\n    """Return it. Offer it."""\n'
    assert find_openings(plant(tmp_path, source)) == [
        "gatepost/planted.py:1 Whatever comes is kept.",
        "gatepost/planted.py:1 Of these, one.",
    ]


def test_a_long_sentence_is_found_and_a_block_is_none(tmp_path: Path) -> None:
    long, fits = " ".join(["word"] * 31) + ".", " ".join(["word"] * 30) + "."
    source = f'class A:\n    """{fits}\n\n    {long}\n\n        {long}\n    - {long}\n    """\n'
    assert find_long(plant(tmp_path, source)) == [f"gatepost/planted.py:2 {long}"]


def test_a_person_who_is_not_they_is_found(tmp_path: Path) -> None:
    source = 'async def f():\n    """Ask the owner.\n\n    Herself or others: there, she answers.\n    """\n'
    assert find_people(plant(tmp_path, source)) == [
        "gatepost/planted.py:2 Herself or others: there, she answers.",
    ]


def test_a_name_that_is_gone_is_found(tmp_path: Path) -> None:
    alive = (
        "`OpenRequest`, `OpenRequest.close`, `store/requests.py`, `requests.py`, `gatepost.store.requests`, `GitHub`"
    )
    dead = "`ClosedRequest`, `OpenRequest.burn`, `store/answers.py`, `gatepost.store.answers.Answer`"
    folders = plant(tmp_path, f'"""See {alive}.\n\nSee {dead}, and `a plain word`."""\n\nPLATFORM = "GitHub"\n')
    names = ("ClosedRequest", "OpenRequest.burn", "store/answers.py", "gatepost.store.answers.Answer")
    assert find_dead_names(folders) == [f"gatepost/planted.py:1 {each}" for each in names]
