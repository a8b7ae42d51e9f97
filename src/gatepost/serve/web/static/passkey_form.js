// Adds a passkey, on the page of sign-ins.
import { createPasskey } from "./webauthn.js";
import { ask } from "./wire.js";

function send(path, body) {
  return ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

export async function submit(given) {
  const { options } = await send("/login/passkey/add/begin", {});
  const credential = await createPasskey(options);
  await send("/login/passkey/add/finish", { credential, label: given.get("label") });
}
