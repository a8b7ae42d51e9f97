"""Checks before a start, and before a setting is written: values that their declarations alone cannot judge.

A check stands in the file that declares its settings. It looks at settings and files, and asks nobody over the network.
"""

from collections.abc import Callable

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.registry import Registry
from gatepost.core.settings import Config

StartCheck = Callable[[Home, Config], object]  # raises SetupError, which names the setting and the way out

START_CHECKS: Registry[StartCheck] = Registry("start check")


def start_check(check: StartCheck) -> StartCheck:
    """Register the function below."""
    name = f"{check.__module__}.{check.__qualname__}"
    START_CHECKS.add(name, check, origin=check.__module__)
    return check


def list_start_errors(home: Home, config: Config, checks: Registry[StartCheck] = START_CHECKS) -> list[SetupError]:
    """Return what a start would refuse, of the checks that are loaded."""
    found = []
    for check in (each for _, each in checks.items()):
        try:
            check(home, config)
        except SetupError as error:
            found.append(error)
    return found
