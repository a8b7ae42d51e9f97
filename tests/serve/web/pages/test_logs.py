from typing import Any

from gatepost.serve.control.arguments.logs import AuditEntry
from gatepost.serve.web.pages.logs import show_audit_details


def make_entry(details: dict[str, Any] | str) -> AuditEntry:
    return AuditEntry(seq=1, at=1, actor="operator", action="send", verdict="ok", details=details)


def test_details_are_read_as_facts_and_hashes_by_their_beginnings() -> None:
    details = {"args": {"content": {"length": 124, "sha256": "ab" * 32}}, "call": "c-1", "why": ""}

    assert (
        show_audit_details(make_entry(details)) == "args.content.length 124 · args.content.sha256 abababab… · call c-1"
    )


def test_details_that_are_a_sentence_stay_one() -> None:
    assert show_audit_details(make_entry("it was refused")) == "it was refused"
    assert show_audit_details(make_entry({})) is None
