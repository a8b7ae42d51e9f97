"""One order of words and deeds: what is asked of a runner before a call, and when it is not asked any more."""

from gatepost.flow.sessions.runner.result_order import MOST_UNSEEN, ResultOrder
from gatepost.mailbox import runner_frames


class Runner:
    """Answers at once."""

    def __init__(self, *, seen: bool) -> None:
        self.seen, self.asked = seen, list[runner_frames.FlushFrame]()
        self.at_work = True
        self.order = ResultOrder(self.hear, lambda: self.at_work)

    def hear(self, frame: runner_frames.Frame) -> None:
        assert isinstance(frame, runner_frames.FlushFrame)
        self.asked.append(frame)
        self.order.receive_flush_reply(runner_frames.FlushReplyFrame(id=frame.id, seen=self.seen))


async def test_stranger_19_a_call_outside_of_a_turn_asks_nobody() -> None:
    runner = Runner(seen=True)
    runner.at_work = False
    await runner.order.flush_results("send", "c-1.1")
    assert runner.asked == []


async def test_stranger_19_a_connection_whose_calls_nobody_announces_waits_no_longer() -> None:
    runner = Runner(seen=False)
    for number in range(MOST_UNSEEN + 1):
        await runner.order.flush_results("send", f"c-1.{number}")
    await runner.order.flush_results("send", "c-2.1")
    assert [frame.wait for frame in runner.asked] == [True] * MOST_UNSEEN + [False, True]

    runner.seen = True
    await runner.order.flush_results("send", "c-1.9")
    await runner.order.flush_results("send", "c-1.10")
    assert runner.asked[-1].wait


async def test_stranger_19_an_answer_that_nobody_waits_for_is_ignored() -> None:
    runner = Runner(seen=True)
    runner.order.receive_flush_reply(runner_frames.FlushReplyFrame(id=77))
    await runner.order.flush_results("send", "c-1.1")
    assert len(runner.asked) == 1


async def test_a_script_that_connects_anew_for_every_call_is_delayed_a_few_times_only() -> None:
    runner = Runner(seen=False)
    for number in range(MOST_UNSEEN + 5):
        await runner.order.flush_results("send", f"c-{number}.1")
    assert [frame.wait for frame in runner.asked] == [True] * MOST_UNSEEN + [False] * 5

    runner.seen = True  # an agent's own client speaks again: what connects next may be one, too
    await runner.order.flush_results("send", "c-90.1")
    await runner.order.flush_results("send", "c-91.1")
    assert runner.asked[-1].wait
