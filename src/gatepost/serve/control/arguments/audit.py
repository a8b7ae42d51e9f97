"""The audit log: who did what, and whether the record still holds."""

from typing import Annotated

from gatepost.serve.control.declaration import OperationArgs, declares, option

READ = "audit.read"


@declares("audit.verify", right=READ, needs_home=True)
class VerifyAuditArgs(OperationArgs, frozen=True):
    """Check the hash chain from its first row. Exit 1 if a row does not hold.

    Of several gateways each has a chain; all of them are checked, and the seals of those that were taken over from.

    It tells the head of the chain. Keep that where nobody who can write to the store can: with --head it shows whether
    the newest rows were cut off, or all of it was written anew, which the chain alone cannot show.
    """

    head: Annotated[
        str | None, option("A head that was told before: the chain must go on from it.", metavar="[GATEWAY/]SEQ:HASH")
    ] = None


@declares("audit.list", right=READ, reads=True)
class ListAuditArgs(OperationArgs, frozen=True):
    """The newest rows, oldest first."""

    limit: Annotated[int, option("The newest N rows.", least=1, most=100_000)] = 50
