// Asks for a chat completion and hands over its tokens as they arrive.

/**
 * Streams one answer. `onToken(text)` is called for each token; resolves with the usage chunk's figures.
 * Rejects if the stream ends without its closing `[DONE]`: an answer that was cut short must not pass for a whole one.
 */
export async function ask(url, question, onToken, signal) {
  const response = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
    body: JSON.stringify({ model: "penstock-demo", stream: true, messages: [{ role: "user", content: question }] }),
    signal,
  });
  if (!response.ok) throw new Error(`the question was answered with status ${response.status}`);
  let usage = null;
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return usage;
    const chunk = JSON.parse(data);
    if (chunk.usage) usage = chunk.usage;
    const token = chunk.choices[0]?.delta.content;
    if (token) onToken(token);
  }
  throw new Error("the answer broke off before its end");
}

/** The data of each server-sent event of a byte stream whose lines end in LF. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n").filter((line) => line.startsWith("data:"));
      if (lines.length) yield lines.map((line) => line.slice(5).trimStart()).join("\n");
    }
  }
}
