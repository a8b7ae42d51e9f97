"""What all emulators share."""

import pytest

from gatepost.testing.platforms.base import NotOffered, PlatformFault
from gatepost.testing.platforms.toy import ToyPlatform


def test_a_fault_that_nobody_claims_does_not_hold_up_the_others() -> None:
    platform = ToyPlatform()
    platform.fault(PlatformFault.FORGOTTEN, PlatformFault.BUSY, PlatformFault.RATE_LIMIT)
    sending = (PlatformFault.RATE_LIMIT, PlatformFault.BUSY)
    assert platform.claim_fault(*sending) is PlatformFault.BUSY
    assert platform.claim_fault(*sending) is PlatformFault.RATE_LIMIT
    assert platform.claim_fault(*sending) is None
    assert platform.list_unused() == [PlatformFault.FORGOTTEN]
    platform.heal()
    assert platform.list_unused() == []


def test_one_fault_that_is_asked_for_twice_happens_twice() -> None:
    platform = ToyPlatform()
    platform.fault(PlatformFault.BUSY, PlatformFault.BUSY)
    assert [platform.claim_fault(PlatformFault.BUSY) for _ in range(3)] == [PlatformFault.BUSY] * 2 + [None]


def test_whom_a_platform_without_a_rule_wakes_is_not_known() -> None:
    with pytest.raises(NotOffered):
        ToyPlatform().list_woken()
