"""The rules that emulators enforce: each has a source, and a wrong call that is refused as the platform refuses it."""

import re
from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet
from tests.testing.platforms.callers import RuleCaller, list_callers

CALLERS = list_callers()


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
