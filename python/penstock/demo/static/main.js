// Joins the page's three parts: the video, the token stream, the figures.

import { showFigures } from "./figures.js";
import { LivePlayer } from "./player.js";
import { ask } from "./tokens.js";

const byId = (id) => document.getElementById(id);
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

// What each part has to complain about at the moment; shown at the foot of the page, never only in the console.
const troubles = new Map();
function report(part, problem) {
  troubles.set(part, problem ? `${part}: ${problem.message}` : null);
  byId("trouble").textContent = [...troubles.values()].filter(Boolean).join(" · ");
}

function badge(id, words, on) {
  byId(id).textContent = words;
  byId(id).classList.toggle("on", on);
}

function watch() {
  const video = byId("video");
  const player = new LivePlayer(video, "/live/stream.m3u8", (problem) => report("video", problem));
  video.addEventListener("playing", () => badge("live", "live", true));
  video.addEventListener("waiting", () => badge("live", "waiting", false));
  video.addEventListener("click", () => video.play());
  setInterval(() => {
    if (!video.videoWidth) return;
    byId("picture").textContent = `${video.videoWidth}×${video.videoHeight}`;
    byId("position").textContent = `${video.currentTime.toFixed(1)} s`;
    byId("buffered").textContent = `${player.ahead.toFixed(1)} s`;
    byId("segments").textContent = player.appended;
  }, 200);
  return player.run();
}

async function converse() {
  const questions = await (await fetch("/demo/questions")).json();
  let at = 0;
  let answers = 0;
  let turn = new AbortController();
  const buttons = questions.map((question, index) => {
    const button = document.createElement("button");
    button.textContent = question;
    button.addEventListener("click", () => {
      at = index;
      turn.abort();
    });
    return button;
  });
  byId("questions").replaceChildren(...buttons);
  for (;;) {
    const asked = at;
    turn = new AbortController();
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", index === asked));
    try {
      await tell(questions[asked], turn.signal);
      report("tokens", null);
      byId("answers").textContent = ++answers;
      at = (asked + 1) % questions.length;
    } catch (problem) {
      if (!turn.signal.aborted) report("tokens", problem);
    }
    byId("answer").classList.remove("telling");
    badge("asking", "done", false);
    if (!turn.signal.aborted) await Promise.race([pause(5), aborted(turn.signal)]);
  }
}

/** Asks one question and prints the answer token by token. */
async function tell(question, signal) {
  const answer = byId("answer");
  const began = performance.now();
  let first = null;
  let count = 0;
  byId("question").textContent = question;
  answer.textContent = "";
  answer.classList.add("telling");
  badge("asking", "streaming", true);
  const usage = await ask("/v1/chat/completions", question, (token) => {
    const now = performance.now();
    first ??= now;
    count += 1;
    answer.append(token);
    byId("tokens").textContent = count;
    byId("first-token").textContent = `${(first - began).toFixed(0)} ms`;
    if (count > 1) byId("token-rate").textContent = `${((1000 * (count - 1)) / (now - first)).toFixed(1)} /s`;
  }, signal);
  if (usage?.completion_tokens !== count) throw new Error(`${count} tokens came of ${usage?.completion_tokens}`);
}

const aborted = (signal) => new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));

async function measure() {
  for (;;) {
    try {
      await showFigures("/demo/figures");
      report("figures", null);
    } catch (problem) {
      report("figures", problem);
    }
    await pause(1);
  }
}

for (const [name, part] of Object.entries({ video: watch, tokens: converse, figures: measure })) {
  part().catch((problem) => report(name, problem));
}
