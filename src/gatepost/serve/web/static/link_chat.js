// The chat of a link, for a visitor without an account. Texts are set as text; only the gateway's own rendering of
// markdown is set as HTML.
import { make, newId } from "/static/dom.js";
import { Closed, LinkWire } from "/static/link_wire.js";
import { t } from "/static/texts.js";

const clock = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit" });
const at = (id) => document.getElementById(id);
const [list, text, send, hint, typing, scroll] = ["message-list", "text", "send", "hint", "typing", "scroll"].map(at);
const said = new Map(); // key or id → message
const changes = new Map(); // id of the changed message → Map of id → change
const framed = window.parent !== window;
let closed = false;
let unsent = null; // what may have arrived all the same: sent again under its key, it is said once

const wire = new LinkWire({
  message(message) {
    if (["edit", "delete"].includes(message.verb)) {
      changes.set(message.target, (changes.get(message.target) ?? new Map()).set(message.id, message));
    } else if (message.verb !== "react" && message.verb !== "status" && (message.html || message.files.length)) {
      said.set(message.mine ? message.key : message.id, message);
    }
    draw();
  },
  typing(on) {
    typing.hidden = !on;
    follow();
  },
  state(live) {
    at("live").className = live ? "live on" : "live off";
    at("live").firstElementChild.textContent = live ? t("Connected") : t("Not connected");
  },
  closed: end,
});

function end() {
  closed = true;
  text.disabled = send.disabled = true;
  typing.hidden = true;
  at("empty").hidden = true;
  at("live").className = "live";
  tell(t("This chat is closed."));
}

function tell(words) {
  hint.textContent = words;
  hint.hidden = !words;
}

function latest(message) {
  const made = [...(changes.get(message.id)?.values() ?? [])].sort((a, b) => a.id - b.id).at(-1);
  if (!made) return message;
  return made.verb === "delete" ? { ...message, html: "", deleted: true, files: [] } : { ...message, html: made.html };
}

function drawLine(message) {
  const item = make("li", "message");
  item.classList.toggle("mine", message.mine);
  item.classList.toggle("notice", message.notice);
  item.classList.toggle("waiting", Boolean(message.sending));
  item.classList.toggle("broken", message.state === "failed");
  const who = make("div", "who");
  who.append(make("b", "", message.mine ? t("You") : message.notice ? "" : message.name), make("time", "", clock.format(message.at)));
  const body = make("div", "body");
  if (message.deleted) body.append(make("p", "gone", t("This message was deleted.")));
  else if (message.html) body.innerHTML = message.html;
  else body.append(make("p", "plain", message.text ?? ""));
  for (const name of message.files) body.append(make("p", "quiet", t("{name}: files are not shown here", { name })));
  item.append(who, body);
  if (message.state === "failed") item.append(make("div", "under", t("This was not answered.")));
  return item;
}

const drawn = new Map(); // key or id → [how it looked, its element]

function draw() {
  const lines = [...said].sort(([, a], [, b]) => (a.id ?? Infinity) - (b.id ?? Infinity) || a.at - b.at);
  const items = lines.map(([name, message]) => {
    const line = latest(message);
    const look = JSON.stringify(line);
    if (drawn.get(name)?.[0] !== look) drawn.set(name, [look, drawLine(line)]);
    return drawn.get(name)[1];
  });
  items.forEach((item, place) => {
    if (list.children[place] !== item) list.insertBefore(item, list.children[place] ?? null);
  });
  while (list.children.length > items.length) list.lastChild.remove();
  at("empty").hidden = closed || lines.length > 0;
  follow();
}

function follow() {
  scroll.scrollTop = scroll.scrollHeight;
}

async function submit() {
  const words = text.value.trim();
  if (!words || closed) return;
  if (words.length > wire.maxText) {
    tell(t("That is too long: at most {maxText} characters are possible.", { maxText: wire.maxText }));
    return;
  }
  const key = unsent?.words === words ? unsent.key : newId("m-");
  said.set(key, { key, mine: true, sending: true, text: words, html: "", at: Date.now(), files: [], state: "" });
  text.value = "";
  fit();
  tell("");
  draw();
  try {
    await wire.send(key, words);
  } catch (error) {
    said.delete(key);
    unsent = { key, words };
    if (error instanceof Closed) end();
    else tell(error.message);
    if (!text.value && !closed) text.value = words;
    fit();
    draw();
  }
}

function fit() {
  text.rows = Math.min(6, Math.max(1, text.value.split("\n").length));
  send.disabled = closed || !text.value.trim();
}

text.addEventListener("input", fit);
text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
at("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});

// The page around us hides us; that somebody asked for it is all that it is told.
const leave = () => window.parent.postMessage({ gatepost: "close" }, "*");
if (framed) {
  at("close").hidden = false;
  at("close").addEventListener("click", leave);
  document.addEventListener("keydown", (event) => event.key === "Escape" && leave());
}

wire.start().then(
  (name) => {
    at("name").textContent = document.title = name;
    text.focus({ preventScroll: true });
  },
  (error) => (error instanceof Closed ? end() : tell(error.message)),
);
