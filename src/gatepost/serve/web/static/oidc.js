// A button that leads to the OpenID provider, which leads back.
import { Refusal, getNext, send, showState } from "./login.js";
import { t } from "/static/texts.js";

async function leave() {
  showState(t("Going to the provider…"));
  try {
    const { location: address } = await send("/login/oidc", { next: getNext() });
    location.assign(address);
  } catch (error) {
    showState(error instanceof Refusal ? error.message : t("The gateway does not answer. Is it running?"), true);
  }
}

export function show(place, way) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button";
  button.textContent = way.label;
  button.addEventListener("click", leave);
  place.append(button);
}
