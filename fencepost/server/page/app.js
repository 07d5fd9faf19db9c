// The page of `fencepost serve`: asks the server for the entities of a text, draws them, and filters what it drew.
// Text becomes part of the page as text only, never as markup.

const LANES = 8; // as many as style.css has
const COLOURS = 10; // as many as style.css has
const BLOCKS = 20000; // lines of text that may each have an element of their own
const PARAGRAPH = 1500; // characters after which a line without a break is drawn as two
const ROWS = 50; // rows of the list that are laid out together
const NAME = 28; // characters of a type's name that a label shows
const EXCERPT = 200; // characters of an entity that the list and the tip show

const EXAMPLES = {
  News: `The mayor of Lisbon and the head of the University of Porto's medical school met reporters outside City Hall on Monday. Maria Teixeira, the school's first female dean, said that the Portuguese Ministry of Health would pay for a new children's hospital near the Douro River.

Two members of the opposition Green Party left the room before she finished.`,
  Biomedical: `Binding of the transcription factor to the enhancer of the human interleukin-2 receptor gene was lost in T lymphocytes of the patients, but not in mouse spleen cells. Adding the NF-kappa B inhibitor to breast cancer cells with a mutation in the BRCA1 gene promoter lowered the expression of the BRCA1 protein.`,
  Sport: `The captain of the Norwegian women's football team thanked the coach of her first club, a small team from the north coast of Norway. Her brother, a doctor at the Oslo University Hospital, watched the final in a bar in Sydney with thousands of other fans.`,
};

const $ = (id) => document.getElementById(id);

const page = {
  model: null, // what /v1/model says
  token: null, // never kept longer than the page
  running: null, // the AbortController of the question that is being answered
  asked: null, // the text that was last asked about
  refused: null, // the text and the shape of a question that was answered with 401
  answer: null, // what is drawn
  shape: null, // nested, flat or own, once the user has chosen
  least: 0,
  off: new Set(), // types that are switched off
  colours: new Map(), // type to number of its colour
};

// ---------------------------------------------------------------------------------------------- asking the server

/** An answer other than the one asked for, in words for the user. */
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
    throw new Refusal("The server cannot be reached. See whether it is still running, then try again.");
  }
  if (!response.ok) throw new Refusal(await words(response), response.status);
  try {
    return await response.json();
  } catch {
    throw new Refusal("The server's answer broke off or is not JSON. Try again.");
  }
}

async function words(response) {
  let detail = null;
  try {
    ({ detail } = await response.json());
  } catch {
    // An answer without JSON has its status to go by.
  }
  const said = typeof detail === "string" && detail ? ` The server says: ${detail}` : "";
  switch (response.status) {
    case 401:
      return page.token ? "The server does not know this token." : "This server asks for a token before it answers.";
    case 413:
      return `${tooLarge()}${said}`;
    case 422:
      return `The server did not accept the question: ${fields(detail) || "it does not say why"}`;
    case 429:
      return `The server has too many requests at the moment. Try again ${wait(response)}.`;
    case 503:
      return `The server cannot answer at the moment. Try again ${wait(response)}.${said}`;
    default:
      return `The server failed with status ${response.status}.${said}`;
  }
}

/** "in 7 seconds", or "later" where the server does not say when. */
function wait(response) {
  const after = response.headers.get("Retry-After") ?? "";
  if (!/^\d+$/.test(after)) return "later";
  return `in ${after} ${after === "1" ? "second" : "seconds"}`;
}

/** What is wrong with which field, from the `detail` of a 422. */
function fields(detail) {
  if (typeof detail === "string") return detail;
  if (!Array.isArray(detail)) return "";
  return detail
    .map(({ loc, msg }) => {
      const field = (Array.isArray(loc) ? loc : []).filter((part, at) => at > 0 || part !== "body").join(".");
      return field ? `${field}: ${msg}` : String(msg);
    })
    .join("; ");
}

/** With `bytes`, the body was too large to be sent; else the server refused it for its bytes or its words. */
function tooLarge(bytes) {
  const { body, words } = page.model?.limits ?? {};
  const most = body ? ` It takes at most ${body.toLocaleString("en")} bytes` : "";
  const ofWords = most && words && !bytes ? ` and ${words.toLocaleString("en")} words` : "";
  const size = most && bytes ? `, and this text makes ${bytes.toLocaleString("en")}` : "";
  return `The text is too large for this server.${most}${ofWords}${size}${most ? "." : ""} Find entities in one part after the other.`;
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
  const mine = new AbortController();
  page.running = mine;
  page.asked = text;
  const flat = page.shape === null || page.shape === "own" ? undefined : page.shape === "flat";
  showPending(true);
  try {
    const body = JSON.stringify({ text, flat });
    const most = page.model?.limits?.body;
    const bytes = new TextEncoder().encode(body).length;
    if (most && bytes > most) throw new Refusal(tooLarge(bytes), 413);
    const began = performance.now();
    const found = await request("v1/entities", body, mine.signal);
    if (page.running !== mine) return;
    show(understand(text, flat, found), performance.now() - began);
    page.refused = null;
  } catch (error) {
    if (page.running !== mine) return;
    if (!(error instanceof Refusal)) throw error;
    refuse(error, text);
  } finally {
    if (page.running === mine) {
      page.running = null;
      showPending(false);
    }
  }
}

/** Says why there is no answer. What is drawn stays only if it is of the same text. */
function refuse(refusal, text) {
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

// ---------------------------------------------------------------------------------- what an answer means for a text

/** The place in a JavaScript string of each of its characters, which the server counts as code points. */
function places(text) {
  const at = new Uint32Array(text.length + 1);
  let count = 0;
  let place = 0;
  for (const character of text) {
    at[count++] = place;
    place += character.length;
  }
  at[count] = place;
  return at.subarray(0, count + 1);
}

/** The answer as the page uses it: entities by their end, inner ones first, each with its place and its lane. */
function understand(text, flat, found) {
  const raw = found?.results?.[0]?.entities;
  const at = places(text);
  const sound = ({ start, end, type, score }) =>
    Number.isInteger(start) && Number.isInteger(end) && start >= 0 && start < end && end < at.length &&
    typeof type === "string" && Number.isFinite(score);
  if (!Array.isArray(raw) || !raw.every((entity) => entity && sound(entity))) {
    throw new Refusal("The server's answer is not one that this page understands. Are both of the same version?");
  }
  const entities = raw.map(({ start, end, type, score }) => ({
    start, end, type, score, from: at[start], to: at[end], text: text.slice(at[start], at[end]),
    lane: -1, pieces: [], shown: true, chip: null, row: null,
  }));
  entities.sort((a, b) => a.end - b.end || b.start - a.start || a.score - b.score);
  assignLanes(entities);
  return { text, flat, shape: page.shape, entities, byScore: [], byType: new Map(), cut: 0, shown: 0 };
}

/**
 * Gives each entity the lane nearest to the text that is free all along it. By order of ends, inner ones come first,
 * so they are nearer. What is too deep keeps lane -1: it has a label but no line.
 */
function assignLanes(entities) {
  const ends = new Array(LANES).fill(0);
  for (const entity of entities) {
    entity.lane = ends.findIndex((end) => end <= entity.start);
    if (entity.lane >= 0) ends[entity.lane] = entity.end;
  }
}

// ------------------------------------------------------------------------------------------------ drawing an answer

function element(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

function colour(type) {
  if (!page.colours.has(type)) page.colours.set(type, page.colours.size % COLOURS);
  return page.colours.get(type);
}

const short = (text) => (text.length > EXCERPT ? `${text.slice(0, EXCERPT).toWellFormed()}…` : text);
const oneLine = (text) => short(text).replace(/\s+/g, " ");

/**
 * Where the drawing is cut into blocks, as [end of one, start of the next]: at every line break, or where there are
 * very many, at some of them; and at the end of a sentence, or else of a word, in lines that are very long. The browser
 * lays out only the blocks that are on the screen.
 */
function cutsOf(text) {
  let lines = [];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines.push(at);
  const step = Math.ceil(lines.length / BLOCKS);
  if (step > 1) lines = lines.filter((_, number) => number % step === 0);
  const cuts = [];
  let start = 0;
  for (const end of [...lines, text.length]) {
    for (let cut = longCut(text, start, end); cut < end; cut = longCut(text, cut, end)) cuts.push([cut, cut]);
    if (end < text.length) cuts.push([end, end + 1]);
    start = end + 1;
  }
  return cuts;
}

/** The end of the first part of a very long line, or of the line itself. */
function longCut(text, start, end) {
  const least = start + PARAGRAPH;
  if (least + PARAGRAPH >= end) return end;
  const near = text.slice(least, least + PARAGRAPH);
  const sentence = /[.!?…]["'”’)\]]*\s+|[。！？]["”’」』）]*/.exec(near) ?? /\s+/.exec(near);
  return sentence ? least + sentence.index + sentence[0].length : longCut(text, least, end);
}

/** The text as blocks of pieces, cut wherever an entity begins or ends, with a label where one ends. */
function drawText(text, entities) {
  const starting = [...entities].sort((a, b) => a.from - b.from);
  const cuts = cutsOf(text);
  const drawn = document.createDocumentFragment();
  const open = new Array(LANES).fill(null);
  let block = newBlock();
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
    for (; starting[nextStart]?.from === at; nextStart++) {
      const entity = starting[nextStart];
      if (entity.lane >= 0) open[entity.lane] = entity;
    }
  };
  for (;;) {
    const stops = [starting[nextStart]?.from, entities[nextEnd]?.to, cuts[nextCut]?.[0]];
    const to = Math.min(...stops.map((stop) => stop ?? text.length));
    if (to > at) block.add(text.slice(at, to), open);
    at = to;
    closeEntities();
    openEntities();
    if (cuts[nextCut]?.[0] === at) {
      drawn.append(block.close());
      block = newBlock(cuts[nextCut][1] === at ? "block continued" : "block");
      at = cuts[nextCut++][1];
    } else if (at === text.length) {
      drawn.append(block.close());
      return drawn;
    }
  }
}

/** A block of the drawing: it learns how many lanes it needs, and about how high it will be. */
function newBlock(className = "block") {
  const block = element("div", className);
  let [deepest, length] = [0, 0];
  return {
    add(content, open, className = "") {
      const depth = open.findLastIndex((entity) => entity !== null) + 1;
      block.append(depth || className ? newPiece(content, open, depth, className) : content);
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

/** A piece of text or a label, with a line in each lane where an entity is open. */
function newPiece(content, open, depth, className) {
  const piece = element("span", `${depth ? `piece d${depth}` : ""} ${className}`.trim());
  const over = open.filter((entity) => entity !== null);
  for (const entity of over) {
    piece.style.setProperty(`--l${entity.lane}`, `var(--c${colour(entity.type)})`);
    entity.pieces.push(piece);
  }
  covering.set(piece, over);
  piece.append(content);
  return piece;
}

const covering = new WeakMap(); // piece of text to the entities that it is part of, inner ones first
const entityOf = new WeakMap(); // label or button in the list to its entity

function drawChip(entity) {
  const type = entity.type.length > NAME ? `${entity.type.slice(0, NAME).toWellFormed()}…` : entity.type;
  const chip = element("span", `chip c${colour(entity.type)}${entity.lane < 0 ? " deep" : ""}`, `${type} `);
  chip.role = "note";
  chip.tabIndex = -1;
  chip.append(element("span", "", entity.score.toFixed(2)));
  chip.ariaLabel = `${entity.type} ${entity.score.toFixed(2)}`;
  entity.chip = chip;
  entityOf.set(chip, entity);
  return chip;
}

/** The list, in parts: the browser lays out only those that are on the screen. */
function drawRows(entities) {
  const parts = [$("rows").firstElementChild];
  for (let at = 0; at < entities.length; at += ROWS) {
    const part = element("tbody");
    part.role = "rowgroup";
    part.append(...entities.slice(at, at + ROWS).map(drawRow));
    parts.push(part);
  }
  return parts;
}

function drawRow(entity) {
  const row = element("tr", `c${colour(entity.type)}`);
  const button = element("button", "", oneLine(entity.text));
  button.type = "button";
  button.tabIndex = -1;
  for (const content of [button, element("span", "name", entity.type), entity.score.toFixed(4), `${entity.start}–${entity.end}`]) {
    const cell = row.insertCell();
    cell.role = "cell";
    cell.append(content);
  }
  row.role = "row"; // which it stays where a narrow screen shows it as something else
  entity.row = row;
  entity.button = button;
  entityOf.set(button, entity);
  return row;
}

function show(answer, milliseconds) {
  hideTip();
  const { text, entities } = answer;
  for (const type of [...new Set(entities.map((entity) => entity.type))].sort()) {
    colour(type);
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
  entities.forEach(refresh);
  filter(below(answer.byScore, page.least));
  checkShape(answer.shape);
  $("result").hidden = false;
  say(summary(entities, milliseconds));
}

function summary(entities, milliseconds) {
  const took = `in ${(milliseconds / 1000).toFixed(2)} s`;
  if (!entities.length) return `No entities found, ${took}.`;
  const deep = entities.filter((entity) => entity.lane < 0).length;
  const note = deep ? ` ${deep} of them lie under so many others that they have a label but no line.` : "";
  return `${entities.length} ${entities.length === 1 ? "entity" : "entities"} found ${took}.${note}`;
}

function drawTypes(answer) {
  const made = [...answer.byType.keys()].map((type) => {
    const label = element("label", `c${colour(type)}`);
    const box = element("input");
    box.type = "checkbox";
    box.checked = !page.off.has(type);
    box.value = type;
    label.append(box, element("span", "name", type), element("span", "number"));
    return label;
  });
  $("types").replaceChildren(...made);
}

// --------------------------------------------------------------------------------------- filtering what is drawn

/** Shows or hides one entity, if that changes anything. */
function refresh(entity) {
  const shown = entity.score >= page.least && !page.off.has(entity.type);
  if (shown === entity.shown) return;
  entity.shown = shown;
  entity.chip.hidden = !shown;
  entity.row.hidden = !shown;
  const line = shown ? `var(--c${colour(entity.type)})` : "";
  for (const piece of entity.pieces) piece.style.setProperty(`--l${entity.lane}`, line);
  page.answer.shown += shown ? 1 : -1;
}

/** Applies the filters after a change: `from` is where in the order of scores the last cut was. */
function filter(from) {
  const { byScore } = page.answer;
  const cut = below(byScore, page.least);
  for (const entity of byScore.slice(Math.min(from, cut), Math.max(from, cut))) refresh(entity);
  page.answer.cut = cut;
  showCounts();
}

/** How many entities have less than this score. */
function below(byScore, least) {
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
    page.answer.byType.get(type).forEach(refresh);
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
    ? "No entity is left: lower the confidence or switch types on."
    : "The model found no entity in this text.";
  hideTip();
  keepTabStop($("drawn"), entities, (entity) => entity.chip);
  keepTabStop($("rows"), page.answer.reading, (entity) => entity.button);
}

// ------------------------------------------------------------------------------- going through entities by keyboard

/** Of all labels (or rows) one takes part in the Tab order; the arrow keys go from there. */
function keepTabStop(container, entities, handle) {
  const stop = container.querySelector("[tabindex='0']");
  if (stop && entityOf.get(stop).shown) return;
  if (stop) stop.tabIndex = -1;
  const first = entities.find((entity) => entity.shown);
  if (first) handle(first).tabIndex = 0;
}

function goThrough(container, order, handle) {
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

// --------------------------------------------------------------------------------------------------------- the tip

let lit = null;
let hiding = 0;

function light(entity, on) {
  for (const piece of entity.pieces) {
    piece.classList.toggle("lit", on);
    piece.style.setProperty("--lit", on ? `var(--c${colour(entity.type)})` : "");
  }
  entity.chip.classList.toggle("lit", on);
  entity.row.classList.toggle("lit", on);
}

/** Says of entities (inner ones first) what they are; the first is lit up in text and list. */
function showTip(entities, anchor) {
  hideTip();
  lit = entities[0];
  light(lit, true);
  const tip = $("tip");
  tip.replaceChildren(
    ...entities.map((entity) => {
      const about = element("p");
      about.append(element("b", "", `${entity.type}, confidence ${entity.score.toFixed(4)}`));
      about.append(element("span", "", `characters ${entity.start}–${entity.end}`));
      about.append(element("bdi", "", oneLine(entity.text)));
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
  light(lit, false);
  lit = null;
  $("tip").hidden = true;
  document.querySelector("[aria-describedby='tip']")?.removeAttribute("aria-describedby");
}

function pointAt(event) {
  clearTimeout(hiding);
  const chip = event.target.closest(".chip");
  const piece = event.target.closest(".piece");
  const entities = chip ? [entityOf.get(chip)] : (covering.get(piece) ?? []).filter((entity) => entity.shown);
  if (entities.length) showTip(entities, chip ?? piece);
}

// The tip stays while the pointer is on its way to it or on it; after a touch, until the next one.
function pointAway(event) {
  if (event.pointerType === "touch") return;
  clearTimeout(hiding);
  hiding = setTimeout(() => {
    hideTip();
    const entity = entityOf.get(document.activeElement);
    if (entity?.shown && document.activeElement.matches(":focus-visible")) showTip([entity], document.activeElement);
  }, 120);
}

// ------------------------------------------------------------------------------------------ what the page says

let saying = 0;

function say(message) {
  clearTimeout(saying);
  $("status").textContent = message;
}

/** For what changes at every step of a slider: heard once, when it has come to rest. */
function sayAtRest(message) {
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
  say("This server asks for a token.");
}

function showModel(model) {
  const facts = { Model: model.name, Method: model.method, Engine: model.engine, Language: model.language };
  const made = Object.entries(facts)
    .filter(([, value]) => value)
    .map(([name, value]) => {
      const fact = element("div");
      fact.append(element("dt", "", name), element("dd", "", String(value)));
      return fact;
    });
  $("model").replaceChildren(...made);
  $("model").hidden = made.length === 0;
  if (model.version) $("version").textContent = `Fencepost ${model.version}`;
  if (model.language) for (const id of ["text", "drawn", "rows"]) $(id).lang = model.language;
  for (const type of model.types ?? []) colour(type);
  if (!["nested", "flat"].includes(model.select)) {
    $("own-shape").hidden = false;
    $("own-shape").lastElementChild.textContent = model.select ?? "Model's own";
  }
  if (page.shape === null) checkShape(null);
}

/** Shows how overlaps are dealt with; before the user has chosen, as the model does. */
function checkShape(shape) {
  page.shape = shape;
  const own = page.model && !["nested", "flat"].includes(page.model.select) ? "own" : page.model?.select;
  document.querySelector(`#shapes input[value="${shape ?? own ?? "nested"}"]`).checked = true;
}

// ------------------------------------------------------------------------------------------------------- copying

/** What is visible, with the options that make the server answer the same. */
function visible() {
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
  const written = JSON.stringify(visible(), null, 2);
  const count = page.answer.shown;
  const copied = await toClipboard(written);
  say(copied ? `Copied ${count} ${count === 1 ? "entity" : "entities"} as JSON.` : "The browser does not let this page copy.");
}

async function toClipboard(written) {
  try {
    await navigator.clipboard.writeText(written);
    return true;
  } catch {
    // Without HTTPS or localhost there is no such clipboard, only the selection.
  }
  const field = document.body.appendChild(element("textarea"));
  field.value = written;
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  $("copy").focus();
  return copied;
}

// ------------------------------------------------------------------------------------------------- what users do

function find() {
  const text = $("text").value.toWellFormed();
  if (text.trim()) {
    ask(text);
    return;
  }
  forget();
  showError("There is no text yet. Write or paste one, or take an example.");
  $("text").focus();
}

/** Gives up the question that is being answered; all is as before it. */
function forget() {
  page.running?.abort();
  page.running = null;
  page.asked = page.answer?.text ?? null;
  if (page.answer) checkShape(page.answer.shape);
  showPending(false);
}

function stop() {
  forget();
  say("Stopped.");
  $("find").focus();
}

function offerExamples() {
  let own = "";
  const take = (text) => {
    const written = $("text").value;
    if (written.trim() && !Object.values(EXAMPLES).includes(written)) own = written;
    back.hidden = !own || text === own;
    $("text").value = text;
    find();
  };
  const button = (name, text) => {
    const made = element("button", "", name);
    made.type = "button";
    made.addEventListener("click", () => take(text()));
    $("examples").append(made);
    return made;
  };
  for (const [name, text] of Object.entries(EXAMPLES)) button(name, () => text);
  const back = button("Back to your text", () => own);
  back.hidden = true;
}

function useToken(event) {
  event.preventDefault();
  const token = $("token").value.trim();
  if (!/^[\x21-\x7e]+$/.test(token)) {
    showError("A token has no spaces and no letters with accents. See whether it was pasted as a whole.");
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

function slide() {
  page.least = Number($("least").value);
  $("least-value").textContent = page.least.toFixed(2);
  if (!page.answer || frame) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    if (!page.answer) return;
    filter(page.answer.cut);
    sayAtRest(() => `${$("count").textContent}.`);
  });
}

function toggle(types, on) {
  switchTypes(types, on);
  for (const label of $("types").children) label.firstChild.checked = !page.off.has(label.firstChild.value);
  sayAtRest(() => `${$("count").textContent}.`);
}

function start() {
  offerExamples();
  $("find").addEventListener("click", find);
  $("stop").addEventListener("click", stop);
  $("text").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    find();
  });
  $("access").addEventListener("submit", useToken);
  $("least").addEventListener("input", slide);
  $("shapes").addEventListener("change", (event) => {
    page.shape = event.target.value;
    if (page.running || page.answer) ask(page.asked);
  });
  $("types").addEventListener("change", (event) => toggle([event.target.value], event.target.checked));
  $("all").addEventListener("click", () => toggle(page.answer.byType.keys(), true));
  $("none").addEventListener("click", () => toggle(page.answer.byType.keys(), false));
  $("copy").addEventListener("click", copy);
  goThrough($("drawn"), () => page.answer.entities, (entity) => entity.chip);
  goThrough($("rows"), () => page.answer.reading, (entity) => entity.button);
  $("rows").addEventListener("click", (event) => entityOf.get(event.target)?.chip.focus());
  $("drawn").addEventListener("pointerover", pointAt);
  $("drawn").addEventListener("pointerout", pointAway);
  $("tip").addEventListener("pointerenter", () => clearTimeout(hiding));
  $("tip").addEventListener("pointerleave", pointAway);
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
