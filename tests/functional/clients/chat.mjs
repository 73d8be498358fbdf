// undici, as node's fetch.
const [url, session] = process.argv.slice(2);
const chat = `${url}/chat/${session}`;
const json = "application/json";

async function ask(method, path, type, body) {
  const headers = type ? { "Content-Type": type } : {};
  const answer = await fetch(path, { method, headers, body, duplex: "half" });
  return { status: answer.status, text: await answer.text() };
}

const text = (message) => JSON.stringify({ message });
const unknown = new Blob([text("second")]).stream();

console.log("length", (await ask("POST", chat, json, text("first"))).status);
console.log("chunks", (await ask("POST", chat, json, unknown)).status);
const events = (await ask("POST", `${chat}/stream`, json, text("third"))).text;
console.log("stream", events.split("event: done\n").length - 1);
console.log("wrong", (await ask("POST", chat, "text/plain", text("fourth"))).status);
console.log("empty", (await ask("POST", `${chat}/cancel`)).status);
console.log("messages", (await ask("GET", `${url}/sessions/${session}/messages`)).status);
