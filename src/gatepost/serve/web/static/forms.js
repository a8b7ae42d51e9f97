// Forms of operations: what would come of an input is said beside it.
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
    const { answer: found, error, field } = await answer.json();
    const own = place.closest(".field").querySelector("[name]");
    const isSilent = answer.status === 403 || (field === own.name && !own.value.trim());
    place.classList.toggle("wrong", !answer.ok);
    const said = error?.startsWith(`${field}: `) ? error.slice(field.length + 2) : error; // it stands at its field
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
