"""How waiting for an agent ended, as an exit code: what a script can tell apart without reading anything."""

from gatepost.serve.control.arguments.agents import AgentSnapshot, WaitOutcome
from gatepost.store.sessions.sessions import SessionState

IDLE, FAILED, ASKS, STILL, CLOSED = 0, 3, 4, 5, 6
CODES = (
    "Exit status: 0 it has done what it was given; 3 its turn failed; 4 it waits for a permission or an answer; 5 it is"
    " still at work when the time is up; 6 it was ended for good; 1 refused or not reached, 2 misused, 130 interrupted"
    " (it works on)."
)


def get_exit_code(outcome: AgentSnapshot | WaitOutcome) -> int:
    """Return the exit code for an agent's state, as the gateway reports it."""
    if isinstance(outcome, WaitOutcome) and outcome.permission is not None:
        return ASKS
    if isinstance(outcome, WaitOutcome) and outcome.waited_out:
        return STILL
    return {SessionState.ERROR: FAILED, SessionState.CLOSED: CLOSED}.get(outcome.status, IDLE)
