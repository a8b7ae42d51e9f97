"""The table of escape attempts: what an agent tries, and what holds it. docs/security.md lists the same names."""

from . import kernel, models, neighbours, network, planted, proxy
from .attempt import Attempt

ATTEMPTS: tuple[Attempt, ...] = (
    *network.ATTEMPTS,
    *proxy.ATTEMPTS,
    *models.ATTEMPTS,
    *neighbours.ATTEMPTS,
    *kernel.ATTEMPTS,
    *planted.ATTEMPTS,
)

# Ways that are open. If one of them were closed, what is held above would mean nothing.
OPEN = {
    "an allowed host is reached": "return passed(get(f\"http://allowed.test:{given['allowed']}/\"))",
    "an allowed host is reached by CONNECT": """
with socket.socket(socket.AF_UNIX) as sock:
    sock.settimeout(10)
    sock.connect(f"{RUN}/egress.sock")
    sock.sendall(f"CONNECT allowed.test:{given['allowed']} HTTP/1.1\\r\\n\\r\\n".encode())
    return sock.recv(100).startswith(b"HTTP/1.1 200") and "a tunnel"
""",
    "a model is asked": "return passed(claude()) and passed(chat()) and passed(responses())",
    "a tool is called": "return told(tool('get_work'))",
    "a file is sent": "(AGENT / 'mine.txt').write_text('mine')\nreturn told(tool('send_file', filepath='mine.txt'))",
}
