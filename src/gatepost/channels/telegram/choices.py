"""Choices that each person has checked on cards of several. In memory: after a restart they check them again."""

from collections import OrderedDict

CardKey = tuple[str, str, str]  # room, message, person
MOST = 1000


class CardChoices:
    def __init__(self, most: int = MOST) -> None:
        self._chosen: OrderedDict[CardKey, frozenset[str]] = OrderedDict()
        self._most = most

    def get(self, card: CardKey) -> frozenset[str]:
        return self._chosen.get(card, frozenset())

    def toggle(self, card: CardKey, choice: str) -> frozenset[str]:
        """Return what is checked from now on. The oldest cards are forgotten."""
        chosen = self._chosen[card] = self.get(card) ^ {choice}
        self._chosen.move_to_end(card)
        if len(self._chosen) > self._most:
            self._chosen.popitem(last=False)
        return chosen
