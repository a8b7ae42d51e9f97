"""Other sessions, and whoever else runs here."""

from .attempt import FILTER, MOUNTS, NAMESPACES, PEER, at

ATTEMPTS = (
    at(
        "another session's sockets by their path",
        MOUNTS,
        """
names = ("egress.sock", "router.sock", "runner.sock")
places = (given["victim"], f"{RUN}/../{os.path.basename(given['victim'])}", f"/proc/1/root{given['victim']}",
          f"/proc/self/root{given['victim']}", f"/proc/{given['host_pid']}/root{given['victim']}", given["control"])
return any_of(*(lambda each=each, name=name: reach(socket.AF_UNIX, f"{each}/{name}")
                for each in places for name in names))
""",
    ),
    at(
        "another session's sockets, had they been mounted here",
        PEER,
        """
asked = b"GET /anthropic/v1/models HTTP/1.1\\r\\n\\r\\n"
hello = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\\n'
got = talk(asked, "victim/egress.sock") + talk(hello, "victim/router.sock") + talk(hello, "victim/runner.sock")
return got.decode()
""",
    ),
    at(
        "a second runner on one's own line",
        PEER,
        "return talk(b'{\"type\":\"hello\"}\\n', f'{RUN}/runner.sock').decode()",
    ),
    at(
        "other sockets in the place of one's own",
        MOUNTS,
        """
return any_of(
    lambda: os.rename(f"{RUN}/egress.sock", f"{RUN}/x") or "renamed",
    lambda: os.unlink(f"{RUN}/router.sock") or "removed",
    lambda: os.open(f"{RUN}/planted", os.O_CREAT | os.O_WRONLY),
)
""",
    ),
    at(
        "other processes through /proc",
        NAMESPACES,
        """
mine, own = os.stat("/"), os.getpid()
for pid in (each for each in os.listdir("/proc") if each.isdigit()):
    for what in ("root", "cwd"):
        with suppress(OSError):
            there = os.stat(f"/proc/{pid}/{what}/")
            if what == "root" and (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
                return f"{pid} has another root"
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            link = os.readlink(f"/proc/{pid}/fd/{fd}")
            here = ("/dev/", "/workspace/", "/usr/", "/opt/gatepost", "/proc", "/tmp")
            if link.startswith("/") and not link.startswith(here):
                return f"{pid} holds {link}"
host = given["host_pid"]
return any_of(lambda: os.listdir(f"/proc/{host}/fd"), lambda: os.kill(host, 0) or "signalled")
""",
    ),
    at(
        "the key in variables, files and memory maps",
        MOUNTS,
        """
for pattern in ("/proc/[0-9]*/environ", "/proc/[0-9]*/cmdline", "/run/**/*", "/etc/**/*", "/tmp/**/*",
                "/workspace/**/*", "/proc/[0-9]*/maps", "/proc/keys", "/proc/cmdline"):
    for path in glob.glob(pattern, recursive=True):
        with suppress(OSError):
            if path != str(HEARD) and stat.S_ISREG(os.stat(path).st_mode):
                with open(path, "rb") as file:
                    hear(file.read(1 << 20))
""",
    ),
    at(
        "ptrace of the host's processes and of pid 1",
        NAMESPACES,
        """
def attach(pid):
    call("ptrace", ATTACH, pid)
    return f"attached {pid}"
status = dict(line.split(":\\t", 1) for line in open("/proc/1/status").read().splitlines() if ":\\t" in line)
if any(int(status[each], 16) for each in ("CapInh", "CapPrm", "CapEff", "CapAmb")) or status["Seccomp"].strip() != "2":
    return f"pid 1 has more than we: {status}"
for name in ("mnt", "pid", "net", "user"):
    with suppress(OSError):
        if os.stat(f"/proc/1/ns/{name}").st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
            return f"pid 1 lives in another {name} namespace"
return attach(given["host_pid"])
""",
    ),
    at(
        "memory and handles of other processes",
        FILTER,
        """
piece = ctypes.create_string_buffer(64)
return any_of(
    lambda: f'read {call("process_vm_readv", 1, piece, 1, piece, 1)}',
    lambda: f'read {call("process_vm_readv", given["host_pid"], piece, 1, piece, 1)}',
    lambda: f'handle {call("pidfd_getfd", os.pidfd_open(1), 0)}',
    lambda: opened(f"/proc/{given['host_pid']}/mem"),
)
""",
    ),
)
