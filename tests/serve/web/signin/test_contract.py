"""Sign-in methods that are wanted and cannot be used."""

from typing import Any

from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.serve.web.signin.contract import SignInMethod, describe_missing, list_methods, list_missing_methods


def make_method(name: str, module: str, *, is_wanted: bool) -> SignInMethod:
    def make(deps: Any) -> Any:
        raise AssertionError

    return SignInMethod(
        name=name, label=name, make=make, wanted=lambda config: is_wanted, module=module, extra=f"{name}-extra"
    )


def test_a_method_is_missing_if_it_is_wanted_and_its_module_is_not_there() -> None:
    registry: Registry[SignInMethod] = Registry("method")
    for method in (
        make_method("there", "json", is_wanted=True),
        make_method("away", "no_such_module", is_wanted=True),
        make_method("off", "no_such_module", is_wanted=False),
    ):
        registry.add(method.name, method, origin="test")
    (missing,) = list_missing_methods(Config(), registry)
    assert missing.name == "away" and "away is on" in describe_missing(missing)
    assert [each.name for each in list_methods(Config(), registry)] == ["there"]
