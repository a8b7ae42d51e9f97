"""What a platform answers, read as what it means for whoever sends."""

import httpx2
import pytest

from gatepost.channels.kit.http import PlatformHttp
from gatepost.core.errors import Unavailable
from gatepost.flow.delivery.retry import DeliveryRetryPolicy, next_try


def read_wait(http: PlatformHttp, told: str) -> float | None:
    with pytest.raises(Unavailable) as raised:
        http._check(httpx2.Response(429, headers={"retry-after": told}), {}, "send", True)
    next_try(1, raised.value, 0, DeliveryRetryPolicy())
    return raised.value.retry_after


@pytest.mark.parametrize(
    ("told", "wait"), [("7", 7.0), ("0.5", 0.5), ("-3", 0.0), ("nan", None), ("inf", None), ("-inf", None), ("x", None)]
)
def test_a_wait_that_is_no_number_of_seconds_is_none(told: str, wait: float | None) -> None:
    assert read_wait(PlatformHttp("it", "https://example.org"), told) == wait


@pytest.mark.parametrize(("found", "wait"), [(3.0, 3.0), (float("nan"), None), (float("inf"), None)])
def test_so_is_one_that_stands_in_the_answer(found: float, wait: float | None) -> None:
    http = PlatformHttp("it", "https://example.org", find_retry_after=lambda response, answer: found)
    assert read_wait(http, "9") == wait
