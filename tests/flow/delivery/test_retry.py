"""When a delivery is tried again."""

from gatepost.core.clock import SECOND
from gatepost.core.errors import Unavailable
from gatepost.core.settings import Config
from gatepost.flow.delivery.retry import DeliveryRetryPolicy, GiveUp, RetryAt, load_retry_policy, next_try

NOW = 1_000_000 * SECOND
AWAY = Unavailable("fake", "away")


def test_waits_double_up_to_the_cap() -> None:
    policy = DeliveryRetryPolicy(most_tries=10, base=SECOND, cap=10 * SECOND)

    waits = [next_try(tries, AWAY, NOW, policy) for tries in range(1, 7)]

    assert waits == [RetryAt(NOW + wait * SECOND) for wait in (1, 2, 4, 8, 10, 10)]


def test_what_the_platform_asks_for_is_honoured_beyond_the_cap_and_below_the_base() -> None:
    assert next_try(1, Unavailable("fake", retry_after=90), NOW, DeliveryRetryPolicy()) == RetryAt(NOW + 90 * SECOND)
    assert next_try(5, Unavailable("fake", retry_after=0.5), NOW, DeliveryRetryPolicy()) == RetryAt(NOW + SECOND // 2)
    assert next_try(1, Unavailable("fake", retry_after=-3), NOW, DeliveryRetryPolicy()) == RetryAt(NOW)


def test_a_wait_longer_than_a_message_may_be_old_is_not_waited_for() -> None:
    verdict = next_try(1, Unavailable("fake", retry_after=86_400), NOW, DeliveryRetryPolicy())

    assert isinstance(verdict, GiveUp) and "86400 s" in verdict.reason


def test_the_last_try_is_the_last() -> None:
    verdict = next_try(3, AWAY, NOW, DeliveryRetryPolicy(most_tries=3))

    assert verdict == GiveUp("fake is unavailable: away (given up after 3 tries)")


def test_a_very_high_number_of_tries_does_not_overflow() -> None:
    assert next_try(10_000, AWAY, NOW, DeliveryRetryPolicy(most_tries=20_000)) == RetryAt(NOW + 60 * SECOND)


def test_the_policy_comes_from_the_settings() -> None:
    policy = load_retry_policy(
        Config({"delivery.max_tries": 3, "delivery.retry_base_s": 0.5, "delivery.max_age_s": 60.0})
    )

    assert policy == DeliveryRetryPolicy(most_tries=3, base=SECOND // 2, most_age=60 * SECOND)


def test_stranger_20_the_number_of_tries_ends_nothing_by_itself() -> None:
    assert next_try(1000, AWAY, NOW, load_retry_policy(Config())) == RetryAt(NOW + 60 * SECOND)
