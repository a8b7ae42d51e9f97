"""Messages that failed: try one again."""

from typing import Annotated

from gatepost.serve.control.declaration import OperationArgs, argument, declares, option

WRITE = "ledger.write"


@declares("ledger.retry", right=WRITE)
class RetryMessageArgs(OperationArgs, frozen=True):
    """Send a message that failed again, or give it to its agent again.

    What an agent said goes out once more, as it stands in the ledger. If its delivery was uncertain, the room may have
    it already: it may then stand there twice.

    What a person wrote waits for its agent once more, under the rights that the person has now. What the agent did
    before it failed, it may do again.
    """

    message: Annotated[int, argument("Its number in the ledger.", least=1, examples=(42,))]
    changed_at: Annotated[
        str, option("Only if it failed at this moment, as --json of the list has it; else whenever it did.")
    ] = ""
