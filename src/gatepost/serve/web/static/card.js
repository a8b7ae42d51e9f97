// A card: something to read, and buttons to decide it. A decided card says what was decided and has no buttons.
import { make } from "/static/dom.js";

const STYLES = new Set(["primary", "danger"]);

function drawButtons(line, act) {
  const group = make("div", "card-buttons");
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", "Your decision");
  for (const { id, label, style } of line.card.buttons) {
    const button = make("button", STYLES.has(style) ? style : "", label);
    button.type = "button";
    button.disabled = line.pressed !== undefined;
    if (line.pressed === id) button.classList.add("pressed");
    button.addEventListener("click", () => act.press(line, id));
    group.append(button);
  }
  return group;
}

function drawFields(fields) {
  const list = make("dl", "card-fields");
  for (const { name, value } of fields) list.append(make("dt", "", name), make("dd", "", value));
  return list;
}

export function drawCard(line, act) {
  const { card } = line;
  const element = make("section", card.buttons.length ? "card asks" : "card");
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
    element.append(make("p", "card-done", card.done));
    return element;
  }
  if (card.buttons.length) element.append(drawButtons(line, act));
  if (card.freeText) element.append(make("p", "card-hint", "You can also reply in your own words."));
  if (line.pressed !== undefined) element.append(make("p", "card-hint", "Sending your decision…"));
  if (line.trouble) element.append(make("p", "card-hint bad", line.trouble));
  return element;
}
