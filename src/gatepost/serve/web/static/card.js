// A card: something to read, and buttons to decide it. A decided card says what was decided and has no buttons.
import { make } from "/static/dom.js";
import { t } from "/static/texts.js";

const STYLES = new Set(["primary", "danger"]);

const forms = new Map(); // id of a card → the form that changes what is asked; drawn anew, it keeps what was written

function drawButtons(line, act) {
  const group = make("div", "card-buttons");
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", t("Your decision"));
  for (const { id, label, style, about } of line.card.buttons) {
    const button = make("button", STYLES.has(style) ? style : "", label);
    if (about) button.append(make("small", "", about));
    button.type = "button";
    button.disabled = line.pressed !== undefined;
    if (line.pressed === id) button.classList.add("pressed");
    button.addEventListener("click", () => act.press(line, id));
    group.append(button);
  }
  if (line.card.editable) group.append(drawChange(line, act));
  return group;
}

function drawChange(line, act) {
  const button = make("button", "change", t("Change…"));
  button.type = "button";
  button.disabled = line.pressed !== undefined;
  button.addEventListener("click", async () => {
    const card = button.closest(".card");
    button.disabled = true;
    card.querySelector(".card-hint.bad")?.remove();
    try {
      closeForm(line.id);
      const form = drawForm(line, act, await act.readArguments(line), button);
      forms.set(line.id, form);
      card.querySelector(".card-buttons").after(form);
      form.querySelector("textarea")?.focus();
    } catch (error) {
      card.append(make("p", "card-hint bad", error.message));
    }
    button.disabled = false;
  });
  return button;
}

function closeForm(id) {
  forms.get(id)?.remove();
  forms.delete(id);
}

// One field for each argument. A text is written as it is, everything else as JSON.
function drawForm(line, act, given, opener) {
  const form = make("form", "card-change");
  const group = make("fieldset", "");
  const fields = given.map((argument) => {
    const field = make("label", "");
    const area = make("textarea", argument.text ? "" : "json");
    area.value = argument.value;
    area.rows = Math.min(Math.max(argument.value.split("\n").length, Math.ceil(argument.value.length / 60)), 8);
    area.spellcheck = argument.text;
    area.addEventListener("input", () => area.setCustomValidity(""));
    field.append(make("span", "", argument.label));
    if (!argument.text) field.append(make("small", "", t("JSON; empty: left out")));
    field.append(area);
    group.append(field);
    return { ...argument, area, shown: area.value }; // the browser may have changed the ends of its lines
  });
  const buttons = make("div", "card-buttons");
  const allow = make("button", "primary", t("Allow with changes"));
  const cancel = make("button", "", t("Cancel"));
  cancel.type = "button";
  cancel.addEventListener("click", () => {
    closeForm(line.id);
    const shown = opener.isConnected ? opener : document.getElementById(`card-${line.id}`)?.parentElement.querySelector(".change");
    shown?.focus();
  });
  buttons.append(allow, cancel);
  group.append(buttons);
  form.append(group);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = composeArguments(fields);
    if (text) act.press(line, `${line.card.token}:changed`, text);
  });
  return form;
}

// As JSON, '' if a field has none. What nobody touched stays as it came: numbers keep all their digits.
function composeArguments(fields) {
  const parts = [];
  for (const { name, value, text, area, shown } of fields) {
    const written = area.value === shown ? value : area.value;
    if (!text && !written.trim()) continue;
    try {
      if (!text) JSON.parse(written);
    } catch (error) {
      area.setCustomValidity(t("This is no JSON. {message}", { message: error.message }));
      area.reportValidity();
      return "";
    }
    parts.push(`${JSON.stringify(name)}:${text ? JSON.stringify(written) : written}`);
  }
  return `{${parts.join(",")}}`;
}

// Several may be chosen: they are sent together, as one click that names all of them.
function drawChoices(line, act) {
  const form = make("form", "card-choices");
  const group = make("fieldset", "");
  group.disabled = line.pressed !== undefined;
  group.append(make("legend", "card-hint", t("Choose one or several.")));
  const boxes = line.card.buttons.map(({ id, label, about }) => {
    const choice = make("label", "card-choice");
    const box = make("input", "");
    box.type = "checkbox";
    box.value = id;
    choice.append(box, make("span", "", label));
    if (about) choice.append(make("small", "", about));
    group.append(choice);
    return box;
  });
  const send = make("button", "primary", t("Send"));
  send.type = "submit";
  send.disabled = true;
  form.addEventListener("change", () => (send.disabled = !boxes.some((box) => box.checked)));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const chosen = boxes.filter((box) => box.checked).map((box) => box.value.split(":"));
    if (chosen.length) act.press(line, `${chosen[0][0]}:${chosen.map(([, number]) => number).join(",")}`);
  });
  const buttons = make("div", "card-buttons");
  buttons.append(send);
  group.append(buttons);
  form.append(group);
  return form;
}

function drawOwnWords(line, act) {
  const form = make("form", "card-words");
  const input = make("input", "");
  input.type = "text";
  input.maxLength = 4000;
  input.disabled = line.pressed !== undefined;
  input.placeholder = line.card.buttons.length ? t("Or in your own words") : t("Your answer");
  input.setAttribute("aria-label", t("Your answer"));
  const send = make("button", "", t("Answer"));
  send.type = "submit";
  send.disabled = input.disabled;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const words = input.value.trim();
    if (words) act.press(line, `${line.card.token}:words`, words);
  });
  form.append(input, send);
  return form;
}

function drawFields(fields) {
  const list = make("dl", "card-fields");
  for (const { name, value } of fields) list.append(make("dt", "", name), make("dd", "", value));
  return list;
}

export function drawCard(line, act) {
  const { card } = line;
  const element = make("section", card.buttons.length || card.freeText ? "card asks" : "card");
  const title = make("h2", "card-title", card.title);
  title.id = `card-${line.id}`;
  element.setAttribute("aria-labelledby", title.id);
  element.tabIndex = -1; // takes the focus when the button that had it is gone
  element.append(title);
  if (card.html) {
    const text = make("div", "body");
    text.innerHTML = card.html; // the gateway's own rendering of markdown
    element.append(text);
  }
  if (card.fields.length) element.append(drawFields(card.fields));
  if (card.done) {
    closeForm(line.id);
    element.append(make("p", "card-done", card.done));
    return element;
  }
  if (card.buttons.length) element.append(card.many ? drawChoices(line, act) : drawButtons(line, act));
  const form = forms.get(line.id);
  if (form) {
    form.firstChild.disabled = line.pressed !== undefined;
    element.append(form);
  }
  if (card.freeText) element.append(drawOwnWords(line, act));
  if (line.pressed !== undefined) element.append(make("p", "card-hint", t("Sending your decision…")));
  if (line.trouble) element.append(make("p", "card-hint bad", line.trouble));
  return element;
}
