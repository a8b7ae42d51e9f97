"""Calls to a gateway that may be restarted meanwhile.

Calls that only read or wait are repeated once it is back. A change that it may have received is not.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from gatepost.cli import output
from gatepost.cli.operation_command import read_answer
from gatepost.core.errors import Unavailable
from gatepost.serve.control.answers import ApiErrorKind
from gatepost.serve.control.arguments.agents import FollowAgentArgs, WaitForAgentArgs
from gatepost.serve.control.client import TIMEOUT_S, ControlClient, ControlError, get_result
from gatepost.serve.control.declaration import OperationArgs

R = TypeVar("R")
RETRY_S = 0.5  # before a gateway that went away is asked again
AWAY_S = 60.0  # how long one is waited for
LOOKING = (FollowAgentArgs, WaitForAgentArgs)
AWAY, BACK = "the gateway went away; waiting for it", "the gateway is back"


def post_operation(
    control: ControlClient, declared: type[OperationArgs[R]], args: dict[str, Any], timeout: float = TIMEOUT_S
) -> R:
    """Return what the running gateway answers. Unavailable, too, if a gateway that stops says so of something that only
    looks."""
    try:
        found = get_result(control.post(f"/v1/ops/{declared.info.name}", args, timeout))
    except ControlError as error:
        if error.kind == ApiErrorKind.UNAVAILABLE and declared in LOOKING:
            raise Unavailable("the gateway", str(error)) from None
        raise
    return read_answer(declared, found)


def retry_unavailable(once: Callable[[], R], lost: Callable[[], None], *, harmless: bool) -> R:
    """`harmless`: it may be done twice."""
    until = time.monotonic() + AWAY_S
    while True:
        try:
            return once()
        except Unavailable as error:
            if error.lasting or (error.uncertain and not harmless) or time.monotonic() > until:
                raise
            lost()
            time.sleep(RETRY_S)


class RetryingCaller:
    """For a command that goes on across a restart, and says so on stderr."""

    def __init__(self, control: ControlClient) -> None:
        self._control, self._away = control, False

    def __call__(self, declared: type[OperationArgs[R]], args: dict[str, Any]) -> R:
        """The first answer after it was away comes at once, whatever `args` say: that it is back is news."""
        begun = time.monotonic()

        def once() -> R:
            return post_operation(self._control, declared, {**args, "timeout_s": 0} if self._away else args)

        answer = retry_unavailable(once, self._lost, harmless=True)
        if self._away:
            output.print_line(BACK, error=True, flush=True)
        self._away = False
        if time.monotonic() - begun < RETRY_S / 10:
            time.sleep(RETRY_S / 10)  # a gateway that stops keeps nobody
        return answer

    def _lost(self) -> None:
        if not self._away:
            output.print_line(AWAY, error=True, flush=True)
        self._away = True
