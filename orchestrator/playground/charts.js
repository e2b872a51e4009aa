// What a person watching wants to see, drawn from a Writing.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 340;
const HEIGHT = 88;
const SHOWN_STEPS = 85;
const PARTS = ["draft_queue", "draft_compute", "network", "block_lag", "verify_queue", "verify_compute", "host"];

export function drawFigures(list, writing) {
  const choice = writing.timings?.choices?.[0];
  const pairs = [
    ["tokens", writing.tokens],
    ["tokens/s, as seen here", rate(writing)],
    ["first token", writing.first === null ? null : `${Math.round(writing.first * 1000)} ms`],
    ["acceptance length", number(choice?.acceptance_length ?? meanOfBlocks(writing))],
    ["candidates kept", choice ? `${choice.draft_n_accepted} of ${choice.draft_n}` : null],
    ["verifications, plain steps", choice ? `${choice.verifications}, ${choice.plain_steps}` : null],
    ["rule, seed", choice ? `${choice.rule ?? "none"}, ${choice.seed}` : null],
    ["prompt tokens, cached", writing.usage ? prompt(writing.usage) : null],
    ["ended by", writing.reason],
  ];
  list.replaceChildren(...pairs.flatMap(([name, value]) => [element("dt", name), element("dd", value ?? "–")]));
}

export function drawSteps(svg, writing) {
  const steps = writing.steps.slice(-SHOWN_STEPS);
  const most = Math.max(4, ...steps.map(total));
  const wide = WIDTH / SHOWN_STEPS;
  begin(svg);
  steps.forEach((step, place) => {
    let bottom = HEIGHT;
    for (const source of ["draft", "lookup", "target"]) {
      const high = (step[source] / most) * HEIGHT;
      bottom -= high;
      if (high) svg.append(bar(place * wide, bottom, wide * 0.8, high, source, `${total(step)} tokens`));
    }
  });
  svg.append(label(0, 10, `${most}`));
}

export function drawParts(box, writing) {
  const parts = new Map((writing.timings?.choices?.[0]?.parts ?? []).map((part) => [part.name, part]));
  const most = Math.max(1e-9, ...[...parts.values()].map((part) => part.p50_ms));
  box.replaceChildren(
    ...PARTS.filter((name) => parts.has(name)).map((name) => {
      const row = element("div", "", "part");
      const meter = document.createElement("meter");
      meter.max = most;
      meter.value = parts.get(name).p50_ms;
      meter.setAttribute("aria-label", name);
      row.append(element("span", name.replace("_", " ")), meter, element("span", parts.get(name).p50_ms.toFixed(2)));
      return row;
    }),
  );
  if (!parts.size) box.replaceChildren(element("span", "no round was measured"));
}

export function drawGamma(svg, why, writing) {
  const choice = writing.timings?.choices?.[0]?.gamma;
  begin(svg);
  why.textContent = choice ? `γ ${choice.gamma} (${choice.why})` : "nothing was chosen yet";
  const rates = choice?.tokens_per_s ?? [];
  if (!rates.length) return;
  const most = Math.max(1e-9, ...rates);
  const wide = WIDTH / Math.max(rates.length, 8);
  rates.forEach((value, gamma) => {
    const high = Math.max(0, (value / most) * (HEIGHT - 14));
    const kind = gamma === choice.gamma ? "chosen" : "bar";
    svg.append(bar(gamma * wide, HEIGHT - 12 - high, wide * 0.8, high, kind, `γ ${gamma}: ${value.toFixed(0)} tokens/s`));
    svg.append(label(gamma * wide + wide * 0.25, HEIGHT - 1, `${gamma}`));
  });
}

export function rate(writing) {
  const first = writing.timings?.predicted_per_second;
  if (first) return number(first, 1);
  const span = writing.seconds - (writing.first ?? 0);
  return writing.tokens > 1 && span > 0 ? number((writing.tokens - 1) / span, 1) : null;
}

function meanOfBlocks(writing) {
  const blocks = writing.steps.filter((step) => step.draft + step.lookup);
  return blocks.length ? blocks.reduce((sum, step) => sum + total(step), 0) / blocks.length : null;
}

function prompt(usage) {
  return `${usage.prompt_tokens}, ${usage.prompt_tokens_details?.cached_tokens ?? 0}`;
}

function total(step) {
  return step.draft + step.lookup + step.target;
}

function number(value, digits = 2) {
  return value === null || value === undefined ? null : value.toFixed(digits);
}

function begin(svg) {
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.replaceChildren();
}

function bar(x, y, width, height, kind, told) {
  const rect = document.createElementNS(SVG, "rect");
  Object.entries({ x, y, width, height }).forEach(([name, value]) => rect.setAttribute(name, value.toFixed(2)));
  rect.setAttribute("class", kind);
  const title = document.createElementNS(SVG, "title");
  title.textContent = told;
  rect.append(title);
  return rect;
}

function label(x, y, text) {
  const made = document.createElementNS(SVG, "text");
  made.setAttribute("x", x.toFixed(1));
  made.setAttribute("y", y);
  made.textContent = text;
  return made;
}

function element(name, text, kind = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}
