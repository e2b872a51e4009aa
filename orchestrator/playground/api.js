// Calls of the server; paths are relative, so that a proxy may serve the page under a prefix.

export class ServerError extends Error {}

export async function info(key) {
  const answer = await fetch("info", { headers: headers(key) });
  if (!answer.ok) throw await failure(answer);
  return answer.json();
}

// Yields the chunks of a stream, each an object; ends with the stream, throws ServerError for what the server refuses.
export async function* stream(path, body, key, signal) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { ...headers(key), "content-type": "application/json" },
    body: JSON.stringify({ ...body, stream: true }),
    signal,
  });
  if (!answer.ok) throw await failure(answer);
  for await (const data of events(answer.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ServerError(chunk.error.message);
    yield chunk;
  }
}

function headers(key) {
  return key ? { authorization: `Bearer ${key}` } : {};
}

async function failure(answer) {
  const text = await answer.text();
  try {
    return new ServerError(JSON.parse(text).error.message);
  } catch {
    return new ServerError(`${answer.status} ${answer.statusText}: ${text.slice(0, 200)}`);
  }
}

// Yields the data of server-sent events; comments, which keep a connection alive, are left out.
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      held += value;
      const whole = held.split("\n\n");
      held = whole.pop();
      for (const event of whole) {
        const lines = event.split("\n").filter((line) => line.startsWith("data: "));
        if (lines.length) yield lines.map((line) => line.slice(6)).join("\n");
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
