"""The words of a mail: HTML as text, and the new words without what they quote. Linear in the text."""

import html
import re

LARGEST_HTML = 1_000_000
LONGEST_QUOTE = 2000
_BREAKS = frozenset(
    ("br", "p", "div", "li", "tr", "blockquote", "pre", "table", "ul", "ol", "hr", "h1", "h2", "h3", "h4", "h5", "h6")
)
_HIDDEN = frozenset(["script", "style", "head", "title", "template", "noscript", "svg"])
_ENDS = {name: re.compile(f"</{name}", re.IGNORECASE | re.ASCII) for name in _HIDDEN}
_TAG = re.compile(r"/?([a-zA-Z][a-zA-Z0-9]*)")
_BLANKS = re.compile(r"[ \t\u00a0]+")
LONGEST_INTRODUCTION = 300
# How mail programs introduce a quote, in some languages: "On 2 Nov 2026, Ann wrote:".
_DATED = re.compile(r"\s*(?:On|Am|Le|El|Il|Em|Op|Den|W dniu|Dne)\s[^\n]*\d")
_SAID = re.compile(r"\b(?:wrote|schrieb|a écrit|escribió|ha scritto|escreveu|schreef|skrev|napisał\(a\))\s?:$")
_DIVIDER = re.compile(
    r"^(?:-{4,} ?(?:Original Message|Ursprüngliche Nachricht|Message d'origine) ?-{4,}|_{20,}\n(?=(?:From|Von|De): ))",
    re.MULTILINE,
)
_EMPTY = re.compile(r"\n\s*\n\s*\n+")


def read_html(text: str) -> str:
    """Return what a person would read. Each search goes on where the last one ended; what is never closed ends the
    text."""
    text = text[:LARGEST_HTML].replace("\r", "")
    parts: list[str] = []
    at = 0
    while at < len(text):
        start = text.find("<", at)
        if start < 0:
            parts.append(text[at:])
            break
        parts.append(text[at:start])
        if text.startswith("<!--", start):
            end = text.find("-->", start + 4)
            at = end + 3 if end >= 0 else len(text)
            continue
        found = _TAG.match(text, start + 1)
        if not found:  # a lone sign, such as 1 < 2, or a declaration
            if text.startswith(("<!", "<?"), start):
                end = text.find(">", start)
                at = end + 1 if end >= 0 else len(text)
            else:
                parts.append("<")
                at = start + 1
            continue
        name = found[1].lower()
        end = text.find(">", found.end())
        at = end + 1 if end >= 0 else len(text)
        if name in _BREAKS:
            parts.append("\n- " if name == "li" and text[start + 1] != "/" else "\n")
        elif name in _HIDDEN and text[start + 1] != "/" and text[at - 2 : at - 1] != "/":
            closing = _ENDS[name].search(text, at)
            at = closing.start() if closing else len(text)
    return tidy(html.unescape(_collapse("".join(parts))))


def _collapse(text: str) -> str:
    return _BLANKS.sub(" ", text)


def tidy(text: str) -> str:
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return _EMPTY.sub("\n\n", "\n".join(lines)).strip()


def split_quote(text: str) -> tuple[str, str]:
    """Return the new words of an answer, and what they quote at their end: lines with `>` behind an introduction, or
    what stands below a divider. A mail that answers between quoted lines stays whole."""
    if (found := _DIVIDER.search(text)) and text[: found.start()].strip():
        return text[: found.start()].strip(), text[found.end() :].strip()[:LONGEST_QUOTE]
    lines = text.split("\n")
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    start = end
    while start and (lines[start - 1].startswith(">") or not lines[start - 1].strip()):
        start -= 1
    quoted = [line[1:].removeprefix(" ") for line in lines[start:end] if line.startswith(">")]
    if not quoted:
        return text.strip(), ""
    new = _drop_introduction(lines[:start])
    if any(line.startswith(">") for line in new) or not "".join(new).strip():
        return text.strip(), ""
    return "\n".join(new).strip(), "\n".join(quoted).strip()[:LONGEST_QUOTE]


def _drop_introduction(lines: list[str]) -> list[str]:
    """Take off "On Monday Ann wrote:", which mail programs break over up to three lines."""
    if not lines or len(lines[-1]) >= LONGEST_INTRODUCTION or not lines[-1].endswith(":"):
        return lines
    dated: int | None = None
    for count in range(1, min(3, len(lines)) + 1):
        first = lines[-count]
        if not first.strip() or len(first) >= LONGEST_INTRODUCTION:
            break
        if _DATED.match(first):
            dated = count
            break
    if dated is None and ("@" in lines[-1] or re.search(r"\d", lines[-1]) or _SAID.search(lines[-1])):
        dated = 1
    return lines[:-dated] if dated else lines
