"""The rules that emulators enforce: each has a source, and a wrong call that is refused as the platform refuses it."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from tests.testing.platforms.callers import RuleCaller, list_callers

from gatepost_testing import platforms, servers
from gatepost_testing.platforms.base import EmulatedPlatform

CALLERS = list_callers()
NO_PLATFORMS = {"oidc_provider"}  # it signs people in, by refusals of its own standard
SOURCES = [
    each
    for package in (platforms, servers)
    for each in Path(package.__path__[0]).rglob("*.py")
    if each.stem not in NO_PLATFORMS
]
WITHOUT_RULES = {"toy": "it shows how an emulator is written, and is no platform's"}
OF_REAL_SERVERS = {"email", "irc", "matrix", "xmpp"}  # which refuse by themselves, beside what our double refuses
CHOSEN_BY_TESTS = {"rate of an account", "rate in a subreddit"}  # of Reddit, whose limits nobody knows


def make_param(each: type[RuleCaller]) -> ParameterSet:
    marks = [pytest.mark.slow] * each.is_slow + [pytest.mark.skipif(bool(each.lacks), reason=each.lacks)]
    return pytest.param(each, marks=marks, id=each.platform_class.kind)


@pytest.fixture(params=map(make_param, CALLERS))
def caller(request: pytest.FixtureRequest) -> Iterator[RuleCaller]:
    with request.param.platform_class() as platform:
        made = request.param(platform)
        yield made
        made.close()


def test_every_rule_has_a_wrong_call_that_is_refused_in_the_platforms_own_words(caller: RuleCaller) -> None:
    for rule in caller.rules:
        status, said = caller.break_rule(rule)
        assert (rule.name, status, said) == (rule.name, rule.status, rule.refusal)


def test_every_rule_names_its_page_and_the_day_on_which_somebody_compared_it() -> None:
    for each in CALLERS:
        assert all(rule.source.startswith("https://") for rule in each.rules)
        assert all(re.fullmatch(r"(20\d\d-\d\d-\d\d)?", rule.read_on) for rule in each.rules)


def test_every_emulated_platform_has_a_table_of_rules() -> None:
    found = set()
    for name in [
        f"{package.__name__}.{info.name}"
        for package in (platforms, servers)
        for info in pkgutil.iter_modules(package.__path__)
    ]:
        module = importlib.import_module(name)
        classes = [
            each for _, each in inspect.getmembers(module, inspect.isclass) if issubclass(each, EmulatedPlatform)
        ]
        found |= {each.kind for each in classes if hasattr(each, "kind")}
    assert found - {each.platform_class.kind for each in CALLERS} == set(WITHOUT_RULES)


def list_sources(kind: str) -> list[Path]:
    """Return the modules of an emulator, without its table."""
    longer = [each.platform_class.kind for each in CALLERS if each.platform_class.kind.startswith(f"{kind}_")]
    files = [each for each in SOURCES if each.stem == kind or each.stem.startswith(f"{kind}_")]
    return [each for each in files if not each.stem.startswith(tuple(longer))]


def list_names(tree: ast.AST) -> Iterator[str]:
    """As patterns: a name may be put together from its parts."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield re.escape(each.value)
        elif isinstance(each, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else None for part in each.values]
            if any(parts):
                yield "".join(".+" if part is None else re.escape(str(part)) for part in parts)


@pytest.mark.parametrize("caller_class", CALLERS, ids=lambda each: str(each.platform_class.kind))
def test_every_rule_is_enforced_by_its_name_or_that_of_one_with_the_same_refusal(
    caller_class: type[RuleCaller],
) -> None:
    kind = caller_class.platform_class.kind
    if kind in OF_REAL_SERVERS:
        return
    trees = [ast.parse(each.read_text()) for each in list_sources(kind)]
    used = re.compile("|".join({name for tree in trees for name in list_names(tree)}))
    enforced = {(rule.status, rule.refusal) for rule in caller_class.rules if used.fullmatch(rule.name)}
    unused = [rule.name for rule in caller_class.rules if (rule.status, rule.refusal) not in enforced]
    assert set(unused) <= CHOSEN_BY_TESTS


def test_no_emulator_refuses_by_a_status_that_no_rule_has() -> None:
    found = []
    for file in SOURCES:
        for each in ast.walk(ast.parse(file.read_text())):
            if isinstance(each, ast.Call) and ast.unparse(each.func).endswith(("Response", "Error")):
                given = [*each.args, *(word.value for word in each.keywords)]
                statuses = [part.value for part in given if isinstance(part, ast.Constant)]
                found += [f"{file.stem}: {value}" for value in statuses if isinstance(value, int) and value >= 400]
    assert found == []


REFUSING = ("refuse", "_refuse", "fail", "GraphError")
ERROR_KEYS = {"error", "errcode", "errors", "error_code"}


def list_refusals_outside_rules(tree: ast.AST, names: set[str]) -> Iterator[str]:
    """List errors that stand in the source as words, and refusals by a name that no rule has."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and ast.unparse(each.func).rpartition(".")[2] in REFUSING and each.args:
            given = each.args[0]
            parts = [given.body, given.orelse] if isinstance(given, ast.IfExp) else [given]
            words = [part.value for part in parts if isinstance(part, ast.Constant)]
            yield from (f"line {each.lineno}: {word}" for word in words if word not in names)
        elif isinstance(each, ast.Dict):
            pairs = [pair for pair in zip(each.keys, each.values, strict=True) if isinstance(pair[1], ast.Constant)]
            words = [value.value for key, value in pairs if isinstance(key, ast.Constant) and key.value in ERROR_KEYS]  # type: ignore[attr-defined]
            yield from (f"line {each.lineno}: {word}" for word in words if isinstance(word, str) and word)


@pytest.mark.parametrize("caller_class", CALLERS, ids=lambda each: str(each.platform_class.kind))
def test_no_emulator_refuses_by_words_that_no_rule_has(caller_class: type[RuleCaller]) -> None:
    kind, names = caller_class.platform_class.kind, {rule.name for rule in caller_class.rules}
    found = [
        f"{file.stem}: {refusal}"
        for file in list_sources(kind)
        for refusal in list_refusals_outside_rules(ast.parse(file.read_text()), names)
    ]
    assert found == []
