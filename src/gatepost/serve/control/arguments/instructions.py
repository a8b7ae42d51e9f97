"""Instructions of agents: what AGENTS.md said, version by version."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.arguments.groups import READ, WRITE, Folder
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.sessions.instructions import InstructionSource


class InstructionEntry(Struct, frozen=True, kw_only=True):
    """A version of an agent's instructions. `by`: a person, `operator`, the agent itself, '' for whoever uses the
    machine, or `agent-or-machine` where a program of an agent may have run; `by_name`: as people call them."""

    written_at: Annotated[int, shown("When", ShownAs.MOMENT)]
    by: str
    by_name: Annotated[str, shown("Who", head="by")]
    source: Annotated[InstructionSource, shown("How", head="how")]
    size: Annotated[int, shown("Characters", ShownAs.NUMBER, head="characters")]
    id: Annotated[int, shown("Version", ShownAs.NUMBER, head="version")]
    is_current: bool  # it is what the agent goes by now


@declares("instructions.list", right=READ, reads=True)
class ListInstructionsArgs(OperationArgs[list[InstructionEntry]], frozen=True):
    """List the versions of an agent's instructions (AGENTS.md), the newest first: when each came, and by whom.

    Changes by the agent or by somebody on the machine are found within a minute while a gateway runs. Each group keeps
    the last 50 versions of people, and the last 20 that were found.
    """

    folder: Folder


class InstructionChange(Struct, frozen=True, kw_only=True):
    """A version, and what putting it back would change. `current`: the version of the file as it is, '' if there is
    none. `undo`: the version before it, if it was put back just now."""

    entry: InstructionEntry
    text: str
    changes: list[str]
    current: str
    undo: int | None


_Version = Annotated[int, argument("Its number in the list.", least=1)]


@declares("instructions.show", right=READ, needs_home=True)
class ShowInstructionsArgs(OperationArgs[InstructionChange], frozen=True):
    """Show one version of an agent's instructions, and what putting it back would change."""

    folder: Folder
    id: _Version


class PutBackAnswer(Struct, frozen=True, kw_only=True):
    """`undo`: the version that was in force before; None: nothing changed."""

    folder: str
    version: str
    undo: int | None


@declares("instructions.put_back", right=WRITE, needs_home=True)
class PutBackArgs(OperationArgs[PutBackAnswer], frozen=True):
    """Have an agent go by an earlier version of its instructions again.

    The text that was in force is kept as a version and can be put back in the same way. Agents that are awake take it
    up after their turn.
    """

    folder: Folder
    id: _Version
    version: Annotated[
        str,
        option("Only if the file is this version, as `version` of its text says; else whatever it is.", hidden=True),
    ] = ""
