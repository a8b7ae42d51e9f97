"""What is planted for the host, in every folder that it touches."""

from .attempt import HANDLES, MOUNTS, NEVER, at

ATTEMPTS = (
    at(
        "work.md as a link, FIFO, socket, folder, or endless",
        HANDLES,
        """
def read(how, target=""):
    plant("work.md", how, target)
    return told(tool("get_work"))
(AGENT / "folder").mkdir(exist_ok=True)
return any_of(*(lambda each=each: read(*each) for each in (
    ("link", given["secret"]), ("link", "/proc/self/environ"), ("link", f"../other/secret.md"), ("fifo",), ("socket",),
    ("huge",), ("link", "work.md"), ("link", "/dev/zero"), ("link", "folder"))))
""",
    ),
    at(
        "a write through work.md",
        HANDLES,
        """
def write(how, target=""):
    plant("work.md", how, target)
    return told(tool("set_work", content=mark))
return any_of(*(lambda each=each: write(*each) for each in (
    ("link", given["secret"]), ("link", "/etc/cron.d/x"), ("fifo",), ("socket",))))
""",
    ),
    at(
        "hard links to what is not one's own",
        MOUNTS,
        """
return any_of(*(lambda each=each: os.link(each, AGENT / f"hard-{each.count('/')}") or f"linked {each}" for each in (
    "/workspace/in/inbound.db", "/usr/bin/env", "/etc/passwd", "/opt/gatepost/plugins/providers/prober.py",
    f"{RUN}/egress.sock")))
""",
    ),
    at(
        "send_file of a link, a FIFO, a device or a path that leads out",
        HANDLES,
        """
plant("link.txt", "link", given["secret"]), plant("fifo.txt", "fifo"), plant("sock.txt", "socket")
plant("huge.txt", "huge"), plant("up", "link", "../.."), plant("host", "link", os.path.dirname(given["secret"]))
return any_of(*(lambda each=each: told(tool("send_file", filepath=each)) for each in (
    "link.txt", "fifo.txt", "sock.txt", "huge.txt", "up/gatepost.db", "host/secret", "/proc/self/environ",
    "../other/secret.md",
    "/workspace/agent/../../gatepost.db", "/etc/passwd", "/workspace/in/inbound.db", "in/../../x", "/dev/zero",
    "link.txt\\x00.png", given["secret"], "/workspace/agent/./link.txt", "//etc/passwd", "/workspace//in/inbound.db",
    "/workspace/state/../in/inbound.db")))
""",
    ),
    at(
        "a file exchanged for a link while it is sent",
        HANDLES,
        """
path, link = AGENT / "race.txt", plant("race.link", "link", given["secret"])
path.write_text("mine")
pid = os.fork()
if pid == 0:
    while True:
        os.rename(link, AGENT / "race.swap")
        os.rename(path, link)
        os.rename(AGENT / "race.swap", path)
try:
    for _ in range(20):
        tool("send_file", filepath="race.txt")
finally:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
""",
    ),
    at(
        "git hooks and settings in the group's folder",
        NEVER,
        """
run = f"touch {given['marker']}; false"
for place in (AGENT / ".git", OUT / ".git", AGENT / "tree" / ".git"):
    (place / "hooks").mkdir(parents=True, exist_ok=True)
    (place / "HEAD").write_text("ref: refs/heads/main\\n")
    (place / "objects").mkdir(exist_ok=True), (place / "refs").mkdir(exist_ok=True)
    (place / "config").write_text(
        f'[core]\\nfsmonitor = "{run}"\\nsshCommand = "{run}"\\npager = "{run}"\\neditor = "{run}"\\n'
        f'[diff]\\nexternal = "{run}"\\n[filter "x"]\\nclean = "{run}"\\nsmudge = "{run}"\\n')
    for hook in ("pre-commit", "post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
        (place / "hooks" / hook).write_text(f"#!/bin/sh\\n{run}\\n")
        (place / "hooks" / hook).chmod(0o755)
(AGENT / ".gitattributes").write_text("* filter=x diff=x\\n")
for name, text in ((".mcp.json", {"mcpServers": {"x": {"command": "sh", "args": ["-c", run]}}}),
                   (".envrc", run), ("conftest.py", f"import os; os.system({run!r})"), ("setup.sh", run)):
    (AGENT / name).write_text(text if isinstance(text, str) else json.dumps(text))
tool("set_work", content="x"), tool("send_file", filepath=".gitattributes")
""",
    ),
    at(
        "files of an answer exchanged for links",
        HANDLES,
        """
files = OUT / "files"
os.rename(files, OUT / "files.gone")
files.symlink_to(os.path.dirname(given["secret"]))
""",
    ),
    at(
        "state and mailbox exchanged for links",
        MOUNTS,
        """
def put(path, target):
    os.rename(path, f"{path}.gone")
    os.symlink(target, path)
    return f"exchanged {path}"
return any_of(*(lambda each=each: put(each, "/tmp") for each in (
    "/workspace/state", "/workspace/out", "/workspace/in", "/workspace/agent", "/workspace/in/inbound.db", RUN)))
""",
    ),
    at(
        "outbound.db exchanged for a FIFO",
        HANDLES,
        """
for name in ("outbound.db", "outbound.db-journal", "outbound.db-wal"):
    (OUT / name).unlink(missing_ok=True)
    os.mkfifo(OUT / name)
""",
    ),
    at(
        "AGENTS.md, PERSONA.md, skills exchanged for links and FIFOs",
        HANDLES,
        """
plant("AGENTS.md", "link", given["secret"]), plant("PERSONA.md", "fifo"), plant("CLAUDE.md", "link", "/dev/zero")
os.rename(AGENT / "skills", AGENT / "skills.gone")
(AGENT / "skills").symlink_to(os.path.dirname(given["secret"]))
""",
    ),
    at(
        "a child group's folder exchanged for a link",
        HANDLES,
        """
os.rename(AGENT / "kid", AGENT / "kid.gone")
(AGENT / "kid").symlink_to(os.path.dirname(given["secret"]))
""",
    ),
)
