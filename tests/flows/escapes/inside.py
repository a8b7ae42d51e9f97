"""Runs inside a sandbox: every attempt of the table in a process of its own, with what a hostile agent would have at
hand. The standard library alone. Reads {given, attempts} from stdin, prints what came of each.

An attempt is the body of a function: what it returns is what it got out; an OSError is a wall that held.
"""

import ctypes
import errno
import glob  # noqa: F401  for the programs, as all that is here
import json
import os
import re
import select
import signal
import socket
import stat  # noqa: F401
import subprocess  # noqa: F401
import sys
import time
from contextlib import suppress  # noqa: F401
from pathlib import Path
from types import SimpleNamespace
from typing import Any

RUN, AGENT, OUT = "/run/gatepost", Path("/workspace/agent"), Path("/workspace/out")
HEARD = OUT / "heard"  # every answer, whole: the host looks through it for what must not be inside
PATIENCE_S = 20
NUMBERS = {  # system calls, (aarch64, x86_64)
    "mknodat": (33, 259),
    "umount2": (39, 166),
    "mount": (40, 165),
    "pivot_root": (41, 155),
    "chroot": (51, 161),
    "fchmodat": (53, 268),
    "openat": (56, 257),
    "unshare": (97, 272),
    "kexec_load": (104, 246),
    "init_module": (105, 175),
    "ptrace": (117, 101),
    "syslog": (116, 103),
    "sethostname": (161, 170),
    "add_key": (217, 248),
    "keyctl": (219, 250),
    "clone": (220, 56),
    "perf_event_open": (241, 298),
    "open_by_handle_at": (265, 304),
    "setns": (268, 308),
    "process_vm_readv": (270, 310),
    "bpf": (280, 321),
    "userfaultfd": (282, 323),
    "io_uring_setup": (425, 425),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "clone3": (435, 435),
    "openat2": (437, 437),
    "pidfd_getfd": (438, 438),
    "fchmodat2": (452, 452),
}
NEW_USER, NEW_NET, NEW_MOUNT = 0x10000000, 0x40000000, 0x20000
ATTACH, SEIZE = 16, 0x4206  # ptrace

_libc = ctypes.CDLL(None, use_errno=True)
_column = 0 if os.uname().machine in ("aarch64", "arm64") else 1
reasons: list[str] = []


def call(name: str, *args: Any) -> int:
    """A system call by its number; raises what the kernel says."""
    ctypes.set_errno(0)
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in args]
    answer = int(_libc.syscall(NUMBERS[name][_column], *(wide + [ctypes.c_long(0)] * (6 - len(wide)))))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def hear(raw: bytes) -> None:
    with HEARD.open("ab") as out:
        out.write(raw + b"\n")


def talk(raw: bytes, path: str = f"{RUN}/egress.sock") -> bytes:
    """Say it on a socket; everything that comes back."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        sock.connect(path)
        got = b""
        try:
            sock.sendall(raw)
            while piece := sock.recv(65536):
                got += piece
        except ConnectionError:
            pass  # turned away while we spoke
        except TimeoutError:
            raise RuntimeError(f"{path} left us waiting") from None
    hear(got)
    return got


def send(raw: str | bytes) -> SimpleNamespace:
    """One request on egress.sock."""
    got = talk(raw if isinstance(raw, bytes) else raw.encode("latin-1"))
    head, _, body = got.partition(b"\r\n\r\n")
    found = re.search(rb"x-gatepost-reason: (.*)", head)
    reason = found[1].decode().strip() if found else ""
    status = int(head.split(b" ")[1]) if head.startswith(b"HTTP/") else 0
    if reason and status < 500:
        reasons.append(reason)
    return SimpleNamespace(status=status, head=head.decode("latin-1"), text=body.decode("latin-1"), reason=reason)


def passed(answer: SimpleNamespace) -> str:
    """Return what got out, if it was let through; a failure behind the wall (5xx) shows that it was."""
    return "" if 400 <= answer.status < 500 else f"{answer.status} {answer.head[:100]} {answer.text[:100]}"


def connect(target: str, host: str = "") -> str:
    return passed(send(f"CONNECT {target} HTTP/1.1\r\nhost: {host or target}\r\n\r\n"))


def get(url: str, headers: str = "") -> SimpleNamespace:
    return send(f"GET {url} HTTP/1.1\r\n{headers}\r\n")


def post(path: str, body: Any, headers: str = "") -> SimpleNamespace:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{headers}content-length: {len(raw)}"
    return send(f"{head}\r\n\r\n".encode("latin-1") + raw)


def claude(content: Any = "hello", headers: str = "", **fields: Any) -> SimpleNamespace:
    body = {"model": "claude-sonnet-4-5", "max_tokens": 10, "messages": [{"role": "user", "content": content}]}
    return post("/anthropic/v1/messages", body | fields, headers)


def chat(content: Any = "hello", headers: str = "", **fields: Any) -> SimpleNamespace:
    body = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": content}]}
    return post("/openai/v1/chat/completions", body | fields, headers)


def responses(given: Any = "hello", **fields: Any) -> SimpleNamespace:
    return post("/openai/v1/responses", {"model": "gpt-5-mini", "input": given} | fields)


def tool(name: str, **arguments: Any) -> str:
    """A call of the gateway's tools, as an agent's MCP client makes it."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    asked = {"name": name, "arguments": arguments}
    lines: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked},
    ]
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        sock.connect(f"{RUN}/router.sock")
        sock.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        for line in sock.makefile("rb"):
            if json.loads(line).get("id") == 2:
                hear(line)
                return line.decode()
    raise ConnectionError("turned away")


def told(answer: str) -> str:
    """Return what a tool let out: '' if it said no."""
    return "" if '"error"' in answer or '"isError":true' in answer.replace(" ", "") else answer[:200]


def plant(name: str, how: str, target: str = "") -> Path:
    """Something in the group's folder that is not what it looks like."""
    path = AGENT / name
    path.unlink(missing_ok=True)
    if how == "link":
        path.symlink_to(target)
    elif how == "fifo":
        os.mkfifo(path)
    elif how == "socket":
        socket.socket(socket.AF_UNIX).bind(str(path))
    elif how == "huge":
        with path.open("wb") as out:
            out.truncate(1 << 40)
    return path


def opened(path: str, flags: int = os.O_RDONLY) -> str:
    """Return what stands in it, if it opens."""
    fd = os.open(path, flags | os.O_NONBLOCK)
    return f"opened {path}: {os.read(fd, 100)!r}" if flags == os.O_RDONLY else f"opened {path}"


def reach(family: int, address: Any, kind: int = socket.SOCK_STREAM, data: bytes = b"x") -> str:
    with socket.socket(family, kind) as sock:
        sock.settimeout(2)
        sock.connect(address)
        sock.send(data)
        if kind == socket.SOCK_DGRAM:
            sock.recv(10)
    return f"reached {address}"


def any_of(*acts: Any) -> str:
    """The first that gets anything out; raises what the last one met."""
    last: OSError | None = None
    for act in acts:
        try:
            if got := act():
                return str(got)
        except OSError as error:
            last = error
    if last is not None:
        raise last
    return ""


def attempt(number: int, program: str, given: dict[str, Any]) -> dict[str, Any]:
    """In this process, which is this attempt's own."""
    scope: dict[str, Any] = {**globals(), "given": given, "mark": f"mark-{number}-{given['run']}"}
    body = "\n".join(f"    {line}" for line in program.splitlines())
    try:
        exec(f"def act():\n{body}\n", scope)
        got = scope["act"]()
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, str(error))
        return {"got": "", "met": name, "reasons": reasons}
    except Exception as error:  # noqa: BLE001  a program that is wrong must show
        return {"got": "", "met": "", "broken": f"{type(error).__name__}: {error}", "reasons": reasons}
    return {"got": str(got or ""), "met": "; ".join(reasons) or "nothing came of it", "reasons": reasons}


def run(number: int, program: str, given: dict[str, Any]) -> dict[str, Any]:
    """One attempt; what hangs is ended, and is as bad as what breaks."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.write(write, json.dumps(attempt(number, program, given)).encode())
        os._exit(0)
    os.close(write)
    said, until = b"", time.monotonic() + PATIENCE_S
    while (left := until - time.monotonic()) > 0 and select.select([read], [], [], left)[0]:
        piece = os.read(read, 65536)
        if not piece:
            break
        said += piece
    os.close(read)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return json.loads(said) if said else {"got": "", "met": "", "broken": "it hung, or was killed", "reasons": []}


def main() -> None:
    asked = json.load(sys.stdin)
    json.dump({name: run(number, program, asked["given"]) for number, name, program in asked["attempts"]}, sys.stdout)


if __name__ == "__main__":
    main()
