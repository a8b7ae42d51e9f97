// One conversation, wherever it takes place: what was said and done, a button that stops it, a line to type.
import { make } from "./dom.js";
import { ask, Refusal } from "./wire.js";

const EVERY_MS = 2000;
const at = (id) => document.getElementById(id);
const headers = { "content-type": "application/json" };
let session = "";
let shown = "";

// The token leaves the address bar before anything else. This browser is signed in, so it is only used up.
async function start() {
  const given = new URLSearchParams(location.hash.slice(1));
  session = given.get("id") ?? "";
  const token = given.get("token");
  if (token) {
    history.replaceState(null, "", `/session#id=${encodeURIComponent(session)}`);
    await ask("/login", { method: "POST", headers, body: JSON.stringify({ token }) }).catch(() => {});
  }
  shown = "";
  await refresh();
}

function path(rest = "") {
  return `/api/sessions/${encodeURIComponent(session)}${rest}`;
}

async function refresh() {
  try {
    show(await ask(path()));
    tell("");
    at("live").className = "live on";
  } catch (error) {
    at("live").className = "live off";
    tell(error.message);
  }
}

function tell(text) {
  at("banner").textContent = text;
  at("banner").hidden = !text;
}

function show(found) {
  const text = JSON.stringify(found);
  if (text === shown) return;
  shown = text;
  document.title = `${found.agent} · Gatepost`;
  at("agent").textContent = found.title || found.agent;
  at("place").textContent = [found.folder, found.room, found.thread].filter(Boolean).join(" · ");
  at("stop").hidden = !found.running && !found.waiting;
  const scroll = at("scroll");
  const atEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
  at("message-list").replaceChildren(...found.entries.map(render));
  if (atEnd) scroll.scrollTop = scroll.scrollHeight;
}

function render(entry) {
  const quiet = entry.kind === "turn" || entry.kind === "call" || entry.kind === "system";
  const item = make("li", `message ${quiet ? "notice" : ""} ${entry.kind === "chat" ? "mine" : ""}`);
  const when = new Date(entry.at).toLocaleTimeString();
  item.append(make("p", "who", [entry.kind === "said" ? "agent" : entry.who || entry.kind, when].join(" · ")));
  const body = make("div", "body");
  body.append(make("p", "plain", quiet ? `${entry.kind}: ${entry.text}` : entry.text));
  item.append(body);
  return item;
}

async function act(rest, body) {
  at("hint").hidden = true;
  try {
    await ask(path(rest), { method: "POST", headers, body: JSON.stringify(body) });
    await refresh();
    return true;
  } catch (error) {
    at("hint").textContent = error instanceof Refusal ? error.message : "That did not work. Try it again.";
    at("hint").hidden = false;
    return false;
  }
}

at("composer").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = at("text").value.trim();
  if (text && (await act("/messages", { text }))) at("text").value = "";
});
at("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  at("composer").requestSubmit();
});
at("stop").addEventListener("click", () => act("/stop", {}));
window.addEventListener("hashchange", start);
setInterval(() => document.hidden || refresh(), EVERY_MS);
start();
