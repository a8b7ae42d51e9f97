"""The lines that the design draws, read from the source: imports point one way, nobody imports a plug-in, what runs
inside a sandbox imports little, and a command starts with next to nothing."""

import ast
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from .source_trees import ROOT, SOURCE, find_nodes, get_place, list_source_files

# From the lowest to the highest; a module may import its own layer and those before it. The longest prefix decides.
LAYERS = (
    ("gatepost",),
    ("gatepost.jsonrpc",),
    ("gatepost.embed",),
    ("gatepost.core",),
    ("gatepost.messages",),
    ("gatepost.mailbox", "gatepost.store"),
    ("gatepost.inside",),
    ("gatepost.access",),
    ("gatepost.channels.contract", "gatepost.sandboxes.contract", "gatepost.tools.call", "gatepost.tools.contract"),
    ("gatepost.gate", "gatepost.egress"),
    ("gatepost.flow",),
    ("gatepost.channels", "gatepost.sandboxes", "gatepost.tools"),
    ("gatepost.serve",),
    ("gatepost.declarations",),
    ("gatepost.app",),
    ("gatepost.http_apps",),
    ("gatepost.daemon",),
    ("gatepost.cli", "gatepost.__main__"),
    ("gatepost_testing",),
)
RANKS = {prefix: rank for rank, layer in enumerate(LAYERS) for prefix in layer}
REGISTERS = {"channel", "tool", "sandbox", "provider", "chat_command"}
HEAVY = {"mcp", "starlette", "uvicorn", "rich", "pydantic", "httpx2", "fastapi", "prometheus_client", "jinja2"}


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @cached_property
    def is_plugin(self) -> bool:
        """It registers a class or function of its own."""
        named = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        decorators = [each for node in self.tree.body if isinstance(node, named) for each in node.decorator_list]
        calls = [each.func for each in decorators if isinstance(each, ast.Call)]
        return any(isinstance(func, ast.Name) and func.id in REGISTERS for func in calls)

    @cached_property
    def imports(self) -> tuple[tuple[str, int], ...]:
        """(module, line), wherever in the file it stands; `from package import module` names the module."""
        return tuple(self._imports())

    def _imports(self) -> Iterator[tuple[str, int]]:
        for node in find_nodes(self.tree, ast.Import, ast.ImportFrom):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name, node.lineno
            else:
                base = node.module or ""
                if node.level:
                    parts = self.package.split(".")
                    base = ".".join(parts[: len(parts) - node.level + 1] + ([base] if base else []))
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    yield (inner if inner in modules() else base), node.lineno


@cache
def modules() -> dict[str, Module]:
    found = {}
    for path, _, tree in list_source_files():
        parts = get_place(path).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path, tree)
    return found


def rank(name: str) -> int:
    while name not in RANKS:
        name = name.rpartition(".")[0]
    return RANKS[name]


def ours(module: Module) -> Iterator[tuple[str, int]]:
    return ((name, line) for name, line in module.imports if name.split(".")[0] in ("gatepost", "gatepost_testing"))


def test_imports_point_one_way() -> None:
    wrong = [
        f"{module.path.relative_to(ROOT)}:{line} imports {name}, which stands above it"
        for module in modules().values()
        for name, line in ours(module)
        if rank(name) > rank(module.name)
    ]
    assert wrong == []


def test_every_package_has_its_layer() -> None:
    packages = {".".join(name.split(".")[: 2 if name.startswith("gatepost.") else 1]) for name in modules()}
    assert sorted(packages - RANKS.keys()) == []


def test_nobody_imports_a_plugin() -> None:
    wrong = [
        f"{module.path.relative_to(ROOT)}:{line} imports the plug-in {name}"
        for module in modules().values()
        if rank(module.name) != RANKS["gatepost_testing"]
        for name, line in ours(module)
        if name in modules() and modules()[name].is_plugin
    ]
    assert wrong == []


def test_there_are_plugins_of_every_kind() -> None:
    """Else the test above would hold for the wrong reason."""
    kinds = {module.name.rpartition(".")[0] for module in modules().values() if module.is_plugin}
    assert kinds >= {"gatepost.channels", "gatepost.tools", "gatepost.sandboxes", "gatepost.inside.providers"}


def test_what_runs_inside_imports_little() -> None:
    allowed = ("gatepost", "gatepost.inside", "gatepost.mailbox", "gatepost.jsonrpc")
    wrong = [
        f"{module.path.relative_to(ROOT)}:{line} imports {name}"
        for module in modules().values()
        if module.name.startswith(("gatepost.inside", "gatepost.mailbox", "gatepost.jsonrpc"))
        for name, line in module.imports
        if name.split(".")[0] not in sys.stdlib_module_names | {"msgspec", "apsw"}
        and name != "gatepost"
        and not name.startswith(tuple(f"{each}." for each in allowed[1:]))
        and name not in allowed
    ]
    assert wrong == []


def test_the_embedding_library_stands_alone() -> None:
    """It imports nothing else of ours but jsonrpc. Nothing of ours imports it."""
    wrong = [
        f"{module.path.relative_to(ROOT)}:{line} imports {name}"
        for module in modules().values()
        for name, line in ours(module)
        if module.name.startswith("gatepost.embed") != name.startswith("gatepost.embed")
        and "gatepost.embed" in (name[:14], module.name[:14])
        and not name.startswith("gatepost.jsonrpc")
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "name",
    [
        "gatepost.inside.bridge",
        "gatepost.inside.forwarder",
        "gatepost.embed.bridge",
        "gatepost.serve.agents.bridge",
        "gatepost.__init__",
    ],
)
def test_what_must_start_fast_imports_the_standard_library_alone(name: str) -> None:
    assert third_party_imports(name.removesuffix(".__init__"), modules()) == []


def third_party_imports(name: str, known: Mapping[str, Module]) -> list[str]:
    """Return what a module imports besides the standard library, itself or through modules of ours."""
    found, seen, waiting = [], {name}, [name]
    while waiting:
        module = known[waiting.pop()]
        for imported, line in module.imports:
            if imported in known and imported not in seen:
                seen.add(imported)
                waiting.append(imported)
            elif imported not in known and imported.split(".")[0] not in sys.stdlib_module_names:
                found.append(f"{module.name}:{line} imports {imported}")
    return found


def test_a_third_party_import_is_found_behind_modules_of_ours() -> None:
    sources = {"gatepost.a": "import os\nimport gatepost.b", "gatepost.b": "import gatepost.a\ndef f(): import msgspec"}
    planted = {name: Module(name, Path(f"{name}.py"), ast.parse(text)) for name, text in sources.items()}
    assert third_party_imports("gatepost.a", planted) == ["gatepost.b:2 imports msgspec"]


MOST_FILES = 30


def crowded_folders(paths: Iterable[Path]) -> list[str]:
    """Return the folders with too many modules in one level: a stranger finds nothing in a long list."""
    found = Counter(path.parent for path in paths)
    return sorted(f"{folder}: {number}" for folder, number in found.items() if number > MOST_FILES)


def test_a_folder_can_be_seen_at_a_glance() -> None:
    assert crowded_folders(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py")) == []


def test_a_crowded_folder_is_found() -> None:
    files = [Path(f"a/{number}.py") for number in range(MOST_FILES + 1)]
    assert crowded_folders(files) == ["a: 31"]
    assert crowded_folders([*files[1:], Path("a/b/c.py")]) == []


MOST_DEFERRED = 60


def deferred_imports(known: Iterable[Module]) -> list[str]:
    """Return the imports inside functions. One is for what is rare or optional, and heavy. Two of the same library say
    that the noun which needs it should be a module, loaded in one place."""
    return sorted(
        {
            f"{module.name}:{each.lineno}"
            for module in known
            for function in find_nodes(module.tree, ast.FunctionDef, ast.AsyncFunctionDef)
            for each in ast.walk(function)
            if isinstance(each, ast.Import | ast.ImportFrom)
        }
    )


def test_few_imports_are_inside_functions() -> None:
    found = deferred_imports(each for each in modules().values() if rank(each.name) != RANKS["gatepost_testing"])
    assert len(found) <= MOST_DEFERRED, found


def test_an_import_inside_a_function_is_found_once() -> None:
    text = "import os\nclass A:\n  async def f(self):\n    def g():\n      import json\n    from os import path"
    planted = Module("gatepost.a", Path("a.py"), ast.parse(text))
    assert deferred_imports([planted]) == ["gatepost.a:5", "gatepost.a:6"]


# Google's models, their API and its key have the name of its agent.
AGENT = re.compile(r"codex|opencode|(?<!google_)gemini(?!-|_api_key| api\b)|goose", re.IGNORECASE)


def names_of_agents(source: Path) -> list[str]:
    """Return where a coding agent is named outside its own file or folder. `source`: the package's folder."""
    own = [source / "inside/providers"]
    return [
        f"{path.relative_to(source)}:{number} names {found[0]}"
        for path in sorted(source.rglob("*.py"))
        if not any(path.is_relative_to(each) for each in own)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (found := AGENT.search(line))
    ]


def test_a_provider_is_named_in_its_own_file_alone() -> None:
    assert names_of_agents(SOURCE / "gatepost") == []


def test_a_table_that_names_a_provider_is_found(tmp_path: Path) -> None:
    for name in (
        "inside/providers/codex/__init__.py",
        "serve/modes.py",
        "jsonrpc/mcp_clients.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('"""Modes."""\nMODES = {"Codex": ()}\n')
    assert names_of_agents(tmp_path) == [
        f"{name}:2 names Codex" for name in ("jsonrpc/mcp_clients.py", "serve/modes.py")
    ]


def test_sqlite3_is_imported_nowhere() -> None:
    """Two SQLite libraries in one process drop each other's locks."""
    wrong = []
    for folder in ("src", "testing", "tests", "bench", "scripts", "docs", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "sqlite3" in text else ():
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                wrong += [str(path.relative_to(ROOT)) for name in names if name.split(".")[0] == "sqlite3"]
    assert wrong == []


def test_nobody_waits_by_a_call_that_swallows_being_cancelled() -> None:
    """Before Python 3.12, `asyncio.wait_for` returns as if nothing were if what it waits for ends just as it is
    cancelled. A loop around it then goes on for ever. `asyncio.timeout` does not do so."""
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("src", "testing", "bench")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "asyncio.wait_for(" in line
    ]
    assert wrong == []


def test_sql_stands_in_the_store_and_the_mailbox_alone() -> None:
    statement = re.compile(
        r"\s*(SELECT\s.+\sFROM\s|INSERT\s+INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|CREATE\s+(UNIQUE\s+)?(TABLE|INDEX)\s"
        r"|PRAGMA\s)",
        re.DOTALL,
    )
    wrong = [
        f"{module.path.relative_to(ROOT)}:{node.lineno}"
        for module in modules().values()
        if not module.name.startswith(("gatepost.store", "gatepost.mailbox", "gatepost_testing"))
        for node in find_nodes(module.tree, ast.Constant)
        if isinstance(node.value, str) and statement.match(node.value)
    ]
    assert wrong == []


def test_every_module_says_what_it_is() -> None:
    """An empty `__init__.py` has nothing to say."""
    silent = [
        str(module.path.relative_to(ROOT))
        for module in modules().values()
        if module.tree.body and not ast.get_docstring(module.tree)
    ]
    assert silent == []


def loaded_by(*args: str, home: Path) -> set[str]:
    """The top-level packages in memory after a command ran."""
    code = (
        "import sys; from gatepost.cli.main import main\n"
        f"sys.argv = ['gatepost', *{list(args)!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write('\\nloaded ' + ' '.join(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    env = {**os.environ, "GATEPOST_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", code], input="", capture_output=True, text=True, env=env, check=True, timeout=60
    )
    return set(done.stderr.rpartition("\nloaded ")[2].split())


def test_telling_the_version_loads_next_to_nothing(tmp_path: Path) -> None:
    assert loaded_by("--version", home=tmp_path) & (HEAVY | {"click", "apsw", "msgspec", "asyncio"}) == set()


@pytest.mark.parametrize("args", [("ledger", "check"), ("ledger", "list"), ("status",), ("route", "list"), ("--help",)])
def test_a_command_loads_neither_server_nor_protocol_libraries(args: tuple[str, ...], tmp_path: Path) -> None:
    found = loaded_by(*args, home=tmp_path)
    assert "click" in found
    assert found & (HEAVY - {"rich"}) == set()


def test_to_know_every_setting_needs_no_protocol_library(tmp_path: Path) -> None:
    assert loaded_by("settings", home=tmp_path) & {"mcp", "pydantic"} == set()


def test_a_daemon_loads_nothing_that_draws_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log is open when it finds that its address is taken."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("GATEPOST_LISTEN", f"127.0.0.1:{taken.getsockname()[1]}")
        found = loaded_by("up", home=tmp_path)
    assert "structlog" in found
    assert "rich" not in found


def test_a_bridge_loads_the_standard_library_alone(tmp_path: Path) -> None:
    for way in (("--socket", str(tmp_path / "nobody.sock")), ("--url", f"unix:{tmp_path}/nobody.sock:/mcp/agents")):
        found = loaded_by("bridge", *way, home=tmp_path)
        assert found & (HEAVY | {"click", "apsw", "msgspec", "structlog", "asyncio", "typing"}) == set()


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("this is not a git checkout")
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_names_a_place_of_one_machine_or_a_package_index() -> None:
    machine = re.compile(rb"(?<![\w/.}\])])/(?:work|root)/\w" + rb"|pypi\." + rb"org|pythonhosted\." + rb"org")
    wrong = []
    for path in tracked():
        if path.suffix in (".png", ".woff2") or path == Path(__file__):
            continue
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if machine.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line[:80].decode(errors='replace')}")
    assert wrong == []
