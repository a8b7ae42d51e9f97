// The two ceremonies of passkeys: JSON of the gateway becomes what the browser asks an authenticator for, and back.
import { t } from "/static/texts.js";

function decode(text) {
  const padded = text.replaceAll("-", "+").replaceAll("_", "/");
  return Uint8Array.from(atob(padded), (each) => each.charCodeAt(0));
}

function encode(bytes) {
  const text = String.fromCharCode(...new Uint8Array(bytes));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function decodeIds(listed = []) {
  return listed.map((each) => ({ ...each, id: decode(each.id) }));
}

function check() {
  if (!window.PublicKeyCredential) throw new Error(t("This browser has no passkeys, or not on this page: see the page's address."));
}

// What browsers say is for programmers.
function explain(error) {
  if (error.name === "InvalidStateError") return new Error(t("This authenticator has a passkey for you already."));
  if (error.name === "NotAllowedError") return new Error(t("No passkey was chosen."));
  return new Error(t("The browser refused it: {message}", { message: error.message }));
}

async function ask(wanted) {
  try {
    return await wanted;
  } catch (error) {
    throw explain(error);
  }
}

export async function createPasskey(options) {
  check();
  const publicKey = {
    ...options,
    challenge: decode(options.challenge),
    user: { ...options.user, id: decode(options.user.id) },
    excludeCredentials: decodeIds(options.excludeCredentials),
  };
  const made = await ask(navigator.credentials.create({ publicKey }));
  return {
    id: made.id,
    rawId: encode(made.rawId),
    type: made.type,
    response: {
      clientDataJSON: encode(made.response.clientDataJSON),
      attestationObject: encode(made.response.attestationObject),
    },
  };
}

export async function getPasskey(options, how = {}) {
  check();
  const found = await ask(navigator.credentials.get({ ...how, publicKey: { ...options, challenge: decode(options.challenge) } }));
  const { clientDataJSON, authenticatorData, signature, userHandle } = found.response;
  return {
    id: found.id,
    rawId: encode(found.rawId),
    type: found.type,
    response: {
      clientDataJSON: encode(clientDataJSON),
      authenticatorData: encode(authenticatorData),
      signature: encode(signature),
      ...(userHandle ? { userHandle: encode(userHandle) } : {}),
    },
  };
}
