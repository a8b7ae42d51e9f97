// Requests as our pages send them: with our header, and each write with the token that belongs to this browser's cookie.
let token = null; // a promise of it, asked for by the first write

async function getToken() {
  token ??= fetch("/api/csrf", { headers: { "x-gatepost": "1" } })
    .then((answer) => (answer.ok ? answer.json() : {}))
    .then((said) => said.token ?? "");
  try {
    return await token;
  } catch (error) {
    token = null; // the gateway was away: the next write asks again
    throw error;
  }
}

export async function send(path, options = {}) {
  const headers = { "x-gatepost": "1", ...options.headers };
  if (["GET", "HEAD"].includes(options.method ?? "GET")) return fetch(path, { ...options, headers });
  const write = async () => fetch(path, { ...options, headers: { ...headers, "x-csrf-token": await getToken() } });
  const answer = await write();
  if (answer.headers.get("x-csrf-token") !== "refused") return answer;
  token = null; // somebody has signed in anew, in another tab
  return write();
}
