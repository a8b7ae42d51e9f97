"""The audit log: who did what, and whether the record still holds."""

from typing import Annotated, Any

from gatepost.serve.control.declaration import OperationArgs, declares, option

READ = "audit.read"


@declares("audit.verify", right=READ, needs_home=True)
class VerifyAuditArgs(OperationArgs[Any], frozen=True):
    """Check the hash chain from its first row. Exit 1 if a row does not hold.

    If several gateways share the store, each has a chain. All of them are checked, and the seals of those that were
    taken over from.

    The output names the head of the chain. Keep it in a place that nobody with access to the store can write to. With
    --head a later check shows if the newest rows were cut off, or if all rows were rewritten. The chain alone cannot
    show that.
    """

    head: Annotated[
        str | None, option("A head that was told before: the chain must go on from it.", metavar="[GATEWAY/]SEQ:HASH")
    ] = None


@declares("audit.list", right=READ, reads=True)
class ListAuditArgs(OperationArgs[Any], frozen=True):
    """The newest rows, oldest first."""

    limit: Annotated[int, option("The newest N rows.", least=1, most=100_000)] = 50
