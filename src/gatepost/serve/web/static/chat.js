// The chat page: one conversation on the screen, all of them on one stream.
import { ask, Refusal, Stream } from "/static/wire.js";
import { make } from "/static/dom.js";
import { briefly, Talk, titleOf } from "/static/talk.js";
import { drawRooms, List, size } from "/static/view.js";

const $ = (id) => document.getElementById(id);
const coarse = matchMedia("(pointer: coarse)");
const talk = new Talk();
const QUIET_MS = 400;
const list = new List($("message-list"), { retry: deliver, discard, answer, press, readArguments });
let current = null;
let chosen = []; // files to send
let answered = null; // the message that is being answered
let largest = 0; // bytes of files and text together
let longest = Infinity; // bytes of a text
let pinned = true; // the end is in view, and is to stay there
let stream = null;
let quietUntil = 0; // an answer has just grown to its end: mostly the turn ends with it

const newId = (prefix) => {
  const noise = crypto.getRandomValues(new Uint8Array(12));
  return prefix + Array.from(noise, (byte) => byte.toString(16).padStart(2, "0")).join("");
};

/* What is on the screen */

function draw() {
  const lines = current.lines();
  list.draw(lines, (line) => {
    if (line.replyTo) return current.byKey(line.replyTo);
    return line.target && !line.mine ? quotable(lines, line) : null;
  });
  $("empty").hidden = lines.length > 0 || !current.loaded;
  $("older").hidden = !current.more;
  const works = current.typing || lines.some((line) => (line.mine || line.incoming) && line.state === "working");
  $("typing").hidden = !works || current.drafts.size > 0 || performance.now() < quietUntil;
  $("typing-text").textContent = works ? "Working on it…" : "";
  if (pinned) toEnd();
}

function isAtEnd() {
  const { scrollHeight, scrollTop, clientHeight } = $("scroll");
  return scrollHeight - scrollTop - clientHeight < 80;
}

// An answer to the message right above it needs no quotation.
function quotable(lines, line) {
  const place = lines.findIndex((one) => one.id === line.id);
  const target = current.said.get(line.target);
  return target && lines[place - 1]?.id !== target.id ? target : null;
}

function drawPlaces() {
  drawRooms($("rooms"), talk, current, open);
  $("room-name").textContent = talk.rooms.get(current.room);
  $("thread-name").textContent = current.thread ? current.title || "New conversation" : "";
  const unread = [...talk.conversations.values()].filter((one) => one.unread).length;
  document.title = `${unread ? `(${unread}) ` : ""}${talk.rooms.get(current.room)} · Gatepost`;
}

function toEnd() {
  pinned = true;
  $("scroll").scrollTop = $("scroll").scrollHeight;
  $("newest").hidden = true;
}

async function open(room, thread) {
  if (current) keepDraft();
  current = talk.at(room, thread);
  current.unread = false;
  document.body.classList.remove("drawer");
  $("menu").setAttribute("aria-expanded", "false");
  list.clear();
  answer(null);
  $("text").value = sessionStorage.getItem(`draft ${current.room} ${current.thread}`) ?? "";
  fit();
  drawPlaces();
  draw();
  if (!coarse.matches) $("text").focus();
  const shown = current;
  if (!shown.loaded) await load(shown).catch((error) => say(error.message));
  if (shown === current) {
    draw();
    toEnd();
  }
}

async function load(conversation, before = "") {
  const query = new URLSearchParams({ room: conversation.room, thread: conversation.thread, before });
  const page = await ask(`/api/messages?${query}`);
  for (const message of page.messages) conversation.put(message);
  conversation.more = page.more && page.messages.length > 0;
  conversation.loaded = true;
}

async function showOlder() {
  const scroll = $("scroll");
  const fromEnd = scroll.scrollHeight - scroll.scrollTop;
  await load(current, String(Math.min(...current.said.keys()))).catch((error) => say(error.message));
  draw();
  scroll.scrollTop = scroll.scrollHeight - fromEnd;
}

function say(text, label = "", act = null) {
  $("banner").hidden = !text;
  $("banner-text").textContent = text;
  $("banner-do").hidden = !label;
  $("banner-do").textContent = label;
  $("banner-do").onclick = act;
}

/* What comes */

function hearMessage(message) {
  const conversation = talk.at(message.room, message.thread);
  const fresh = conversation.put(message, true);
  const seen = conversation === current && document.visibilityState === "visible";
  if (fresh && !message.mine && !seen) conversation.unread = true;
  if (conversation === current) {
    if (fresh && message.grown) {
      quietUntil = performance.now() + QUIET_MS;
      setTimeout(draw, QUIET_MS + 1);
    }
    draw();
    if (fresh && !message.mine && !pinned) $("newest").hidden = false;
  }
  drawPlaces();
}

function hearTyping({ room, thread, on }) {
  const conversation = talk.at(room, thread);
  conversation.typing = on;
  if (conversation === current) draw();
}

function hearDraft(draft) {
  const conversation = talk.at(draft.room, draft.thread);
  const line = conversation.putDraft(draft);
  if (conversation === current && !(line && list.grow(line))) draw();
}

// What came of drafts while nobody listened is not known.
function forgetDrafts() {
  for (const conversation of talk.conversations.values()) conversation.drafts.clear();
  draw();
}

function hearHalted(halted) {
  $("halted").hidden = !halted;
}

let lost = 0;
function hearState(state) {
  clearTimeout(lost);
  $("live").className = `live ${state === "live" ? "on" : "off"}`;
  $("live").firstElementChild.textContent = state === "live" ? "Connected" : "Not connected";
  if (state === "live") {
    say("");
    retryLost();
  }
  if (state === "lost") lost = setTimeout(() => say("Connection lost. Trying to reconnect…"), 1500);
  if (state === "elsewhere") say("Gatepost is open in another tab.", "Use it here", () => stream.open());
}

/* What goes */

function submit(event) {
  event?.preventDefault();
  const text = $("text").value.trim();
  if ((!text && !chosen.length) || !fits(text)) return;
  const line = {
    key: newId("m-"), room: current.room, thread: current.thread, mine: true, verb: "message", name: "owner",
    text, html: "", at: Date.now(), state: "sending", reason: "", reactions: [],
    replyTo: answered?.key ?? "", uploads: chosen, files: chosen.map(({ name, size }) => ({ name, size })),
  };
  Object.defineProperty(line, "uploads", { enumerable: false });
  if (line.thread && !current.title) current.title = titleOf(line);
  current.sending.set(line.key, line);
  $("text").value = "";
  chosen = [];
  answer(null);
  drawFiles();
  fit();
  keepDraft();
  drawPlaces();
  draw();
  toEnd();
  deliver(line);
}

// The same key however often it is tried: the gateway accepts it once.
async function deliver(line) {
  const conversation = talk.at(line.room, line.thread);
  Object.assign(line, { state: "sending", lost: false });
  if (conversation === current) draw();
  const form = new FormData();
  for (const [name, value] of [["room", line.room], ["thread", line.thread], ["id", line.key], ["reply_to", line.replyTo], ["text", line.text]]) {
    form.append(name, value);
  }
  for (const file of line.uploads) form.append("file", file, file.name);
  try {
    const { state, reason } = await ask("/api/messages", { method: "POST", body: form });
    Object.assign(line, { state, reason });
  } catch (error) {
    // What the gateway refused stays refused; what did not reach it is tried again when it is back.
    line.lost = error instanceof Refusal === false;
    Object.assign(line, { state: "unsent", reason: error.message });
    if (line.lost) hearState("lost");
  }
  if (conversation !== current) return;
  draw();
  if (line.state === "unsent") toEnd(); // whoever wrote it must see that it is still here
}

// One after the other, in the order in which they were written.
const MOST_RETRIES = 10; // then it is for whoever wrote it to say "Try again"
let retrying = false;
async function retryLost() {
  if (retrying) return;
  retrying = true;
  try {
    const lines = [...talk.conversations.values()].flatMap((one) => [...one.sending.values()]);
    const due = lines.filter((one) => one.lost && one.state === "unsent" && (one.retries ?? 0) < MOST_RETRIES);
    for (const line of due.sort((a, b) => a.at - b.at)) {
      line.retries = (line.retries ?? 0) + 1;
      await deliver(line);
      if (line.lost) break; // away again: the next connection goes on
    }
  } finally {
    retrying = false;
  }
}

// A button of a card. Decided, the card itself changes with what comes; else it can be pressed again.
// `text`: words of one's own, where the card takes them.
async function press(line, button, text = "") {
  const conversation = talk.at(line.room, line.thread);
  if (conversation.pressed.has(line.id)) return;
  conversation.pressed.set(line.id, button);
  conversation.troubles.delete(line.id);
  draw();
  try {
    const headers = { "content-type": "application/json" };
    const { decided } = await ask("/api/clicks", { method: "POST", headers, body: JSON.stringify({ button, text }) });
    if (!decided) conversation.pressed.delete(line.id);
  } catch (error) {
    conversation.pressed.delete(line.id);
    conversation.troubles.set(line.id, `Not decided: ${error.message}`);
  }
  if (conversation === current) draw();
}

// What the form of a card has to change: a card shows an excerpt.
async function readArguments(line) {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ token: line.card.token });
  return (await ask("/api/clicks/arguments", { method: "POST", headers, body })).arguments;
}

function discard(line) {
  const conversation = talk.at(line.room, line.thread);
  conversation.sending.delete(line.key);
  if (conversation === current) {
    if (!$("text").value) $("text").value = line.text;
    fit();
    draw();
  }
}

function answer(line) {
  answered = line;
  $("answering").hidden = !line;
  $("answering-text").textContent = line ? `Answering: ${briefly(line)}` : "";
  if (line) $("text").focus();
}

function addFiles(files) {
  for (const file of files) {
    if (chosen.reduce((sum, one) => sum + one.size, file.size) > largest) {
      say(`${file.name} is too large: a message may have ${size(largest)} in all.`, "OK", () => say(""));
      break;
    }
    chosen.push(file);
  }
  drawFiles();
}

function drawFiles() {
  $("files").replaceChildren(
    ...chosen.map((file) => {
      const item = make("li");
      const remove = make("button", "icon small", "×");
      remove.type = "button";
      remove.setAttribute("aria-label", `Remove ${file.name}`);
      remove.addEventListener("click", () => {
        chosen = chosen.filter((one) => one !== file);
        drawFiles();
      });
      item.append(make("span", "", `${file.name} · ${size(file.size)}`), remove);
      return item;
    }),
  );
  fit();
}

function keepDraft() {
  sessionStorage.setItem(`draft ${current.room} ${current.thread}`, $("text").value);
}

function fit() {
  const text = $("text");
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
  const whole = fits(text.value.trim());
  $("send").disabled = !whole || (!text.value.trim() && !chosen.length);
}

// The gateway counts bytes, and would refuse it: say so while the text can still be changed.
function fits(text) {
  const long = text.length * 3 > longest ? new TextEncoder().encode(text).length : 0;
  $("hint").hidden = long <= longest;
  $("hint").textContent = long <= longest ? "" :
    `Too long by ${size(long - longest)}: a message may have ${size(longest)} of text. Shorten it, or send it as a file.`;
  return long <= longest;
}

/* Hands on the page */

function wire() {
  $("composer").addEventListener("submit", submit);
  $("text").addEventListener("input", () => (fit(), keepDraft()));
  $("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !coarse.matches) submit(event);
    if (event.key === "Escape") answer(null);
  });
  $("text").addEventListener("paste", (event) => {
    if (event.clipboardData.files.length) {
      event.preventDefault();
      addFiles(event.clipboardData.files);
    }
  });
  $("attach").addEventListener("click", () => $("picker").click());
  $("picker").addEventListener("change", () => {
    addFiles($("picker").files);
    $("picker").value = "";
  });
  for (const [kind, on] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      document.body.classList.toggle("dropping", on);
      if (kind === "drop") addFiles(event.dataTransfer.files);
    });
  }
  $("answering-end").addEventListener("click", () => answer(null));
  $("older").addEventListener("click", showOlder);
  $("newest").addEventListener("click", toEnd);
  let top = 0;
  $("scroll").addEventListener("scroll", () => {
    pinned = isAtEnd() || (pinned && $("scroll").scrollTop >= top); // only a hand scrolls up
    top = $("scroll").scrollTop;
    if (pinned) $("newest").hidden = true;
  });
  // A banner, a taller box to write in, a picture that arrives: none of them may hide the end.
  const watch = new ResizeObserver(() => pinned && toEnd());
  for (const id of ["scroll", "message-list"]) watch.observe($(id));
  $("new-thread").addEventListener("click", () => open(current.room, newId("t-").slice(0, 14)));
  $("sign-out").addEventListener("click", () => ask("/logout", { method: "POST" }).then(() => location.reload()));
  for (const id of ["menu", "shade"]) {
    $(id).addEventListener("click", () => {
      const shown = document.body.classList.toggle("drawer");
      $("menu").setAttribute("aria-expanded", String(shown));
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") document.body.classList.remove("drawer");
  });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible" && current) {
      current.unread = false;
      drawPlaces();
    }
  });
}

async function begin() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    // Signed in already: the gateway only uses the address up, so that nobody else can.
    history.replaceState(null, "", "/");
    const headers = { "content-type": "application/json" };
    await ask("/login", { method: "POST", headers, body: JSON.stringify({ token }) }).catch(() => {});
  }
  let start;
  try {
    start = await ask("/api/start");
  } catch (error) {
    say(error.message, "Try again", () => location.reload());
    return;
  }
  largest = start.maxBytes;
  longest = start.maxText;
  for (const { room, name, threads } of start.rooms) {
    talk.rooms.set(room, name);
    talk.at(room, "");
    for (const { id, title } of threads) Object.assign(talk.at(room, id), { title, listed: true });
  }
  wire();
  await open(start.room, "");
  stream = new Stream(start.cursor, {
    message: hearMessage, typing: hearTyping, draft: hearDraft, halted: hearHalted, opened: forgetDrafts, state: hearState,
  });
}

begin();
