// Redeems the one-time token of the address. The fragment leaves the address bar and the history before anything else.
const state = document.getElementById("state");

async function signIn(token, next) {
  state.textContent = "Signing in…";
  try {
    const answer = await fetch("/login", {
      method: "POST",
      headers: { "content-type": "application/json", "x-gatepost": "1" },
      body: JSON.stringify({ token }),
    });
    if (answer.ok) {
      history.replaceState(null, "", next);
      location.reload();
      return;
    }
    const { error } = await answer.json();
    state.textContent = error.text.replaceAll("`", "");
  } catch {
    state.textContent = "The gateway does not answer. Is it running?";
  }
  state.classList.add("bad");
}

function redeem() {
  const given = new URLSearchParams(location.hash.slice(1));
  const token = given.get("token");
  if (!token) return;
  const id = given.get("id");
  const next = id ? `${location.pathname}#id=${encodeURIComponent(id)}` : location.pathname;
  history.replaceState(null, "", next);
  signIn(token, next);
}

window.addEventListener("hashchange", redeem);
redeem();
