"""A token bucket: who sends too fast waits, and who does not stop is found out."""

from gatepost.core.token_bucket import VOLUME, Rate, TokenBucket

RATE = Rate(per_second=100, burst=500, patience_s=60)


def test_a_burst_passes_and_what_is_more_waits_for_its_time() -> None:
    bucket = TokenBucket(RATE, 0.0)

    assert bucket.charge(500, 0.0) == 0
    assert bucket.charge(50, 0.0) == 0.5
    assert bucket.charge(0, 0.5) == 0


def test_stranger_04_a_flood_is_slowed_to_its_rate_and_then_found_out() -> None:
    bucket, now, taken = TokenBucket(RATE, 0.0), 0.0, 0
    while not bucket.is_flooded(now):
        now += max(bucket.charge(64, now), 0.0001)
        taken += 64

    assert 60 < now < 70
    assert taken <= 500 + 100 * now + 64


def test_stranger_04_who_pauses_is_never_taken_for_a_flood() -> None:
    bucket, now = TokenBucket(RATE, 0.0), 0.0
    for _ in range(100):
        for _ in range(10):
            now += bucket.charge(64, now)
        now += 5  # as long as it takes to think
        bucket.charge(0, now)
        assert not bucket.is_flooded(now)


def test_stranger_04_who_sends_many_bytes_is_slowed_and_never_ended_for_it() -> None:
    bucket = TokenBucket(VOLUME, 0.0)
    assert bucket.charge(VOLUME.burst, 0.0) == 0.0
    assert bucket.charge(170_000, 0.0) > 0.03
    assert not bucket.is_flooded(1e9)
