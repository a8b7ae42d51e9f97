// One page for every emulated platform. All text of people and of the bot is shown as text, never as markup.
const $ = (id) => document.getElementById(id);
const LOOK_MS = 400;
const EMOJIS = ["👍", "👎", "❤"];
let state = null, shown = "";
let room = "", person = "";
let context = null; // { name, words, fields } of the message that the next one edits, answers or continues

function make(tag, options = {}, ...inner) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...inner);
  return made;
}

function showError(text) {
  $("error").textContent = text;
  $("error").hidden = !text;
}

async function post(path, body, headers = {}) {
  showError("");
  try {
    const answer = await fetch(path, { method: "POST", headers: { "x-gatepost": "1", ...headers }, body });
    if (!answer.ok) showError((await answer.json().catch(() => ({}))).error || `the emulator answers ${answer.status}`);
    await look();
    return answer.ok;
  } catch {
    showError("The emulator has ended. Start it again: gatepost channel emulate");
    return false;
  }
}

const act = (verb, fields = {}) =>
  post("act", JSON.stringify({ verb, room, sender: person, ...fields }), { "content-type": "application/json" });

function setContext(next) {
  context = next;
  $("context").hidden = !next;
  if (next) $("context").firstElementChild.textContent = next.words;
  $("text").focus();
}

function listActs(message) {
  const mine = message.sender === person;
  const short = message.text.slice(0, 40);
  const acts = [
    ["reply", () => setContext({ verb: "send", words: `Answers: ${short}`, fields: { reply_to: message.id } })],
    ["thread", () => setContext({ verb: "send", words: `In the thread of: ${short}`, fields: { thread: message.thread || message.id } })],
    ...EMOJIS.map((emoji) => [emoji, () => act("react", { message: message.id, text: emoji })]),
  ];
  if (mine) {
    acts.push(["edit", () => { $("text").value = message.text; setContext({ verb: "edit", words: `Edits: ${short}`, fields: { message: message.id } }); }]);
    acts.push(["delete", () => act("delete", { message: message.id })]);
  }
  return acts
    .filter(([name]) => !state.cannot.includes(EMOJIS.includes(name) ? "react" : name))
    .map(([name, run]) => make("button", { type: "button", textContent: name, onclick: run }));
}

function renderMessage(message) {
  const notes = [
    message.thread && `thread ${message.thread}`, message.reply_to && `answers ${message.reply_to}`,
    message.edits && `edited ${message.edits}×`, message.pinned && "pinned", message.voice && "voice",
  ].filter(Boolean).join(" · ");
  const item = make("li", { className: message.sender === "bot" ? "message bot" : "message" });
  item.append(make("div", { className: "who", textContent: message.sender }));
  if (notes) item.append(make("div", { className: "notes", textContent: notes }));
  item.append(make("div", { className: "body", textContent: message.text }));
  message.files.forEach((file, number) => item.append(make("div", {}, make("a", {
    href: `files/${encodeURIComponent(message.id)}/${number}`, download: file.name, textContent: `${file.name} (${file.size} bytes)`,
  }))));
  if (message.buttons.length) item.append(make("div", { className: "buttons" }, ...message.buttons.map((label) =>
    make("button", { type: "button", textContent: label, onclick: () => act("click", { message: message.id, text: label }) }))));
  if (message.reactions.length) item.append(make("div", { className: "reactions", textContent: message.reactions.map((each) => each.join(" ")).join(", ") }));
  item.append(make("div", { className: "acts" }, ...listActs(message)));
  return item;
}

function renderLists() {
  const rooms = [...new Set([...state.rooms, room])];
  $("rooms").replaceChildren(...rooms.map((name) => make("li", {}, make("button", {
    type: "button", textContent: name, "aria-current": String(name === room), onclick: () => { room = name; setContext(null); render(); },
  }))));
  const people = [...new Set([...state.people, person])];
  $("people").replaceChildren(...people.map((name) => make("button", {
    type: "button", role: "radio", textContent: name, "aria-checked": String(name === person), onclick: () => { person = name; render(); },
  })));
  $("faults").replaceChildren(...state.faults.filter((fault) => !state.cannot.includes(fault.name)).map((fault) => make("button", {
    type: "button", textContent: fault.name.replaceAll("_", " "), "aria-pressed": String(fault.on), onclick: () => act("fault", { text: fault.name }),
  })));
}

function render() {
  document.title = `${state.kind}, emulated`;
  $("kind").textContent = state.kind;
  $("room").textContent = room;
  $("lines").textContent = state.lines.join("\n");
  $("requests").textContent = state.requests;
  $("join").hidden = state.cannot.includes("join");
  renderLists();
  const list = $("messages"), atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
  list.replaceChildren(...state.messages.filter((message) => message.room === room).map(renderMessage));
  if (atEnd) list.scrollTop = list.scrollHeight;
}

let typed = 0, typedAt = 0;
function renderTyping() {
  if (state.typing > typed) [typed, typedAt] = [state.typing, Date.now()];
  $("typing").hidden = !(state.typing_room === room && Date.now() - typedAt < 5000);
}

async function look() {
  const answer = await fetch("state");
  const text = await answer.text();
  state = JSON.parse(text);
  if (!room) room = state.rooms[0];
  if (!person) person = state.people[0];
  if (text !== shown) {
    shown = text;
    render();
  }
  renderTyping();
}

async function lookAgain() {
  try {
    await look();
  } catch {
    showError("The emulator has ended. Start it again: gatepost channel emulate");
  }
  setTimeout(lookAgain, LOOK_MS);
}

$("composer").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = $("text").value, file = $("file").files[0];
  if (!text.trim() && !file) return;
  let sent;
  if (file) {
    const form = new FormData();
    for (const [name, value] of Object.entries({ file, room, sender: person, text })) form.append(name, value);
    sent = await post("upload", form);
  } else {
    const { verb, fields } = context || { verb: "send", fields: {} };
    sent = await act(verb, { text, ...fields, ...(verb === "send" ? { mention: $("mention").checked } : {}) });
  }
  if (!sent) return;
  $("composer").reset();
  setContext(null);
});
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    $("composer").requestSubmit();
  }
});
$("context").querySelector("button").addEventListener("click", () => { setContext(null); $("text").value = ""; });
$("join").addEventListener("click", () => act("join"));
$("heal").addEventListener("click", () => act("heal"));
for (const [form, input, set] of [
  ["new-room", "room-name", (value) => { room = value; }],
  ["new-person", "person-name", (value) => { person = value; }],
]) {
  $(form).addEventListener("submit", (event) => {
    event.preventDefault();
    if ($(input).value.trim()) set($(input).value.trim());
    $(input).value = "";
    render();
  });
}
lookAgain();
