"""One failed trial start must not switch a kind of sandbox off for the daemon's life."""

import errno
import os

import pytest

from gatepost.core.errors import Unavailable
from gatepost.sandboxes.probes import Probes


class Trials:
    """What each trial shows, one after the other; the last for good."""

    def __init__(self, *results: str | Exception | None) -> None:
        self.results, self.count, self.now = list(results), 0, 0.0
        self.probes = Probes(lambda: self.now)

    def ask(self) -> str | None:
        return self.probes.ask("bwrap", self._find)

    def _find(self) -> str | None:
        self.count += 1
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, Exception):
            raise result
        return result


def test_stranger_20_one_failed_trial_is_repeated_and_then_forgotten() -> None:
    trials = Trials(OSError(errno.EMFILE, os.strerror(errno.EMFILE)), None)
    with pytest.raises(Unavailable, match="Too many open files") as caught:
        trials.ask()
    assert caught.value.retry_after is not None and 5 <= caught.value.retry_after < 6
    trials.now = 4.9
    with pytest.raises(Unavailable):
        trials.ask()
    assert trials.count == 1
    trials.now = 5.0

    assert trials.ask() is None
    assert trials.count == 2


def test_a_refusal_is_tried_again_with_growing_pauses() -> None:
    trials = Trials("user namespaces are refused here")
    moments = []
    for second in range(300):
        trials.now, before = float(second), trials.count
        assert trials.ask() == "user namespaces are refused here"
        if trials.count > before:
            moments.append(second)

    assert moments == [0, 5, 15, 35, 75, 135, 195, 255]


def test_what_works_is_not_tried_again() -> None:
    trials = Trials(None)
    for second in range(1000):
        trials.now = float(second)
        assert trials.ask() is None
    assert trials.count == 1


def test_a_mistake_of_ours_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        Trials(ZeroDivisionError()).ask()
