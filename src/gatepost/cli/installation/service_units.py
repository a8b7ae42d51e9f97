"""Units by which a service manager starts the gateway with the machine: of systemd for a user or the system, and of
launchd on macOS."""

import os
import plistlib
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gatepost.core.errors import Invalid, SetupError

USUAL = "gatepost"
SERVICE_S = 960.0  # a first start may bring a large store up to date
MADE_BY = "Made by `gatepost service install`"  # in each unit of systemd
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,40}\Z")
# Each was tried with walls and a conversation. ProtectKernelTunables, ProcSubset, ProtectHostname, RestrictNamespaces
# and ProtectControlGroups are left out: bubblewrap cannot make its walls with them.
HARDENING = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
"""
# Which only the system's manager may do.
SYSTEM_HARDENING = """\
ProtectSystem=full
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectClock=yes
PrivateDevices=yes
ProtectProc=invisible
SystemCallFilter=@system-service @mount @privileged
"""


class ServicePlan(Struct, frozen=True, kw_only=True):
    """`user`: as whom the system's manager runs it; '' for whoever installs it. `path`: where programs are found."""

    name: str
    home: Path
    system: bool
    user: str = ""
    path: str = ""
    launchd: bool = False

    @property
    def unit(self) -> str:
        return f"local.{self.name}" if self.launchd else f"{self.name}.service"

    @property
    def file(self) -> Path:
        if self.launchd:
            return Path.home() / "Library" / "LaunchAgents" / f"{self.unit}.plist"
        folder = Path("/etc/systemd/system") if self.system else _find_config() / "systemd" / "user"
        return folder / self.unit


def _find_config() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def check_name(name: str) -> str:
    if not _NAME.match(name):
        raise Invalid("name", f"{name[:60]!r} is no name of a service: small letters, digits and hyphens")
    return name


def render_unit(plan: ServicePlan) -> str:
    _check_words(plan)
    return render_launchd(plan) if plan.launchd else render_systemd(plan)


def write_unit(plan: ServicePlan, unit: str) -> None:
    """The old one or the new one is there at every moment."""
    new = plan.file.with_name(f".{plan.file.name}.new")
    try:
        plan.file.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(unit, encoding="utf-8")
        new.chmod(0o644)
        new.replace(plan.file)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise SetupError(f"{plan.file} cannot be written: {error.strerror}") from None


def _check_words(plan: ServicePlan) -> None:
    """A unit file has a line for each thing: a word with a break in it would be a second one."""
    for what, word in (("home", str(plan.home)), ("PATH", plan.path), ("as", plan.user)):
        if not word.isprintable():
            raise Invalid(what, f"{word[:80]!a} has signs that cannot stand in a unit file")


def render_systemd(plan: ServicePlan) -> str:
    command = " ".join(_quote(each).replace("$", "$$") for each in list_command(plan))
    user = f"User={plan.user}\n" if plan.system and plan.user else ""
    hardening = HARDENING + (SYSTEM_HARDENING if plan.system else "")
    return f"""\
# {MADE_BY}, which writes it anew.
[Unit]
Description=Gatepost, a gateway between chats and sandboxed agents
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
{user}ExecStart={command}
Environment={_quote(f"PATH={plan.path}")}
Restart=on-failure
RestartSec=2
WatchdogSec=60
# A store may be brought up to date first, and agents may end what they do.
TimeoutStartSec=900
TimeoutStopSec=30
KillMode=mixed
Delegate=yes
UMask=0077
{hardening}
[Install]
WantedBy={"multi-user.target" if plan.system else "default.target"}
"""


def list_command(plan: ServicePlan) -> list[str]:
    return [sys.executable, "-m", "gatepost", "--home", str(plan.home), "up"]


def parse_home(unit: str) -> Path:
    """Return the home of a unit that was made here."""
    if unit.startswith("<?xml"):
        words = plistlib.loads(unit.encode())["ProgramArguments"]
    else:
        line = next(each for each in unit.splitlines() if each.startswith("ExecStart="))
        words = shlex.split(line.removeprefix("ExecStart=").replace("$$", "$").replace("%%", "%"))
    return Path(words[words.index("--home") + 1])


def _quote(word: str) -> str:
    """A word of a unit file: `%` begins a specifier there. In a command, `$` begins a variable, too."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if escaped != word or re.search(r"[\s'=;]", word) else escaped


def render_launchd(plan: ServicePlan) -> str:
    found = {
        "Label": plan.unit,
        "ProgramArguments": list_command(plan),
        "EnvironmentVariables": {"PATH": plan.path},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "Umask": 0o077,
        "StandardOutPath": str(plan.home / "logs" / "service.log"),
        "StandardErrorPath": str(plan.home / "logs" / "service.log"),
    }
    return plistlib.dumps(found).decode()


def list_steps(plan: ServicePlan, act: str) -> list[list[str]]:
    """Return the commands of the manager, in order."""
    if plan.launchd:
        domain = f"gui/{os.getuid()}"
        return {
            "install": [["launchctl", "bootstrap", domain, str(plan.file)]],
            "uninstall": [["launchctl", "bootout", f"{domain}/{plan.unit}"]],
            "restart": [["launchctl", "kickstart", "-k", f"{domain}/{plan.unit}"]],
            "status": [["launchctl", "print", f"{domain}/{plan.unit}"]],
            "logs": [["tail", "-n", "100", str(plan.home / "logs" / "service.log")]],
        }[act]
    manager = ["systemctl"] if plan.system else ["systemctl", "--user"]
    linger = [] if plan.system else [["loginctl", "enable-linger"]]
    return {
        "install": [[*manager, "daemon-reload"], [*manager, "enable", "--now", plan.unit], *linger],
        "uninstall": [[*manager, "disable", "--now", plan.unit]],
        "restart": [[*manager, "restart", plan.unit]],
        "status": [[*manager, "status", "--no-pager", plan.unit]],
        "logs": [["journalctl", *([] if plan.system else ["--user"]), "-u", plan.unit, "-n", "100", "--no-pager"]],
    }[act]


def render_steps(steps: list[list[str]]) -> str:
    return "\n".join(shlex.join(each) for each in steps)


def run_steps(steps: list[list[str]]) -> None:
    for each in steps:
        try:
            done = subprocess.run(each, capture_output=True, text=True, timeout=SERVICE_S, check=False)
        except FileNotFoundError:
            raise SetupError(f"{each[0]} is not here: this machine has no such service manager") from None
        except subprocess.TimeoutExpired:
            raise SetupError(f"`{shlex.join(each)}` was not done within {SERVICE_S:g} s") from None
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise SetupError(f"`{shlex.join(each)}` failed: {said[-1][:300] if said else done.returncode}")


def remove_service(plan: ServicePlan) -> None:
    """Stop it, and remove its unit."""
    run_steps(list_steps(plan, "uninstall"))
    plan.file.unlink()
