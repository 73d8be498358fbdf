// Uses what the generators made, as a front end does. It has to compile; lines that must not, as
// the types say so, are marked.
import { chat, chatStreamInSession } from "./client/sdk.gen.js";
import type { ActivityEvent, ChatIn, MessageOut, OpenChatOut, TurnEvent } from "./client/types.gen.js";
import type { components, operations } from "./types.js";

type Schemas = components["schemas"];
type Answer = operations["chat"]["responses"][200]["content"]["application/json"];

export function textOf(event: Schemas["TurnEvent"]): string {
  switch (event.event) {
    case "turn_started":
      return event.data.user_message_id ?? event.data.turn_id;
    case "content_delta":
      return event.data.content;
    case "tool_call_confirmation_required":
      return event.data.confirmation_id;
    case "error":
      return event.data.code;
    case "done":
      return event.data.saved_at ?? "";
    default:
      // @ts-expect-error other events have no text
      return event.data.content.text;
  }
}

export function sessionOf(event: ActivityEvent): string {
  // @ts-expect-error one of them is about no session
  const everywhere: string = event.data.session_id;
  return event.event === "session_deleted" ? event.data.session_id : everywhere;
}

export const nameOf = (event: TurnEvent): string => event.event;
export const question: ChatIn & Schemas["ChatIn"] = { message: "Hello!" };
export const answered = (answer: Answer): string => answer.response + answer.metadata.batch_mode;

export async function ask(): Promise<OpenChatOut | undefined> {
  const { data } = await chat({ body: { message: "Hello!" } });
  return data && "response" in data ? data : undefined; // else it waits for an approval
}

export async function stream(sessionId: string): Promise<string> {
  let text = "";
  const { stream } = await chatStreamInSession({
    path: { session_id: sessionId },
    body: { message: "Hello!" },
  });
  for await (const data of stream) if ("role" in data) text += data.content;
  return text;
}

// @ts-expect-error it may be absent
export const cancelled = (message: MessageOut): boolean => message.cancelled;
// @ts-expect-error it may be absent
export const interrupted = (message: Schemas["MessageOut"]): boolean => message.interrupted;
