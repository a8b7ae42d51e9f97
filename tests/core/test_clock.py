from gatepost.core.clock import SystemClock, iso, seconds


def test_the_clock_never_stands_still_nor_runs_backwards() -> None:
    clock = SystemClock()
    moments = [clock.now() for _ in range(1000)]

    assert moments == sorted(set(moments))


def test_a_moment_is_written_with_milliseconds() -> None:
    assert iso(1_800_000_000_123_456) == "2027-01-15T08:00:00.123Z"
    assert iso(1_800_000_000_123_456, "Europe/Berlin") == "2027-01-15T09:00:00.123+01:00"
    assert iso(None) is None


def test_seconds_become_microseconds() -> None:
    assert seconds(0.25) == 250_000
