"""A conversation on a whole gateway leaves its durations behind, each once."""

import socket
from functools import partial
from pathlib import Path

from gatepost.core.durations import TimedStep
from gatepost.http_apps import measure_gateway
from gatepost.serve.metrics import MetricsPage
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder

ROOM = "fake:room/1"


async def test_a_message_is_counted_from_its_arrival_to_its_answer(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        script = ScriptBuilder().turn("look").call("list_tasks").say("nothing").otherwise().say("echo: {text}")
        script.write(gateway.home.group("home"))
        for number, text in enumerate(("look", "hello"), start=1):
            await channel.say(text, address=ROOM)
            await channel.wait_for(number)
        await wait_until_settled(gateway)
        for _ in range(2):  # who asks again counts nothing again
            await MetricsPage(gateway.store, gateway.clock, partial(measure_gateway, gateway)).get_text()
        measured = measure_gateway(gateway)
    counts = {
        (step, each.label): sum(each.counts) for step in TimedStep for each in measured.durations.list_counted(step)
    }
    assert counts == {
        (TimedStep.ANSWER, "fake"): 2,
        (TimedStep.DELIVERY, "fake"): 2,
        (TimedStep.QUEUE, ""): 2,
        (TimedStep.TOOL_CALL, ""): 1,
    }
    (answered,) = measured.durations.list_counted(TimedStep.ANSWER)
    (queued,) = measured.durations.list_counted(TimedStep.QUEUE)
    (delivered,) = measured.durations.list_counted(TimedStep.DELIVERY)
    assert measured.name == socket.gethostname()  # as long as nobody has named it
    assert answered.total_s > queued.total_s + delivered.total_s > 0
