"""A token bucket: who sends too fast waits, and who does not stop is found out. So it is for each of many keys."""

from gatepost.core.token_bucket import VOLUME, KeyedBuckets, Rate, TokenBucket

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


def test_to_ask_for_the_wait_costs_nothing() -> None:
    bucket = TokenBucket(RATE, 0.0)

    assert bucket.get_wait(0.0) == 0
    assert [bucket.preview(550, 0.0) for _ in range(3)] == [0.5] * 3
    assert bucket.charge(550, 0.0) == 0.5
    assert [bucket.get_wait(now) for now in (0.0, 0.25, 0.5, 9.0)] == [0.5, 0.25, 0.0, 0.0]
    assert bucket.preview(0, 0.25) == 0.25


def test_what_is_given_back_never_exceeds_the_burst() -> None:
    bucket = TokenBucket(RATE, 0.0)

    assert bucket.charge(-100, 0.0) == 0
    assert bucket.charge(501, 0.0) == 0.01


def test_each_key_has_a_rate_of_its_own() -> None:
    buckets = KeyedBuckets(Rate(per_second=1, burst=2, patience_s=60), 10)

    assert [buckets.charge("a", 0.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    assert (buckets.get_wait("a", 0.25), buckets.get_wait("b", 0.25)) == (0.75, 0.0)
    assert (buckets.charge("b", 0.25), buckets.get_wait("a", 1.0)) == (0.0, 0.0)


def test_a_new_key_may_have_another_rate_and_keeps_it() -> None:
    buckets = KeyedBuckets(Rate(per_second=1, burst=1, patience_s=60), 10)

    assert buckets.charge("shared", 0.0, Rate(per_second=10, burst=1, patience_s=60)) == 0
    assert buckets.charge("shared", 0.0) == 0.1


def test_the_table_of_keys_is_bounded_and_forgets_the_key_that_was_used_longest_ago() -> None:
    buckets = KeyedBuckets(Rate(per_second=1, burst=1, patience_s=60), 2)
    for key in ("a", "a", "b", "b"):
        buckets.charge(key, 0.0)
    assert buckets.get_wait("a", 0.0) == 1.0  # refused, and so used
    buckets.charge("c", 0.0)

    assert len(buckets) == 2
    assert (buckets.get_wait("a", 0.0), buckets.get_wait("b", 0.0)) == (1.0, 0.0)
    assert len(buckets) == 2  # nobody is remembered for being asked about
