// The dashboard's few behaviours: dialogs, the palette, the menu, and asking again when something has changed.
import { send } from "/static/csrf.js";
import "/static/forms.js";
import { t } from "/static/texts.js";

const at = (id) => document.getElementById(id);
const ASK_AGAIN_MS = 250; // changes that come together are asked for once
const TYPING_MS = 1500; // whoever types or chooses is not interrupted

document.addEventListener("htmx:config:request", (event) => {
  event.detail.ctx.fetch = send;
});

// Dialogs -----------------------------------------------------------------------------------------------------------

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens]");
  if (opener) open(opener.dataset.opens);
  if (opener?.dataset.opens === "dialog") pressed = opener.textContent.trim();
  const closer = event.target.closest("[data-closes]");
  if (closer) close(closer.dataset.closes);
  const dismisser = event.target.closest("[data-dismisses]");
  if (dismisser) at(dismisser.dataset.dismisses).replaceChildren();
  if (event.target instanceof HTMLDialogElement) event.target.close(); // beside its content
  if (event.target.closest("#menu")) showMenu(!document.body.classList.contains("menu-open"));
  if (event.target.id === "shade") showMenu(false);
});

// A dialog is headed with the words of the button that opened it. Of the palette's, with the operation's name.
let pressed = "";
document.addEventListener("htmx:after:swap", () => {
  const title = at("dialog-body").querySelector("#dialog-title");
  if (!title) return; // something else on the page has changed meanwhile
  if (pressed) title.textContent = pressed;
  pressed = "";
});

function open(id) {
  const dialog = at(id);
  if (!dialog || dialog.open) return;
  if (id === "dialog") at("dialog-body").replaceChildren();
  if (id === "dialog" && !at("toast").querySelector(".shown-once")) at("toast").replaceChildren(); // of what was before
  dialog.showModal();
  if (id === "palette") {
    pressed = "";
    htmx.trigger(at("palette-body"), "opened");
  }
}

function close(id) {
  if (at(id)?.open) at(id).close();
  else history.back(); // the form is a page of its own
}

function showMenu(shown) {
  document.body.classList.toggle("menu-open", shown);
  at("menu")?.setAttribute("aria-expanded", String(shown));
}

// What is shown once is copied by a button. Without https:// a page may not write to the clipboard: then it is marked.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copies]");
  if (!button) return;
  const shown = at(button.dataset.copies);
  try {
    await navigator.clipboard.writeText(shown.textContent);
    button.textContent = t("Copied");
  } catch {
    getSelection().selectAllChildren(shown);
    button.textContent = t("Marked: press Ctrl C");
  }
});

// The palette -------------------------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    open("palette");
  } else if (event.key === "/" && !event.target.closest("input, textarea, select, dialog")) {
    event.preventDefault();
    document.querySelector('.tools input[type="search"]')?.focus();
  } else if (at("palette").open) {
    movePalette(event);
  }
});

document.addEventListener("input", (event) => {
  if (event.target.id === "palette-words") filterPalette(event.target.value);
});

function options() {
  return [...document.querySelectorAll("#palette-list li:not([hidden])")];
}

// What has the words in its name comes before what has them in its help.
function filterPalette(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const items = [...document.querySelectorAll("#palette-list li")];
  const misses = new Map();
  for (const item of items) {
    const link = item.firstElementChild;
    const said = link.dataset.words.toLowerCase();
    const name = `${link.dataset.operation ?? ""} ${link.firstElementChild.textContent}`.toLowerCase();
    item.hidden = !words.every((word) => said.includes(word));
    misses.set(item, words.filter((word) => !name.includes(word)).length);
  }
  const place = (item) => Number(item.firstElementChild.id.slice("palette-".length));
  items.sort((one, other) => misses.get(one) - misses.get(other) || place(one) - place(other));
  at("palette-list").append(...items);
  at("palette-none").hidden = options().length > 0;
  choose(0);
}

function choose(index) {
  const items = options();
  for (const link of document.querySelectorAll("#palette-list a")) link.setAttribute("aria-selected", "false");
  const chosen = items[Math.max(0, Math.min(index, items.length - 1))]?.firstElementChild;
  chosen?.setAttribute("aria-selected", "true");
  at("palette-words")?.setAttribute("aria-activedescendant", chosen?.id ?? ""); // what a screen reader reads out
  chosen?.scrollIntoView({ block: "nearest" });
}

function movePalette(event) {
  const items = options();
  const now = items.findIndex((item) => item.firstElementChild.getAttribute("aria-selected") === "true");
  if (event.key === "ArrowDown") choose(now + 1);
  else if (event.key === "ArrowUp") choose(now - 1);
  else if (event.key === "Enter") items[Math.max(now, 0)]?.firstElementChild.click();
  else return;
  event.preventDefault();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("#palette-list a[data-operation]");
  if (!link) return;
  event.preventDefault();
  at("palette").close();
  open("dialog");
  htmx.ajax("GET", link.getAttribute("href"), { target: "#dialog-body", swap: "innerHTML" });
});

document.addEventListener("htmx:after:swap", () => {
  if (at("palette").open && !document.querySelector('#palette-list [aria-selected="true"]')) {
    at("palette-words")?.focus();
    filterPalette("");
  }
});

// What changed ------------------------------------------------------------------------------------------------------

let asking = 0;
let source = null;

let typedAt = 0;

function askAgain() {
  clearTimeout(asking);
  asking = setTimeout(() => {
    if (document.querySelector(".form-page, .step-form")) return;
    if (isChoosing()) return askAgain();
    renew();
  }, isChoosing() ? TYPING_MS : ASK_AGAIN_MS);
}

async function renew() {
  const opened = new Set(listSummaries("details[open]").map((each) => each.textContent));
  await htmx.ajax("GET", location.pathname + location.search, { target: "#main", swap: "innerMorph" });
  // What somebody has unfolded stays so: the page that comes knows nothing of it.
  for (const each of listSummaries("details")) if (opened.has(each.textContent)) each.parentElement.open = true;
}

function listSummaries(details) {
  return [...document.querySelectorAll(`#main ${details} > summary`)];
}

function isChoosing() {
  const active = document.activeElement;
  if (!active?.closest(".tools")) return false;
  return active.matches("select") || Date.now() - typedAt < TYPING_MS;
}

function follow() {
  source?.close();
  source = null;
  if (document.hidden) return; // a page that nobody sees costs nothing
  source = new EventSource("/dashboard/live");
  source.addEventListener("open", () => showLive(true));
  source.addEventListener("error", () => showLive(false));
  source.addEventListener("changed", askAgain);
}

function showLive(on) {
  const sign = at("live");
  if (!sign) return;
  sign.classList.toggle("on", on);
  sign.firstElementChild.textContent = on ? t("Live") : t("Not live");
}

document.addEventListener("visibilitychange", () => {
  follow();
  if (!document.hidden) askAgain();
});
document.addEventListener("gatepost:changed", askAgain);
for (const each of ["htmx:after:request", "htmx:after:swap"]) {
  document.addEventListener(each, () => showLive(source?.readyState === EventSource.OPEN)); // the head was drawn anew
}

// Days: only a browser knows the clock and the calendar of whoever reads ------------------------------------------------

const pageLanguage = document.documentElement.lang;
const locale = navigator.language.startsWith(pageLanguage) ? navigator.language : pageLanguage;

function showDays() {
  for (const list of document.querySelectorAll("[data-by-day]")) {
    for (const each of list.querySelectorAll(".day")) each.remove();
    let before = "";
    for (const item of [...list.children]) {
      const time = item.querySelector("time");
      const at = new Date(time?.dateTime ?? NaN);
      if (Number.isNaN(at.getTime())) continue;
      time.textContent = at.toLocaleTimeString(locale, { hour: "numeric", minute: "2-digit" });
      time.title = at.toLocaleString(locale);
      const day = describeDay(at);
      if (day !== before) item.before(Object.assign(document.createElement("li"), { className: "day", textContent: day }));
      before = day;
    }
  }
}

function describeDay(at) {
  const days = Math.round((new Date().setHours(0, 0, 0, 0) - new Date(at).setHours(0, 0, 0, 0)) / 86_400_000);
  if (days === 0) return t("Today");
  if (days === 1) return t("Yesterday");
  const year = at.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" };
  return at.toLocaleDateString(locale, { weekday: "long", day: "numeric", month: "long", ...year });
}

document.addEventListener("htmx:after:swap", showDays);
showDays();

// A form on a page -----------------------------------------------------------------------------------------------------

document.addEventListener("htmx:after:request", (event) => {
  const form = event.target.closest?.("form[data-clears]");
  if (form && event.detail?.ctx?.response?.raw?.ok) form.reset();
});

// What was saved has a new version: the next save is of that one.
document.addEventListener("htmx:after:swap", () => {
  const saved = document.querySelector("#toast [data-version]");
  const version = document.querySelector('form[data-keeps] input[name="version"]');
  if (!saved || !version) return;
  const form = version.form;
  if (form.dataset.draft) form.dataset.draft = form.dataset.draft.replace(version.value, saved.dataset.version);
  version.value = saved.dataset.version;
  saved.removeAttribute("data-version");
});

// Another language: all around the page's part changes, too.
document.addEventListener("htmx:after:swap", () => {
  if (document.querySelector('#toast [data-done="user.language"]')) location.reload();
});

// A line is sent by Enter, a text of many lines by Ctrl S or Ctrl Enter.
document.addEventListener("keydown", (event) => {
  const form = event.target.closest?.("form.page-form, form.operation");
  if (!form) return;
  const held = event.ctrlKey || event.metaKey;
  const saves = held && (event.key === "Enter" || event.key.toLowerCase() === "s");
  const sends = event.key === "Enter" && !event.shiftKey && !event.isComposing && form.matches("[data-clears]");
  if (!saves && !sends) return;
  event.preventDefault();
  form.requestSubmit();
});

// A file that is chosen names itself, unless somebody has named it.
document.addEventListener("change", (event) => {
  const name = event.target.form?.elements[event.target.dataset?.names];
  if (name && !name.value && event.target.files?.length) name.value = event.target.files[0].name;
});

// Rows that are dragged to another place. Their buttons do the same by keyboard.

let dragged = null;

document.addEventListener("dragstart", (event) => {
  dragged = event.target.closest?.("tbody[data-moves] tr[data-key]") ?? null;
  if (dragged) event.dataTransfer.effectAllowed = "move";
});

document.addEventListener("dragover", (event) => {
  const over = event.target.closest?.("tbody[data-moves] tr[data-key]");
  if (!dragged || !over || over.parentElement !== dragged.parentElement) return;
  event.preventDefault();
  for (const row of over.parentElement.children) row.classList.toggle("drop-here", row === over && row !== dragged);
});

document.addEventListener("drop", (event) => {
  const over = event.target.closest?.("tbody[data-moves] tr[data-key]");
  if (!dragged || !over || over === dragged || over.parentElement !== dragged.parentElement) return;
  event.preventDefault();
  const rows = [...over.parentElement.children];
  const later = rows.indexOf(over) > rows.indexOf(dragged);
  const before = later ? rows[rows.indexOf(over) + 1]?.dataset.key ?? "0" : over.dataset.key;
  htmx.ajax("POST", `/dashboard/do/${over.parentElement.dataset.moves}`, {
    target: "#toast",
    swap: "innerHTML",
    values: { id: dragged.dataset.key, before },
  });
});

document.addEventListener("dragend", () => {
  dragged = null;
  for (const row of document.querySelectorAll(".drop-here")) row.classList.remove("drop-here");
});

// A search or a filter is part of the address, so that it can be sent to somebody.
document.addEventListener("input", keepAddress);
document.addEventListener("change", keepAddress);

function keepAddress(event) {
  const form = event.target.closest("[data-keeps-address]");
  if (!form) return;
  typedAt = Date.now();
  const given = new URLSearchParams(new FormData(form));
  for (const [name, value] of [...given]) if (!value) given.delete(name);
  history.replaceState(null, "", given.size ? `?${given}` : location.pathname);
}

// Forms of a page: their operations run one after the other, and each says what came of it ----------------------------

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-runs]");
  if (!form) return;
  event.preventDefault();
  runSteps(form);
});

// What only a browser can do has a module of its own, which is loaded when it is wanted.
document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-script]");
  if (!form) return;
  event.preventDefault();
  const said = form.querySelector(".form-said");
  const submit = form.querySelector('[type="submit"]');
  said.textContent = "";
  submit.disabled = true;
  try {
    const script = await import(`/static/${form.dataset.script}`);
    await script.submit(new FormData(form));
    form.reset();
    askAgain();
  } catch (error) {
    said.textContent = error.message;
  } finally {
    submit.disabled = false;
  }
});

async function runSteps(form) {
  const list = form.querySelector(".form-steps");
  const submit = form.querySelector('[type="submit"]');
  const body = new URLSearchParams(new FormData(form));
  list.hidden = false;
  submit.disabled = true;
  for (const item of list.children) showStep(item, "", "");
  let passed = true;
  for (const item of list.children) if (passed) passed = await runStep(form, item, body);
  submit.disabled = false;
  const next = form.querySelector("[data-done]");
  if (next) next.hidden = !passed;
  if (passed) submit.hidden = Boolean(next);
  if (passed && next && "goesOn" in next.dataset) location.assign(next.href);
  else if (passed) next?.focus();
}

async function runStep(form, item, body) {
  showStep(item, "running", "…");
  try {
    const headers = { accept: "application/json" };
    const sent = await send(form.dataset.runs + item.dataset.operation, { method: "POST", headers, body });
    const { answer, error } = await sent.json();
    const trouble = answer?.trouble ?? "";
    const remedy = JSON.parse(item.dataset.remedies)[trouble] ?? "";
    if (!sent.ok || trouble) return showStep(item, "failed", [error ?? answer?.reason, remedy].filter(Boolean).join(". "));
    return showStep(item, "passed", describe(answer));
  } catch {
    return showStep(item, "failed", t("The gateway does not answer."));
  }
}

function showStep(item, state, text) {
  item.className = state;
  item.lastElementChild.textContent = text;
  return state === "passed";
}

// What an operation has to say in its own words; other facts are for the pages that show them.
function describe(answer) {
  if (answer?.answer) return `“${answer.answer}” (${answer.seconds.toFixed(1)} s)`;
  const said = [answer?.text, answer?.bot, ...(answer?.missing ?? []), ...(answer?.notes ?? []), answer?.after];
  return said.filter(Boolean).join(" ");
}

follow();
document.querySelector('#sidebar [aria-current="page"]')?.scrollIntoView({ block: "nearest" });
