"""Markdown as people read it on a platform that shows it: a reader that is not the product's own, as its judge.

Every step is linear in the length of the text.

There is no regular expression that can backtrack here. Each search starts where the one before ended, or ends the pass.
`Scanner.visits` counts the characters looked at, so that a test can show the bound without a clock.
"""

from collections.abc import Callable, Iterator

from gatepost.messages.markdown.blocks import read_fence, read_heading

LONGEST = 20_000  # characters; a longer text keeps its marks

_ESCAPABLE = frozenset("\\`*_{}[]()#+-.!~>|<&=")

_Judge = Callable[[str, int], bool]  # may the mark at this place open (or close) a span?


def strip_markdown(text: str) -> str:
    """Markdown as plain text: code stays as it is written, links keep their address."""
    return MarkdownScanner().plain(text) if len(text) <= LONGEST else text


class MarkdownScanner:
    """One text. Not to be used twice: it counts."""

    def __init__(self) -> None:
        self.visits = 0

    def plain(self, text: str) -> str:
        lines, fence = [], ""
        for line in text.split("\n"):
            self.visits += len(line)
            edge = read_fence(line)
            if fence:
                if edge is not None and edge.closes(fence):
                    fence = ""
                else:
                    lines.append(line)
            elif edge is not None:
                fence = edge.mark
            else:
                heading = read_heading(line)
                lines.append(self._line(line if heading is None else heading))
        return "\n".join(lines)

    def _line(self, line: str) -> str:
        """One line outside a fence. What stands between backticks is nobody's markup."""
        out, at = [], 0
        for start, end, size in self._code_spans(line):
            out += [self._spans(line[at:start]), line[start + size : end - size]]
            at = end
        return "".join([*out, self._spans(line[at:])])

    def _code_spans(self, line: str) -> Iterator[tuple[int, int, int]]:
        """(start, end, length of the mark). A run of backticks is closed by the next run of the same length."""
        runs = list(self._runs(line, "`"))
        closes: dict[int, int] = {}  # the run that a run would be closed by
        next_of: dict[int, int] = {}  # by length
        for place in range(len(runs) - 1, -1, -1):
            size = runs[place][1]
            if size in next_of:
                closes[place] = next_of[size]
            next_of[size] = place
        place = 0
        while place < len(runs):
            start, size = runs[place]
            if place in closes and not _is_escaped(line, start):
                place = closes[place]
                yield start, runs[place][0] + size, size
            place += 1

    def _runs(self, line: str, sign: str) -> Iterator[tuple[int, int]]:
        """(start, length) of each run of a sign."""
        at = self.find(line, sign, 0)
        while at >= 0:
            end = at
            while line[end : end + 1] == sign:
                end += 1
            self.visits += end - at
            yield at, end - at
            at = self.find(line, sign, end)

    def find(self, text: str, mark: str, at: int) -> int:
        found = text.find(mark, at)
        self.visits += (found if found >= 0 else len(text)) - at + 1
        return found

    def _spans(self, text: str) -> str:
        if not text:
            return text
        text = _Links(self, text).replaced()
        text = self._long_spans(text, "**", _opens_strong, _closes_strong)
        text = self._long_spans(text, "__", _opens_word, _closes_word)
        text = self._short_spans(text, "*")
        text = self._short_spans(text, "_")
        text = self._long_spans(text, "~~", _opens_strong, _closes_strong)
        return self._unescaped(text)

    def _long_spans(self, text: str, mark: str, opens: _Judge, closes: _Judge) -> str:
        """Remove pairs of a mark. A mark that nothing closes ends the pass: what would close a later one, closes it."""
        out, done = [], 0
        start = self._first(text, mark, 0, opens)
        while start >= 0:
            end = self._first(text, mark, start + len(mark) + 1, closes)
            if end < 0:
                break
            out += [text[done:start], text[start + len(mark) : end]]
            done = end + len(mark)
            start = self._first(text, mark, done, opens)
        return "".join([*out, text[done:]])

    def _first(self, text: str, mark: str, at: int, fits: _Judge) -> int:
        at = self.find(text, mark, at)
        while at >= 0 and not fits(text, at):
            at = self.find(text, mark, at + 1)
        return at

    def _short_spans(self, text: str, mark: str) -> str:
        """Remove pairs of a single sign, which does not occur between them."""
        out, done = [], 0
        start = self.find(text, mark, 0)
        while start >= 0:
            end = self.find(text, mark, start + 1)
            if end < 0:
                break
            if _opens_short(text, start, mark) and _closes_short(text, end, mark):
                out += [text[done:start], text[start + 1 : end]]
                done = end + 1
                start = self.find(text, mark, done)
            else:
                start = end
        return "".join([*out, text[done:]])

    def _unescaped(self, text: str) -> str:
        out, done = [], 0
        at = self.find(text, "\\", 0)
        while at >= 0:
            escapes = text[at + 1 : at + 2] in _ESCAPABLE
            if escapes:
                out.append(text[done:at])
                done = at + 1
            at = self.find(text, "\\", at + (2 if escapes else 1))
        return "".join([*out, text[done:]])


class _Links:
    """`[words](address "title")`. Looks for the end of an address go forward only, and are remembered."""

    def __init__(self, scanner: MarkdownScanner, text: str) -> None:
        self._scanner, self._text = scanner, text
        self._known: dict[str, tuple[int, int]] = {}

    def replaced(self) -> str:
        text, out, done = self._text, [], 0
        opened, searched = -1, 0  # the first bracket since the last closed one, and from where to look for it
        close = self.find("]", 0)
        while close >= 0:
            if opened < searched:
                opened = text.find("[", searched, close)
            self._scanner.visits += close - searched
            end, address = self._target(close + 1) if opened >= 0 and text[close + 1 : close + 2] == "(" else (-1, "")
            if end >= 0:
                start = opened - 1 if opened > done and text[opened - 1] == "!" else opened
                out += [text[done:start], _shown(text[opened + 1 : close], address)]
                done = end
            searched = max(close + 1, done)
            opened = -1
            close = self.find("]", searched)
        return "".join([*out, text[done:]])

    def find(self, sign: str, at: int) -> int:
        return self._scanner.find(self._text, sign, at)

    def _target(self, at: int) -> tuple[int, str]:
        """(where the link ends, its address) for the parenthesis at `at`; -1 if it is no link."""
        text = self._text
        at = self._until("lead", at + 1)
        pointed = text[at : at + 1] == "<"
        start = at + pointed
        end = self._until("address", start)
        if end == start:
            return -1, ""
        at = end + (text[end : end + 1] == ">")
        gap = self._until("gap", at)
        if gap > at and text[gap : gap + 1] == '"':
            closing = self._until("title", gap + 1)
            gap = self._until("tail", closing + 1) if closing < len(text) else gap
        return (gap + 1, text[start:end]) if text[gap : gap + 1] == ")" else (-1, "")

    def _until(self, what: str, at: int) -> int:
        """The first place from `at` on where this piece of a link ends. Remembered for each piece: places only grow, so
        no stretch is gone over again for a later bracket."""
        start, end = self._known.get(what, (0, -1))
        if not start <= at <= end:
            ends, end = _ENDS[what], at
            while end < len(self._text) and not ends(self._text[end]):
                end += 1
            self._scanner.visits += end - at + 1
            self._known[what] = (at, end)
        return end


def _ends_gap(sign: str) -> bool:
    return not sign.isspace()


_ENDS: dict[str, Callable[[str], bool]] = {
    "lead": _ends_gap,
    "address": lambda sign: sign in ")>" or sign.isspace(),
    "gap": _ends_gap,
    "title": lambda sign: sign == '"',
    "tail": _ends_gap,
}


def _shown(words: str, address: str) -> str:
    return address if words in ("", address) else f"{words} ({address})"


def _is_escaped(text: str, at: int) -> bool:
    """By a backslash that is not escaped itself."""
    first = at
    while first and text[first - 1] == "\\":
        first -= 1
    return (at - first) % 2 == 1


def _is_word(sign: str) -> bool:
    return sign == "_" or sign.isalnum()


def _before(text: str, at: int) -> str:
    return text[at - 1] if at else ""


def _opens_strong(text: str, at: int) -> bool:
    follows = text[at + 2 : at + 3]
    return _before(text, at) != "\\" and bool(follows) and not follows.isspace()


def _closes_strong(text: str, at: int) -> bool:
    return not _before(text, at).isspace()


def _opens_word(text: str, at: int) -> bool:
    return _opens_strong(text, at) and not _is_word(_before(text, at))


def _closes_word(text: str, at: int) -> bool:
    return _closes_strong(text, at) and not _is_word(text[at + 2 : at + 3])


def _opens_short(text: str, at: int, mark: str) -> bool:
    before, follows = _before(text, at), text[at + 1 : at + 2]
    return before not in ("\\", mark) and not _is_word(before) and follows != mark and not follows.isspace()


def _closes_short(text: str, at: int, mark: str) -> bool:
    before, follows = _before(text, at), text[at + 1 : at + 2]
    return not before.isspace() and before != "\\" and follows != mark and not _is_word(follows)
