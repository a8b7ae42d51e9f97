"""Ways of signing in that are wanted and cannot be used."""

from typing import Any

from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.serve.web.signin.contract import SignInWay
from gatepost.serve.web.signin.ways import describe_missing, list_missing_ways, list_ways


def make_way(name: str, module: str, *, is_wanted: bool) -> SignInWay:
    def make(deps: Any) -> Any:
        raise AssertionError

    return SignInWay(
        name=name, label=name, make=make, wanted=lambda config: is_wanted, module=module, extra=f"{name}-extra"
    )


def test_a_way_is_missing_if_it_is_wanted_and_its_module_is_not_there() -> None:
    registry: Registry[SignInWay] = Registry("way")
    for way in (
        make_way("there", "json", is_wanted=True),
        make_way("away", "no_such_module", is_wanted=True),
        make_way("off", "no_such_module", is_wanted=False),
    ):
        registry.add(way.name, way, origin="test")
    (missing,) = list_missing_ways(Config(), registry)
    assert missing.name == "away" and "away is on" in describe_missing(missing)
    assert [each.name for each in list_ways(Config(), registry)] == ["there"]
