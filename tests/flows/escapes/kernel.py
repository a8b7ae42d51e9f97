"""The kernel."""

from .attempt import FILTER, MOUNTS, RIGHTS, at

ATTEMPTS = (
    at(
        "mounts",
        FILTER,
        """
return any_of(
    lambda: f'mounted {call("mount", b"none", b"/tmp", b"tmpfs")}',
    lambda: f'bound {call("mount", b"/proc", b"/tmp", b"", 4096)}',
    lambda: f'unmounted {call("umount2", b"/proc/sys", 2)}',
    lambda: f'unmounted {call("umount2", b"/workspace/in", 2)}',
    lambda: f'turned {call("pivot_root", b"/tmp", b"/tmp")}',
    lambda: f'rooted {call("chroot", b"/tmp")}',
    lambda: f'opened {call("fsopen", b"tmpfs")}',
    lambda: f'cloned {call("open_tree", -100, b"/", 1)}',
    lambda: f'by handle {call("open_by_handle_at", -100, ctypes.create_string_buffer(64), 0)}',
)
""",
    ),
    at(
        "new and other namespaces",
        FILTER,
        """
args = (ctypes.c_uint64 * 8)(NEW_USER, 0, 0, 0, 17, 0, 0, 0)
def become(ns):
    fd = os.open(f"/proc/1/ns/{ns}", os.O_RDONLY)
    return f'entered {call("setns", fd, 0)}'
return any_of(
    lambda: f'unshared {call("unshare", NEW_USER)}',
    lambda: f'unshared {call("unshare", NEW_USER | NEW_NET | NEW_MOUNT)}',
    lambda: f'unshared {call("unshare", (1 << 32) | NEW_USER)}',
    lambda: f'cloned {call("clone", NEW_USER | 17)}',
    lambda: f'cloned {call("clone3", args, 64)}',
    lambda: become("mnt"), lambda: become("net"),
    lambda: subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode == 0 and "unshare worked",
)
""",
    ),
    at(
        "device nodes",
        MOUNTS,
        """
return any_of(
    lambda: os.mknod(AGENT / "mem", stat.S_IFCHR | 0o666, os.makedev(1, 1)) or "made",
    lambda: os.mknod("/tmp/null", stat.S_IFCHR | 0o666, os.makedev(1, 3)) or "made",
    lambda: os.mknod(AGENT / "disk", stat.S_IFBLK | 0o666, os.makedev(8, 0)) or "made",
    *(lambda each=each: opened(each) for each in (
        "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/dm-0",
        "/dev/loop-control", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vhost-vsock", "/dev/vsock",
        "/dev/input/event0", "/dev/uinput", "/dev/dri/card0", "/proc/kcore", "/proc/kmsg", "/dev/console", "/dev/tty0",
        "/dev/tty1")),
)
""",
        containers=False,  # engines give /dev/console and cover /proc/kcore with /dev/null
    ),
    at(
        "sysctls and core_pattern",
        MOUNTS,
        """
names = ("sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/kernel/hostname", "sys/net/ipv4/ip_forward",
         "sys/kernel/yama/ptrace_scope", "sys/vm/overcommit_memory", "sys/fs/binfmt_misc/register", "sysrq-trigger",
         "sys/user/max_user_namespaces", "sys/kernel/unprivileged_bpf_disabled", "sys/vm/drop_caches",
         "irq/default_smp_affinity")
return any_of(*(lambda each=each: opened(f"/proc/{each}", os.O_WRONLY) for each in names))
""",
    ),
    at(
        "cgroups and their release agent",
        MOUNTS,
        """
return any_of(
    lambda: f'mounted {call("mount", b"cgroup", b"/tmp", b"cgroup")}',
    *(lambda each=each: opened(each, os.O_WRONLY) for each in (
        "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/notify_on_release", "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/rdma/release_agent", "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/kernel/uevent_helper", "/proc/self/cgroup")),
)
""",
    ),
    at(
        "the program that runs us, through /proc/self/exe",
        MOUNTS,
        """
return any_of(*(lambda each=each: opened(each, os.O_WRONLY) for each in (
    "/proc/self/exe", "/proc/1/exe", f"/proc/{os.getppid()}/exe", "/usr/bin/env",
    "/opt/gatepost/lib/gatepost/__init__.py",
    "/etc/passwd", "/etc/ld.so.preload")))
""",
    ),
    at(
        "kernel interfaces with a history",
        FILTER,
        """
nothing = ctypes.create_string_buffer(256)
return any_of(
    lambda: f'key {call("add_key", b"user", b"x", b"y", 1, -4)}',
    lambda: f'keyring {call("keyctl", 0, -3, 1)}',
    lambda: f'bpf {call("bpf", 0, nothing, 72)}',
    lambda: f'ring {call("io_uring_setup", 1, nothing)}',
    lambda: f'faults {call("userfaultfd", 1)}',
    lambda: f'perf {call("perf_event_open", nothing, 0, -1, -1)}',
    lambda: f'log {call("syslog", 3, nothing, 64)}',
    lambda: f'module {call("init_module", nothing, 64, b"")}',
    lambda: f'kernel {call("kexec_load", 0, 0, 0)}',
    lambda: f'name {call("sethostname", b"x", 1)}',
)
""",
    ),
    at(
        "typing into a terminal",
        FILTER,
        """
import fcntl, termios
_, inner = os.openpty()
ioctl = (29, 16)[_column]
def wide(request):
    if _libc.syscall(ctypes.c_long(ioctl), ctypes.c_long(inner), ctypes.c_long((1 << 32) | request), b"x") < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return "typed"
return any_of(
    lambda: opened("/dev/tty", os.O_RDWR),
    lambda: fcntl.ioctl(inner, termios.TIOCSTI, b"x") is not None and "typed",
    lambda: wide(0x5412), lambda: wide(0x541C),
)
""",
    ),
    at(
        "capabilities and other users",
        RIGHTS,
        """
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
held = any(int(status[each], 16) for each in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
if held or status["NoNewPrivs"].strip() != "1":
    return f"{status}"
return any_of(lambda: os.setuid(0) or "root", lambda: os.setgid(0) or "root", lambda: os.setgroups([0]) or "groups",
              lambda: os.chown(AGENT, 0, 0) or "given", lambda: os.setresuid(0, 0, 0) or "root")
""",
    ),
    at(
        "setuid programs of the host",
        RIGHTS,
        """
bare = [place for place in ("/usr", "/workspace/agent", "/tmp") if not os.statvfs(place).f_flag & os.ST_NOSUID]
if bare and "NoNewPrivs:\\t1" not in open("/proc/self/status").read():
    return f"setuid files work in {bare}"
asked = subprocess.run(["su", "-c", "id -u", "root"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
return asked.stdout
""",
    ),
    at(
        "setuid files planted for the host's users",
        FILTER,
        """
path = AGENT / "setuid"
path.write_text("#!/bin/sh\\n")
name, where = str(path).encode(), ctypes.c_long(-100)
def wide():
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
    return f'made {call("openat2", -100, str(AGENT / "setuid2").encode(), how, 24)}'
return any_of(
    lambda: path.chmod(0o4755) or "chmod u+s",
    lambda: path.chmod(0o2755) or "chmod g+s",
    lambda: os.fchmod(os.open(path, os.O_RDONLY), 0o4755) or "fchmod u+s",
    lambda: f'fchmodat {call("fchmodat", -100, name, 0o4755)}',
    lambda: f'fchmodat2 {call("fchmodat2", -100, name, 0o4755, 0)}',
    lambda: f'made {os.open(AGENT / "setuid3", os.O_CREAT | os.O_WRONLY, 0o6755)}',
    lambda: f'made {os.open("/workspace/out", os.O_TMPFILE | os.O_WRONLY, 0o4755)}',
    lambda: os.mknod(AGENT / "setuid4", stat.S_IFREG | 0o4755) or "mknod u+s",
    wide,
)
""",
    ),
)
