// Shows what a pairing link would do. Nothing changes until the button is pressed.
import { send } from "/static/csrf.js";
import { t } from "/static/texts.js";

const state = document.getElementById("state");
const offer = document.getElementById("offer");
const button = document.getElementById("confirm");
const token = location.pathname.split("/").pop();

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
  if (answer.status === 401) throw new Error(t("Sign in on this browser first, then open this link again."));
  if (!answer.ok) throw new Error(body.error.text);
  return body;
}

async function read() {
  const found = await post("/api/pairing/read");
  if (found.obstacle) {
    show(found.obstacle, true);
    return;
  }
  document.getElementById("identity").textContent = found.name ? `${found.name} (${found.identity})` : found.identity;
  document.getElementById("person").textContent = t("{personName} ({person}), who is signed in here", { personName: found.personName, person: found.person });
  show(t("This link asks for the following:"));
  offer.hidden = false;
}

async function confirm() {
  button.disabled = true;
  const done = await post("/api/pairing/confirm");
  offer.hidden = true;
  show(done.text, !done.ok);
}

function run(step) {
  step().catch((error) => {
    offer.hidden = true;
    show(error instanceof TypeError ? t("The gateway does not answer. Is it running?") : error.message, true);
  });
}

button.addEventListener("click", () => run(confirm));
run(read);
