// The sign-in page: redeems the one-time token of the address, and shows the other ways that are on.
// The fragment leaves the address bar and the history before anything else.
import { t } from "/static/texts.js";
const state = document.getElementById("state");
const ways = document.getElementById("ways");

export function showState(text, bad = false) {
  state.textContent = text.replaceAll("`", "");
  state.classList.toggle("bad", bad);
}

// The page that was asked for: this page stands in its place, at its address.
export function getNext() {
  return location.pathname + location.search;
}

// Sends JSON, and returns the answer. Once it signs this browser in, `enter` shows the page that was asked for.
export async function send(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-gatepost": "1" },
    body: JSON.stringify(body),
  });
  const said = await answer.json();
  if (!answer.ok) throw new Refusal(said.error?.text ?? t("That did not work."));
  return said;
}

export class Refusal extends Error {}

export async function signIn(path, body) {
  showState(t("Signing in…"));
  try {
    await send(path, body);
    enter();
  } catch (error) {
    showState(error instanceof Refusal ? error.message : t("The gateway does not answer. Is it running?"), true);
  }
}

export function enter() {
  location.reload();
}

function redeem() {
  const given = new URLSearchParams(location.hash.slice(1));
  const token = given.get("token");
  if (!token) return;
  const id = given.get("id");
  history.replaceState(null, "", getNext() + (id ? `#id=${encodeURIComponent(id)}` : ""));
  signIn("/login", { token });
}

const whenShown = []; // what modules do once all ways stand there

// A way is a link, or a module of ours that shows what it needs.
async function showWay(way) {
  const place = document.createElement("div");
  place.className = "way";
  ways.append(place);
  if (way.script) {
    const { show, ready } = await import(`/static/${way.script}`);
    show(place, way);
    whenShown.push(ready);
  } else {
    const link = document.createElement("a");
    link.className = "button";
    link.textContent = way.label;
    link.href = `${way.href}?next=${encodeURIComponent(getNext())}`;
    place.append(link);
  }
  ways.hidden = false;
}

async function showWays() {
  const answer = await fetch("/login/ways");
  const shown = await Promise.allSettled((await answer.json()).ways.map(showWay));
  for (const each of shown) if (each.reason) console.error(each.reason);
  for (const ready of whenShown) ready?.();
}

window.addEventListener("hashchange", redeem);
redeem();
showWays().catch(() => {}); // the one-time address works without them
