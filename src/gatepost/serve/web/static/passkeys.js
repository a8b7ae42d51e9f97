// A button that signs in with a passkey, on the sign-in page.
import { enter, send, showState } from "./login.js";
import { getPasskey } from "./webauthn.js";
import { t } from "/static/texts.js";

const OFFER_MS = 4 * 60 * 1000;
let offered = null; // the offer in the name field, which the button ends: a browser asks for one at a time

async function signIn() {
  showState(t("Choose a passkey…"));
  offered?.abort();
  try {
    const { options } = await send("/login/passkey/begin", {});
    await send("/login/passkey/finish", await getPasskey(options));
    enter();
  } catch (error) {
    showState(error instanceof TypeError ? t("The gateway does not answer. Is it running?") : error.message, true);
  }
}

// Where a name is typed, the browser offers passkeys among the names that it knows. Until one is chosen, nothing is said:
// nobody has asked for it. A challenge is good for five minutes; whoever comes back later gets a new one.
export async function ready() {
  const field = document.querySelector('input[autocomplete~="webauthn"]');
  if (!field || !(await window.PublicKeyCredential?.isConditionalMediationAvailable?.())) return;
  offered = new AbortController();
  const late = setTimeout(() => offered.abort(), OFFER_MS);
  const chosen = await offer(offered.signal).catch(() => null);
  clearTimeout(late);
  if (!chosen) {
    field.addEventListener("focus", ready, { once: true });
    return;
  }
  showState(t("Signing in…"));
  send("/login/passkey/finish", chosen).then(enter, (error) => showState(error.message, true));
}

async function offer(signal) {
  const { options } = await send("/login/passkey/begin", {});
  return getPasskey(options, { mediation: "conditional", signal });
}

export function show(place, way) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button";
  button.textContent = way.label;
  button.addEventListener("click", signIn);
  place.append(button);
}
