"""A turn is ended, breaks off, or is followed by a restart."""

from gatepost.flow.notices import INTERRUPTED
from gatepost.flow.sessions.session_ending import Ending
from gatepost.store.messages.inbox import InboxState
from gatepost.store.money import costs, reservations
from gatepost.store.sessions import turns
from gatepost_testing.agent_suite.checks.conversation import HELLO, PLUM, RECALL
from gatepost_testing.agent_suite.trial import AgentTrial, expect
from gatepost_testing.waiting import until


async def check_stop(trial: AgentTrial) -> None:
    """`/stop` ends an answer in its middle and a request that hangs; what was asked of the vendor is booked."""
    long = {"when": "long story", "do": [{"hold_within": True, "say": "Once upon a time there was a plum."}]}
    hang = {"when": "hang on", "do": [{"fault": "hang", "times": -1}]}
    async with trial.running(HELLO, long, hang) as gateway:
        for number, text in enumerate(("a long story", "hang on"), 1):
            calls = len(trial.endpoint.calls)
            await trial.send(text)
            await trial.wait_for_call(calls + 1)
            (live,) = gateway.sessions.awake
            await gateway.sessions.stop(live.session.id, "test")
            expect(await trial.settle(), ["Stopped."] * number)
        booked = await gateway.store.read(costs.list_sums, "group")
        assert sum(each.micro for each in booked) > 0, "nothing was booked"
        expect(await trial.ask("hello you"), ["here"])
        assert await gateway.store.read(reservations.sum_reserved) == 0


async def check_kill_9(trial: AgentTrial) -> None:
    """A killed turn is continued: its prompt is not said twice, and its tool has one effect."""
    on = {"when": "broke off", "do": [{"say": "and the rest"}]}
    go = {"when": "go to it", "do": [{"call": "send", "with": {"text": "told"}}, {"hold": True, "say": "never heard"}]}
    async with trial.running(on, go) as gateway:
        receipt = await trial.send("go to it")
        # The tool's answer is on its way to the model.
        await until(lambda: any(call.count_text("", "tool") for call in trial.asked))
        (live,) = gateway.sessions.awake
        live.kill(Ending("the test pulls the plug"))
        said = await trial.settle()
        assert [text for text in said if text != INTERRUPTED] == ["told", "and the rest"], said
        entry = await trial.get_entry(receipt)
        turn = await gateway.store.read(turns.get, entry.turn_id or "")
        assert entry.state is InboxState.ANSWERED and turn is not None and turn.attempt == 2
    last = trial.asked[-1]
    assert last.count_text("go to it") == 1 and last.count_text("broke off") == 1


async def check_restart(trial: AgentTrial) -> None:
    """Two turns with a restart of the gateway between them are one conversation."""
    async with trial.running(RECALL, PLUM):
        expect(await trial.ask("remember the word plum"), ["I will remember plum."])
    async with trial.running(RECALL, PLUM) as gateway:
        (gateway.home.group("home") / "PERSONA.md").write_text("You like pears now.")
        expect(await trial.ask("which word was it?"), ["The word is plum."])
    last = trial.asked[-1]
    assert last.count_text("remember the word plum") == 1 and b"You like pears now." in last.raw
