// Leads from a link in a chat to the page of its conversation. The token leaves the address bar before anything else.
import { ask } from "./wire.js";

async function leadOn() {
  const given = new URLSearchParams(location.hash.slice(1));
  const token = given.get("token");
  if (token) {
    history.replaceState(null, "", "/session");
    const body = JSON.stringify({ token }); // this browser is signed in, so it is only used up
    await ask("/login", { method: "POST", headers: { "content-type": "application/json" }, body }).catch(() => {});
  }
  location.replace(`/dashboard/sessions/${encodeURIComponent(given.get("id") ?? "")}`);
}

leadOn();
