"""Which program is the adapter: one at a time. The newest wins; one that was replaced never comes back."""

from collections import OrderedDict
from collections.abc import Callable

from gatepost.core.errors import Refused

MOST_REPLACED = 200


class ProgramReplaced(Refused):
    """Another program with the same token took its place."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(old, "go on", why=f"{new} took its place with the same token; stop one of them")
        self.old, self.new = old, new


class ActiveProgram:
    def __init__(self, now: Callable[[], float], on_replaced: Callable[[str], None]) -> None:
        self._now, self._on_replaced = now, on_replaced
        self._replaced: OrderedDict[str, None] = OrderedDict()
        self._poll = 0
        self.open_polls = 0  # that wait now
        self.program = ""
        self.called_at: float | None = None

    def enter(self, program: str) -> None:
        """A call of this program. An unknown one takes its place."""
        self.check(program)
        old, self.program, self.called_at = self.program, program, self._now()
        if old and old != program:
            self._replaced[old] = None
            if len(self._replaced) > MOST_REPLACED:
                self._replaced.popitem(last=False)
            self._on_replaced(old)

    def check(self, program: str) -> None:
        if program in self._replaced:
            raise ProgramReplaced(program, self.program)

    def begin_poll(self) -> int:
        """The newest poll gets what is to be done; an older one ends."""
        self._poll += 1
        return self._poll

    def is_newest(self, poll: int) -> bool:
        return poll == self._poll
