// The page of `fencepost serve`: requests the entities of a text from the server, draws them, and filters them.
// Text is inserted into the page only as text, never as markup.

const LANES = 8; // as in style.css
const COLOURS = 10; // as in style.css
const BLOCKS = 20000; // maximum number of lines of text with their own element
const PARAGRAPH = 1500; // characters after which a long line is drawn as two
const ROWS = 50; // rows of the list that are laid out together
const NAME = 28; // characters of a type's name in a label
const EXCERPT = 200; // characters of an entity in the list and the tooltip

const EXAMPLES = {
  News: `The mayor of Lisbon and the head of the University of Porto's medical school met reporters outside City Hall on Monday. Maria Teixeira, the school's first female dean, said that the Portuguese Ministry of Health would pay for a new children's hospital near the Douro River.

Two members of the opposition Green Party left the room before she finished.`,
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
  showModel(page.model);
}

async function ask(text) {
  page.running?.abort();
  const controller = new AbortController();
  page.running = controller;
  page.lastText = text;
  const flat = page.shape === null || page.shape === "own" ? undefined : page.shape === "flat";
  showPending(true);
  try {
    const body = JSON.stringify({ text, flat });
    const limit = page.model?.limits?.body;
    const bytes = new TextEncoder().encode(body).length;
    if (limit && bytes > limit) throw new Refusal(describeTooLarge(bytes), 413);
    const start = performance.now();
    const response = await request("v1/entities", body, controller.signal);
    if (page.running !== controller) return;
    show(parseAnswer(text, flat, response), performance.now() - start);
    page.refused = null;
  } catch (error) {
    if (page.running !== controller) return;
    if (!(error instanceof Refusal)) throw error;
    showRefusal(error, text);
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

/** Returns the answer as the page uses it: entities by end, inner ones first, with positions and lanes. */
function parseAnswer(text, flat, response) {
  const raw = response?.results?.[0]?.entities;
  const positions = findPositions(text);
  const isValid = ({ start, end, type, score }) =>
    Number.isInteger(start) && Number.isInteger(end) && start >= 0 && start < end && end < positions.length &&
    typeof type === "string" && Number.isFinite(score);
  if (!Array.isArray(raw) || !raw.every((entity) => entity && isValid(entity))) {
    throw new Refusal("The server's answer is not in the format of this page. Do both have the same version?");
  }
  const entities = raw.map(({ start, end, type, score }) => ({
    start, end, type, score, from: positions[start], to: positions[end],
    text: text.slice(positions[start], positions[end]), lane: -1, pieces: [], shown: true, chip: null, row: null,
  }));
  entities.sort((a, b) => a.end - b.end || b.start - a.start || a.score - b.score);
  assignLanes(entities);
  return { text, flat, shape: page.shape, entities, byScore: [], byType: new Map(), cut: 0, shown: 0 };
}

/**
 * Assigns the lane nearest to the text that is free to each entity. Inner entities come first, since entities are sorted
 * by end, and so are nearer. Entities for which no lane is left keep lane -1: they have a label but no line.
 */
function assignLanes(entities) {
  const ends = new Array(LANES).fill(0);
  for (const entity of entities) {
    entity.lane = ends.findIndex((end) => end <= entity.start);
    if (entity.lane >= 0) ends[entity.lane] = entity.end;
  }
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

/** Returns the text as blocks of segments between the boundaries of entities, with a label at the end of each entity. */
function drawText(text, entities) {
  const byStart = [...entities].sort((a, b) => a.from - b.from);
  const cuts = findCuts(text);
  const fragment = document.createDocumentFragment();
  const open = new Array(LANES).fill(null);
  let block = createBlock();
  let [at, nextStart, nextEnd, nextCut] = [0, 0, 0, 0];

  const closeEntities = () => {
    for (let first = true; entities[nextEnd]?.to === at; first = false) {
      const entity = entities[nextEnd++];
      const last = entities[nextEnd]?.to !== at && /^\p{P}/u.test(text.slice(at, at + 2));
      block.add(drawChip(entity), open, `tail${first ? " first" : ""}${last ? " last" : ""}`);
      if (entity.lane >= 0) open[entity.lane] = null;
    }
  };
  const openEntities = () => {
    for (; byStart[nextStart]?.from === at; nextStart++) {
      const entity = byStart[nextStart];
      if (entity.lane >= 0) open[entity.lane] = entity;
    }
  };
  for (;;) {
    const stops = [byStart[nextStart]?.from, entities[nextEnd]?.to, cuts[nextCut]?.[0]];
    const to = Math.min(...stops.map((stop) => stop ?? text.length));
    if (to > at) block.add(text.slice(at, to), open);
    at = to;
    closeEntities();
    openEntities();
    if (cuts[nextCut]?.[0] === at) {
      fragment.append(block.close());
      block = createBlock(cuts[nextCut][1] === at ? "block continued" : "block");
      at = cuts[nextCut++][1];
    } else if (at === text.length) {
      fragment.append(block.close());
      return fragment;
    }
  }
}

/** Returns a new block of text, which counts its lanes and estimates its height. */
function createBlock(className = "block") {
  const block = createElement("div", className);
  let [deepest, length] = [0, 0];
  return {
    add(content, open, className = "") {
      const depth = open.findLastIndex((entity) => entity !== null) + 1;
      block.append(depth || className ? createSegment(content, open, depth, className) : content);
      deepest = Math.max(deepest, depth);
      length += content.length ?? content.textContent.length;
    },
    close() {
      if (deepest) block.classList.add(`d${deepest}`);
      block.style.containIntrinsicBlockSize = `auto ${(1 + Math.floor(length / 80)) * (1.6 + 0.3 * deepest)}rem`;
      return block;
    },
  };
}

/** Returns a segment of text or a label, with a line in the lane of each entity that covers it. */
function createSegment(content, open, depth, className) {
  const piece = createElement("span", `${depth ? `piece d${depth}` : ""} ${className}`.trim());
  const over = open.filter((entity) => entity !== null);
  for (const entity of over) {
    piece.style.setProperty(`--l${entity.lane}`, `var(--c${getColour(entity.type)})`);
    entity.pieces.push(piece);
  }
  covering.set(piece, over);
  piece.append(content);
  return piece;
}

const covering = new WeakMap(); // segment of text to the entities that cover it, inner ones first
const entityOf = new WeakMap(); // label or button in the list to its entity

function drawChip(entity) {
  const type = entity.type.length > NAME ? `${entity.type.slice(0, NAME).toWellFormed()}…` : entity.type;
  const chip = createElement("span", `chip c${getColour(entity.type)}${entity.lane < 0 ? " deep" : ""}`, `${type} `);
  chip.role = "note";
  chip.tabIndex = -1;
  chip.append(createElement("span", "", entity.score.toFixed(2)));
  chip.ariaLabel = `${entity.type} ${entity.score.toFixed(2)}`;
  entity.chip = chip;
  entityOf.set(chip, entity);
  return chip;
}

/** Returns the list in parts; the browser lays out only those that are on the screen. */
function drawRows(entities) {
  const parts = [$("rows").firstElementChild];
  for (let at = 0; at < entities.length; at += ROWS) {
    const part = createElement("tbody");
    part.role = "rowgroup";
    part.append(...entities.slice(at, at + ROWS).map(drawRow));
    parts.push(part);
  }
  return parts;
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
  const { text, entities } = answer;
  for (const type of [...new Set(entities.map((entity) => entity.type))].sort()) {
    getColour(type);
    answer.byType.set(type, []);
  }
  for (const entity of entities) answer.byType.get(entity.type).push(entity);
  answer.byScore = [...entities].sort((a, b) => a.score - b.score);
  answer.shown = entities.length;
  page.answer = answer;

  $("drawn").replaceChildren(drawText(text, entities));
  answer.reading = [...entities].sort((a, b) => a.start - b.start || b.end - a.end);
  $("rows").replaceChildren(...drawRows(answer.reading));
  $("list").hidden = entities.length === 0;
  drawTypes(answer);
  entities.forEach(showOrHide);
  applyFilters(countBelow(answer.byScore, page.least));
  checkShape(answer.shape);
  $("result").hidden = false;
  say(summarise(entities, milliseconds));
}

function summarise(entities, milliseconds) {
  const duration = `in ${(milliseconds / 1000).toFixed(2)} s`;
  if (!entities.length) return `No entities found ${duration}.`;
  const deep = entities.filter((entity) => entity.lane < 0).length;
  const note = deep ? ` ${deep} of them overlap too many others to have a line, and have only a label.` : "";
  return `${entities.length} ${entities.length === 1 ? "entity" : "entities"} found ${duration}.${note}`;
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
  entity.chip.hidden = !shown;
  entity.row.hidden = !shown;
  const line = shown ? `var(--c${getColour(entity.type)})` : "";
  for (const piece of entity.pieces) piece.style.setProperty(`--l${entity.lane}`, line);
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
  keepTabStop($("drawn"), entities, (entity) => entity.chip);
  keepTabStop($("rows"), page.answer.reading, (entity) => entity.button);
}

// ------------------------------------------------------------------------------- keyboard navigation

/** Keeps exactly one label (or row) in the Tab order; the arrow keys move from there. */
function keepTabStop(container, entities, handle) {
  const stop = container.querySelector("[tabindex='0']");
  if (stop && entityOf.get(stop).shown) return;
  if (stop) stop.tabIndex = -1;
  const first = entities.find((entity) => entity.shown);
  if (first) handle(first).tabIndex = 0;
}

function addArrowKeys(container, order, handle) {
  container.addEventListener("keydown", (event) => {
    const entity = entityOf.get(event.target);
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: "first", End: "last" }[event.key];
    if (!entity || !move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const shown = order().filter((other) => other.shown);
    const at = shown.indexOf(entity);
    const to = { first: 0, last: shown.length - 1 }[move] ?? at + move;
    if (shown[to]) handle(shown[to]).focus();
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

let lit = null;
let hiding = 0;

function highlight(entity, on) {
  for (const piece of entity.pieces) {
    piece.classList.toggle("lit", on);
    piece.style.setProperty("--lit", on ? `var(--c${getColour(entity.type)})` : "");
  }
  entity.chip.classList.toggle("lit", on);
  entity.row.classList.toggle("lit", on);
}

/** Shows type, confidence and offsets of entities (inner ones first), and highlights the first. */
function showTip(entities, anchor) {
  hideTip();
  lit = entities[0];
  highlight(lit, true);
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
  const above = near.top - height - 8;
  const top = above >= 0 ? above : near.bottom + 8;
  tip.style.left = `${Math.max(8, Math.min(near.left, room)) + window.scrollX}px`;
  tip.style.top = `${top + window.scrollY}px`;
}

function hideTip() {
  clearTimeout(hiding);
  if (!lit) return;
  highlight(lit, false);
  lit = null;
  $("tip").hidden = true;
  document.querySelector("[aria-describedby='tip']")?.removeAttribute("aria-describedby");
}

function onPointerOver(event) {
  clearTimeout(hiding);
  const chip = event.target.closest(".chip");
  const piece = event.target.closest(".piece");
  const entities = chip ? [entityOf.get(chip)] : (covering.get(piece) ?? []).filter((entity) => entity.shown);
  if (entities.length) showTip(entities, chip ?? piece);
}

// The tooltip stays while the pointer moves to it or is on it; after a touch, until the next one.
function onPointerOut(event) {
  if (event.pointerType === "touch") return;
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

function showModel(model) {
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
  if (model.version) $("version").textContent = `Fencepost ${model.version}`;
  if (model.language) for (const id of ["text", "drawn", "rows"]) $(id).lang = model.language;
  for (const type of model.types ?? []) getColour(type);
  if (!["nested", "flat"].includes(model.select)) {
    $("own-shape").hidden = false;
    $("own-shape").lastElementChild.textContent = model.select ?? "Default of the model";
  }
  if (page.shape === null) checkShape(null);
}

/** Selects how entities may overlap; by default as in the model's setting. */
function checkShape(shape) {
  page.shape = shape;
  const own = page.model && !["nested", "flat"].includes(page.model.select) ? "own" : page.model?.select;
  document.querySelector(`#shapes input[value="${shape ?? own ?? "nested"}"]`).checked = true;
}

// ------------------------------------------------------------------------------------------------------- copying

/** Returns the visible entities, with the options for which the server returns the same. */
function collectVisible() {
  const { text, flat, entities, byType } = page.answer;
  const off = [...byType.keys()].some((type) => page.off.has(type));
  const types = off ? [...byType.keys()].filter((type) => !page.off.has(type)) : undefined;
  const shown = page.answer.reading.filter((entity) => entity.shown);
  return {
    text,
    options: { min_confidence: page.least, types, flat },
    entities: shown.map(({ start, end, type, score, text: covered }) => ({ start, end, type, score, text: covered })),
  };
}

async function copy() {
  const text = JSON.stringify(collectVisible(), null, 2);
  const count = page.answer.shown;
  const success = await writeClipboard(text);
  say(success ? `Copied ${count} ${count === 1 ? "entity" : "entities"} as JSON.` : "The browser does not allow copying.");
}

async function writeClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // The clipboard needs HTTPS or localhost; otherwise only a selection can be copied.
  }
  const field = document.body.appendChild(createElement("textarea"));
  field.value = text;
  field.select();
  const success = document.execCommand("copy");
  field.remove();
  $("copy").focus();
  return success;
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
  $("types").addEventListener("change", (event) => toggle([event.target.value], event.target.checked));
  $("all").addEventListener("click", () => toggle(page.answer.byType.keys(), true));
  $("none").addEventListener("click", () => toggle(page.answer.byType.keys(), false));
  $("copy").addEventListener("click", copy);
  addArrowKeys($("drawn"), () => page.answer.entities, (entity) => entity.chip);
  addArrowKeys($("rows"), () => page.answer.reading, (entity) => entity.button);
  $("rows").addEventListener("click", (event) => entityOf.get(event.target)?.chip.focus());
  $("drawn").addEventListener("pointerover", onPointerOver);
  $("drawn").addEventListener("pointerout", onPointerOut);
  $("tip").addEventListener("pointerenter", () => clearTimeout(hiding));
  $("tip").addEventListener("pointerleave", onPointerOut);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTip();
  });
  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest("#drawn, #tip")) hideTip();
  });
  window.addEventListener("resize", hideTip);
  loadModel();
}

start();
