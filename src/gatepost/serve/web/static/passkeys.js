// A button that signs in with a passkey, on the sign-in page.
import { enter, send, showState } from "./login.js";
import { getPasskey } from "./webauthn.js";

async function signIn() {
  showState("Choose a passkey…");
  try {
    const { options } = await send("/login/passkey/begin", {});
    await send("/login/passkey/finish", await getPasskey(options));
    enter();
  } catch (error) {
    showState(error instanceof TypeError ? "The gateway does not answer. Is it running?" : error.message, true);
  }
}

export function show(place, way) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button";
  button.textContent = way.label;
  button.addEventListener("click", signIn);
  place.append(button);
}
