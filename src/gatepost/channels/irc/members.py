"""The people in the bot's channels, so that those who come back with their server are not taken for newcomers."""

import re

from gatepost.channels.irc.wire import CaseMapping, IrcLine, fold

NAMES = "353"
MOST_MEMBERS = 20_000  # of all channels; whoever is not known counts as a newcomer
_MARKS = "~&@%+!."  # before a name in the list, by rank
_SPLIT = re.compile(r"\S+\.\S+ \S+\.\S+\Z")  # two servers: the reason of all who go when a network falls apart


class ChannelMembers:
    def __init__(self) -> None:
        self._present: dict[str, set[str]] = {}  # the channels of a nick, as the network folds them
        self._returning: dict[str, set[str]] = {}

    def lose_connection(self) -> None:
        """Expect those who were there: they may come again after us."""
        self._returning, self._present = self._present, {}

    def note(self, line: IrcLine, mapping: CaseMapping) -> bool:
        """Return True for the line of somebody who comes again."""
        nick, first = fold(line.nick, mapping), fold(line.params[0], mapping) if line.params else ""
        match line.command:
            case command if command == NAMES and len(line.params) > 2:
                channel = fold(line.params[-2], mapping)
                for name in line.last.split():
                    self._add(fold(name.lstrip(_MARKS).partition("!")[0], mapping), {channel})
            case "JOIN":
                self._add(nick, {first})
                returning = self._returning.get(nick, set())
                is_back = first in returning
                returning.discard(first)
                return is_back
            case "PART":
                self._present.get(nick, set()).discard(first)
            case "KICK" if len(line.params) > 1:
                self._present.get(fold(line.params[1], mapping), set()).discard(first)
            case "QUIT":
                gone = self._present.pop(nick, set())
                if _SPLIT.match(line.last) and len(self._returning) < MOST_MEMBERS:
                    self._returning[nick] = gone
            case "NICK" if line.last:
                self._add(fold(line.last, mapping), self._present.pop(nick, set()))
        return False

    def _add(self, nick: str, channels: set[str]) -> None:
        if nick in self._present or len(self._present) < MOST_MEMBERS:
            self._present.setdefault(nick, set()).update(channels)
