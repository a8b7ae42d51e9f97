"""Messages that failed: try one again."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import argument, option
from gatepost.serve.control.declaration import OperationArgs, declares

WRITE = "ledger.write"


class RetryResult(Struct, frozen=True, kw_only=True):
    """`sent`: deliveries that are on their way again. `given`: agents that get it again, by their conversations.
    `doubtful`: it may arrive twice."""

    message: int
    instance: str
    address: str
    sent: int
    given: list[str]
    doubtful: bool


@declares("ledger.retry", right=WRITE)
class RetryMessageArgs(OperationArgs[RetryResult], frozen=True):
    """Send a message that failed again, or give it to its agent again.

    A message of an agent is sent once more, as it stands in the ledger. If its delivery was uncertain, the room may
    have it already and then shows it twice.

    A message of a person waits for its agent once more, under the rights that the person has now. The agent may repeat
    its actions from before the failure.
    """

    message: Annotated[int, argument("Its number in the ledger.", least=1, examples=(42,))]
    changed_at: Annotated[
        str, option("Only if it failed at this moment, as --json of the list has it; else whenever it did.")
    ] = ""
