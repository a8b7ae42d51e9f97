"""The sender of a mail, and whether that is proved. Pure, and linear in what a stranger wrote.

A mail server writes what it found out into a header `Authentication-Results`, under its own name, above everything that
came with the mail. Strangers may write such headers, too. So only the topmost one counts, and only if it has the name
that the operator gave.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

LONGEST_HEADER = 8192
ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\Z")
_PROPERTY = re.compile(r"(?:header|smtp|policy|body)\.[a-z0-9_-]+\Z")


class MailSender(Struct, frozen=True):
    """`single`: the mail names one sender, and in a way that everybody reads alike."""

    address: str
    name: str
    single: bool


class MethodResult(Struct, frozen=True):
    """The finding of one method: `dkim`, `pass`, and of whom."""

    method: str
    result: str
    properties: dict[str, str]


def parse_address(text: str) -> str:
    """In small letters, as an identity; '' if it is not one that we write to."""
    text = text.strip()
    return text.lower() if len(text) <= 254 and ADDRESS.match(text) and ".." not in text else ""


def read_sender(headers: Sequence[str]) -> MailSender:
    """From all the From headers of a mail, unfolded."""
    if not headers or len(headers[0]) > LONGEST_HEADER:
        return MailSender("", "", False)
    plain, quoted = split_quoted(headers[0])
    start, end = plain.rfind("<"), plain.rfind(">")
    bracketed = 0 <= start < end
    address = parse_address(plain[start + 1 : end] if bracketed else plain)
    before = plain[:start] if bracketed else ""
    single = (
        len(headers) == 1
        and bool(address)
        and not re.search(r"[<>,;:@]", before)
        and (not bracketed or not plain[end + 1 :].strip())
    )
    return MailSender(address, " ".join((quoted or before).split()), single)


def split_quoted(text: str) -> tuple[str, str]:
    """Return what stands outside of quotation marks and comments, and what stands in quotation marks."""
    plain: list[str] = []
    quoted: list[str] = []
    depth, inside, skip = 0, False, False
    for sign in text:
        if skip:
            skip = False
            if inside:
                quoted.append(sign)
        elif sign == "\\" and (inside or depth):
            skip = True
        elif inside:
            if sign == '"':
                inside = False
            else:
                quoted.append(sign)
        elif sign == "(":
            depth += 1
        elif sign == ")" and depth:
            depth -= 1
        elif depth:
            continue
        elif sign == '"':
            inside = True
        else:
            plain.append(sign)
    return "".join(plain), "".join(quoted)


def is_proved(sender: MailSender, results: Sequence[str], authserv_id: str) -> bool:
    """`results`: the Authentication-Results headers, topmost first. Unsure means no."""
    if not sender.single or not authserv_id or not results:
        return False
    found = parse_results(results[0], authserv_id)
    domain = sender.address.rpartition("@")[2]
    dmarc = [each for each in found if each.method == "dmarc"]
    if dmarc:
        named = dmarc[0].properties.get("header.from", domain)
        return len(dmarc) == 1 and dmarc[0].result == "pass" and parse_domain(named) == domain
    return any(each.result == "pass" and _is_aligned(each, domain) for each in found)


def _is_aligned(found: MethodResult, domain: str) -> bool:
    """DKIM and SPF prove a domain. It must be that of the sender, or one above it."""
    names = {"dkim": ("header.d", "header.i"), "spf": ("smtp.mailfrom",)}.get(found.method, ())
    proved = next((parse_domain(found.properties[name]) for name in names if name in found.properties), "")
    return bool(proved) and (domain == proved or ("." in proved and domain.endswith(f".{proved}")))


def parse_domain(text: str) -> str:
    return text.rpartition("@")[2].strip().strip(".").lower()


def parse_results(header: str, authserv_id: str) -> list[MethodResult]:
    """Parse the results; none if the header is overlong or of another server. Quoted text is left out: others wrote
    it."""
    if len(header) > LONGEST_HEADER:
        return []
    plain, _ = split_quoted(header)
    head, *methods = plain.split(";")
    words = head.split()
    if not words or words[0].lower() != authserv_id.lower() or (len(words) > 1 and words[1] != "1"):
        return []
    return [found for each in methods if (found := _parse_method(each)) is not None]


def _parse_method(text: str) -> MethodResult | None:
    words = re.sub(r"\s*=\s*", "=", " ".join(text.split())).split(" ")
    method, equals, result = words[0].lower().partition("=")
    if not equals:
        return None
    properties: dict[str, str] = {}
    for word in words[1:]:
        name, _, value = word.partition("=")
        if _PROPERTY.match(name.lower()):
            properties.setdefault(name.lower(), value)
    return MethodResult(method.partition("/")[0], result, properties)
