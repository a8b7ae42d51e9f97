"""A closed set is an enum: no state, mode or kind is a plain string, and none is compared with one."""

import ast
import re
from collections.abc import Iterable, Iterator

from gatepost.inside.providers.contract import PermissionRequestKind
from gatepost.store.rights.requests import RequestKind

from .source_trees import find_nodes, get_place, list_source_files

NAMES = ("state", "status", "mode", "kind", "origin", "op", "direction", "verdict", "policy", "role", "error_class")


def holds_closed_set(name: str) -> bool:
    return name in NAMES or name.endswith(tuple(f"_{each}" for each in NAMES))


def list_plain_fields(path: str, tree: ast.Module) -> Iterator[str]:
    """Fields of classes that are named like a closed set and typed `str`, or `str | None`."""
    for owner in find_nodes(tree, ast.ClassDef):
        for field in (node for node in owner.body if isinstance(node, ast.AnnAssign)):
            plain = any(isinstance(each, ast.Name) and each.id == "str" for each in ast.walk(field.annotation))
            if plain and isinstance(field.target, ast.Name) and holds_closed_set(field.target.id):
                yield f"{path} {owner.name}.{field.target.id}"


def list_literal_comparisons(path: str, tree: ast.Module) -> Iterator[str]:
    """Comparisons of what is named like a closed set with a string, or a collection of strings."""
    for node in find_nodes(tree, ast.Compare, ast.Match):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        else:
            patterns = (each for case in node.cases for each in ast.walk(case.pattern))
            sides = [node.subject, *(each.value for each in patterns if isinstance(each, ast.MatchValue))]
        if any(holds_closed_set(_get_name(each)) for each in sides) and any(_is_literal(each) for each in sides):
            yield f"{path}:{node.lineno} {ast.unparse(node).splitlines()[0]}"


def _get_name(node: ast.expr) -> str:
    """Of an attribute, `told["name"]` or `told.get("name")`; '' for all else. `setupState` is `setup_state`."""
    match node:
        case ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return re.sub(r"(?=[A-Z])", "_", name).lower()
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]):
            return re.sub(r"(?=[A-Z])", "_", name).lower()
    return ""


def _is_literal(node: ast.expr) -> bool:
    """A string that is not empty, or a tuple, list or set that has one."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(_is_literal(each) for each in node.elts)
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != ""


def trees() -> Iterable[tuple[str, ast.Module]]:
    for each in list_source_files():
        yield get_place(each.path).as_posix().removeprefix("gatepost/"), each.tree


# A field that may be a plain string, and why.
OPEN_FIELDS = {
    "cli/commands/status.py SandboxStatus.kind": "plug-ins: whoever adds a sandbox adds a kind",
    **dict.fromkeys(
        (
            "inside/coding_agent.py CodingAgentOptions.mode",
            "inside/providers/contract.py PermissionRequest.next_mode",
            "inside/script_format.py AskStep.next_mode",
            "serve/agents/management.py SetAgentModeResult.new_mode",
            "serve/agents/views.py AgentUpdate.mode",
            "serve/control/arguments/agents.py AgentSpec.mode",
            "serve/control/arguments/agents.py PromptAgentArgs.mode",
            "serve/control/arguments/agents.py SetAgentModeArgs.mode",
            "store/sessions/agents.py NewAgent.permission_mode",
            "store/rights/requests.py NewRequest.next_mode",
            "store/rights/requests.py Request.next_mode",
            "store/sessions/sessions.py Session.permission_mode",
        ),
        "each provider has its own modes",
    ),
    **dict.fromkeys(
        (
            "inside/acp/protocol.py PermissionOption.kind",
            "inside/acp/protocol.py PlanEntry.status",
            "inside/acp/protocol.py SessionUpdate.status",
            "gatepost_testing/model_script.py ModelScriptMessage.role",
        ),
        "a vendor's word",
    ),
    **dict.fromkeys(
        (
            "serve/control/arguments/secrets.py RemoveSecretArgs.origin",
            "serve/control/arguments/secrets.py SetSecretArgs.origin",
            "store/rights/secret_rows.py Secret.origin",
        ),
        "an address on the web",
    ),
    **dict.fromkeys(
        (
            "serve/control/arguments/skills.py SkillCard.origin",
            "serve/control/arguments/skills.py WaitingSkill.origin",
            "store/sessions/skills.py AgreedSkill.origin",
            "store/sessions/skills.py SkillContent.origin",
        ),
        "a path, or an address on the web",
    ),
    "core/process/home_lock.py LockHolder.role": "the lock file of another version may name another role",
    **dict.fromkeys(
        (
            "flow/channel_health.py ChannelReport.kind",
            "serve/control/arguments/channels.py AddChannelArgs.kind",
            "serve/control/arguments/channels.py ChannelAnswer.kind",
            "serve/control/arguments/channels.py ChannelListItem.kind",
            "store/rooms/channel_instances.py StoredChannel.kind",
            "gatepost_testing/platforms/base.py EmulatedPlatform.kind",
        ),
        "plug-ins: whoever adds a channel adds a kind",
    ),
    "flow/reports.py SandboxIsolation.kind": "plug-ins: whoever adds a sandbox adds a kind",
    "gate/call_audit.py AuditedCall.verdict": "the audit log's own words",
    "gate/call_audit.py _RepeatKey.verdict": "the audit log's own words",
    "store/rights/audit.py AuditRecord.verdict": "the audit log's own words",
    "store/web/activity.py AuditRow.verdict": "the audit log's own words",
    "mailbox/inbound.py InboundRow.kind": "what runs inside a sandbox cannot import the enum, MessageKind",
    "mailbox/inbound.py InboundRow.status": "the file's format, which agent loops of others read",
    "inside/script_format.py ScriptStep.status": "a line of text for people",
    "messages/inbound.py Receipt.state": "InboxState stands above this layer",
    "serve/control/arguments/ledger.py ListLedgerArgs.state": "of either table",
    "serve/control/arguments/sessions.py SessionEvent.state": "of turns, calls, errands and others",
    "serve/control/arguments/logs.py AuditEntry.verdict": "the audit log's own words",
    "store/sessions/trace_facts.py TracedToolCall.verdict": "the audit log's own words",
    "serve/control/arguments/agents.py FollowAgentArgs.status": "what a client knows: '' at first",
    "serve/control/arguments/access.py RoleMemberFields.role": "whoever grants names roles",
    "cli/commands/chat.py SentChat.state": "an inbox row's, or `accepted` before there is one",
    "serve/control/chat_outcome.py ChatOutcome.state": "an inbox row's, or `accepted` before there is one",
    "serve/room_events.py RoomEvent.state": "of either table, or a word for people",
    "store/money/ledger.py LedgerLine.state": "of either table",
    "store/messages/room_history.py RoomHistoryEntry.state": "of either table",
    "tools/history.py HistoryMessage.state": "of either table",
    "tools/group_sessions.py SessionEntry.kind": "a message's kind, or a word for agents",
    "tools/access.py AclEntry.kind": "a word for agents",
}
# Fields of type Literal, which mypy compares, and words of others.
OPEN_COMPARISONS = {
    "core/process/listen_address.py": "ListenAddress.kind is a Literal",
    "daemon.py": "ListenAddress.kind is a Literal",
    "embed/pydantic_ai/model.py": "a Literal of pydantic-ai",
    "http_apps.py": "ListenAddress.kind is a Literal",
    "inside/acp/": "a vendor's word",
    "inside/providers/codex/": "a vendor's word",
    "inside/providers/opencode/": "a vendor's word",
    "serve/control/local_models.py": "a model server's word",
    "serve/health/security_checks.py": "ListenAddress.kind is a Literal",
    "serve/http.py": "ListenAddress.kind is a Literal",
    "gatepost_testing/model_": "a vendor's word",
    "gatepost_testing/platform.py": "the word of a platform that is made up",
    "gatepost_testing/platforms/": "a platform's word",
}


def test_no_field_that_holds_a_closed_set_is_a_plain_string() -> None:
    checked = list(trees())
    assert len(checked) > 400
    found = {each for path, tree in checked for each in list_plain_fields(path, tree)}
    assert sorted(found - OPEN_FIELDS.keys()) == []
    assert sorted(OPEN_FIELDS.keys() - found) == []


def test_no_such_field_is_compared_with_a_string() -> None:
    checked = [(path, tree) for path, tree in trees() if not path.startswith(tuple(OPEN_COMPARISONS))]
    assert [each for path, tree in checked for each in list_literal_comparisons(path, tree)] == []


def test_a_plain_field_and_a_comparison_with_a_string_are_found() -> None:
    planted = ast.parse(
        "class Turn(Struct):\n    state: str\n    setup_state: str | None = None\n    mode: Mode\n    text: str\n"
        "a = turn.state == 'done'\nb = 'in' != message.direction\nc = entry.state in ('queued', 'retry')\n"
        "d = told['setupState'] == 'done'\ne = told.get('kind') != 'plan'\n"
        "match entry.kind:\n    case 'plan' | 'tool':\n        pass\n"
        "fine = turn.state == State.DONE, turn.text == 'done', entry.mode == '', entry.state in END\n"
        "match entry.kind:\n    case Kind.PLAN:\n        fine = told['text'] == 'plan', told.get('kind') == Kind.PLAN\n"
    )
    assert list(list_plain_fields("a.py", planted)) == ["a.py Turn.state", "a.py Turn.setup_state"]
    found = {each.partition(" ")[0] for each in list_literal_comparisons("a.py", planted)}
    assert found == {f"a.py:{line}" for line in range(6, 12)}


def test_a_provider_asks_for_what_a_row_can_hold() -> None:
    assert set(PermissionRequestKind) <= set(RequestKind)
