// Reads a turn's stream, and then the same once more, with a library that shows each empty line's
// block as a message: prints the names of the messages, one stream a line.
import { fetchEventSource } from "@microsoft/fetch-event-source";

globalThis.window = globalThis;
globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };

const [url, sessionId] = process.argv.slice(2);
const headers = { "Content-Type": "application/json" };
const body = JSON.stringify({ message: "Hello!", detached: true });

for (const request of [{ method: "POST", headers, body }, {}]) {
  const names = [];
  await fetchEventSource(`${url}/api/v1/chat/${sessionId}/stream`, {
    ...request,
    openWhenHidden: true,
    async onopen() {},
    onmessage(message) {
      JSON.parse(message.data);
      names.push(message.event);
    },
    onerror(error) {
      throw error;
    },
  });
  console.log(names.join(" "));
}
