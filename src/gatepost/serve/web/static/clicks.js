// Buttons of cards, and faces below answers.
import { ask } from "/static/wire.js";
import { t } from "/static/texts.js";

const post = (path, body) => ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

// A button of a card. Decided, the card itself changes with what comes; else it can be pressed again.
// `text`: words of one's own, where the card takes them.
export async function press(conversation, line, button, text = "", redraw) {
  if (conversation.pressed.has(line.id)) return;
  conversation.pressed.set(line.id, button);
  conversation.troubles.delete(line.id);
  redraw(conversation);
  try {
    const { decided } = await post("/api/clicks", { button, text });
    if (!decided) conversation.pressed.delete(line.id);
  } catch (error) {
    conversation.pressed.delete(line.id);
    conversation.troubles.set(line.id, t("Not decided: {message}", { message: error.message }));
  }
  redraw(conversation);
}

// What the form of a card has to change: a card shows an excerpt.
export async function readArguments(line) {
  return (await post("/api/clicks/arguments", { token: line.card.token })).arguments;
}

export const react = ({ room, key }, reaction) => post("/api/reactions", { room, key, reaction });
