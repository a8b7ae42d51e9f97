"""People on an emulated platform who each write the next message when the last was answered. So what a message waits is
the gateway's doing, and not that of those before it."""

import re
import time
from collections.abc import Callable

from gatepost.testing.platforms.base import EmulatedPlatform

ANSWER = re.compile(r"echo: (\w+)")


class PacedPeople:
    """`count` messages in all, `m0` the first; person `p3` writes `m3`, `m13`, … in `direct:p3` if there are ten."""

    def __init__(self, platform: EmulatedPlatform, people: int, count: int) -> None:
        self._platform, self.people, self.count = platform, people, count
        self.answers: list[str] = []  # in the order in which people saw them
        self.waits: dict[str, float] = {}  # seconds from each message to its first answer
        self._sent_at: dict[str, float] = {}
        self._seen = 0

    @property
    def sent(self) -> list[str]:
        return [f"m{number}" for number in range(self.count)]

    def list_of(self, person: int) -> list[str]:
        """The answers that one of them saw."""
        return [each for each in self.answers if int(each[1:]) % self.people == person]

    def start(self) -> None:
        for number in range(min(self.people, self.count)):
            self._send(number)

    def run_until(self, holds: Callable[[], bool], within: float) -> bool:
        """Let them talk until it holds. False: it did not in that time."""
        ends_at = time.monotonic() + within
        while not holds():
            left = ends_at - time.monotonic()
            if left <= 0:
                return False
            self._platform.wait_for(self._has_news, min(left, 0.2))
            self._receive()
        return True

    def run_to_the_end(self, within: float) -> bool:
        return self.run_until(lambda: len(self.waits) == self.count, within)

    def _has_news(self) -> bool:
        return len(self._platform.record) > self._seen

    def _receive(self) -> None:
        with self._platform.changed:
            news = self._platform.record[self._seen :]
            self._seen += len(news)
        now = time.monotonic()
        for text in (found[1] for each in news if each.sender == "bot" and (found := ANSWER.search(each.text))):
            self.answers.append(text)
            if text in self._sent_at and text not in self.waits:
                self.waits[text] = now - self._sent_at[text]
                self._send(int(text[1:]) + self.people)

    def _send(self, number: int) -> None:
        if number < self.count:
            person = number % self.people
            self._sent_at[f"m{number}"] = time.monotonic()
            self._platform.send(f"m{number}", room=f"direct:p{person}", sender=f"p{person}")
