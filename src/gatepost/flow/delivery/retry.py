"""When a delivery is tried again, and when no longer. Pure: times are microseconds, `now` is given."""

from msgspec import Struct

from gatepost.core.clock import SECOND, to_microseconds
from gatepost.core.errors import Unavailable
from gatepost.core.settings import Config, setting

MAX_TRIES = setting(
    "delivery.max_tries",
    0,
    help="After this many tries a message to a room counts as failed; 0: as many as fit into delivery.max_age_s.",
)
RETRY_BASE_S = setting(
    "delivery.retry_base_s", 1.0, help="The first wait before a delivery is tried again; then it doubles."
)
RETRY_CAP_S = setting(
    "delivery.retry_cap_s", 60.0, help="The longest wait between two tries, unless the platform asks for more."
)
MAX_AGE_S = setting(
    "delivery.max_age_s", 3600.0, help="Messages that could not be delivered for this long are not sent any more."
)


class DeliveryRetryPolicy(Struct, frozen=True, kw_only=True):
    most_tries: int = 0  # 0: time alone ends it
    base: int = SECOND
    cap: int = 60 * SECOND
    most_age: int = 3600 * SECOND


class RetryAt(Struct, frozen=True):
    at: int


class GiveUp(Struct, frozen=True):
    reason: str


def load_retry_policy(config: Config) -> DeliveryRetryPolicy:
    return DeliveryRetryPolicy(
        most_tries=config[MAX_TRIES],
        base=to_microseconds(config[RETRY_BASE_S]),
        cap=to_microseconds(config[RETRY_CAP_S]),
        most_age=to_microseconds(config[MAX_AGE_S]),
    )


def next_try(tries: int, error: Unavailable, now: int, policy: DeliveryRetryPolicy) -> RetryAt | GiveUp:
    """After `tries` failed ones, this one included. A wait that the platform asks for is honoured, be it more or less.
    By default only a message's age ends the tries: an outage must not last longer than the pauses happen to add up
    to."""
    if 0 < policy.most_tries <= tries:
        return GiveUp(f"{error} (given up after {tries} {'try' if tries == 1 else 'tries'})")
    if error.retry_after is None:
        return RetryAt(now + min(policy.base << min(tries - 1, 40), policy.cap))
    wait = to_microseconds(max(error.retry_after, 0.0))
    if wait > policy.most_age:
        return GiveUp(f"{error} (it asks for a wait of {error.retry_after:.0f} s)")
    return RetryAt(now + wait)
