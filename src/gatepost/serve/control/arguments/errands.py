"""Errands: what agents gave to other agents to do."""

from typing import Annotated, Any

from gatepost.serve.control.declaration import OperationArgs, argument, declares, option

READ = "errands.read"


@declares("errand.list", right=READ, reads=True)
class ListErrandsArgs(OperationArgs[Any], frozen=True):
    """Errands, the newest first: who asked whom, how far from the person, the state, the cost and the age."""

    folder: Annotated[str, option("Only those that this group or one below it gave out or has to do.", scope=True)] = ""
    open: Annotated[bool, option("Only those that have not returned yet.")] = False
    before: Annotated[str, option("Only those older than this one.", metavar="ID")] = ""
    limit: Annotated[int, option("At most so many.", least=1, most=1000)] = 100


@declares("errand.show", right=READ, reads=True)
class ShowErrandArgs(OperationArgs[Any], frozen=True):
    """One errand: who is behind it, the errands above and below it, what was asked, and what came back."""

    id: Annotated[str, argument("The errand's id, as `errand list` shows it.", "errand")]
