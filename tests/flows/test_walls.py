"""What an agent cannot do: tried from inside a sandbox, with the gateway as root and as an ordinary user.

One sandbox is started for each of the two, and everything is tried in it at once; a test looks at one finding.
"""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gatepost
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.sessions.sandbox.sandbox_plan import name_prefix
from gatepost.sandboxes import mounts
from gatepost.sandboxes.bubblewrap import Bubblewrap, find_bwrap

ORDINARY = 64555
PROCESSES = 40
SECRET = "what-only-the-host-knows"

pytestmark = pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed: apt install bubblewrap")

# Runs inside. Standard library alone; writes what it found to out/report.json.
PROBE = r"""
import ctypes, errno, json, os, pathlib, socket, sys

given = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
found = {}

def attempt(act):
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"

def connect(family, address):
    with socket.socket(family) as sock:
        sock.settimeout(2)
        sock.connect(address)

def call(number, *args):
    ctypes.set_errno(0)
    return "done" if libc.syscall(number, *(args or (0, 0, 0, 0, 0))) >= 0 else errno.errorcode[ctypes.get_errno()]

def fork_until_refused():
    read, write = os.pipe()
    pids, why = [], "never"
    for _ in range(given["processes"] * 10):
        try:
            pid = os.fork()
        except OSError as error:
            why = errno.errorcode[error.errno]
            break
        if pid == 0:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        pids.append(pid)
    os.close(write)
    for pid in pids:
        os.waitpid(pid, 0)
    return {"forked": len(pids), "why": why}

def writable_sysctls():
    opened = []
    for place, _, names in os.walk("/proc/sys"):
        for name in names:
            path = os.path.join(place, name)
            if attempt(lambda: os.close(os.open(path, os.O_WRONLY))) == "done":
                opened.append(path)
    return opened

def files_with_secret():
    hits = []
    for place, folders, names in os.walk("/"):
        if place == "/":
            folders[:] = [each for each in folders if each not in ("proc", "usr", "dev")]
        if place == "/opt/gatepost":
            folders[:] = []
        for name in names:
            path = os.path.join(place, name)
            regular = os.path.isfile(path)
            if "secret" in name or (regular and given["secret"] in open(path, errors="replace").read(4096)):
                hits.append(path)
    return hits

found["outside"] = attempt(lambda: connect(socket.AF_INET, ("192.0.2.1", 80)))
found["host_loopback"] = attempt(lambda: connect(socket.AF_INET, ("127.0.0.1", given["port"])))
found["host_abstract"] = attempt(lambda: connect(socket.AF_UNIX, "\0" + given["abstract"]))
found["families"] = {
    str(each): attempt(lambda: socket.socket(each, socket.SOCK_DGRAM).close()) for each in range(1, 46)
}
found["vsock"] = attempt(lambda: socket.socket(40, socket.SOCK_STREAM).close())
found["netlink"] = attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close())
found["netlink_pair"] = attempt(lambda: socket.socketpair(socket.AF_INET))
found["sysctls"] = writable_sysctls()
found["sysrq"] = attempt(lambda: os.open("/proc/sysrq-trigger", os.O_WRONLY))
found["seen"] = [each for each in given["hidden"] if os.path.lexists(each)]
found["secrets"] = files_with_secret()
found["top"] = sorted(os.listdir("/"))
found["inbound"] = {
    "read": pathlib.Path("/workspace/in/inbound.db").read_text(),
    "write": attempt(lambda: os.open("/workspace/in/inbound.db", os.O_RDWR)),
    "add": attempt(lambda: os.open("/workspace/in/inbound.db-journal", os.O_CREAT | os.O_RDWR)),
    "remove": attempt(lambda: os.unlink("/workspace/in/inbound.db")),
    "rename": attempt(lambda: os.rename("/workspace/in", "/workspace/gone")),
    "chmod": attempt(lambda: os.chmod("/workspace/in", 0o777)),
    "beside": attempt(lambda: os.mkdir("/workspace/new")),
}
found["sockets_folder"] = attempt(lambda: os.open("/run/gatepost/planted", os.O_CREAT | os.O_RDWR))
found["read_only"] = {
    each: attempt(lambda: os.open(each + "/planted", os.O_CREAT | os.O_RDWR))
    for each in ("/", "/usr", "/usr/bin", "/etc", "/opt/gatepost/python", "/opt/gatepost/lib", "/dev")
}
found["own"] = {
    each: attempt(lambda: os.close(os.open(each + "/mine", os.O_CREAT | os.O_RDWR)))
    for each in ("/workspace/agent", "/workspace/out", "/workspace/state", "/tmp", "/dev/shm")
}
lines = pathlib.Path("/proc/self/status").read_text().splitlines()
status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
found["caps"] = {each: status[each].strip() for each in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
found["no_new_privs"], found["seccomp"] = status["NoNewPrivs"].strip(), status["Seccomp"].strip()
found["ids"] = [os.getuid(), os.getgid(), os.getgroups()]
found["become_root"] = attempt(lambda: os.setuid(0))
found["new_user_namespace"] = call(given["unshare"], 0x10000000)
found["new_network_namespace"] = call(given["unshare"], 0x40000000)
found["clone3"] = call(given["clone3"])
found["calls"] = {name: call(number) for name, number in given["refused"].items()}
found["pids"] = sorted(int(each) for each in os.listdir("/proc") if each.isdigit())
found["signal_host"] = attempt(lambda: os.kill(given["host_pid"], 0))
found["network_devices"] = [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line]
found["environment"] = sorted(os.environ)
found["forks"] = fork_until_refused()

agent = pathlib.Path("/workspace/agent")
(agent / "setuid").write_bytes(b"#!/bin/sh\n")
found["setuid"] = [attempt(lambda: (agent / "setuid").chmod(mode)) for mode in (0o4755, 0o2755)]
(agent / "work.md").symlink_to(given["host_secret"])
(agent / "skills").symlink_to(os.path.dirname(given["host_secret"]))
os.mkfifo("/workspace/out/files/report.pdf")
os.mkfifo("/workspace/out/outbound.db")
(agent / "eng").symlink_to(os.path.dirname(given["host_secret"]))
pathlib.Path("/workspace/out/report.json").write_text(json.dumps(found))
"""

# Runs on the host, as root or as an ordinary user: builds a home, starts the sandbox, looks at what it left.
HOST = r"""
import asyncio, json, os, socket, sys
from pathlib import Path
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.flow.sessions.sandbox import sandbox_plan
from gatepost.sandboxes import seccomp
from gatepost.store.sessions.groups import Group

given = json.loads(sys.argv[1])
load_package("gatepost.sandboxes")
home = Home(Path(given["home"]))
home.prepare()
config = Config({"sandbox.processes": given["processes"]})
acme, other = (Group(folder=name, name=name, created_at=0) for name in ("acme", "other"))
SESSION = "s-000000000000000001"
for group in (acme, other):
    sandbox_plan.prepare_folders(home, config, group, SESSION)
sandbox_plan.prepare_folders(home, config, other, "s-000000000000000002")
(home.groups / "other" / "secret.md").write_text(given["secret"])
home.store.write_text(given["secret"])
(home.media / "secret").write_text(given["secret"])
(home.session(SESSION) / "in" / "inbound.db").write_text("rows")
(home.session("s-000000000000000002") / "in" / "inbound.db").write_text(given["secret"])
listener = socket.create_server(("127.0.0.1", 0))
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\0" + given["abstract"])
abstract.listen()
machine = seccomp.MACHINES[os.uname().machine]
probe = {
    **given,
    "port": listener.getsockname()[1],
    "hidden": [*given["hidden"], str(home.path), str(home.store), str(home.group("other")), str(home.media)],
    "host_secret": str(home.media / "secret"),
    "host_pid": os.getpid(),
    "unshare": machine.unshare,
    "clone3": machine.clone3,
    "refused": machine.refused,
}

async def main():
    name, kind = sandbox_plan.choose_sandbox(config, acme, "scripted")
    made = sandbox_plan.make_sandbox_plan(home, config, acme, SESSION, provider="scripted", command=given["command"])
    sandbox = await kind.start(made)
    code = await sandbox.wait()
    return name, code, sandbox.last_words

def attempt(act):
    try:
        return repr(act())
    except GatepostError as error:
        return type(error).__name__

python = f"{sandbox_plan.PYTHON}/{sandbox_plan._executable()}"
given["command"] = (python, "-I", "-S", "-c", given["probe"], json.dumps(probe | {"probe": ""}))
name, code, words = asyncio.run(main())
found = {"sandbox": name, "code": code, "words": words}
if code == 0:
    with open_untrusted(home.session(SESSION)) as root:
        found |= json.loads(root.read_bytes("out/report.json", 1 << 20))
        found["planted_fifo"] = attempt(lambda: root.copy_out("out/files/report.pdf", home.media / "copy", 100))
        found["planted_outbound"] = attempt(lambda: root.read_bytes("out/outbound.db", 100))
    with open_untrusted(home.group("acme")) as root:
        found["planted_link"] = attempt(lambda: root.read_bytes("work.md", 100))
        found["planted_write"] = attempt(lambda: root.write_bytes("work.md", b"x"))
        found["planted_folder"] = attempt(lambda: root.read_bytes("skills/secret", 100))
    found["planted_group"] = attempt(lambda: open_untrusted(home.group("acme/eng")))
    found["secret_kept"] = (home.media / "secret").read_text() == given["secret"]
    prefix = sandbox_plan.name_prefix(home)
    found["leftover"] = [name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names if name.startswith(prefix)]
print(json.dumps(found))
"""

SLEEPER = "import os, time; os.mkdir('/workspace/out/up'); time.sleep(60)"
AWAKE = """
    up = home.session(SESSION) / "out" / "up"
    while not up.exists():
        await asyncio.sleep(0.01)
    print(sandbox.inner_pid, flush=True)
    code = await sandbox.wait()
"""


def opened_for(uid: int) -> list[str]:
    """A command prefix that becomes `uid`, in a mount namespace where this interpreter can be reached by it."""
    needed = [Path(sys.base_prefix), Path(sys.executable).parent, Path(gatepost.__file__).parent.parent]
    needed += [Path(path) for path in sys.path if path.endswith("-packages")]
    roots = mounts.closed_roots(needed, uid)
    moved = mounts.stage(roots) if roots else {}
    script = [f"mount --no-mtab --rbind {source} {target}" for source, target in moved.items()]
    for source, target in moved.items():
        closed = [folder for folder in reversed(source.parents) if not mounts._may_pass(folder, uid)]
        script.append(f"[ -e {source} ] && mount --no-mtab -t tmpfs -o mode=755 cover {closed[0]}")
        script.append(f"mkdir -p {source} && mount --no-mtab --rbind {target} {source}")
    script.append(f'exec setpriv --reuid={uid} --regid={uid} --clear-groups "$@"')
    return ["unshare", "--mount", "--propagation", "slave", "sh", "-ec", "\n".join(script), "sh"]


@pytest.fixture(scope="module", params=["root", "ordinary"])
def found(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    as_root = request.param == "root"
    if as_root and os.geteuid() != 0:
        pytest.skip("the gateway as root: these tests do not run as root")
    uid = os.geteuid() if as_root or os.geteuid() != 0 else ORDINARY
    home = Path(tempfile.mkdtemp(prefix="walls-"))
    os.chown(home, uid, uid)
    given = {
        "home": str(home),
        "processes": PROCESSES,
        "secret": SECRET,
        "abstract": f"gatepost-wall-{os.getpid()}-{request.param}",
        "hidden": [
            "/root",
            "/home",
            "/var",
            "/sys",
            "/boot",
            "/etc/shadow",
            "/etc/hostname",
            str(Path.cwd()),
            str(Path.home()),
        ],
        "probe": PROBE,
    }
    prefix = opened_for(uid) if uid == ORDINARY and os.geteuid() == 0 else []
    try:
        ran = subprocess.run(
            [*prefix, sys.executable, "-c", HOST, json.dumps(given)],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            cwd="/",
            env={"PATH": os.environ["PATH"]},
        )
        assert ran.returncode == 0, ran.stderr
        report = json.loads(ran.stdout)
        assert (report["sandbox"], report["code"], report["words"]) == ("bubblewrap", 0, "")
        yield report
    finally:
        shutil.rmtree(home)


@pytest.mark.slow
def test_there_is_no_network(found: dict[str, Any]) -> None:
    assert found["outside"] == "ENETUNREACH"
    assert found["host_loopback"] == "ECONNREFUSED"
    assert found["host_abstract"] == "ECONNREFUSED"
    assert found["network_devices"] == ["lo"]


@pytest.mark.slow
def test_there_is_no_vsock_and_no_netlink(found: dict[str, Any]) -> None:
    assert found["vsock"] == found["netlink"] == found["netlink_pair"] == "EAFNOSUPPORT"
    open_families = [int(family) for family, answer in found["families"].items() if answer == "done"]
    assert set(open_families) <= {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6}
    assert socket.AF_UNIX in open_families


@pytest.mark.slow
def test_no_sysctl_is_writable(found: dict[str, Any]) -> None:
    assert found["sysctls"] == []
    assert found["sysrq"] != "done"


def test_nothing_of_the_host_is_seen(found: dict[str, Any]) -> None:
    assert found["seen"] == []
    assert found["secrets"] == []
    allowed = {
        "bin",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "opt",
        "proc",
        "run",
        "sbin",
        "tmp",
        "usr",
        "workspace",
    }
    assert set(found["top"]) <= allowed


def test_the_environment_is_the_sandboxes_own(found: dict[str, Any]) -> None:
    expected = {"GIT_CONFIG_SYSTEM", "HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "PWD", "TZ", "USER", "LC_CTYPE"}
    assert {name for name in found["environment"] if not name.startswith("GATEPOST_")} <= expected


def test_nanoclaw_d18_inbound_can_be_read_and_not_written(found: dict[str, Any]) -> None:
    assert found["inbound"].pop("read") == "rows"
    assert "done" not in found["inbound"].values()
    assert found["sockets_folder"] != "done"


def test_only_its_own_folders_are_writable(found: dict[str, Any]) -> None:
    assert set(found["read_only"].values()) == {"EROFS"}
    assert set(found["own"].values()) == {"done"}


def test_there_are_no_capabilities_and_no_way_to_more_rights(found: dict[str, Any]) -> None:
    assert set(found["caps"].values()) == {"0" * 16}
    assert (found["no_new_privs"], found["seccomp"]) == ("1", "2")
    assert found["ids"] == [1000, 1000, [1000]] or found["ids"] == [1000, 1000, []]
    assert found["become_root"] != "done"


def test_there_are_no_nested_namespaces(found: dict[str, Any]) -> None:
    assert found["new_user_namespace"] == found["new_network_namespace"] == "EPERM"
    assert found["clone3"] == "ENOSYS"


def test_calls_with_a_history_are_refused(found: dict[str, Any]) -> None:
    assert {name: answer for name, answer in found["calls"].items() if answer != "EPERM"} == {}
    assert {"keyctl", "bpf", "io_uring_setup", "userfaultfd", "perf_event_open", "mount", "setns"} <= set(
        found["calls"]
    )


def test_processes_are_limited(found: dict[str, Any]) -> None:
    assert found["forks"]["why"] == "EAGAIN"
    assert 0 < found["forks"]["forked"] < PROCESSES


def test_the_hosts_processes_are_invisible(found: dict[str, Any]) -> None:
    assert len(found["pids"]) <= 3
    assert found["signal_host"] == "ESRCH"


def test_no_setuid_file_can_be_planted_for_other_users_of_the_host(found: dict[str, Any]) -> None:
    assert found["setuid"] == ["EPERM", "EPERM"]


def test_nanoclaw_44_and_d18_planted_links_and_fifos_neither_hang_nor_lead_the_host_astray(
    found: dict[str, Any],
) -> None:
    planted = {name: answer for name, answer in found.items() if name.startswith("planted_")}
    assert len(planted) == 6
    assert set(planted.values()) == {"Invalid"}
    assert found["secret_kept"]


def test_no_cgroup_is_left(found: dict[str, Any]) -> None:
    assert found["leftover"] == []


@pytest.mark.slow
def test_a_killed_gateway_takes_its_sandboxes_along() -> None:
    """kill -9: nobody can tidy up, the kernel must."""
    home = Path(tempfile.mkdtemp(prefix="walls-"))
    script = HOST.replace("code = await sandbox.wait()", AWAKE)
    given = {"home": str(home), "processes": PROCESSES, "secret": SECRET, "hidden": []}
    given |= {"abstract": f"gatepost-wall-{os.getpid()}-kill", "probe": SLEEPER}
    daemon = subprocess.Popen([sys.executable, "-c", script, json.dumps(given)], stdout=subprocess.PIPE, text=True)
    try:
        assert daemon.stdout is not None
        inner = os.pidfd_open(int(daemon.stdout.readline()))
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()

        assert select.select([inner], [], [], 5.0)[0] == [inner]
        os.close(inner)
    finally:
        daemon.kill()
        daemon.communicate()
        Bubblewrap(Config()).sweep(name_prefix(Home(home)))
        shutil.rmtree(home)
