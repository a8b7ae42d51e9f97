// Who answers here: name, provider, model, and what this conversation has cost so far.
import { make } from "/static/dom.js";
import { ask } from "/static/wire.js";
import { t } from "/static/texts.js";

// Nobody if it cannot be told: the conversation goes on without.
export async function listAgents(room, thread) {
  try {
    return await ask(`/api/agents?${new URLSearchParams({ room, thread })}`);
  } catch {
    return { agents: [], choices: [] };
  }
}

// Whom one's words go to. There is nothing to choose between one and nobody.
export function drawChoices(select, { agents, choices }) {
  select.hidden = choices.length < 2;
  select.replaceChildren(
    ...choices.map(({ folder, name }) => {
      const option = make("option", "", name === folder ? name : `${name} (${folder})`);
      option.value = folder;
      option.selected = folder === agents[0]?.folder;
      return option;
    }),
  );
}

// The conversation's model; what it has already stands there, also if nobody could choose it now.
export function drawModels(select, { agents, models = [] }) {
  const now = agents[0]?.model ?? "";
  select.hidden = models.length < 2;
  const names = now && !models.includes(now) ? [now, ...models] : models;
  const usual = make("option", "", t("Usual model"));
  usual.value = "default";
  usual.selected = !now;
  const options = names.map((name) => {
    const option = make("option", "", name);
    option.value = name;
    option.selected = name === now;
    return option;
  });
  select.replaceChildren(usual, ...options);
}

export function drawAgents(element, { agents }) {
  element.replaceChildren(
    ...agents.map(({ name, provider, model, cost }) => {
      const item = make("li");
      item.append(make("b", "", name));
      for (const [label, value] of [[t("Provider"), provider], [t("Model"), model], [t("Cost so far"), cost]]) {
        if (!value) continue;
        const fact = make("span", "fact", value);
        fact.title = label;
        fact.prepend(make("span", "sr", `${label}: `));
        item.append(fact);
      }
      return item;
    }),
  );
}
