// The chat page: one conversation on the screen, all of them on one stream.
import { ask, Stream } from "/static/wire.js";
import { addressOf, readAddress, showAddress } from "/static/addresses.js";
import { drawAgents, drawChoices, drawModels, listAgents } from "/static/agents.js";
import { press, react, readArguments } from "/static/clicks.js";
import { Completion } from "/static/completion.js";
import { Composer } from "/static/composer.js";
import { newId } from "/static/dom.js";
import { forgetKept } from "/static/storage.js";
import { Notifications } from "/static/notifications.js";
import { Outgoing, readFile } from "/static/outgoing.js";
import { Pins } from "/static/pins.js";
import { readMark, setMark } from "/static/read_marks.js";
import { Documents } from "/static/documents.js";
import { Pictures } from "/static/pictures.js";
import { Recorder } from "/static/recorder.js";
import { Search } from "/static/search.js";
import { Talk, titleOf } from "/static/conversation.js";
import { drawRooms, List } from "/static/view.js";
import { Threads } from "/static/threads.js";
import { showWork, Work } from "/static/tool_activity.js";
import { run, Unanswered } from "/static/unanswered.js";
import { t } from "/static/texts.js";

const $ = (id) => document.getElementById(id);
const talk = new Talk();
const QUIET_MS = 400;
const list = new List($("message-list"), {
  retry: (line) => outgoing.deliver(line), discard, resend, show: jump, readArguments,
  press: (line, button, text) => press(talk.at(line.room, line.thread), line, button, text, redraw),
  react: (line, face) => react(line, face).catch((error) => say(error.message, "OK", () => say(""))),
  answer: (line) => composer.answer(line), pin: (line) => pins.toggle(line),
  edit: (line) => composer.edit(line), help: (line, button) => unanswered.press(line, button),
});
const composer = new Composer({ send, recall, refuse: (why) => say(why, "OK", () => say("")) });
const outgoing = new Outgoing(talk, { changed: hearDelivery, lost: () => hearState("lost") });
const threads = new Threads({ changed: () => drawPlaces(), refuse: (why) => say(why, "OK", () => say("")) });
const notifications = new Notifications($("notify"), open);
const work = new Work(() => draw());
const unanswered = new Unanswered({ changed: () => draw(), refuse: (why) => say(why, "OK", () => say("")) });
const pins = new Pins($("pins"), { jump, changed: () => draw(), refuse: (why) => say(why, "OK", () => say("")) });
let current = null;
let first = ""; // the room that the page begins with
let pinned = true; // the end is in view, and is to stay there
let stream = null;
const listed = new Set(); // rooms that the gateway told of
let quietUntil = 0; // an answer has just grown to its end: mostly the turn ends with it

/* What is on the screen */

function draw() {
  const lines = current.lines();
  const last = current.lastOwn?.id;
  for (const line of lines) if (line.id && line.id === last) line.last = true;
  const find = (line) => {
    if (line.replyTo) return current.byKey(line.replyTo);
    return line.target && !line.mine ? quotable(lines, line) : null;
  };
  const doing = work.attach(lines);
  pins.mark(lines);
  unanswered.attach(lines);
  list.draw(lines, find, current.newFrom);
  $("empty").hidden = lines.length > 0 || !current.loaded;
  $("older").hidden = !current.more;
  const works = current.typing || lines.some((line) => (line.mine || line.incoming) && line.state === "working");
  $("typing").hidden = !works || current.drafts.size > 0 || performance.now() < quietUntil;
  $("typing-text").textContent = works ? t("Working on it…") : "";
  showWork($("doing"), work.open, works ? doing : []);
  work.watch(current, works);
  drawStop(works || lines.some((line) => line.mine && ["queued", "retry"].includes(line.state)));
  if (pinned) toEnd();
}

function redraw(conversation) {
  if (conversation === current) draw();
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
  drawRooms($("rooms"), talk, $("missing").hidden ? current : null, open, (one) => threads.draw(one));
  $("room-name").textContent = talk.rooms.get(current.room);
  $("thread-name").textContent = current.thread ? current.title || t("New conversation") : "";
  const unread = [...talk.conversations.values()].filter((one) => one.unread).length;
  document.title = `${unread ? `(${unread}) ` : ""}${talk.rooms.get(current.room)} · Gatepost`;
}

function toEnd() {
  pinned = true;
  $("scroll").scrollTop = $("scroll").scrollHeight;
  $("newest").hidden = true;
}

function offerNewest(words) {
  $("newest-text").textContent = words;
  $("newest").hidden = false;
}

async function toNewest() {
  if (!current.apart) return toEnd();
  current.forget();
  await open(current.room, current.thread);
}

// Something works here: it can be stopped. When it is done, it may have cost something.
let working = false;
function drawStop(works) {
  if (working && !works) showAgents();
  working = works;
  $("stop").hidden = !works;
  if (!works) $("stop").disabled = false;
}

// Commands that may be given here; agents that one's words may go to, and people who have written here.
let reached = { agents: [], choices: [], commands: [] };
function suggest(sign, words) {
  if (sign === "/") {
    const fit = (reached.commands ?? []).filter(({ name }) => name.startsWith(words));
    return fit.map(({ name, help }) => ({ label: help[0].toUpperCase() + help.slice(1), hint: `/${name}`, text: `/${name} ` }));
  }
  const has = (...names) => names.some((name) => name.toLowerCase().includes(words));
  const agents = reached.choices.filter(({ folder, name }) => has(folder, name));
  const people = new Set(current.lines().filter((line) => line.incoming && !line.mine && line.name).map((line) => line.name));
  return [
    ...agents.map(({ folder, name }) => ({ label: name, hint: "agent", text: `@${folder} ` })),
    ...[...people].filter((name) => has(name)).map((name) => ({ label: name, hint: "person", text: `@${name} ` })),
  ];
}

async function showAgents() {
  const shown = current;
  const found = await listAgents(shown.room, shown.thread);
  if (shown !== current) return;
  reached = found;
  drawAgents($("agents"), found);
  drawChoices($("agent-pick"), found);
  drawModels($("model-pick"), found);
  $("first-run").hidden = !found.demo;
}

// All that is on the screen was seen.
function markRead() {
  current.unread = false;
  setMark(current, current.newest);
}

// What stands at this address, and whatever the browser goes back to. A new conversation has nothing in it yet.
async function openAddress() {
  const place = readAddress() ?? { room: first, thread: "" };
  const isThere = listed.has(place.room);
  if (isThere) await open(place.room, place.thread, { replaces: true });
  else if (!current) await open(first, "", { keepsAddress: true });
  const isSaid = !place.thread || /^t-[0-9a-f]{12}$/.test(place.thread) || current.listed || current.said.size > 0;
  if (isThere && isSaid) return;
  showMissing(true);
  drawPlaces();
}

function showMissing(missing) {
  $("missing").hidden = !missing;
  document.body.classList.toggle("not-found", missing);
}

async function open(room, thread, { replaces = false, keepsAddress = false } = {}) {
  showMissing(false);
  if (!keepsAddress) showAddress(addressOf(room, thread, first), replaces);
  if (current?.apart) current.forget();
  current = talk.at(room, thread);
  const shown = current;
  current.newFrom = current.unread ? readMark(current) : 0;
  current.unread = false;
  working = false;
  document.body.classList.remove("drawer");
  $("menu").setAttribute("aria-expanded", "false");
  list.clear();
  composer.open(current);
  drawPlaces();
  draw();
  showAgents();
  pins.open(room);
  if (!shown.loaded) await load(shown).catch((error) => say(error.message));
  if (shown === current) {
    draw();
    toEnd();
    markRead();
  }
}

// To a message, wherever it stands.
async function jump({ id, room, thread }) {
  if (current.room !== room || current.thread !== thread) await open(room, thread);
  if (!current.said.has(id)) {
    const shown = current;
    shown.forget();
    await load(shown, "", id).catch((error) => say(error.message));
    if (shown !== current) return;
    shown.apart = true;
    draw();
    offerNewest(t("Back to the newest"));
  }
  pinned = false;
  const item = list.find(id);
  if (!item) return;
  item.tabIndex = -1;
  item.scrollIntoView({ block: "center" });
  item.focus({ preventScroll: true });
  item.classList.add("found");
  item.addEventListener("animationend", () => item.classList.remove("found"), { once: true });
}

async function load(conversation, before = "", around = "") {
  const query = new URLSearchParams({ room: conversation.room, thread: conversation.thread, before, around });
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
  if (conversation.apart && !conversation.said.has(message.id)) return; // it comes with the newest
  const fresh = conversation.put(message, true);
  const seen = conversation === current && document.visibilityState === "visible";
  if (fresh && !message.mine && !seen) conversation.unread = true;
  if (fresh && !message.mine) notifications.show(message);
  if (seen) setMark(conversation, message.id);
  if (conversation === current) {
    if (fresh && message.grown) {
      quietUntil = performance.now() + QUIET_MS;
      setTimeout(draw, QUIET_MS + 1);
    }
    draw();
    if (fresh && !message.mine && !pinned) offerNewest(t("New messages"));
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

function hearHalted(halted, mayGoOn) {
  $("halted").hidden = !halted;
  $("go-on").hidden = !mayGoOn;
}

$("go-on").addEventListener("click", async ({ target }) => {
  target.disabled = true;
  try {
    await run("panic.off", {});
    hearHalted(false, false);
  } catch (error) {
    say(error.message, "OK", () => say(""));
  }
  target.disabled = false;
});

let lost = 0;
function hearState(state) {
  clearTimeout(lost);
  $("live").className = `live ${state === "live" ? "on" : "off"}`;
  $("live").firstElementChild.textContent = state === "live" ? t("Connected") : t("Not connected");
  if (state === "live") {
    say("");
    outgoing.retryLost();
  }
  if (state === "lost") lost = setTimeout(() => say(t("Connection lost. Trying to reconnect…")), 1500);
  if (state === "elsewhere") say(t("Gatepost is open in another tab."), t("Use it here"), () => stream.open());
}

// What became of a message on its way.
function hearDelivery(conversation, line) {
  if (conversation !== current) return;
  draw();
  if (line.state === "unsent") toEnd(); // whoever wrote it must see that it is still here
}

/* What goes */

// `replaces`: the message that was edited; what the agent still does for it is stopped first.
async function send({ text, files, replyTo, replaces }) {
  if (current.apart) await toNewest();
  const line = {
    key: newId("m-"), room: current.room, thread: current.thread, mine: true, verb: "message", name: "owner",
    text, html: "", at: Date.now(), state: "sending", reason: "", reactions: [],
    replyTo, uploads: files, files: files.map(({ name, size }) => ({ name, size })),
  };
  Object.defineProperty(line, "uploads", { enumerable: false });
  if (line.thread && !current.title) current.title = titleOf(line);
  const busy = replaces && working;
  current.sending.set(line.key, line);
  drawPlaces();
  draw();
  toEnd();
  if (busy) await stop();
  await outgoing.deliver(line);
}

// The last message once more, with its files.
async function resend(line) {
  try {
    const files = await Promise.all(line.files.map(readFile));
    await send({ text: line.text, files, replyTo: line.replyTo, replaces: line });
  } catch (error) {
    say(t("Not sent again: {message}", { message: error.message }), "OK", () => say(""));
  }
}

// From now on, what is written in this conversation goes to another agent. The gateway keeps the choice.
async function pick(folder) {
  await send({ text: `@${folder}`, files: [], replyTo: "" });
  showAgents();
}

// Holds from the next answer on.
async function pickModel(name) {
  await send({ text: `/model ${name}`, files: [], replyTo: "" });
  showAgents();
}

function recall() {
  const line = current.lastOwn;
  if (line?.text) composer.edit(current.changed(line));
}

// Ends what the agent does here, as far as whoever presses it may. The gateway says in the room what became of it.
async function stop() {
  $("stop").disabled = true;
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ room: current.room, thread: current.thread, id: newId("s-") });
  try {
    await ask("/api/stop", { method: "POST", headers, body });
  } catch (error) {
    say(t("Not stopped: {message}", { message: error.message }), "OK", () => say(""));
  }
  $("stop").disabled = false;
}

function discard(line) {
  const conversation = talk.at(line.room, line.thread);
  conversation.sending.delete(line.key);
  if (conversation === current) {
    composer.restore(line.text);
    draw();
  }
}

/* Hands on the page */

function wire() {
  $("stop").addEventListener("click", stop);
  $("agent-pick").addEventListener("change", () => pick($("agent-pick").value));
  $("model-pick").addEventListener("change", () => pickModel($("model-pick").value));
  $("older").addEventListener("click", showOlder);
  $("newest").addEventListener("click", toNewest);
  let top = 0;
  $("scroll").addEventListener("scroll", () => {
    pinned = (isAtEnd() && !current.apart) || (pinned && $("scroll").scrollTop >= top); // only a hand scrolls up
    top = $("scroll").scrollTop;
    if (pinned && !current.apart) $("newest").hidden = true;
  });
  // A banner, a taller box to write in, a picture that arrives: none of them may hide the end.
  const watch = new ResizeObserver(() => pinned && toEnd());
  for (const id of ["scroll", "message-list"]) watch.observe($(id));
  $("new-thread").addEventListener("click", () => open(current.room, newId("t-").slice(0, 14)));
  $("sign-out").addEventListener("click", () => {
    forgetKept();
    ask("/logout", { method: "POST" }).then(() => location.reload());
  });
  for (const id of ["menu", "shade"]) {
    $(id).addEventListener("click", () => {
      const shown = document.body.classList.toggle("drawer");
      $("menu").setAttribute("aria-expanded", String(shown));
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") document.body.classList.remove("drawer");
    if (event.key === "." && (event.ctrlKey || event.metaKey) && !$("stop").hidden && !$("stop").disabled) stop();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible" && current) {
      markRead();
      drawPlaces();
    }
  });
}

async function begin() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    // Signed in already: the gateway only uses the address up, so that nobody else can.
    history.replaceState(null, "", location.pathname + location.search);
    const headers = { "content-type": "application/json" };
    await ask("/login", { method: "POST", headers, body: JSON.stringify({ token }) }).catch(() => {});
  }
  let start;
  try {
    start = await ask("/api/start");
  } catch (error) {
    say(error.message, t("Try again"), () => location.reload());
    return;
  }
  composer.largest = start.maxBytes;
  composer.longest = start.maxText;
  for (const { room, name, threads, last } of start.rooms) {
    talk.rooms.set(room, name);
    listed.add(room);
    const places = [[talk.at(room, ""), last]];
    for (const { id, title, last, mark } of threads) {
      places.push([Object.assign(talk.at(room, id), { title, mark, named: Boolean(title), listed: true }), last]);
    }
    for (const [place, newest] of places) {
      if (readMark(place)) place.unread = newest > readMark(place);
      else setMark(place, newest); // a browser that was never here has nothing to catch up with
    }
  }
  wire();
  new Completion($("text"), $("completion"), suggest);
  new Search(() => current.room, jump);
  new Pictures($("pictures"), $("message-list"));
  new Documents($("documents"), $("message-list"));
  new Recorder($("record"), (file) => composer.addFiles([file]), (why) => say(why, "OK", () => say("")));
  first = start.room;
  await openAddress();
  window.addEventListener("popstate", () => openAddress());
  stream = new Stream(start.cursor, {
    message: hearMessage, typing: hearTyping, draft: hearDraft, halted: hearHalted, opened: forgetDrafts, state: hearState,
    pins: ({ room }) => pins.renew(room),
  });
  composer.sendEarly();
}

begin();
