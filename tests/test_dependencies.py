"""What is imported is declared, and what is declared is imported."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

from .source_trees import find_nodes, list_source_files

ROOT = Path(__file__).parents[1]
NOT_IMPORTED = {  # by distribution: why it is declared all the same
    "httptools": "uvicorn finds it by itself",
    "lxml-html-clean": "trafilatura needs it, and says so in a way that older pips do not follow",
    "python-multipart": "Starlette reads forms with it",
    "tzdata": "zoneinfo reads it where the system has no zones",
}
BY_NAME = {"claude-agent-sdk"}  # imported by a name in a constant, in a sandbox


def find_imports(trees: Iterable[ast.Module]) -> set[str]:
    """The top-level names of everything that is imported and neither ours nor the standard library's."""
    found: set[str] = set()
    for tree in trees:
        for node in find_nodes(tree, ast.Import, ast.ImportFrom):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"gatepost", "gatepost_testing"}


def read_declared(project: Path) -> tuple[set[str], set[str], set[str]]:
    """The distributions that the package needs, those of its extras for channels and providers, and those of tests,
    which the doubles may use."""
    written = tomllib.loads(project.read_text(encoding="utf-8"))
    said, tests = written["project"], written.get("dependency-groups", {}).get("test", [])
    extras = [line for each in said["optional-dependencies"].values() for line in each]
    return _names(said["dependencies"]), _names(extras), _names(tests)


def _names(lines: list[str]) -> set[str]:
    return {_normalize(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in lines}


def _normalize(name: str) -> str:
    """One spelling for a distribution, which its metadata may write in another."""
    return name.lower().replace("_", "-")


def check(trees: Iterable[ast.Module], project: Path) -> dict[str, set[str]]:
    core, extras, tests = read_declared(project)
    known = packages_distributions()
    used: set[str] = set()
    for name in find_imports(trees):
        sources = {_normalize(each) for each in known.get(name, [name])}
        used |= sources & (core | extras | tests) or sources  # several distributions may share a name: one is meant
    return {
        "imported and not declared": used - core - extras - tests,
        "declared and not imported": (core | extras) - used - NOT_IMPORTED.keys() - BY_NAME,
        "imported, though it is listed as not imported": used & NOT_IMPORTED.keys(),
    }


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    found = check((each.tree for each in list_source_files()), ROOT / "pyproject.toml")
    assert {what: names for what, names in found.items() if names} == {}


def test_an_import_that_is_not_declared_and_a_dependency_that_is_not_imported_are_found(tmp_path: Path) -> None:
    planted = ast.parse("def late() -> None:\n    import hypothesis\n    import tzdata\n")
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\ndependencies = ["apsw>=3.52", "tzdata"]\n[project.optional-dependencies]\n')
    assert check([planted], project) == {
        "imported and not declared": {"hypothesis"},
        "declared and not imported": {"apsw"},
        "imported, though it is listed as not imported": {"tzdata"},
    }
