"""Calls to a gateway that may be away: what is asked again, and what is not."""

import pytest

from gatepost.cli import gateway_retry
from gatepost.cli.gateway_retry import retry_unavailable
from gatepost.core.errors import Unavailable


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_retry, "RETRY_S", 0.0)


class Caller:
    """Fails so often, then answers."""

    def __init__(self, error: Unavailable, failures: int) -> None:
        self._error, self._failures, self.calls = error, failures, 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self._failures:
            raise self._error
        return "done"


def test_what_is_away_is_asked_again_until_it_is_back() -> None:
    call, lost = Caller(Unavailable("the gateway"), 2), []
    assert retry_unavailable(call, lambda: lost.append(1), harmless=False) == "done"
    assert (call.calls, len(lost)) == (3, 2)


@pytest.mark.parametrize(
    ("error", "harmless"),
    [
        (Unavailable("the gateway", uncertain=True), False),
        (Unavailable("the gateway", uncertain=True, lasting=True), False),
        (Unavailable("the gateway", uncertain=True, lasting=True), True),
    ],
)
def test_a_change_that_may_be_done_and_another_version_are_asked_once(error: Unavailable, harmless: bool) -> None:
    call = Caller(error, 1)
    with pytest.raises(Unavailable):
        retry_unavailable(call, lambda: None, harmless=harmless)
    assert call.calls == 1


def test_what_only_looks_is_asked_again_although_it_may_be_done() -> None:
    assert retry_unavailable(Caller(Unavailable("the gateway", uncertain=True), 1), lambda: None, harmless=True)
