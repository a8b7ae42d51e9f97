// Forms of operations: what would come of an input is said beside it, and what is wrong with it at it.
import { send } from "/static/csrf.js";

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
  } catch {
    if (!asked.signal.aborted) place.textContent = ""; // the gateway is away, which the page shows
  }
}

// A time zone that nobody has named is that of whoever fills in the form.
document.addEventListener("htmx:after:swap", () => {
  for (const input of document.querySelectorAll("#dialog-body [data-zone]")) {
    input.value ||= Intl.DateTimeFormat().resolvedOptions().timeZone;
  }
});

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
