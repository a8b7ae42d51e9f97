// Shows what an invitation gives. Nothing changes until the button is pressed. Somebody new chooses a name first, if the
// invitation is for the page.
import { send } from "/static/csrf.js";
import { t } from "/static/texts.js";

const state = document.getElementById("state");
const offer = document.getElementById("offer");
const chat = document.getElementById("chat");
const join = document.getElementById("join");
const onward = document.getElementById("onward");
const button = document.getElementById("accept");
const token = location.pathname.split("/").pop();
const CODE = /^[A-Za-z0-9-]{1,100}$/;

function show(text, bad = false) {
  state.textContent = text.replaceAll("`", "");
  state.classList.toggle("bad", bad);
}

async function post(path) {
  const answer = await send(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token }),
  });
  const body = await answer.json();
  if (answer.status === 401) return null;
  if (!answer.ok) throw new Error(body.error.text);
  return body;
}

async function knock(path, more = {}) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-gatepost": "1" },
    body: JSON.stringify({ token, ...more }),
  });
  return { ok: answer.ok, status: answer.status, body: await answer.json() };
}

async function showJoin() {
  const found = await knock("/login/invitation/read");
  if (!found.ok) {
    showChat();
    return;
  }
  document.getElementById("joins").textContent = found.body.gives;
  document.getElementById("name").maxLength = found.body.longestName;
  show(t("Somebody invites you to this gateway."));
  join.hidden = false;
  document.getElementById("name").focus();
}

async function comeIn() {
  const submit = join.querySelector("button");
  submit.disabled = true;
  const name = document.getElementById("name").value;
  const done = await knock("/login/invitation", { name });
  submit.disabled = false;
  if (!done.ok) {
    show(done.body.error.text, true);
    return;
  }
  join.hidden = true;
  show(t("You are signed in here as {name}.", { name }));
  onward.hidden = false;
  onward.querySelector("a").focus();
  const ways = await (await fetch("/login/ways")).json();
  document.getElementById("later").hidden = ways.ways.length === 0;
}

function showChat() {
  show(t("You are not signed in here, so accept it in a chat."));
  const command = `/join ${CODE.test(token) ? token : "CODE"}`;
  document.getElementById("command").textContent = command;
  document.getElementById("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(command);
    show(t("Copied."));
  });
  offer.hidden = true;
  chat.hidden = false;
}

async function read() {
  const found = await post("/api/invitation/read");
  if (found === null) {
    await showJoin();
    return;
  }
  if (found.accepted) {
    show(found.accepted);
    onward.hidden = false;
    return;
  }
  if (found.obstacle) {
    show(found.obstacle, true);
    return;
  }
  document.getElementById("person").textContent = found.person;
  document.getElementById("gets").textContent = found.ownGroup ? "gets an agent of their own, below" : "may";
  document.getElementById("group").textContent = found.ownGroup ? found.group : found.gives;
  show(t("This invitation gives the following:"));
  offer.hidden = false;
}

async function accept() {
  button.disabled = true;
  const done = await post("/api/invitation/accept");
  if (done === null) {
    showChat();
    return;
  }
  offer.hidden = true;
  show(done.text, !done.ok);
  onward.hidden = !done.ok;
}

function run(step) {
  step().catch((error) => {
    offer.hidden = true;
    show(error instanceof TypeError ? t("The gateway does not answer. Is it running?") : error.message, true);
  });
}

button.addEventListener("click", () => run(accept));
join.addEventListener("submit", (event) => {
  event.preventDefault();
  run(comeIn);
});
run(read);
