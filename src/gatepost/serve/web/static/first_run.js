// While the demo answers, a line above the messages leads to the first steps.
const line = document.getElementById("first-run");

async function show() {
  const answer = await fetch("/api/first-run");
  line.hidden = !(answer.ok && (await answer.json()).shown);
}

show().catch(() => {}); // without the line, the chat is as good as with it
