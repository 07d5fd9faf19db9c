// The page of `fencepost serve`: requests the entities of a text from the server, draws them, and filters them.
// Text is inserted into the page only as text, never as markup.

const COLOURS = 10; // as in style.css
const BLOCKS = 20000; // maximum number of lines of text with their own element
const PARAGRAPH = 1500; // characters after which a long line is drawn as two
const ROWS = 50; // rows of the list that are laid out together
const NAME = 28; // characters of a type's name in a label
const EXCERPT = 200; // characters of an entity in the list and the tooltip
const LANE = 18; // height in pixels of bars and their labels
const THIN_LANE = 6; // the same without labels: of entities that started in an earlier line
const LINK = 4000; // maximum number of characters of a text in a link
const GAP = 5; // minimum distance in pixels between labels beside each other

const EXAMPLES = {
  News: `The mayor of Lisbon met Maria Teixeira, a professor at the University of Porto, outside City Hall on Monday. She wants the Portuguese Ministry of Health to pay for a new hospital near the Douro River.`,
  Biomedical: `Binding of the transcription factor to the enhancer of the human interleukin-2 receptor gene was lost in T lymphocytes of the patients, but not in mouse spleen cells. Adding the NF-kappa B inhibitor to breast cancer cells with a mutation in the BRCA1 gene promoter lowered the expression of the BRCA1 protein.`,
  Sport: `The captain of the Norwegian women's football team thanked the coach of her first club, a small team from the north coast of Norway. Her brother, a doctor at the Oslo University Hospital, watched the final in a bar in Sydney with thousands of other fans.`,
};

const $ = (id) => document.getElementById(id);

const page = {
  model: null, // the response of /v1/model
  token: null, // only in memory
  running: null, // the AbortController of the current request
  lastText: null, // the text of the last request
  refused: null, // the text and the shape of a request that was answered with 401
  answer: null, // the answer that is drawn
  models: [], // names of one or two models in a link, until the server has listed its own
  shape: null, // nested, flat or own, once the user has chosen
  least: 0, // minimum confidence
  off: new Set(), // types that are switched off
  colours: new Map(), // type to number of its colour
};

// ---------------------------------------------------------------------------------------------- requests

/** A request that failed, with a message for the user. */
class Refusal extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

async function request(path, body, signal) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (page.token) headers.Authorization = `Bearer ${page.token}`;
  let response;
  try {
    const method = body === undefined ? "GET" : "POST";
    response = await fetch(path, { method, headers, body, signal, cache: "no-store", credentials: "omit" });
  } catch {
    throw new Refusal("The server cannot be reached. Check whether it is still running, then try again.");
  }
  if (!response.ok) throw new Refusal(await describeFailure(response), response.status);
  try {
    return await response.json();
  } catch {
    throw new Refusal("The server's answer is incomplete or not JSON. Try again.");
  }
}

async function describeFailure(response) {
  let detail = null;
  try {
    ({ detail } = await response.json());
  } catch {
    // A response without JSON is described by its status.
  }
  const message = typeof detail === "string" && detail ? ` Message of the server: ${detail}` : "";
  switch (response.status) {
    case 401:
      return page.token ? "The server does not accept this token." : "This server requires an access token.";
    case 413:
      return `${describeTooLarge()}${message}`;
    case 422:
      return `The server did not accept the request: ${describeFields(detail) || "no reason given"}`;
    case 429:
      return `The server has too many requests at the moment. Try again ${describeWait(response)}.`;
    case 503:
      return `The server cannot answer at the moment. Try again ${describeWait(response)}.${message}`;
    default:
      return `The server failed with status ${response.status}.${message}`;
  }
}

/** Returns "in 7 seconds", or "later" if the server does not say when. */
function describeWait(response) {
  const after = response.headers.get("Retry-After") ?? "";
  if (!/^\d+$/.test(after)) return "later";
  return `in ${after} ${after === "1" ? "second" : "seconds"}`;
}

/** Returns the errors of the fields in the `detail` of a 422. */
function describeFields(detail) {
  if (typeof detail === "string") return detail;
  if (!Array.isArray(detail)) return "";
  return detail
    .map(({ loc, msg }) => {
      const field = (Array.isArray(loc) ? loc : []).filter((part, index) => index > 0 || part !== "body").join(".");
      return field ? `${field}: ${msg}` : String(msg);
    })
    .join("; ");
}

/** With `bytes`, the body is too large to be sent; else the server has refused its bytes or its words. */
function describeTooLarge(bytes) {
  const { body, words } = page.model?.limits ?? {};
  const limit = body ? ` It accepts at most ${body.toLocaleString("en")} bytes` : "";
  const wordLimit = limit && words && !bytes ? ` and ${words.toLocaleString("en")} words` : "";
  const size = limit && bytes ? `, and this text has ${bytes.toLocaleString("en")}` : "";
  return `The text is too large for this server.${limit}${wordLimit}${size}${limit ? "." : ""} Split it into smaller parts.`;
}

async function loadModel() {
  try {
    page.model = await request("v1/model");
  } catch (refusal) {
    if (refusal.status === 401) {
      askForToken();
      if (page.token && !page.running) {
        showError(refusal.message);
        $("token").focus();
      }
    } else if (!page.running && !page.answer) showError(refusal.message);
    return;
  }
  showModel();
}

/** Requests the entities of a text and draws them. With `isExample`, a failure is not shown: nobody has asked for it. */
async function ask(text, isExample = false) {
  page.running?.abort();
  const controller = new AbortController();
  page.running = controller;
  page.lastText = text;
  const flat = page.shape === null || page.shape === "own" ? undefined : page.shape === "flat";
  const models = getModels();
  showPending(true);
  try {
    const bodies = models.map((model) => JSON.stringify({ text, flat, model }));
    const limit = page.model?.limits?.body;
    const bytes = new TextEncoder().encode(bodies[0]).length;
    if (limit && bytes > limit) throw new Refusal(describeTooLarge(bytes), 413);
    const start = performance.now();
    const responses = await Promise.all(bodies.map((body) => request("v1/entities", body, controller.signal)));
    if (page.running !== controller) return;
    const entities = responses.flatMap((response, number) => parseEntities(text, response, models[number]));
    show({ text, flat, shape: page.shape, models, entities }, performance.now() - start);
    page.refused = null;
  } catch (error) {
    if (page.running !== controller) return;
    controller.abort(); // the request to the other model
    if (!(error instanceof Refusal)) throw error;
    if (isExample) say("");
    else showRefusal(error, text);
  } finally {
    if (page.running === controller) {
      page.running = null;
      showPending(false);
    }
  }
}

/** Shows why a request failed. An earlier answer stays visible only if it is of the same text. */
function showRefusal(refusal, text) {
  if (refusal.status === 401) page.refused = { text, shape: page.shape };
  if (page.answer?.text === text) {
    checkShape(page.answer.shape);
  } else {
    page.answer = null;
    $("result").hidden = true;
  }
  if (refusal.status === 401) {
    askForToken();
    $("token").focus();
  }
  showError(refusal.message);
}

// ---------------------------------------------------------------------------------- answers

/** Returns the position in a JavaScript string of each code point, by which the server counts. */
function findPositions(text) {
  const positions = new Uint32Array(text.length + 1);
  let count = 0;
  let position = 0;
  for (const character of text) {
    positions[count++] = position;
    position += character.length;
  }
  positions[count] = position;
  return positions.subarray(0, count + 1);
}

/** Returns the entities of an answer as the page uses them, in reading order, outer ones first. */
function parseEntities(text, response, model) {
  const raw = response?.results?.[0]?.entities;
  const positions = findPositions(text);
  const isValid = ({ start, end, type, score }) =>
    Number.isInteger(start) && Number.isInteger(end) && start >= 0 && start < end && end < positions.length &&
    typeof type === "string" && Number.isFinite(score);
  if (!Array.isArray(raw) || !raw.every((entity) => entity && isValid(entity))) {
    throw new Refusal("The server's answer is not in the format of this page. Do both have the same version?");
  }
  const entities = raw.map(({ start, end, type, score }) => ({
    start, end, type, score, model, from: positions[start], to: positions[end],
    text: text.slice(positions[start], positions[end]), shown: true, chip: null, block: null, bars: new Map(), row: null,
  }));
  return entities.sort((a, b) => a.start - b.start || b.end - a.end || b.score - a.score);
}

// ------------------------------------------------------------------------------------------------ drawing

function createElement(name, className = "", text = "") {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

function getColour(type) {
  if (!page.colours.has(type)) page.colours.set(type, page.colours.size % COLOURS);
  return page.colours.get(type);
}

const shorten = (text) => (text.length > EXCERPT ? `${text.slice(0, EXCERPT).toWellFormed()}…` : text);
const describeCount = ({ length }) => `${length || "no"} ${length === 1 ? "entity" : "entities"}`;
const toOneLine = (text) => shorten(text).replace(/\s+/g, " ");

/**
 * Returns where the text is split into blocks, as [end of one, start of the next]: at line breaks (at some of them, if
 * there are very many), and in very long lines at the end of a sentence or a word. The browser lays out only the blocks
 * that are on the screen.
 */
function findCuts(text) {
  let lines = [];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines.push(at);
  const step = Math.ceil(lines.length / BLOCKS);
  if (step > 1) lines = lines.filter((_, number) => number % step === 0);
  const cuts = [];
  let start = 0;
  for (const end of [...lines, text.length]) {
    for (let cut = findCut(text, start, end); cut < end; cut = findCut(text, cut, end)) cuts.push([cut, cut]);
    if (end < text.length) cuts.push([end, end + 1]);
    start = end + 1;
  }
  return cuts;
}

/** Returns the end of the first part of a very long line, or of the line itself. */
function findCut(text, start, end) {
  const least = start + PARAGRAPH;
  if (least + PARAGRAPH >= end) return end;
  const near = text.slice(least, least + PARAGRAPH);
  const sentence = /[.!?…]["'”’)\]]*\s+|[。！？]["”’」』）]*/.exec(near) ?? /\s+/.exec(near);
  return sentence ? least + sentence.index + sentence[0].length : findCut(text, least, end);
}

/** Returns the text as blocks, each with the labels of the entities that start in it. */
function drawText(text, entities) {
  const blocks = [];
  let [start, isContinued] = [0, false];
  for (const [end, next] of [...findCuts(text), [text.length, text.length]]) {
    blocks.push(createBlock(text.slice(start, end), start, isContinued));
    [start, isContinued] = [next, next === end];
  }
  let first = 0;
  for (const entity of entities) {
    while (blocks[first + 1]?.from <= entity.from) first++;
    entity.block = blocks[first];
    entity.block.element.append(drawChip(entity));
    for (let at = first; blocks[at]?.from < entity.to; at++) blocks[at].entities.push(entity);
  }
  return blocks.map(({ element }) => element);
}

/** Returns a new block, whose bars are drawn by `drawBars` when it comes near the screen. */
function createBlock(text, from, isContinued) {
  const element = createElement("div", isContinued ? "block continued" : "block");
  const words = createElement("span", "words", text);
  element.dir = "auto";
  element.style.containIntrinsicBlockSize = `auto ${(1 + Math.floor(text.length / 80)) * 2.6}rem`;
  element.append(words);
  const block = { element, words, from, entities: [], isDrawn: false };
  blockOf.set(element, block);
  nearby.observe(element);
  return block;
}

const blockOf = new WeakMap(); // element to its block
const entityOf = new WeakMap(); // label, part of a bar, or button in the list to its entity
const nearby = new IntersectionObserver(
  (changes) => {
    for (const { target, isIntersecting } of changes) if (isIntersecting) drawBars(blockOf.get(target));
  },
  { rootMargin: "50%" },
);

function drawChip(entity) {
  const type = entity.type.length > NAME ? `${entity.type.slice(0, NAME).toWellFormed()}…` : entity.type;
  const chip = createElement("span", `chip c${getColour(entity.type)}`, `${type} `);
  chip.role = "note";
  chip.tabIndex = -1;
  chip.dir = "ltr";
  chip.append(createElement("span", "", entity.score.toFixed(2)));
  chip.ariaLabel = `${entity.type} ${entity.score.toFixed(2)}: ${toOneLine(entity.text)}`;
  entity.chip = chip;
  entityOf.set(chip, entity);
  return chip;
}

/** Draws the bars of a block and places its labels, for the width that it has now. */
function drawBars(block) {
  const { element, words, entities } = block;
  nearby.unobserve(element);
  block.isDrawn = true;
  if (!entities.length) return;
  for (const entity of entities) {
    for (const bar of entity.bars.get(block) ?? []) bar.remove();
    entity.bars.delete(block);
  }
  words.replaceChildren(words.textContent);
  const lines = arrangeBars(block);
  const height = parseFloat(getComputedStyle(element).lineHeight);
  const elements = [];
  let top = 0;
  for (const line of lines) {
    for (const bar of line?.bars ?? []) elements.push(...drawBar(bar, block, top, height + line.lanes[bar.lane]));
    top += height + (line?.lanes.at(-1) ?? 0);
  }
  // An empty element that is lowered by the height of the lanes makes the room for them, in its own line only.
  for (const { offset, lanes } of lines.filter(Boolean).reverse()) {
    const strut = createElement("span");
    strut.style.verticalAlign = `-${lanes.at(-1)}px`;
    words.firstChild.splitText(offset).before(strut);
  }
  words.after(...elements.reverse()); // inner ones above outer ones, for the pointer
}

/**
 * Returns the lines of a block: for each that has entities its bars, where its lanes start and the last one ends, and an
 * offset at which an element can be inserted into that line. Inner entities are nearer to the text; nothing overlaps.
 */
function arrangeBars({ element, words, from: start, entities }) {
  const text = words.firstChild;
  const { left: edge, top, width } = element.getBoundingClientRect();
  const { lineHeight, direction } = getComputedStyle(element);
  const measure = createRuler(text, edge, top, parseFloat(lineHeight));
  const lines = [];
  for (const entity of [...entities].sort((a, b) => a.to - b.to || b.from - a.from || a.score - b.score)) {
    const parts = measure(Math.max(0, entity.from - start), Math.min(text.length, entity.to - start));
    const starts = entity.block.element === element;
    if (!parts.length && starts) parts.push({ line: 0, left: 0, right: 0 });
    let chip = starts ? entity.chip : null;
    for (const [number, own] of Map.groupBy(parts, ({ line }) => line)) {
      const bar = { entity, parts: own, chip, lane: 0 };
      bar.left = Math.min(...own.map(({ left }) => left));
      bar.right = Math.max(...own.map(({ right }) => right));
      if (chip) {
        const size = Math.ceil(chip.getBoundingClientRect().width);
        bar.label = Math.max(0, Math.min(direction === "rtl" ? bar.right - size : bar.left, width - size));
        bar.left = Math.min(bar.left, bar.label);
        bar.right = Math.max(bar.right, bar.label + size);
        chip = null;
      }
      lines[number] ??= { bars: [], offset: findInLine(text, number, measure), lanes: [0] };
      chooseLane(bar, lines[number].bars);
      lines[number].bars.push(bar);
    }
  }
  for (const { bars, lanes } of lines.filter(Boolean)) {
    const last = Math.max(...bars.map(({ lane }) => lane));
    for (let lane = 0; lane <= last; lane++) {
      const hasLabel = bars.some((bar) => bar.lane === lane && bar.chip);
      lanes.push(lanes[lane] + (hasLabel ? LANE : THIN_LANE));
    }
  }
  return lines;
}

/** Returns a function that measures a span of a text node: its parts in each line, as distances from `edge`. */
function createRuler(text, edge, top, height) {
  const range = document.createRange();
  return (from, to) => {
    range.setStart(text, from);
    range.setEnd(text, Math.max(from, to));
    const parts = [];
    for (const box of range.getClientRects()) {
      const line = Math.max(0, Math.floor(((box.top + box.bottom) / 2 - top) / height));
      const [left, right, last] = [box.left - edge, box.right - edge, parts.at(-1)];
      if (last?.line === line && Math.abs(left - last.right) < 1) last.right = right;
      else parts.push({ line, left, right });
    }
    return parts;
  };
}

/** Returns the offset after the first character of a line. */
function findInLine(text, number, measure) {
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((measure(middle, middle + 1)[0]?.line ?? 0) < number) low = middle + 1;
    else high = middle;
  }
  const [first] = new Intl.Segmenter().segment(text.data.slice(low, low + 50));
  return low + (first?.segment.length ?? 0);
}

/** Sets the lane of a bar: the nearest to the text that is free and below those of entities that overlap with it. */
function chooseLane(bar, others) {
  const { from, to } = bar.entity;
  const above = others.filter(({ entity }) => entity.from < to && from < entity.to).map(({ lane }) => lane);
  bar.lane = 1 + Math.max(-1, ...above);
  const isTaken = (other) => other.lane === bar.lane && other.left < bar.right + GAP && bar.left < other.right + GAP;
  while (others.some(isTaken)) bar.lane++;
}

/** Places the label of a bar below it, and returns the elements of its parts. */
function drawBar({ entity, parts, chip, label }, block, top, height) {
  if (chip) {
    chip.style.left = `${label}px`;
    chip.style.top = `${top + height}px`;
  }
  const elements = parts.map(({ left, right }) => {
    const element = createElement("span", `bar c${getColour(entity.type)}${entity.shown ? "" : " off"}`);
    element.style.left = `${left}px`;
    element.style.top = `${top}px`;
    element.style.width = `${right - left}px`;
    element.style.height = `${height}px`;
    entityOf.set(element, entity);
    return element;
  });
  entity.bars.set(block, [...(entity.bars.get(block) ?? []), ...elements]);
  return elements;
}

const getBars = (entity) => [...entity.bars.values()].flat();

function focusChip(entity) {
  if (!entity.block.isDrawn) drawBars(entity.block);
  entity.chip.focus();
}

/** Draws all bars again, for another width, when they come near the screen. */
function redraw() {
  for (const element of document.querySelectorAll(".block")) {
    blockOf.get(element).isDrawn = false;
    nearby.observe(element);
  }
}

/** Returns the list in parts; the browser lays out only those that are on the screen. */
function drawRows(entities) {
  const parts = [];
  for (let at = 0; at < entities.length; at += ROWS) {
    const part = createElement("tbody");
    part.role = "rowgroup";
    part.append(...entities.slice(at, at + ROWS).map(drawRow));
    parts.push(part);
  }
  return parts;
}

/** Returns a part of the list with the heading of a model's entities. */
function drawHeadingRow(model, entities) {
  const [part, row, heading] = [createElement("tbody"), createElement("tr"), drawHeading("th", model, entities)];
  [part.role, row.role, heading.role, heading.scope] = ["rowgroup", "row", "rowheader", "rowgroup"];
  part.className = "heading-row";
  row.append(heading);
  part.append(row);
  return part;
}

function drawRow(entity) {
  const row = createElement("tr", `c${getColour(entity.type)}`);
  const button = createElement("button", "", toOneLine(entity.text));
  button.type = "button";
  button.tabIndex = -1;
  for (const content of [button, createElement("span", "name", entity.type), entity.score.toFixed(4), `${entity.start}–${entity.end}`]) {
    const cell = row.insertCell();
    cell.role = "cell";
    cell.append(content);
  }
  row.role = "row"; // also on narrow screens, where it is not displayed as a row
  entity.row = row;
  entity.button = button;
  entityOf.set(button, entity);
  return row;
}

function show(answer, milliseconds) {
  hideTip();
  const { text, models, entities } = answer;
  answer.byType = new Map();
  for (const type of [...new Set(entities.map((entity) => entity.type))].sort()) {
    getColour(type);
    answer.byType.set(type, []);
  }
  for (const entity of entities) answer.byType.get(entity.type).push(entity);
  answer.byScore = [...entities].sort((a, b) => a.score - b.score);
  answer.shown = entities.length;
  page.answer = answer;

  nearby.disconnect();
  $("drawn").replaceChildren();
  $("rows").replaceChildren($("rows").tHead);
  for (const model of models) {
    const own = entities.filter((entity) => entity.model === model);
    if (model) $("drawn").append(drawHeading("h3", model, own));
    if (model) $("rows").append(drawHeadingRow(model, own));
    $("drawn").append(...drawText(text, own));
    $("rows").append(...drawRows(own));
  }
  $("list").hidden = entities.length === 0;
  drawTypes(answer);
  entities.forEach(showOrHide);
  applyFilters(countBelow(answer.byScore, page.least));
  checkShape(answer.shape);
  $("result").hidden = false;
  $("copied").textContent = "";
  say(summarise(entities, milliseconds));
}

function summarise(entities, milliseconds) {
  const found = describeCount(entities).replace("no", "No");
  return `${found} found in ${(milliseconds / 1000).toFixed(2)} s.`;
}

/** Returns the heading of a model's entities. */
function drawHeading(name, model, entities) {
  return createElement(name, "", `${model}: ${describeCount(entities)}`);
}

function drawTypes(answer) {
  const labels = [...answer.byType.keys()].map((type) => {
    const label = createElement("label", `c${getColour(type)}`);
    const box = createElement("input");
    box.type = "checkbox";
    box.checked = !page.off.has(type);
    box.value = type;
    label.append(box, createElement("span", "name", type), createElement("span", "number"));
    return label;
  });
  $("types").replaceChildren(...labels);
}

// --------------------------------------------------------------------------------------- filters

/** Shows or hides an entity according to the filters. */
function showOrHide(entity) {
  const shown = entity.score >= page.least && !page.off.has(entity.type);
  if (shown === entity.shown) return;
  entity.shown = shown;
  entity.row.hidden = !shown;
  for (const element of [entity.chip, ...getBars(entity)]) element.classList.toggle("off", !shown);
  page.answer.shown += shown ? 1 : -1;
}

/** Applies the minimum confidence; `from` is the number of entities that were below the last one. */
function applyFilters(from) {
  const { byScore } = page.answer;
  const cut = countBelow(byScore, page.least);
  for (const entity of byScore.slice(Math.min(from, cut), Math.max(from, cut))) showOrHide(entity);
  page.answer.cut = cut;
  showCounts();
}

/** Returns the number of entities with a lower score. */
function countBelow(byScore, least) {
  let [low, high] = [0, byScore.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (byScore[middle].score < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

function switchTypes(types, on) {
  for (const type of types) {
    if (on) page.off.delete(type);
    else page.off.add(type);
    page.answer.byType.get(type).forEach(showOrHide);
  }
  showCounts();
}

function showCounts() {
  const { entities, byType, shown, byScore, cut } = page.answer;
  const numbers = new Map([...byType.keys()].map((type) => [type, 0]));
  for (let at = cut; at < byScore.length; at++) numbers.set(byScore[at].type, numbers.get(byScore[at].type) + 1);
  for (const label of $("types").children) label.lastChild.textContent = numbers.get(label.firstChild.value);
  $("count").textContent = shown === entities.length ? `${shown} shown` : `${shown} of ${entities.length} shown`;
  $("empty").hidden = shown > 0;
  $("empty").textContent = entities.length
    ? "All entities are hidden: lower the minimum confidence or select more types."
    : "The model found no entities in this text.";
  hideTip();
  keepTabStop($("drawn"), (entity) => entity.chip);
  keepTabStop($("rows"), (entity) => entity.button);
}

// ------------------------------------------------------------------------------- keyboard navigation

/** Keeps exactly one label (or row) in the Tab order; the arrow keys move from there. */
function keepTabStop(container, handle) {
  const stop = container.querySelector("[tabindex='0']");
  if (stop && entityOf.get(stop).shown) return;
  if (stop) stop.tabIndex = -1;
  const first = page.answer.entities.find((entity) => entity.shown);
  if (first) handle(first).tabIndex = 0;
}

function addArrowKeys(container, focus) {
  container.addEventListener("keydown", (event) => {
    const entity = entityOf.get(event.target);
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: "first", End: "last" }[event.key];
    if (!entity || !move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const shown = page.answer.entities.filter((other) => other.shown);
    const at = shown.indexOf(entity);
    const to = { first: 0, last: shown.length - 1 }[move] ?? at + move;
    if (shown[to]) focus(shown[to]);
  });
  container.addEventListener("focusin", (event) => {
    const entity = entityOf.get(event.target);
    if (!entity) return;
    const stop = container.querySelector("[tabindex='0']");
    if (stop) stop.tabIndex = -1;
    event.target.tabIndex = 0;
    showTip([entity], event.target);
  });
  container.addEventListener("focusout", hideTip);
}

// --------------------------------------------------------------------------------------------------------- tooltip

let described = []; // entities in the tooltip; the first is highlighted
let hiding = 0;

function highlight(entity, on) {
  for (const element of [entity.chip, entity.row, ...getBars(entity)]) element.classList.toggle("lit", on);
}

/** Shows type, confidence and offsets of entities (inner ones first), and highlights the first. */
function showTip(entities, anchor) {
  hideTip();
  described = entities;
  highlight(entities[0], true);
  const tip = $("tip");
  tip.replaceChildren(
    ...entities.map((entity) => {
      const about = createElement("p");
      about.append(createElement("b", "", `${entity.type}, confidence ${entity.score.toFixed(4)}`));
      about.append(createElement("span", "", `characters ${entity.start}–${entity.end}`));
      about.append(createElement("bdi", "", toOneLine(entity.text)));
      return about;
    }),
  );
  anchor.setAttribute("aria-describedby", "tip");
  tip.hidden = false;
  placeTip(tip, anchor);
}

function placeTip(tip, anchor) {
  const near = anchor.getClientRects()[0] ?? anchor.getBoundingClientRect();
  const { width, height } = tip.getBoundingClientRect();
  const room = document.documentElement.clientWidth - width - 8;
  const [above, below] = [near.top - height - 8, near.bottom + 8];
  const fitsBelow = below + height <= document.documentElement.clientHeight;
  const top = above < 0 || (anchor.matches(".chip") && fitsBelow) ? below : above; // not on the text above a label
  tip.style.left = `${Math.max(8, Math.min(near.left, room)) + window.scrollX}px`;
  tip.style.top = `${top + window.scrollY}px`;
}

function hideTip() {
  clearTimeout(hiding);
  if (!described.length) return;
  highlight(described[0], false);
  described = [];
  $("tip").hidden = true;
  document.querySelector("[aria-describedby='tip']")?.removeAttribute("aria-describedby");
}

function onPointer(event) {
  const elements = document.elementsFromPoint(event.clientX, event.clientY).filter((element) => entityOf.has(element));
  const chip = elements.find((element) => element.matches(".chip"));
  const entities = chip ? [entityOf.get(chip)] : elements.map((element) => entityOf.get(element));
  if (!entities.length) {
    onPointerLeave(event);
    return;
  }
  clearTimeout(hiding);
  const isSame = entities.length === described.length && entities.every((entity, at) => entity === described[at]);
  if (!isSame) showTip(entities, chip ?? elements[0]);
}

// The tooltip stays while the pointer moves to it or is on it; after a touch, until the next one.
function onPointerLeave(event) {
  if (event.pointerType === "touch" && event.type === "pointerleave") return;
  clearTimeout(hiding);
  hiding = setTimeout(() => {
    hideTip();
    const entity = entityOf.get(document.activeElement);
    if (entity?.shown && document.activeElement.matches(":focus-visible")) showTip([entity], document.activeElement);
  }, 120);
}

// ------------------------------------------------------------------------------------------ messages

let saying = 0;

function say(message) {
  clearTimeout(saying);
  $("status").textContent = message;
}

/** Shows a message when no other follows for a moment: screen readers should not read each step of a slider. */
function sayLater(message) {
  clearTimeout(saying);
  saying = setTimeout(() => say(message()), 400);
}

function showError(message) {
  $("error").textContent = message;
  say("");
}

function showPending(on) {
  $("progress").hidden = !on;
  $("stop").hidden = !on;
  $("find").textContent = on ? "Finding…" : "Find entities";
  $("result").setAttribute("aria-busy", String(on));
  if (!on) return;
  $("error").textContent = "";
  say("Finding entities…");
}

function askForToken() {
  $("access").hidden = false;
  say("This server requires an access token.");
}

/** Lists the models of the server, if it has several, and describes the chosen one. */
function showModel() {
  const { models = [] } = page.model;
  if (models.length > 1 && $("models").hidden) {
    $("models").hidden = false;
    for (const { name } of models) {
      $("first").add(new Option(name));
      $("second").add(new Option(name));
    }
    chooseModels(page.models);
  }
  const model = getChosen();
  const facts = { Model: model.name, Method: model.method, Engine: model.engine, Language: model.language };
  const items = Object.entries(facts)
    .filter(([, value]) => value)
    .map(([name, value]) => {
      const fact = createElement("div");
      fact.append(createElement("dt", "", name), createElement("dd", "", String(value)));
      return fact;
    });
  $("model").replaceChildren(...items);
  $("model").hidden = items.length === 0;
  if (page.model.version) $("version").textContent = `Fencepost ${page.model.version}`;
  if (model.language) for (const id of ["text", "drawn", "rows"]) $(id).lang = model.language;
  for (const type of model.types ?? []) getColour(type);
  $("own-shape").hidden = ["nested", "flat"].includes(model.select);
  $("own-shape").lastElementChild.textContent = model.select ?? "Default of the model";
  if (page.shape === null) checkShape(null);
}

/** Returns the description of the model that answers, or of the first of two. */
const getChosen = () => page.model?.models?.find(({ name }) => name === $("first").value) ?? page.model;

/** Returns the names of the models that answer; undefined is the only model of the server. */
function getModels() {
  const [first, second] = [$("first").value || undefined, $("second").value];
  return second && second !== first ? [first, second] : [first];
}

function chooseModels([first, second]) {
  const has = (name) => [...$("first").options].some(({ value }) => value === name);
  if (has(first)) $("first").value = first;
  $("second").value = has(second) ? second : "";
}

/** Selects how entities may overlap; by default as in the model's setting. */
function checkShape(shape) {
  page.shape = shape;
  const select = getChosen()?.select;
  const own = page.model && !["nested", "flat"].includes(select) ? "own" : select;
  document.querySelector(`#shapes input[value="${shape ?? own ?? "nested"}"]`).checked = true;
}

// ------------------------------------------------------------------------------------------------------- copying

/** Returns the visible entities, with the options for which the server returns the same. */
function collectVisible() {
  const { text, flat, entities, byType } = page.answer;
  const off = [...byType.keys()].some((type) => page.off.has(type));
  const types = off ? [...byType.keys()].filter((type) => !page.off.has(type)) : undefined;
  const shown = entities.filter((entity) => entity.shown);
  return {
    text,
    options: { min_confidence: page.least, types, flat },
    entities: shown.map(({ start, end, type, score, text: covered, model }) => ({ start, end, type, score, text: covered, model })),
  };
}

function copy() {
  const visible = collectVisible();
  writeClipboard(JSON.stringify(visible, null, 2), `${describeCount(visible.entities)} as JSON`);
}

/** Copies a link that restores the text and the filters. They are in its fragment, which browsers do not send. */
function copyLink() {
  const { text, shape, models } = page.answer;
  if (text.length > LINK) {
    $("copied").textContent = `This text is too long for a link: at most ${LINK.toLocaleString("en")} characters.`;
    return;
  }
  const state = new URLSearchParams({ text, min: page.least });
  for (const type of page.off) state.append("hide", type);
  if (shape) state.set("overlaps", shape);
  for (const model of models) if (model) state.append("model", model);
  writeClipboard(String(new URL(`#${state}`, location)), "the link, which contains the text");
}

/** Sets the text and the filters from the fragment of the page's address; returns whether it has a text. */
function restore() {
  const state = new URLSearchParams(location.hash.slice(1));
  const text = state.get("text") ?? "";
  if (!text.trim()) return false;
  $("text").value = text;
  $("least").value = Number(state.get("min")) || 0;
  page.off = new Set(state.getAll("hide"));
  page.models = state.getAll("model");
  chooseModels(page.models);
  const shape = state.get("overlaps");
  checkShape(["nested", "flat"].includes(shape) ? shape : null);
  onSlide();
  return true;
}

async function writeClipboard(text, what) {
  let success = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // The clipboard needs HTTPS or localhost; otherwise only a selection can be copied.
    const button = document.activeElement;
    const field = document.body.appendChild(createElement("textarea"));
    field.value = text;
    field.select();
    success = document.execCommand("copy");
    field.remove();
    button.focus();
  }
  $("copied").textContent = success ? `Copied ${what}.` : "The browser does not allow copying.";
}

// ------------------------------------------------------------------------------------------------- user actions

function find() {
  const text = $("text").value.toWellFormed();
  if (text.trim()) {
    ask(text);
    return;
  }
  cancel();
  showError("There is no text yet. Enter or paste one, or use an example.");
  $("text").focus();
}

/** Cancels the current request and restores the state before it. */
function cancel() {
  page.running?.abort();
  page.running = null;
  page.lastText = page.answer?.text ?? null;
  if (page.answer) checkShape(page.answer.shape);
  showPending(false);
}

function stop() {
  cancel();
  say("Stopped.");
  $("find").focus();
}

function addExamples() {
  let own = "";
  const take = (text) => {
    const current = $("text").value;
    if (current.trim() && !Object.values(EXAMPLES).includes(current)) own = current;
    back.hidden = !own || text === own;
    $("text").value = text;
    find();
  };
  const addButton = (name, text) => {
    const button = createElement("button", "", name);
    button.type = "button";
    button.addEventListener("click", () => take(text()));
    $("examples").append(button);
    return button;
  };
  for (const [name, text] of Object.entries(EXAMPLES)) addButton(name, () => text);
  const back = addButton("Back to your text", () => own);
  back.hidden = true;
}

function onToken(event) {
  event.preventDefault();
  const token = $("token").value.trim();
  if (!/^[\x21-\x7e]+$/.test(token)) {
    showError("A token has no spaces and no special characters. Check whether it was pasted completely.");
    return;
  }
  page.token = token;
  $("error").textContent = "";
  $("access").hidden = true;
  $("token").value = "";
  loadModel();
  if (page.refused === null) {
    $("text").focus();
    return;
  }
  $("find").focus();
  checkShape(page.refused.shape);
  if ($("text").value.trim()) find();
  else ask(page.refused.text);
}

let frame = 0;

function onSlide() {
  page.least = Number($("least").value);
  $("least-value").textContent = page.least.toFixed(2);
  if (!page.answer || frame) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    if (!page.answer) return;
    applyFilters(page.answer.cut);
    sayLater(() => `${$("count").textContent}.`);
  });
}

function toggle(types, on) {
  switchTypes(types, on);
  for (const label of $("types").children) label.firstChild.checked = !page.off.has(label.firstChild.value);
  sayLater(() => `${$("count").textContent}.`);
}

function start() {
  addExamples();
  $("find").addEventListener("click", find);
  $("stop").addEventListener("click", stop);
  $("clear").addEventListener("click", () => {
    $("text").value = "";
    $("text").focus();
  });
  $("text").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    find();
  });
  $("access").addEventListener("submit", onToken);
  $("least").addEventListener("input", onSlide);
  $("shapes").addEventListener("change", (event) => {
    page.shape = event.target.value;
    if (page.running || page.answer) ask(page.lastText);
  });
  $("models").addEventListener("change", () => {
    showModel();
    if (page.running || page.answer) ask(page.lastText);
  });
  $("types").addEventListener("change", (event) => toggle([event.target.value], event.target.checked));
  $("all").addEventListener("click", () => toggle(page.answer.byType.keys(), true));
  $("none").addEventListener("click", () => toggle(page.answer.byType.keys(), false));
  $("copy").addEventListener("click", copy);
  $("copy-link").addEventListener("click", copyLink);
  addArrowKeys($("drawn"), focusChip);
  addArrowKeys($("rows"), (entity) => entity.button.focus());
  $("rows").addEventListener("click", (event) => {
    const entity = entityOf.get(event.target);
    if (entity) focusChip(entity);
  });
  for (const name of ["pointermove", "pointerdown"]) $("drawn").addEventListener(name, onPointer);
  $("drawn").addEventListener("pointerleave", onPointerLeave);
  $("tip").addEventListener("pointerenter", () => clearTimeout(hiding));
  $("tip").addEventListener("pointerleave", onPointerLeave);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTip();
  });
  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest("#drawn, #tip")) hideTip();
  });
  window.addEventListener("resize", hideTip);
  new ResizeObserver(redraw).observe($("drawn"));
  window.addEventListener("hashchange", () => {
    if (restore()) find();
  });
  openText();
}

/** Shows the text of the link, or else an example, and analyses it unless the user is faster. */
async function openText() {
  const isLink = restore();
  if (!isLink && !$("text").value.trim()) $("text").value = EXAMPLES.News;
  const text = $("text").value.toWellFormed();
  await loadModel();
  if (!page.model) page.refused ??= { text, shape: page.shape };
  else if (!page.running && !page.answer) ask(text, !isLink);
}

start();
