"""The way out to allowed hosts."""

from .attempt import PROXY, at, proxy

ATTEMPTS = (
    proxy("a host that nobody allowed", "return connect('nobody.test:80')"),
    proxy("a host that is denied", "return connect(f'denied.test:{given[\"denied\"]}')"),
    proxy(
        "IP literals in every spelling",
        """
spellings = ("127.0.0.1", "2130706433", "0x7f000001", "0x7F.1", "0177.0.0.1", "017700000001", "127.1", "127.0.1",
             "127.0.0.1.", "0", "0.0.0.0", "[::1]", "::1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::7f00:1]",
             "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[::1%25lo]", "[0:0:0:0:0:0:0:1]",
             "1.0x7f000001", "127.0.0.0x1")
port = given["denied"]
return any_of(
    *(lambda each=each: connect(f"{each}:{port}") for each in spellings),
    *(lambda each=each: passed(get(f"http://{each}:{port}/{mark}")) for each in spellings),
)
""",
    ),
    proxy(
        "CONNECT to private ranges",
        """
places = ("10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "[fd00:ec2::254]", "[fe80::1]",
          "[fc00::1]", "224.0.0.1", "255.255.255.255")
return any_of(*(lambda each=each, port=port: connect(f"{each}:{port}") for each in places for port in (80, 443)))
""",
    ),
    proxy(
        "CONNECT to loopback by name",
        """
names = ("localhost", "LOCALHOST", "localhost.", "allowed.test")
return any_of(*(lambda each=each: connect(f"{each}:{given['denied']}") for each in names))
""",
    ),
    proxy(
        "CONNECT to the models' hosts",
        """
names = ("api.anthropic.com", "API.Anthropic.COM.", "api.openai.com", "eu.api.openai.com", "us.api.openai.com")
return any_of(
    *(lambda each=each: connect(f"{each}:443") for each in names),
    lambda: connect(f"127.0.0.1:{given['vendor']}"),
)
""",
    ),
    proxy(
        "a name with a private address (rebinding)",
        """
names = ("rebound.test", "mixed.test", "mapped.test", "nat64.test", "sixtofour.test", "metadata.test")
return any_of(
    *(lambda each=each: connect(f"{each}:{given['denied']}") for each in names),
    *(lambda each=each: passed(get(f"http://{each}:{given['denied']}/{mark}")) for each in names),
)
""",
    ),
    proxy(
        "a redirect of an allowed host to a denied one",
        """
answer = get(f"http://allowed.test:{given['allowed']}/redirect")
place = re.search("location: (.*)", answer.head)[1].strip()
return passed(get(f"{place}/{mark}"))
""",
    ),
    proxy(
        "another Host than the one asked for",
        """
allowed, denied = f"allowed.test:{given['allowed']}", f"denied.test:{given['denied']}"
return any_of(
    lambda: connect(allowed, host=denied),
    lambda: passed(get(f"http://{allowed}/{mark}", f"host: {denied}\\r\\n")),
    lambda: passed(get(f"http://{allowed}/{mark}", f"host: {allowed}\\r\\nhost: {denied}\\r\\n")),
    lambda: passed(get(f"http://{allowed}@{denied}/{mark}")),
    lambda: passed(get(f"http://{denied}#{allowed}/{mark}")),
    lambda: passed(get(f"http://{denied}\\\\@{allowed}/{mark}")),
)
""",
    ),
    proxy(
        "other schemes and forms of a target",
        """
place = f"allowed.test:{given['allowed']}"
return any_of(*(lambda each=each: passed(get(each)) for each in (
    f"https://{place}/{mark}", f"ftp://{place}/{mark}", "file:///etc/passwd", f"unix:/{mark}", f"//{place}/{mark}",
    "*", f"gopher://{place}/", f"http:{place}", "http:///etc/passwd",
)))
""",
    ),
    proxy(
        "two lengths, chunks beside a length, folded lines",
        """
place = f"http://allowed.test:{given['allowed']}/{mark}"
inner = f"GET http://denied.test:{given['denied']}/{mark} HTTP/1.1\\r\\n\\r\\n"
heads = ("content-length: 0\\r\\ncontent-length: 9", "content-length: 4\\r\\ntransfer-encoding: chunked",
         "transfer-encoding: chunked\\r\\ntransfer-encoding: identity", "transfer-encoding : chunked",
         "transfer-encoding: xchunked", "transfer-encoding:\\x0bchunked", "content-length: 1,1", "content-length: -1",
         "x: y\\r\\n content-length: 9", "x: y\\ncontent-length: 9", "x: \\x00")
return any_of(*(lambda each=each: passed(send(f"POST {place} HTTP/1.1\\r\\n{each}\\r\\n\\r\\n0\\r\\n\\r\\n{inner}"))
                for each in heads))
""",
    ),
    at(
        "a second request behind the first",
        PROXY,
        """
inner = f"GET http://denied.test:{given['denied']}/{mark} HTTP/1.1\\r\\n\\r\\n"
inner += f"POST /anthropic/v1/files HTTP/1.1\\r\\ncontent-length: {len(mark)}\\r\\n\\r\\n{mark}"
body = '{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}'
model = "POST /anthropic/v1/messages HTTP/1.1\\r\\ncontent-type: application/json\\r\\n"
send(f"GET http://allowed.test:{given['allowed']}/ HTTP/1.1\\r\\n\\r\\n{inner}")
send(f"{model}content-length: {len(body)}\\r\\n\\r\\n{body}{inner}")
send(f"{model}transfer-encoding: chunked\\r\\n\\r\\n{len(body):x};{mark}={mark}\\r\\n{body}\\r\\n0\\r\\n\\r\\n{inner}")
""",
    ),
    proxy(
        "chunks that lie, and trailers",
        """
model = "POST /anthropic/v1/messages HTTP/1.1\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n"
tails = (f"1\\r\\n{{}}\\r\\n0\\r\\n\\r\\n", f"-1\\r\\n{mark}", f"0x2\\r\\n{{}}\\r\\n0\\r\\n\\r\\n",
         f"2\\n{{}}\\r\\n0\\r\\n\\r\\n",
         f"2\\r\\n{{}}\\r\\n0\\r\\nx-api-key: {mark}\\r\\n\\r\\n", f"ffffffffffffffff\\r\\n{mark}",
         f"2;\\n{mark}\\r\\n{{}}\\r\\n0\\r\\n\\r\\n")
return any_of(*(lambda each=each: passed(send(model + each)) for each in tails))
""",
    ),
    proxy(
        "heads that are too large",
        """
return any_of(
    lambda: passed(get(f"http://allowed.test:{given['allowed']}/", f"x: {mark * 9000}\\r\\n")),
    lambda: passed(get(f"http://allowed.test:{given['allowed']}/", f"x: {mark}\\r\\n" * 101)),
)
""",
    ),
    proxy(
        "another name in a tunnel's TLS greeting",
        """
import ssl
place = f"allowed.test:{given['allowed']}"
told, said = ssl.MemoryBIO(), ssl.MemoryBIO()
with suppress(ssl.SSLWantReadError):
    ssl.create_default_context().wrap_bio(told, said, server_hostname=f"{mark}.test").do_handshake()
reasons.append(f"the TLS greeting in a tunnel to {place} names '{mark}.test'")
talk(f"CONNECT {place} HTTP/1.1\\r\\n\\r\\n".encode() + said.read())
""",
    ),
    proxy(
        "plain HTTP to another host in a tunnel",
        """
place, denied = f"allowed.test:{given['allowed']}", f"denied.test:{given['denied']}"
reasons.append(f"Host names another place than the tunnel to {place}")
reasons.append(f"plain HTTP in a tunnel to {place} asks for a path and names its host")
for first in (f"GET /{mark} HTTP/1.1\\r\\nhost: {denied}", f"POST http://{denied}/{mark} HTTP/1.1\\r\\nhost: {place}"):
    talk(f"CONNECT {place} HTTP/1.1\\r\\n\\r\\n{first}\\r\\n\\r\\n".encode())
""",
    ),
    proxy(
        "hosts behind /to/",
        """
port = given["denied"]
return any_of(*(lambda each=each: passed(get(f"/to/{each}/{mark}")) for each in (
    "nobody.test:8443", f"denied.test:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "api.anthropic.com",
    f"rebound.test:{port}",
    f"allowed.test@denied.test:{port}", f"denied.test:{port}#", "..", "%2e%2e", "", f"allowed.test:{given['vendor']}")))
""",
    ),
    at(
        "a secret that is bound to a host, in its answer",
        PROXY,
        """
place = f"http://allowed.test:{given['allowed']}/echo"
for head in ("", f"x-bound: {mark}\\r\\n", f"X-Bound: {mark}\\r\\nx-bound: {mark}\\r\\n", "connection: x-bound\\r\\n",
             "range: bytes=0-20\\r\\n", "accept-encoding: gzip\\r\\n", "te: trailers\\r\\n"):
    get(place, head)
get(f"{place}/chunks")
""",
    ),
)
