// Forms of operations: what would come of an input is said beside it, what is wrong with it at it, and what was typed is
// still there after a reload.
import { send } from "/static/csrf.js";
import { t } from "/static/texts.js";

const PAUSE_MS = 350; // of typing, before something is asked
const HEADERS = { accept: "application/json" };

// What would come of it ---------------------------------------------------------------------------------------------

const waiting = new WeakMap(); // by the place of a preview: its timer, and the request under way

document.addEventListener("input", (event) => previewLater(event.target));
document.addEventListener("change", (event) => previewLater(event.target));

function previewLater(input) {
  for (const place of input.form?.querySelectorAll("[data-previews]") ?? []) {
    if (!place.dataset.with.split(" ").includes(input.name)) continue;
    const before = waiting.get(place);
    clearTimeout(before?.timer);
    before?.asked?.abort();
    waiting.set(place, { timer: setTimeout(() => preview(place), PAUSE_MS) });
  }
}

async function preview(place) {
  const asked = new AbortController();
  const form = place.closest("form");
  const body = new URLSearchParams();
  for (const name of place.dataset.with.split(" ")) {
    const value = form.elements[name]?.value?.trim();
    if (value) body.set(name, value);
  }
  waiting.set(place, { asked });
  try {
    const path = `/dashboard/do/${place.dataset.previews}`;
    const answer = await send(path, { method: "POST", headers: HEADERS, body, signal: asked.signal });
    const { answer: found, said, field } = await answer.json();
    const own = place.closest(".field").querySelector("[name]");
    const isSilent = answer.status === 403 || (field === own.name && !own.value.trim());
    place.classList.toggle("wrong", !answer.ok);
    place.textContent = isSilent ? "" : found?.text ?? said ?? "";
    if (found?.exact) place.append(makeExact(found.exact));
  } catch {
    if (!asked.signal.aborted) place.textContent = ""; // the gateway is away, which the page shows
  }
}

function makeExact(exact) {
  const [folded, summary, code] = ["details", "summary", "code"].map((name) => document.createElement(name));
  summary.textContent = t("Exactly");
  code.textContent = exact;
  folded.append(summary, code);
  return folded;
}

// What is wrong stands at its input -------------------------------------------------------------------------------------

let sending = null; // the form that waits for its answer

document.addEventListener("htmx:before:request", (event) => {
  sending = event.target.closest?.("form.operation, form.page-form") ?? null;
  if (sending) forgetTroubles(sending);
});

document.addEventListener("htmx:after:swap", () => {
  const refusal = document.querySelector("#dialog-result > [data-field], #toast > [data-field]");
  if (refusal && sending?.isConnected) showTrouble(sending, refusal);
});

document.addEventListener("input", (event) => {
  const field = event.target.closest?.(".field");
  if (field?.querySelector(".wrong-input")) forgetTroubles(field);
});

// What a browser refuses by itself is said in the same place, also where that was folded away.
document.addEventListener("invalid", (event) => {
  const input = event.target;
  const form = input.form?.matches("form.operation, form.page-form") ? input.form : null;
  if (!form) return;
  event.preventDefault();
  if (form.querySelector(".wrong-input")) return; // one at a time, the first
  const refusal = document.createElement("div");
  refusal.className = "note-line bad";
  refusal.setAttribute("role", "alert");
  refusal.dataset.field = input.name;
  const said = input.validity.valueMissing ? t("This is needed.") : input.dataset.wrong ?? input.validationMessage;
  refusal.append(Object.assign(document.createElement("p"), { textContent: said }));
  showTrouble(form, refusal);
}, true);

// As people write it: a comma in an amount, the address of a page for its host.
document.addEventListener("change", (event) => {
  const { target } = event;
  if (target.closest?.(".field.money")) target.value = target.value.trim().replace(",", ".");
  if (target.closest?.(".field.host")) target.value = target.value.trim().replace(/^[a-z]+:\/\//i, "").replace(/\/.*$/, "");
});

document.addEventListener("click", (event) => {
  const form = event.target.closest?.("[type=submit]")?.form;
  if (form) forgetTroubles(form);
});

function showTrouble(form, refusal) {
  const input = form.elements[refusal.dataset.field];
  const field = input?.closest?.(".field");
  if (!field) return refusal.focus(); // it is about what the form was opened with
  for (let each = field.closest("details"); each; each = each.parentElement.closest("details")) each.open = true;
  refusal.removeAttribute("data-field");
  refusal.classList.add("wrong-input");
  refusal.id = `${input.id}-wrong`;
  field.append(refusal);
  input.setAttribute("aria-invalid", "true");
  input.setAttribute("aria-describedby", refusal.id);
  input.focus();
}

function forgetTroubles(place) {
  for (const each of place.querySelectorAll(".wrong-input")) each.remove();
  for (const each of place.querySelectorAll("[aria-invalid]")) {
    each.removeAttribute("aria-invalid");
    each.removeAttribute("aria-describedby");
  }
}

// Drafts: kept by this tab alone until they are sent, and never what may be a secret ---------------------------------

const DRAFT = "draft ";
const LONGEST_DRAFT = 100_000; // characters; a browser keeps some millions for a site
const person = document.body.dataset.person;

function getDraftName(form) {
  return form?.dataset.draft ? `${DRAFT}${JSON.stringify([person, form.dataset.draft])}` : "";
}

function listKept(form) {
  return [...form.querySelectorAll("[data-kept] [name]")];
}

document.addEventListener("input", (event) => keepDraft(event.target.form));
document.addEventListener("change", (event) => keepDraft(event.target.form));

function keepDraft(form) {
  const name = getDraftName(form);
  if (!name) return;
  const draft = {};
  for (const each of listKept(form)) {
    if (each.type === "checkbox" ? each.checked !== each.defaultChecked : each.value !== each.dataset.first)
      draft[each.name] = each.type === "checkbox" ? each.checked : each.value;
  }
  const text = JSON.stringify(draft);
  if (text === "{}" || text.length > LONGEST_DRAFT) sessionStorage.removeItem(name);
  else {
    try {
      sessionStorage.setItem(name, text);
    } catch {
      sessionStorage.removeItem(name); // no room: an older text in its place would mislead
    }
  }
}

function fillDraft(form) {
  for (const each of listKept(form)) each.dataset.first = each.value;
  const kept = sessionStorage.getItem(getDraftName(form));
  if (!kept) return;
  const draft = JSON.parse(kept);
  for (const each of listKept(form)) {
    if (!(each.name in draft)) continue;
    if (each.type === "checkbox") each.checked = draft[each.name];
    else each.value = draft[each.name];
    previewLater(each);
    if (each.closest("details")) each.closest("details").open = true;
  }
  form.querySelector(".draft").hidden = false;
}

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-starts-anew]")) return;
  const form = event.target.form ?? event.target.closest("form");
  sessionStorage.removeItem(getDraftName(form));
  form.reset();
  forgetTroubles(form);
  form.querySelector(".draft").hidden = true;
  form.querySelector(".field [name]")?.focus();
});

document.addEventListener("htmx:after:request", (event) => {
  const form = event.target.closest?.("form[data-draft]");
  if (!form || !event.detail?.ctx?.response?.raw?.ok) return;
  sessionStorage.removeItem(getDraftName(form));
  for (const each of listKept(form)) each.dataset.first = each.value; // what was sent is no draft
  form.querySelector(".draft").hidden = true;
});

function fillNewForms() {
  for (const form of document.querySelectorAll("form[data-draft]:not([data-filled])")) {
    form.dataset.filled = "";
    for (const input of form.querySelectorAll("[data-zone]")) {
      input.value ||= Intl.DateTimeFormat().resolvedOptions().timeZone; // of whoever fills in the form
    }
    fillDraft(form);
  }
}

// What somebody else has typed in this tab, before they signed out, is theirs.
for (const name of Object.keys(sessionStorage)) {
  if (name.startsWith(DRAFT) && JSON.parse(name.slice(DRAFT.length))[0] !== person) sessionStorage.removeItem(name);
}
document.addEventListener("htmx:after:swap", fillNewForms);
fillNewForms(); // a form that is a page of its own

// What was done stays readable for a while, and can be undone as long ------------------------------------------------

// Sent from a place without inputs: from within a dialog it would have those of the dialog, too.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-undoes]");
  if (!button) return;
  button.disabled = true;
  const [target, values] = [button.closest("[role=status]"), JSON.parse(button.dataset.args)];
  htmx.ajax("POST", button.dataset.undoes, { source: "#toast", target, swap: "innerHTML", values });
});

const SHOWN_MS = 12_000;
let hiding = 0;

document.addEventListener("htmx:after:swap", hideLater);

function hideLater() {
  clearTimeout(hiding);
  if (document.querySelector("#toast > .note-line.good")) hiding = setTimeout(hideToast, SHOWN_MS);
}

function hideToast() {
  const toast = document.getElementById("toast");
  if (toast.querySelector(".shown-once, .answer, [role=alert]")) return;
  if (toast.matches(":hover, :focus-within")) hiding = setTimeout(hideToast, SHOWN_MS);
  else toast.replaceChildren();
}

// A dialog closes once it is done, and what has happened is said on the page. It stays open where there is something to
// read or to copy; then nothing is left to be filled in. A second press meanwhile does nothing twice.
document.addEventListener("htmx:before:request", (event) => press(event.target, true));
document.addEventListener("htmx:finally:request", (event) => press(event.target, false));

function press(form, on) {
  const send = form.matches?.("form.operation") && form.querySelector("button[type=submit]");
  if (send) send.disabled = on || form.classList.contains("done");
}

document.addEventListener("htmx:after:swap", () => {
  const result = document.getElementById("dialog-result");
  const done = result?.querySelector("[data-done]");
  const form = result?.closest("form");
  if (!done || form.classList.contains("done")) return;
  form.classList.add("done");
  press(form, true);
  const dialog = form.closest("dialog");
  if ("stays" in done.dataset || !dialog) return;
  document.getElementById("toast").replaceChildren(...result.childNodes);
  dialog.close();
  hideLater();
});
