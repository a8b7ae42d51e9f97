// Shows what an invitation gives. Nothing changes until the button is pressed.
import { send } from "/static/csrf.js";

const state = document.getElementById("state");
const offer = document.getElementById("offer");
const chat = document.getElementById("chat");
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

function showChat() {
  show("You are not signed in here, so accept it in a chat.");
  const command = `/join ${CODE.test(token) ? token : "CODE"}`;
  document.getElementById("command").textContent = command;
  document.getElementById("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(command);
    show("Copied.");
  });
  offer.hidden = true;
  chat.hidden = false;
}

async function read() {
  const found = await post("/api/invitation/read");
  if (found === null) {
    showChat();
    return;
  }
  if (found.accepted) {
    show(found.accepted);
    document.getElementById("onward").hidden = false;
    return;
  }
  if (found.obstacle) {
    show(found.obstacle, true);
    return;
  }
  document.getElementById("person").textContent = found.person;
  document.getElementById("gets").textContent = found.ownGroup
    ? "gets an agent of their own, below"
    : "may write to the agent of";
  document.getElementById("group").textContent = found.group;
  show("This invitation gives the following:");
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
  document.getElementById("onward").hidden = !done.ok;
}

function run(step) {
  step().catch((error) => {
    offer.hidden = true;
    show(error instanceof TypeError ? "The gateway does not answer. Is it running?" : error.message, true);
  });
}

button.addEventListener("click", () => run(accept));
run(read);
