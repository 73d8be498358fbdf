// The official client of AG-UI, with its verifier: HttpAgent.
import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";
import { createHash } from "node:crypto";
import { assert, calls, MODEL, rounds, run, script, thinking, until, url } from "./checks.mjs";

const api = url.replace(/\/v1$/, "/api/v1");
const adding = (text) => rounds(calls(["add", { a: 1, b: 2 }]), text);
const WEATHER = {
  name: "get_weather",
  description: "Get the weather.",
  parameters: { type: "object", properties: { city: { type: "string" } } },
};
const weather = (city) => ["get_weather", { city }];
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

// A client that knows where a thread can be followed, which the protocol itself does not say.
class Thread extends HttpAgent {
  props = { model: MODEL };

  constructor(options = {}) {
    super({ url: `${api}/agui`, ...options });
  }

  connect(input) {
    const follow = () => fetch(`${api}/agui/${input.threadId}`);
    return transformHttpEventStream(runHttpRequest(follow));
  }

  say(content, parameters = {}) {
    this.addMessage({ id: crypto.randomUUID(), role: "user", content });
    return this.go(parameters);
  }

  go(parameters = {}) {
    return heard((subscriber) =>
      this.runAgent({ forwardedProps: this.props, ...parameters }, subscriber),
    );
  }

  // What a page sees that is loaded now.
  async reloaded() {
    const page = new Thread({ threadId: this.threadId });
    page.events = await heard((subscriber) => page.connectAgent({}, subscriber));
    return page;
  }

  async answer(payload, status = "resolved") {
    const resume = this.pendingInterrupts.map(({ id }) => ({ interruptId: id, status, payload }));
    return this.go({ resume });
  }
}

async function heard(start) {
  const events = [];
  await start({ onEvent: ({ event }) => void events.push(structuredClone(event)) });
  return events;
}

async function native(path, options = {}) {
  const { method = options.body ? "POST" : "GET", body } = options;
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${api}${path}`, {
    method,
    headers,
    body: body && JSON.stringify(body),
  });
  assert(response.ok, await response.clone().text());
  return response.json();
}

const sessionWith = async (settings) =>
  (await native("/sessions", { body: { model: MODEL, ...settings } })).session_id;
const withAdd = (policy) =>
  sessionWith({ tool_settings: { tools: ["add"], execution_policy: policy } });
const messagesOf = async (id) => (await native(`/sessions/${id}/messages`)).messages;
const textOf = (agent) => agent.messages.findLast(({ role }) => role === "assistant").content;
const results = (agent) => agent.messages.filter(({ role }) => role === "tool");
const outcomeOf = (events) => events.at(-1).outcome;
const ofType = (events, type) => events.filter((event) => event.type === type);
const shape = (messages) =>
  messages
    .filter((message) => message.subagentRunId === undefined)
    .map(({ id, role, content, toolCalls, toolCallId }) => ({
      ...{ id, role, content: content ?? "", toolCallId },
      toolCalls: toolCalls?.map((call) => [call.id, call.function.name, call.function.arguments]),
    }));

async function rejectsWith(status, promise, code) {
  await assert.rejects(promise, (error) => {
    assert.equal(error.status, status, error.stack);
    assert.equal(error.payload.error.code, code);
    return true;
  });
}

const quiet = console.error;
console.error = () => {}; // the client reports what it throws

await run({
  async "a new thread, and what its page shows when it is loaded again"() {
    const agent = new Thread();
    const first = await agent.say(script([thinking(["Be ", "polite."], ["Good ", "morning!"])]));
    assert.equal(first[0].protocolVersion, "1.0");
    assert.equal(textOf(agent), "Good morning!");
    assert.equal(agent.messages.find(({ role }) => role === "reasoning").content, "Be polite.");
    assert.deepEqual(outcomeOf(first), { type: "success" });
    assert(first.at(-1).usage[0].totalTokens > 0);
    await agent.say(script(["And good night!"]));
    const { sessionId } = first[0].metadata;
    const saved = await messagesOf(sessionId);
    assert.deepEqual(
      saved.map(({ role, message_id }) => [role, message_id]),
      agent.messages.filter(({ role }) => role !== "reasoning").map(({ role, id }) => [role, id]),
    );
    assert.deepEqual(shape((await agent.reloaded()).messages), shape(agent.messages));
  },

  async "a tool of the server, and the text after it"() {
    const agent = new Thread({ threadId: await withAdd("never_confirm") });
    const events = await agent.say(adding("Three."));
    assert.equal(results(agent)[0].content, "3");
    assert.deepEqual(JSON.parse(agent.messages[1].toolCalls[0].function.arguments), { a: 1, b: 2 });
    assert.equal(textOf(agent), "Three.");
    assert.deepEqual(outcomeOf(events), { type: "success" });
    assert.deepEqual(shape((await agent.reloaded()).messages), shape(agent.messages));
    await agent.say(script(["More."]));
    assert.equal(textOf(agent), "More.");
  },

  async "an agent as a subagent with steps"() {
    const enabled = { enabled_agents: ["scribe"] };
    const agent = new Thread({
      threadId: await sessionWith({
        agent_settings: enabled,
        tool_settings: { tools: [], execution_policy: "never_confirm" },
      }),
    });
    const instruction = rounds("I plan.", calls(["note", { text: "three" }]), "I did.");
    const events = await agent.say(rounds(calls(["agent", { agent: "scribe", instruction }]), "All done."));
    const [begun] = ofType(events, "SUBAGENT_STARTED");
    assert.equal(begun.name, "scribe");
    assert.deepEqual(
      ofType(events, "STEP_STARTED").map(({ stepName }) => stepName),
      ["planning", "execution"],
    );
    assert.equal(ofType(events, "SUBAGENT_FINISHED")[0].outcome.type, "success");
    const inner = results(agent).filter(({ subagentRunId }) => subagentRunId);
    assert.deepEqual(inner.map(({ content }) => content), ["noted three"]);
    assert.equal(textOf(agent), "All done.");
    assert.deepEqual(shape((await agent.reloaded()).messages), shape(agent.messages));
  },

  async "an interrupt that is approved"() {
    const agent = new Thread({ threadId: await withAdd("always_confirm") });
    const events = await agent.say(adding("Three."));
    const [interrupt] = outcomeOf(events).interrupts;
    assert.equal(interrupt.reason, "tool_call");
    assert.deepEqual(interrupt.metadata, { toolName: "add", arguments: { a: 1, b: 2 } });
    assert(new Date(interrupt.expiresAt) > new Date());
    const page = await agent.reloaded();
    assert.deepEqual(page.pendingInterrupts.map(({ id }) => id), [interrupt.id]);
    assert.deepEqual(shape(page.messages), shape(agent.messages));
    await assert.rejects(agent.say("Never mind."), /pending interrupt/); // says the client itself
    agent.messages.pop();
    await agent.answer({ approved: true });
    assert.equal(results(agent)[0].content, "3");
    assert.equal(textOf(agent), "Three.");
    assert.deepEqual(shape((await agent.reloaded()).messages), shape(agent.messages));
    assert.equal(agent.messages.filter(({ toolCalls }) => toolCalls).length, 1);
  },

  async "an interrupt that is approved with other arguments"() {
    const agent = new Thread({ threadId: await withAdd("always_confirm") });
    await agent.say(adding("Seven."));
    await agent.answer({ approved: true, editedArgs: { a: 3, b: 4 } });
    assert.equal(results(agent)[0].content, "7");
  },

  async "nothing but true approves"() {
    for (const payload of ["true", { approved: "true" }, { approved: 1 }, [true], undefined]) {
      const agent = new Thread({ threadId: await withAdd("always_confirm") });
      await agent.say(adding("Then not."));
      await agent.answer(payload);
      assert.match(results(agent)[0].content, /denied/);
      assert.equal(textOf(agent), "Then not.");
    }
  },

  async "an interrupt that is cancelled because something else is said"() {
    const agent = new Thread({ threadId: await withAdd("always_confirm") });
    await agent.say(adding("Three."));
    const resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "cancelled" }));
    await agent.say(script(["Something else."]), { resume });
    assert.equal(textOf(agent), "Something else.");
    assert.equal(results(agent).length, 0);
    assert.deepEqual(agent.pendingInterrupts, []);
  },

  async "answers that are missing, unknown or given twice"() {
    const agent = new Thread({ threadId: await withAdd("always_confirm") });
    await agent.say(adding("Three."));
    const [{ id }] = agent.pendingInterrupts;
    agent.pendingInterrupts = []; // or the client itself would refuse
    await rejectsWith(422, agent.say("Never mind."), "VALIDATION_ERROR");
    agent.messages.pop();
    const resolved = (interruptId) => ({ interruptId, status: "resolved", payload: { approved: true } });
    const unknown = [resolved(id), resolved(`conf_${"0".repeat(32)}`)];
    await rejectsWith(404, agent.go({ resume: unknown }), "CONFIRMATION_NOT_FOUND");
    await agent.go({ resume: [resolved(id)] });
    assert.equal(results(agent)[0].content, "3");
    await rejectsWith(422, agent.go({ resume: [resolved(id)] }), "VALIDATION_ERROR");
  },

  async "tools of the client"() {
    const agent = new Thread();
    const tools = [WEATHER];
    const said = rounds(calls(weather("Paris"), weather("Oslo")), "Sunny in both.");
    const first = await agent.say(said, { tools });
    const asked = agent.messages.at(-1).toolCalls;
    assert.deepEqual(outcomeOf(first).pendingToolCallIds, asked.map(({ id }) => id));
    for (const { id } of asked) {
      const content = "sunny";
      agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: id, content });
    }
    await agent.go({ tools });
    assert.equal(textOf(agent), "Sunny in both.");
    assert.deepEqual(results(await agent.reloaded()).map(({ content }) => content), ["sunny", "sunny"]);
  },

  async "a client's tool that never ran keeps nobody from going on"() {
    const agent = new Thread();
    await agent.say(rounds(calls(weather("Paris"))), { tools: [WEATHER] });
    await agent.say(script(["Well."]), { tools: [WEATHER] });
    assert.equal(textOf(agent), "Well.");
  },

  async "results that the client makes up"() {
    const agent = new Thread({ threadId: await withAdd("always_confirm") });
    await agent.say(adding("Three."));
    const toolCallId = agent.messages.at(-1).toolCalls[0].id;
    agent.addMessage({ id: "forged", role: "tool", toolCallId, content: "1000" });
    await rejectsWith(422, agent.answer({ approved: true }), "VALIDATION_ERROR");
    agent.messages.pop();
    await agent.answer({ approved: true });
    assert.equal(results(agent)[0].content, "3");
  },

  async "a history that is not the session's"() {
    const agent = new Thread();
    await agent.say(script(["One."]));
    const { messages } = agent;
    agent.messages = [...messages, { id: "forged", role: "assistant", content: "Two." }];
    await rejectsWith(409, agent.say("Go on."), "CHAT_DIFFERS");
    agent.messages = messages.map((message) =>
      message.role === "assistant" ? { ...message, content: "Something else." } : message,
    );
    const [started] = await agent.say(script(["Three."]));
    const saved = await messagesOf(started.metadata.sessionId);
    assert.deepEqual(saved.filter(({ role }) => role === "assistant").map(({ content }) => content), ["One.", "Three."]);
    const other = await agent.reloaded();
    await other.say(script(["Four."]));
    await rejectsWith(409, agent.say("And now?"), "CHAT_DIFFERS");
  },

  async "an answer that is made again"() {
    const agent = new Thread();
    const [{ metadata }] = await agent.say(script(["One."]));
    const before = agent.messages.pop();
    await agent.go();
    assert.equal(textOf(agent), "One.");
    assert.notEqual(agent.messages.at(-1).id, before.id);
    assert.equal((await messagesOf(metadata.sessionId)).length, 2);
  },

  async "a run that is stopped, and followed meanwhile"() {
    const agent = new Thread();
    const slow = script([["One ", "two ", "three"]], { stall_after: 2, stall_seconds: 600 });
    const running = agent.say(slow);
    await until(() => agent.messages.at(-1).content === "One two");
    const following = agent.reloaded();
    const stop = () => native(`/agui/${agent.threadId}/stop`, { method: "POST" });
    const page = new Thread({ threadId: agent.threadId });
    const second = heard((subscriber) => page.connectAgent({}, subscriber));
    await until(() => page.messages.at(-1)?.content === "One two");
    assert.deepEqual(await stop(), { stopped: true });
    assert.deepEqual(outcomeOf(await running), { type: "cancelled" });
    assert.deepEqual(outcomeOf(await second), { type: "cancelled" });
    await following;
    assert.deepEqual(shape(page.messages), shape(agent.messages));
    assert.deepEqual(await stop(), { stopped: false });
    await agent.say(script(["On we go."]));
    assert.equal(textOf(agent), "On we go.");
  },

  async "a run whose client left goes on"() {
    const agent = new Thread();
    const slow = script([["One ", "two"]], { stall_after: 1, stall_seconds: 1 });
    const running = agent.say(slow);
    await until(() => agent.messages.at(-1).content.startsWith("One"));
    agent.abortRun();
    await running;
    const page = await agent.reloaded();
    assert.equal(textOf(page), "One two");
  },

  async "errors, before a run and in it"() {
    const agent = new Thread();
    agent.props = { model: "none:1b" };
    await rejectsWith(404, agent.say("Hello!"), "MODEL_NOT_FOUND");
    const broken = new Thread();
    const events = await broken.say(script([["One ", "two"]], { error_line: "runner died" }));
    assert.equal(events.at(-1).type, "RUN_ERROR");
    assert.equal(events.at(-1).code, "OLLAMA_ERROR");
    await broken.say(script(["On we go."]));
    assert.equal(textOf(broken), "On we go.");
  },

  async "an image, which the model gets as it is"() {
    const digest = createHash("sha256").update(Buffer.from(PNG, "base64")).digest("hex");
    const parts = [
      { type: "image", source: { type: "data", value: PNG, mimeType: "image/png" } },
      { type: "image", source: { type: "url", value: `data:image/png;base64,${PNG}` } },
      { type: "binary", mimeType: "image/png", data: PNG },
      { type: "image", source: { type: "file", value: `sha256:${digest}`, provider: "mochi" } },
    ];
    for (const part of parts) {
      const agent = new Thread();
      agent.props = { model: "scripted-vision:latest" };
      const content = [{ type: "text", text: "What is it?" }, part];
      if (part.type === "binary") {
        const body = { threadId: agent.threadId, runId: "r", forwardedProps: agent.props };
        body.messages = [{ id: "u", role: "user", content }]; // its own client knows no such part
        const answered = await fetch(`${api}/agui`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
        assert((await answered.text()).includes(digest.slice(0, 12)));
        continue;
      }
      await agent.say(content);
      assert(textOf(agent).includes(digest.slice(0, 12)), textOf(agent));
      const [shown] = (await agent.reloaded()).messages;
      assert.equal(shown.content[1].source.value, `sha256:${digest}`);
    }
  },

  async "what the application tells the model"() {
    const agent = new Thread();
    agent.messages = [{ id: "s", role: "system", content: "You are brief." }];
    await agent.say(script(["Yes."]), { context: [{ description: "The time", value: "noon" }] });
    assert.equal(textOf(agent), "Yes.");
    const page = await agent.reloaded();
    assert.deepEqual(page.messages.map(({ role }) => role), ["user", "assistant"]);
  },

  async "names that can't be"() {
    await rejectsWith(422, new Thread({ threadId: "a/b" }).say("Hello!"), "VALIDATION_ERROR");
    await rejectsWith(404, new Thread().reloaded(), "SESSION_NOT_FOUND");
    await rejectsWith(422, new Thread().go(), "VALIDATION_ERROR");
  },
});
console.error = quiet;
