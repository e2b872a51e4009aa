// A text as it comes, token by token, and the steps that its tokens came by.

export class Writing {
  constructor(element) {
    this.element = element;
    this.text = "";
    this.steps = []; // [{draft, lookup, target}], one for each verification or plain step
    this.tokens = 0;
    this.began = performance.now();
    this.first = null;
    this.timings = null;
    this.usage = null;
    this.reason = null;
    this.open = false;
  }

  // Takes one chunk of a chat or of a completion.
  take(chunk) {
    if (chunk.usage) this.usage = chunk.usage;
    if (chunk.timings) this.timings = chunk.timings;
    const [choice] = chunk.choices;
    if (!choice) return;
    if (choice.finish_reason) this.reason = choice.finish_reason;
    const piece = choice.delta ? choice.delta.content : choice.text;
    const sources = choice.token_sources ?? [];
    sources.forEach((source) => this.#count(source));
    if (piece) this.#write(piece, sources.at(-1) ?? "target");
  }

  get seconds() {
    return (performance.now() - this.began) / 1000;
  }

  #count(source) {
    this.first ??= this.seconds;
    this.tokens += 1;
    if (!this.open) this.steps.push({ draft: 0, lookup: 0, target: 0 });
    this.steps.at(-1)[source] += 1;
    this.open = source !== "target"; // the target's own token ends a step
  }

  #write(piece, source) {
    this.text += piece;
    let last = this.element.lastElementChild;
    if (!last || last.className !== source) {
      last = document.createElement("span");
      last.className = source;
      last.title = source;
      this.element.append(last);
    }
    last.append(piece);
  }
}
