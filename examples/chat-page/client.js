// Calls the server's API: requests, uploads, and streams that survive a lost connection.

export const API = new URL("api/v1/", document.baseURI);
const ATTEMPTS = 6;
const SILENCE = 10_000; // milliseconds until the page says that it still waits
const DEAD = 45_000; // milliseconds without a byte, where a stream has one every fifteen seconds

/** An error in the server's words. */
export class ApiError extends Error {
  constructor(status, { code, message, details }) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryable = details?.retryable ?? false;
  }
}

/**
 * What the page does for all requests: `askForToken` returns the token of a server that wants one, or
 * null to give up; `onSilence` is told how many requests have waited for ten seconds.
 */
export const access = { askForToken: async () => null, onSilence() {} };

/** Send a request and return the response; it is a POST if there is a body. */
export async function request(path, { body, method, headers, signal, raw } = {}) {
  for (;;) {
    const token = sessionStorage.getItem("token");
    const answer = fetch(new URL(path, API), {
      method: method ?? (body === undefined && raw === undefined ? "GET" : "POST"),
      headers: {
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...(token && { Authorization: `Bearer ${token}` }),
        ...headers,
      },
      body: raw ?? (body === undefined ? undefined : JSON.stringify(body)),
      signal,
    });
    const response = await (raw === undefined ? patiently(answer) : answer); // a file takes its time
    if (response.ok) return response;
    const message = `HTTP ${response.status}, not from mochi-server.`;
    const { error = { message } } = await response.json().catch(() => ({}));
    if (!error.code && response.status >= 502) throw new Error(message); // a proxy's: as if nobody had answered
    if (error.code === "UNAUTHENTICATED") {
      if (sessionStorage.getItem("token") !== token) continue; // another request was given it meanwhile
      const given = await access.askForToken(Boolean(token));
      if (given) {
        sessionStorage.setItem("token", given);
        continue;
      }
    }
    throw new ApiError(response.status, error);
  }
}

const silent = new Set();

/** Wait for an answer; tell the page if none comes for long. */
async function patiently(answer) {
  const timer = setTimeout(() => access.onSilence(silent.add(answer).size), SILENCE);
  try {
    return await answer;
  } finally {
    clearTimeout(timer);
    if (silent.delete(answer)) access.onSilence(silent.size);
  }
}

/** Send a request and return the JSON of the answer, or null where there is none. */
export async function call(path, options) {
  const response = await request(path, options);
  return response.status === 204 ? null : response.json();
}

/** Upload a file; return the reference that a message can have. */
export async function upload(file) {
  const form = new FormData();
  form.append("file", file, file.name);
  return call("attachments", { raw: form });
}

/** Import a file; return the report. */
export function importFile(file) {
  return call("import", { raw: file, headers: { "Content-Type": "application/octet-stream" } });
}

/** Save what a path answers as a file, by its name or else the one that the server gives it. */
export async function download(path, name) {
  const response = await request(path);
  const [, given = "export"] = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition")) ?? [];
  const url = URL.createObjectURL(await response.blob());
  Object.assign(document.createElement("a"), { href: url, download: name ?? given }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

const pictures = []; // addresses, each of which keeps its bytes in memory

/** Return an address that an <img> can show although the server wants a token, until `forgetPictures()`. */
export async function attachmentUrl(id) {
  const response = await request(`attachments/${encodeURIComponent(id)}`);
  pictures.push(URL.createObjectURL(await response.blob()));
  return pictures.at(-1);
}

/** Let go of the pictures that were asked for so far; those that are shown stay. */
export function forgetPictures() {
  for (const url of pictures.splice(0)) URL.revokeObjectURL(url);
}

/**
 * Start a turn and yield its events, each once and in order, whatever the network does; of a message
 * that has to wait, `message_queued` alone. The turn is detached: it goes on without this page, until
 * it is done or stopped.
 */
export function chat(sessionId, body, signal) {
  const key = crypto.randomUUID();
  const path = `chat/${sessionId}/stream`;
  const start = () =>
    request(path, {
      body: { ...body, detached: true },
      headers: { "Idempotency-Key": key },
      signal,
    });
  return eventsOfTurn(path, start, signal);
}

/** Yield the events of the running turn after a position, that of `GET sessions/ID?view=page`. */
export function follow(sessionId, position, signal) {
  return eventsOfTurn(`chat/${sessionId}/stream`, null, signal, position);
}

async function* eventsOfTurn(path, start, signal, last) {
  for (let attempt = 1; ; attempt++) {
    try {
      const response = last
        ? await request(`${path}?after=${encodeURIComponent(last)}`, { signal })
        : await start();
      if (response.status === 204) return;
      if (response.status === 202) return yield { event: "message_queued", data: (await response.json()).queued };
      for await (const event of parsed(response)) {
        last = event.id;
        attempt = 1;
        yield event;
        if (event.event === "done") return;
      }
    } catch (error) {
      const isRefusal = error instanceof ApiError && !(last && error.retryable); // a server that restarts comes back
      if (isRefusal || signal?.aborted || attempt >= ATTEMPTS) throw error;
    }
    if (await wasHidden(signal)) attempt = 0;
    else await pause(Math.min(100 * 2 ** attempt, 5000));
  }
}

/** Yield what changes in the list of sessions, for as long as the page is open. */
export async function* changes(signal) {
  let last;
  for (let attempt = 1; !signal?.aborted; attempt++) {
    try {
      const headers = last ? { "Last-Event-ID": last } : {};
      for await (const event of parsed(await request("events", { headers, signal }))) {
        last = event.id ?? last;
        attempt = 1;
        yield event;
      }
    } catch (error) {
      if (error instanceof ApiError && !error.retryable) throw error;
    }
    if (await wasHidden(signal)) attempt = 0;
    else await pause(Math.min(200 * 2 ** attempt, 5000));
  }
}

/**
 * Wait while the tab is hidden; return whether it was. Browsers have six connections to a server
 * without HTTP/2, for all tabs together: a hidden one lets go of its streams, and resumes them.
 */
async function wasHidden(signal) {
  if (!document.hidden || signal?.aborted) return false;
  await new Promise((resolve) => {
    document.addEventListener("visibilitychange", resolve, { once: true });
    signal?.addEventListener("abort", resolve, { once: true });
  });
  return true;
}

/**
 * Yield the events of a stream, until it ends or the tab is hidden:
 * https://html.spec.whatwg.org/multipage/server-sent-events.html
 */
async function* parsed(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const letGo = () => document.hidden && reader.cancel().catch(() => {}); // it was lost before
  document.addEventListener("visibilitychange", letGo);
  let rest = "";
  try {
    letGo();
    for (;;) {
      const timer = setTimeout(() => reader.cancel().catch(() => {}), DEAD);
      const { done, value } = await reader.read().finally(() => clearTimeout(timer));
      if (done) return;
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const fields = {};
        for (const line of block.split(/\r?\n/)) {
          const [, name, text] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
          if (name) fields[name] = name === "data" && fields.data ? `${fields.data}\n${text}` : text;
        }
        if (fields.data) yield { ...fields, data: JSON.parse(fields.data) };
      }
    }
  } finally {
    document.removeEventListener("visibilitychange", letGo);
    reader.cancel().catch(() => {}); // closes the connection when the caller leaves the loop
  }
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
