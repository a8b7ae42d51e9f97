"""Every field of a record that an operation answers with is shown by a command and on a page, or hidden for a reason.

Whoever adds a field to a record finds here where it is missing. List and details of one thing are looked at together.
Commands that change something only confirm it, so they count only where no other has the record. A surface that nobody
made is no gap.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from msgspec import Struct
from tests.record_reads import FieldReads, SourceModule, is_read, list_reads, list_records, load_modules

from gatepost.serve.control.declaration import OperationArgs, declares, get_answer_type, list_declarations

COMMAND, PAGE = "command", "page"
SURFACES = {COMMAND: "gatepost.cli", PAGE: "gatepost.serve.web.pages"}
Hidden = Mapping[tuple[str, str], Mapping[str, str]]
Answers = Mapping[type[OperationArgs[Any]], list[type[Struct]]]  # the records in each answer

ID = "an id for programs, in --json"
MACHINERY = "for the gateway's own work, in --json"
SAID = "another field says it"
WORDS = "the words around it say it"
GIVEN = "whoever asks named it"
ADDRESS = "the address is enough"
DETAIL = "a detail, in --json"
IN_TRACE = "`gatepost trace` shows it"
IN_REQUEST = "the request itself shows it"
ON_PAGE = "the page shows it"
IN_COMMAND = "the command shows it"


def hide(**fields: str) -> dict[str, str]:
    """Return the reason for each of the fields that stand, with spaces between them, behind its name."""
    return {field: str(globals()[reason]) for reason, names in fields.items() for field in names.split()}


HIDDEN: Hidden = {
    # Tasks
    (COMMAND, "TaskView"): hide(SAID="kind every", ADDRESS="instance", MACHINERY="depth updated_at"),
    (PAGE, "TaskView"): hide(SAID="kind every next_local", ADDRESS="instance", MACHINERY="depth updated_at"),
    (COMMAND, "TaskLogEntry"): hide(SAID="due_local", ID="turn_id"),
    (PAGE, "TaskLogEntry"): hide(SAID="due_local", ID="turn_id"),
    (COMMAND, "RunningTask"): hide(WORDS="fired"),
    (COMMAND, "RunCosts"): hide(WORDS="runs micro estimated"),
    (PAGE, "RunCosts"): hide(WORDS="runs micro estimated"),
    # Health, backups, models on this machine
    (COMMAND, "Finding"): hide(WORDS="mend"),
    (PAGE, "Finding"): hide(WORDS="mend"),
    (COMMAND, "Mend"): hide(WORDS="label", MACHINERY="operation args"),
    (COMMAND, "AlertView"): hide(
        DETAIL="told_at muted_until condition gateway", MACHINERY="subject severity page mend"
    ),
    (PAGE, "AlertView"): hide(
        DETAIL="told_at muted_until condition gateway", IN_COMMAND="command", MACHINERY="severity"
    ),
    (PAGE, "BackupProof"): hide(DETAIL="at seconds version steps digest"),
    (PAGE, "LocalFindings"): hide(WORDS="services"),
    (PAGE, "LocalModel"): hide(DETAIL="longest tools vision loaded"),
    (PAGE, "LocalService"): hide(DETAIL="name url"),
    (PAGE, "GroupRest"): hide(DETAIL="by since_at"),
    # Previews, and what is only confirmed
    (COMMAND, "PermissionPreview"): hide(WORDS="calls more"),
    (COMMAND, "SchedulePreview"): hide(WORDS="text"),
    # Money
    (COMMAND, "BudgetView"): hide(SAID="kind", WORDS="ended_usd"),
    (PAGE, "BudgetAmounts"): hide(SAID="left_usd"),
    (COMMAND, "SpendingReport"): hide(SAID="total_usd"),
    (PAGE, "SpendingReport"): hide(SAID="total_usd", WORDS="since"),
    (COMMAND, "SpendingRow"): hide(SAID="usd"),
    (PAGE, "SpendingRow"): hide(SAID="usd"),
    # Work
    (COMMAND, "ErrandView"): hide(ADDRESS="instance"),
    (COMMAND, "WorktreeDetails"): hide(ON_PAGE="base_commit"),
    (COMMAND, "SaveWorktreeResult"): hide(SAID="branch"),
    # Gateways
    (COMMAND, "GatewayView"): hide(SAID="lease_until"),
    (PAGE, "GatewayView"): hide(SAID="lease_until"),
    (PAGE, "DoctorReport"): hide(SAID="ok"),
    (COMMAND, "AuditCheck"): hide(SAID="first_bad broken_chain"),
    (COMMAND, "PanicAnswer"): hide(WORDS="on"),
    # People
    (COMMAND, "UserDetails"): hide(WORDS="known"),
    (PAGE, "UserDetails"): hide(WORDS="known"),
    (COMMAND, "ErasureReport"): hide(SAID="person", WORDS="erased"),
    (PAGE, "ErasureReport"): hide(SAID="person", WORDS="erased", IN_COMMAND="stand_in rewritten"),
    (COMMAND, "PairingCode"): hide(WORDS="expires_at"),
    (COMMAND, "Newcomer"): hide(ID="entrance_id", ON_PAGE="address admitted_at"),
    (PAGE, "Newcomer"): hide(ID="entrance_id"),
    (COMMAND, "BrowserLoginView"): hide(ON_PAGE="is_this"),
    (PAGE, "BrowserLoginView"): hide(SAID="user_id"),
    (COMMAND, "PasskeyView"): hide(SAID="user_id"),
    (PAGE, "PasskeyView"): hide(SAID="user_id"),
    (COMMAND, "SignInState"): hide(ON_PAGE="password_login changed_at"),
    # Rights
    (COMMAND, "NewGrantRule"): hide(ID="id"),
    (COMMAND, "GrantRow"): hide(ID="id"),
    (PAGE, "GrantRow"): hide(ID="id"),
    (COMMAND, "GrantRuleRemoval"): hide(WORDS="removed", MACHINERY="was_last"),
    (COMMAND, "ApiTokenView"): hide(SAID="revoked_at"),
    (PAGE, "ApiTokenView"): hide(SAID="revoked_at"),
    (COMMAND, "TokenView"): hide(SAID="revoked_at", ADDRESS="instance", MACHINERY="identity signing_key"),
    (PAGE, "TokenView"): hide(SAID="revoked_at", ADDRESS="instance", MACHINERY="identity signing_key"),
    (COMMAND, "EgressRule"): hide(SAID="local"),
    (PAGE, "EgressRule"): hide(SAID="local"),
    (COMMAND, "EgressAttempt"): hide(ID="id"),
    (PAGE, "EgressAttempt"): hide(ID="id"),
    (PAGE, "PinnedRule"): hide(GIVEN="folder"),
    (COMMAND, "Memory"): hide(ADDRESS="instance", MACHINERY="turn_id"),
    (PAGE, "Memory"): hide(ADDRESS="instance", MACHINERY="turn_id"),
    # Requests
    (COMMAND, "PermitDetails"): hide(
        ON_PAGE="kind folder session tool input editable state quorum voters choices questions asked_at expires_at"
    ),
    (COMMAND, "PermitChoice"): hide(ON_PAGE="label allow lasts group model price"),
    (COMMAND, "PermitQuestion"): hide(ON_PAGE="text options many own_words answer", MACHINERY="key"),
    (PAGE, "PermitQuestion"): hide(MACHINERY="key"),
    (COMMAND, "PendingRequest"): hide(IN_REQUEST="preview"),
    (PAGE, "PendingRequest"): hide(IN_REQUEST="editable why"),
    (COMMAND, "RequestingAgent"): hide(DETAIL="status"),
    (PAGE, "RequestingAgent"): hide(ID="agent_id", IN_COMMAND="type", DETAIL="status"),
    (COMMAND, "AnswerResult"): hide(WORDS="allowed"),
    # Agents
    (PAGE, "AgentSnapshot"): hide(IN_COMMAND="available_modes pending_permissions notes"),
    (COMMAND, "Mode"): hide(DETAIL="label description"),
    (PAGE, "Mode"): hide(IN_COMMAND="id", DETAIL="label description"),
    (COMMAND, "ProviderInfo"): hide(DETAIL="modes"),
    (PAGE, "ConnectableAgent"): hide(DETAIL="vendor"),
    (COMMAND, "ConnectResult"): hide(DETAIL="secret"),
    (COMMAND, "TrialCancellation"): hide(GIVEN="id", WORDS="stopped"),
    (COMMAND, "TrialOutcome"): hide(DETAIL="sandbox"),
    # Channels, connectors, secrets, settings and sites
    (COMMAND, "ChannelKindItem"): hide(ON_PAGE="before settings"),
    (COMMAND, "AskedSetting"): hide(SAID="name", ON_PAGE="help default choices is_secret is_optional"),
    (COMMAND, "ChannelListItem"): hide(ON_PAGE="origin", SAID="reason", DETAIL="tested_against settings"),
    (PAGE, "ChannelListItem"): hide(SAID="reason", DETAIL="tested_against settings"),
    (COMMAND, "ChannelTokenView"): hide(WORDS="is_new"),
    (COMMAND, "ConnectorItem"): hide(ON_PAGE="timeout_s variables secrets"),
    (COMMAND, "ToolChange"): hide(GIVEN="connector"),
    (COMMAND, "Binding"): hide(ID="id", DETAIL="template created_by created_at"),
    (COMMAND, "SecretListItem"): hide(DETAIL="created_at"),
    (PAGE, "SecretListItem"): hide(DETAIL="created_at"),
    (COMMAND, "SetSecretResult"): hide(DETAIL="key_id created_at updated_at used_at"),
    (COMMAND, "SettingChange"): hide(WORDS="is_written needs_restart"),
    (PAGE, "SettingChange"): hide(WORDS="is_written needs_restart"),
    (COMMAND, "WebHost"): hide(SAID="owner"),
    (PAGE, "WebHost"): hide(SAID="owner"),
    (COMMAND, "WebRoute"): hide(SAID="owner"),
    (PAGE, "WebRoute"): hide(SAID="owner"),
    # Groups, rooms and routes
    (COMMAND, "GroupFileText"): hide(GIVEN="folder path", ID="version"),
    (COMMAND, "AgreedSkill"): hide(MACHINERY="session_id"),
    (PAGE, "AgreedSkill"): hide(MACHINERY="session_id"),
    (COMMAND, "Room"): hide(ID="id"),
    (PAGE, "Room"): hide(ID="id"),
    (COMMAND, "Route"): hide(ON_PAGE="window_messages window_chars created_at", SAID="folder"),
    (PAGE, "Route"): hide(SAID="folder"),
    (COMMAND, "Destination"): hide(GIVEN="folder", SAID="kind", ADDRESS="instance", ON_PAGE="created_at"),
    (PAGE, "Destination"): hide(GIVEN="folder", ADDRESS="instance"),
    (COMMAND, "RouteTestResult"): hide(SAID="command"),
    (PAGE, "RouteTestResult"): hide(SAID="command", IN_COMMAND="reason"),
    (PAGE, "RouteTestGroup"): hide(IN_COMMAND="reason"),
    # Conversations
    (COMMAND, "Session"): hide(
        ADDRESS="instance",
        MACHINERY="key mode next_seq owner lease_until epoch agent notify",
        DETAIL="window_messages window_chars created_at closed_at permission_mode cwd labels parent archived_at"
        " reset_at unlocked",
    ),
    (PAGE, "Session"): hide(
        ADDRESS="instance",
        MACHINERY="key mode next_seq owner lease_until epoch agent notify",
        DETAIL="window_messages window_chars created_at closed_at permission_mode cwd labels parent archived_at"
        " reset_at unlocked",
    ),
    (COMMAND, "SessionDetails"): hide(ADDRESS="instance", SAID="running", ON_PAGE="speaks"),
    (PAGE, "SessionDetails"): hide(ADDRESS="instance"),
    (COMMAND, "SessionEvent"): hide(ID="ref"),
    (COMMAND, "CloseResult"): hide(WORDS="closed"),
    (COMMAND, "ResetResult"): hide(WORDS="stopped"),
    (COMMAND, "ForkedSession"): hide(GIVEN="parent_id folder parent_topic", WORDS="replaced"),
    (COMMAND, "StartedReplay"): hide(GIVEN="folder", SAID="replayId"),
    (PAGE, "ReplayComparison"): hide(GIVEN="id folder"),
    # The ledger
    (COMMAND, "LedgerLine"): hide(
        ADDRESS="instance", ON_PAGE="sender", IN_TRACE="folder", ID="session turn", MACHINERY="seq tries changed_at"
    ),
    (PAGE, "LedgerLine"): hide(
        ADDRESS="instance", IN_TRACE="folder", IN_COMMAND="thread event platform_id", ID="session turn", MACHINERY="seq"
    ),
    (PAGE, "LedgerStatus"): hide(IN_COMMAND="oldest_s"),
    (COMMAND, "RetryResult"): hide(ADDRESS="instance"),
    (COMMAND, "MessageTraceView"): hide(ID="trace_id"),
    (PAGE, "MessageTraceView"): hide(ID="trace_id"),
    (COMMAND, "Message"): hide(
        ON_PAGE="instance platform_id verb reply_to revision forward_from", SAID="folder at", MACHINERY="event topic"
    ),
    (PAGE, "Message"): hide(IN_COMMAND="kind content", MACHINERY="event topic"),
    (COMMAND, "TraceMoment"): hide(SAID="offset_ms"),
    (COMMAND, "InboxEntry"): hide(
        ID="id message_id session_id turn_id",
        MACHINERY="seq mode rights given tries next_at owner lease_until epoch created_at updated_at continues",
    ),
    (PAGE, "InboxEntry"): hide(
        ID="id message_id session_id turn_id",
        IN_COMMAND="folder reason",
        MACHINERY="seq mode rights given tries next_at owner lease_until epoch created_at continues",
    ),
    (COMMAND, "OutboxEffect"): hide(
        ID="id key message_id session_id turn_id target_id",
        ON_PAGE="address reason tries",
        ADDRESS="instance thread",
        MACHINERY="attempt origin next_at owner lease_until epoch created_at updated_at urgent",
    ),
    (PAGE, "OutboxEffect"): hide(
        ID="id key session_id turn_id target_id",
        IN_COMMAND="seq payload",
        ADDRESS="instance thread",
        MACHINERY="attempt origin next_at owner lease_until epoch created_at urgent",
    ),
    (PAGE, "DroppedReport"): hide(MACHINERY="last last_audit"),
    (COMMAND, "DroppedMessage"): hide(ID="id"),
    (PAGE, "DroppedMessage"): hide(ID="id"),
    # The overview
    (COMMAND, "GatewayOverview"): hide(ON_PAGE="extent"),
    (COMMAND, "AgentOverview"): hide(ON_PAGE="folder provider budget request failure", SAID="active_at requests"),
    (COMMAND, "ActivityEntry"): hide(WORDS="kind is_trouble person_name room_name agent person room", DETAIL="message"),
    (COMMAND, "ActivityPage"): hide(ON_PAGE="agents"),
    (COMMAND, "InstructionEntry"): hide(SAID="by", WORDS="is_current"),
    (PAGE, "InstructionEntry"): hide(SAID="by", IN_COMMAND="size"),
    (COMMAND, "InstructionChange"): hide(WORDS="entry", MACHINERY="current", ON_PAGE="undo"),
    (COMMAND, "PutBackAnswer"): hide(MACHINERY="version"),
    (COMMAND, "WhyAnswer"): hide(WORDS="label asks"),
    (PAGE, "AgentOverview"): hide(SAID="active_at requests"),
    (COMMAND, "OverviewMessage"): hide(ID="id", SAID="direction", ON_PAGE="at"),
    (PAGE, "OverviewMessage"): hide(ID="id", SAID="direction"),
    (COMMAND, "OverviewBudget"): hide(ON_PAGE="folder period limit spent"),
    (COMMAND, "OverviewRequest"): hide(ON_PAGE="why", IN_REQUEST="id kind what asked_at"),
    (PAGE, "OverviewRequest"): hide(IN_REQUEST="id asked_at"),
    (COMMAND, "OverviewWait"): hide(ON_PAGE="since_at"),
    (COMMAND, "OverviewStep"): hide(ON_PAGE="step operation args"),
    (PAGE, "OverviewStep"): hide(IN_COMMAND="command"),
}


def list_gaps(
    surface: str, declared: Iterable[type[OperationArgs[Any]]], reads: Sequence[FieldReads], hidden: Hidden
) -> list[str]:
    """Return what is wrong with a surface: fields that it does not show, and reasons that do not hold."""
    answers = _list_answers(declared)
    records = _list_records_by_name(answers)
    shown = {name: _list_shown(record, answers, reads) for name, record in records.items()}
    wrong = []
    for name, record in records.items():
        reasons = hidden.get((surface, name), {})
        own = _list_own_fields(record, records.values())
        wrong += [f"{surface}: {name} has no field {each} of its own to hide" for each in reasons if each not in own]
        found = shown[name]
        for field in own if found else ():
            if is_read(record, field, found) == (field in reasons):
                says = "is hidden and shown" if field in reasons else "is not shown"
                wrong.append(f"{surface}: {name}.{field} {says}")
    unshown = [name for where, name in hidden if where == surface and not shown.get(name)]
    return wrong + [f"{surface}: no part of it shows a {name}" for name in unshown]


def _list_answers(declared: Iterable[type[OperationArgs[Any]]]) -> Answers:
    return {each: list_records(get_answer_type(each)) for each in declared}


def _list_records_by_name(answers: Answers) -> dict[str, type[Struct]]:
    return {record.__name__: record for found in answers.values() for record in found}


def _list_own_fields(record: type[Struct], records: Iterable[type[Struct]]) -> list[str]:
    """Return the fields that no class above it guards."""
    above = [each for each in records if each is not record and issubclass(record, each)]
    return [name for name in record.__struct_fields__ if not any(name in each.__struct_fields__ for each in above)]


def _list_shown(record: type[Struct], answers: Answers, reads: Sequence[FieldReads]) -> list[FieldReads]:
    """Return the parts of a surface that show the record: those that read, or those that change if none reads."""
    having = {args for args, found in answers.items() if any(issubclass(each, record) for each in found)}
    reading = {args for args in having if args.info.right.endswith(".read")}
    return [each for each in reads if each.asked & reading] or [each for each in reads if each.asked & having]


@pytest.fixture(scope="module")
def reads() -> dict[str, list[FieldReads]]:
    """What commands and pages read."""
    return {surface: list_reads(load_modules(package)) for surface, package in SURFACES.items()}


@pytest.mark.parametrize("surface", SURFACES)
def test_every_field_of_an_answer_is_shown_or_hidden_for_a_reason(
    surface: str, reads: dict[str, list[FieldReads]]
) -> None:
    wrong = list_gaps(surface, list_declarations(), reads[surface], HIDDEN)
    assert not wrong, "\n".join(["show it, or give the reason in HIDDEN:", *wrong])


@pytest.mark.parametrize(("surface", "reason", "other"), [(COMMAND, ON_PAGE, PAGE), (PAGE, IN_COMMAND, COMMAND)])
def test_what_is_hidden_because_the_other_surface_shows_it_is_shown_there(
    surface: str, reason: str, other: str, reads: dict[str, list[FieldReads]]
) -> None:
    answers = _list_answers(list_declarations())
    records = _list_records_by_name(answers)
    untrue = [
        f"{name}.{field}"
        for (where, name), fields in HIDDEN.items()
        for field, given in fields.items()
        if (where, given) == (surface, reason)
        and not is_read(records[name], field, _list_shown(records[name], answers, reads[other]))
    ]
    assert not untrue


class Parcel(Struct, frozen=True):
    id: str
    weight: int


class HeavyParcel(Parcel, frozen=True):
    lifted_by: str


class Crate(Struct, frozen=True):
    weight: int
    parcels: list[Parcel]


@declares("parcel.list", right="parcels.read")
class ListParcelsArgs(OperationArgs[list[Parcel]], frozen=True):
    """List parcels."""


@declares("parcel.lift", right="parcels.write")
class LiftParcelArgs(OperationArgs[HeavyParcel], frozen=True):
    """Lift a parcel."""


@declares("crate.show", right="parcels.read")
class ShowCrateArgs(OperationArgs[Crate], frozen=True):
    """Show a crate."""


LIST_COMMAND = """
@from_operation(ListParcelsArgs)
def list_parcels(run, found: list[Parcel]):
    print_table([_make_row(each) for each in found])

def _make_row(parcel: Parcel):
    return ({},)
"""


def find_gaps(source: str, *declared: type[OperationArgs[Any]], hidden: Mapping[str, str] | None = None) -> list[str]:
    """Return the gaps of a surface that has one module. `hidden`: of parcels."""
    planted = SourceModule("planted", ast.parse(source), globals())
    return list_gaps(COMMAND, declared, list_reads([planted]), {(COMMAND, "Parcel"): hidden} if hidden else {})


def test_a_field_that_a_command_does_not_print_is_found() -> None:
    assert find_gaps(LIST_COMMAND.format("parcel.id"), ListParcelsArgs) == ["command: Parcel.weight is not shown"]
    assert find_gaps(LIST_COMMAND.format("parcel.id, parcel.weight"), ListParcelsArgs) == []


def test_a_field_may_be_hidden_as_long_as_it_is_there_and_not_shown() -> None:
    reason = {"weight": "nobody asks"}
    assert find_gaps(LIST_COMMAND.format("parcel.id"), ListParcelsArgs, hidden=reason) == []
    shown = find_gaps(LIST_COMMAND.format("parcel.id, parcel.weight"), ListParcelsArgs, hidden=reason)
    assert shown == ["command: Parcel.weight is hidden and shown"]
    gone = find_gaps(LIST_COMMAND.format("parcel.id, parcel.weight"), ListParcelsArgs, hidden={"colour": "no light"})
    assert gone == ["command: Parcel has no field colour of its own to hide"]
    assert find_gaps("", ListParcelsArgs, hidden=reason) == ["command: no part of it shows a Parcel"]


def test_a_surface_that_nobody_made_is_no_gap() -> None:
    assert find_gaps("", ListParcelsArgs) == []


def test_a_command_that_shows_all_of_an_answer_reads_every_field() -> None:
    printed = LIST_COMMAND.format("*to_json(parcel).values()")
    assert find_gaps(printed, ListParcelsArgs) == []
    for_programs = LIST_COMMAND.format("output.print_json(to_json(parcel))")
    assert len(find_gaps(for_programs, ListParcelsArgs)) == 2


def test_a_field_of_another_record_is_not_taken_for_it() -> None:
    source = """
async def show_crate(request):
    crate = await request.ask(ShowCrateArgs())
    return [crate.weight, make_table(crate.parcels, COLUMNS)]

COLUMNS = (text("id", "Id"),)
"""
    assert find_gaps(source, ShowCrateArgs) == ["command: Parcel.weight is not shown"]
    assert find_gaps(source.replace('"Id"),', '"Id"), made("w", "W", lambda row: row.weight)'), ShowCrateArgs) == []


def test_a_command_that_only_confirms_shows_nothing() -> None:
    source = """
@from_operation(LiftParcelArgs)
def lift(run, parcel: HeavyParcel):
    print_line(parcel.lifted_by, parcel.weight, parcel.id)

@from_operation(ListParcelsArgs)
def list_parcels(run, found: list[Parcel]):
    print_table([each.id for each in found])
"""
    declared = (LiftParcelArgs, ListParcelsArgs)
    assert find_gaps(source, *declared) == ["command: Parcel.weight is not shown"]
    assert find_gaps(source.partition("@from_operation(ListP")[0], *declared) == []
