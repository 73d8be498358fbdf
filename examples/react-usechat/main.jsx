// A chat with mochi-server in React. The address may name another server and a model:
// index.html?server=http://localhost:8000&model=qwen3:14b
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, generateId, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const query = new URLSearchParams(location.search);
const api = `${query.get("server") ?? "http://localhost:8000"}/api/v1/ui/chat`;
const transport = new DefaultChatTransport({ api, body: { model: query.get("model") ?? undefined } });

function Chat({ id, initial }) {
  const [text, setText] = useState("");
  const chat = useChat({
    id,
    messages: initial,
    transport,
    resume: true, // a reloaded page goes on with the answer that runs
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const isBusy = chat.status === "submitted" || chat.status === "streaming";
  const stop = async () => {
    await fetch(`${api}/${id}/stop`, { method: "POST" }); // without it the turn goes on
    await chat.stop();
  };
  const send = (event) => {
    event.preventDefault();
    if (!text.trim() || isBusy) return;
    chat.sendMessage({ text });
    setText("");
  };
  return (
    <>
      <div role="log" aria-live="polite" data-status={chat.status}>
        {chat.messages.map((message) => (
          <article key={message.id} className={message.role}>
            {message.parts.map((part, index) => (
              <Part key={index} part={part} decide={chat.addToolApprovalResponse} isBusy={isBusy} />
            ))}
          </article>
        ))}
      </div>
      {chat.error && <p role="alert">{chat.error.message}</p>}
      <form onSubmit={send}>
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
        {isBusy ? (
          <button type="button" onClick={stop}>Stop</button>
        ) : (
          <button type="submit">Send</button>
        )}
        <button type="button" disabled={isBusy || !chat.messages.length} onClick={() => chat.regenerate()}>
          Regenerate
        </button>
      </form>
    </>
  );
}

function Part({ part, decide, isBusy }) {
  if (part.type === "text" || part.type === "reasoning") return <p className={`text ${part.type}`}>{part.text}</p>;
  if (part.type === "data-agent") return <p className="text reasoning">{part.data.text || part.data.plan}</p>;
  if (part.type !== "dynamic-tool") return null;
  return (
    <section className="tool" aria-label={part.toolName}>
      <code>{part.toolName}({JSON.stringify(part.input)})</code> {part.output ?? part.errorText ?? part.state}
      {part.state === "approval-requested" && (
        <>
          {" "}
          {["Approve", "Deny"].map((label) => (
            <button
              key={label}
              type="button"
              disabled={isBusy} // what the stream shows anew would replace the decision
              onClick={() => decide({ id: part.approval.id, approved: label === "Approve" })}
            >
              {label}
            </button>
          ))}
        </>
      )}
    </section>
  );
}

const id = location.hash.slice(1) || generateId();
history.replaceState(null, "", `#${id}`);
window.addEventListener("hashchange", () => location.reload());
const { messages } = await (await fetch(`${api}/${id}/messages`)).json();
createRoot(document.getElementById("root")).render(<Chat id={id} initial={messages} />);
