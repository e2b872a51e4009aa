// The page: a conversation, what it is asked with, and how its newest text was written.

import { info, stream } from "./api.js";
import { drawFigures, drawGamma, drawParts, drawSteps, rate } from "./charts.js";
import { Writing } from "./writing.js";

const at = (id) => document.getElementById(id);
const settings = at("settings");
const state = { messages: [], chat: true, running: null, last: null };

function fields() {
  const form = new FormData(settings);
  const given = (name, read = Number) => (form.get(name) === "" ? undefined : read(form.get(name)));
  const speculative = { gamma: given("gamma"), rule: given("rule", String), drafter: given("drafter", String) };
  return {
    temperature: given("temperature"),
    top_p: given("top_p"),
    max_tokens: given("max_tokens"),
    seed: given("seed") ?? crypto.getRandomValues(new Uint32Array(1))[0], // one that a number of JavaScript can hold
    speculative: Object.values(speculative).some((value) => value !== undefined) ? speculative : undefined,
  };
}

function key() {
  return settings.elements.key.value.trim();
}

function say(kind, text) {
  const turn = document.createElement("li");
  turn.className = kind;
  turn.textContent = text;
  at("turns").append(turn);
  return turn;
}

function draw(writing) {
  drawFigures(at("figures"), writing);
  drawSteps(at("steps"), writing);
  drawParts(at("parts"), writing);
  drawGamma(at("gamma"), at("why"), writing);
}

function busy(controller) {
  state.running = controller;
  at("send").disabled = at("clear").disabled = controller !== null;
  at("stop").disabled = controller === null;
  at("compare").disabled = controller !== null || state.last === null;
}

// Asks once, shows the text as it comes, and returns it; a text that was stopped stays as far as it came.
async function write(request) {
  const controller = new AbortController();
  const writing = new Writing(say("assistant", ""));
  busy(controller);
  const drawing = setInterval(() => draw(writing), 100);
  try {
    const path = state.chat ? "v1/chat/completions" : "v1/completions";
    const told = { return_token_sources: true, one_token_per_event: true, stream_options: { include_usage: true } };
    for await (const chunk of stream(path, { ...request, ...told }, key(), controller.signal)) writing.take(chunk);
  } catch (error) {
    if (!controller.signal.aborted) say("error", error.message);
    writing.failed = true;
  } finally {
    clearInterval(drawing);
    draw(writing);
    busy(null);
  }
  return writing;
}

async function ask(text) {
  const asked = [...state.messages, { role: "user", content: text }];
  say("user", text);
  const request = { ...fields(), ...(state.chat ? { messages: asked } : { prompt: text }) };
  const writing = await write(request);
  if (!writing.text && writing.failed) return;
  state.messages = [...asked, { role: "assistant", content: writing.text }];
  state.last = writing.failed ? null : { request, writing };
  busy(null);
}

// The same request with γ 0 and the same seed: under the rule match the text is the same, to the last token.
async function compare() {
  const { request, writing } = state.last;
  say("note", "the same without drafts:");
  const plain = await write({ ...request, speculative: { gamma: 0 } });
  draw(writing);
  if (plain.failed) return;
  const same = plain.text === writing.text ? "the same text" : "another text, as the rules token and block may give";
  const [with_, without] = [Number(rate(writing)), Number(rate(plain))];
  const faster = with_ && without ? `, ${(with_ / without).toFixed(2)} times as fast with drafts` : "";
  say("note", `${same}${faster}`);
}

async function look() {
  try {
    const found = await info(key());
    const model = found.model;
    state.chat = model ? model.chat_template : true;
    at("served").textContent = model ? `${model.name}, Foreword ${found.version}` : `Foreword ${found.version}, no model yet`;
    at("peers").replaceChildren(...[["target", found.targets], ["draft", found.drafts]].flatMap(([kind, peers]) => peers.map((peer) => {
      const chip = document.createElement("li");
      chip.textContent = `${kind} ${peer.address}`;
      chip.className = peer.up ? "up" : "down";
      chip.title = peer.up ? "up" : peer.last_error;
      return chip;
    })));
  } catch (error) {
    at("served").textContent = error.message;
  }
}

at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = at("prompt").value;
  if (state.running || !text.trim()) return;
  at("prompt").value = "";
  ask(text);
});
at("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    at("ask").requestSubmit();
  }
});
at("stop").addEventListener("click", () => state.running?.abort());
at("compare").addEventListener("click", compare);
at("clear").addEventListener("click", () => {
  state.messages = [];
  state.last = null;
  at("turns").replaceChildren();
  busy(null);
});
settings.elements.key.value = sessionStorage.getItem("key") ?? "";
settings.elements.key.addEventListener("change", () => {
  sessionStorage.setItem("key", key());
  look();
});
settings.addEventListener("submit", (event) => event.preventDefault());
look();
setInterval(look, 5000);
