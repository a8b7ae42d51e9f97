// Redeems the one-time token of the address. The fragment leaves the address bar and the history before anything else.
const state = document.getElementById("state");

async function signIn(token) {
  state.textContent = "Signing in…";
  try {
    const answer = await fetch("/login", {
      method: "POST",
      headers: { "content-type": "application/json", "x-gatepost": "1" },
      body: JSON.stringify({ token }),
    });
    if (answer.ok) {
      location.replace("/");
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
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", "/");
  signIn(token);
}

window.addEventListener("hashchange", redeem);
redeem();
