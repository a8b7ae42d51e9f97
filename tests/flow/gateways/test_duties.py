"""What one gateway at a time does."""

import asyncio

import pytest

from gatepost.flow.gateways.duties import SCHEDULE, Duties, channel_duty


def test_a_gateway_by_itself_does_everything() -> None:
    alone = Duties()
    assert alone.holds(SCHEDULE) and alone.sends_to("telegram")


def test_one_of_several_does_what_it_holds() -> None:
    shared = Duties(shared=True)
    assert not shared.holds(SCHEDULE)
    shared.set_held({SCHEDULE, channel_duty("telegram")})
    assert shared.holds(SCHEDULE) and shared.sends_to("telegram") and not shared.sends_to("discord")


def test_whoever_follows_is_told_of_changes_alone() -> None:
    shared, told = Duties(shared=True), list[int]()
    shared.on_change(lambda: told.append(1))
    for held in ({SCHEDULE}, {SCHEDULE}, set[str]()):
        shared.set_held(held)
    assert len(told) == 2


def test_a_duty_that_was_lost_has_another_term_and_so_has_one_that_was_got_again() -> None:
    shared, duty = Duties(shared=True), channel_duty("telegram")
    shared.set_held({duty})
    first = shared.get_term(duty)
    shared.set_held({duty, SCHEDULE})
    assert shared.get_term(duty) == first
    shared.set_held({SCHEDULE})
    lost = shared.get_term(duty)
    shared.set_held({duty, SCHEDULE})
    assert len({first, lost, shared.get_term(duty)}) == 3  # what it knew of the channel is old once it is lost


async def test_a_loop_runs_while_its_duty_is_held() -> None:
    shared, runs = Duties(shared=True), asyncio.Queue[str]()

    async def work() -> None:
        runs.put_nowait("begun")
        try:
            await asyncio.Event().wait()
        finally:
            runs.put_nowait("ended")

    task = asyncio.create_task(shared.run_while_held(SCHEDULE, work))
    for held, expected in ((True, "begun"), (False, "ended"), (True, "begun")):
        shared.set_held({SCHEDULE} if held else ())
        assert await runs.get() == expected
    shared.set_held({SCHEDULE, "another"})  # nothing changes for this one
    task.cancel()
    assert await runs.get() == "ended"
    assert runs.empty()


async def test_a_loop_that_breaks_is_not_hidden() -> None:
    shared = Duties(shared=True)
    shared.set_held({SCHEDULE})

    async def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await shared.run_while_held(SCHEDULE, work)
