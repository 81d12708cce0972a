// What the visitor sees: progress, search, results, the map. The model is in worker.js, the mathematics in geometry.js.

import { clusters, nearest, principalPlane } from "./geometry.js";

const MOST = { lines: 2000, characters: 500_000, results: 10 };
const WIDTH = 640, HEIGHT = 420, EDGE = 24;
const LABEL = { members: 3, letters: 18, width: 210, height: 22 }; // a group of fewer sentences has none
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const at = (id) => document.getElementById(id);

const waiting = new Map(); // id of a request to the worker -> {resolve, reject, progress}
const known = new Map(); // text -> its embedding
let sentences = []; // {text, language, vector, x, y}
let labels = []; // {text, x, y} of the groups of sentences that mean the same
let plane, place; // vector -> [x, y] in the principal plane; -> [x, y] in the map
let selected = -1;
let worker, settings;
let working = false;

run(start);

async function start() {
  settings = await (await fetch("settings.json")).json();
  at("model").textContent = settings.model;
  await keepFiles();
  const ready = openModel();
  at("lines").value = await (await fetch("sentences.txt")).text();
  await ready;
  for (const name of ["go", "change"]) at(name).disabled = false;
  await use(at("lines").value);
  await search(at("query").value);
}

/** Let sw.js keep the files; where the browser forbids it (a private window), the page works without. */
async function keepFiles() {
  if (!navigator.serviceWorker) return;
  try {
    await navigator.serviceWorker.register("sw.js");
    if (navigator.serviceWorker.controller) return;
    const taken = new Promise((resolve) => (navigator.serviceWorker.oncontrollerchange = resolve));
    await Promise.race([taken, new Promise((resolve) => setTimeout(resolve, 3000))]);
  } catch (error) {
    console.warn(error.message);
  }
}

/** Start the worker; resolves when the model is open. */
function openModel() {
  worker = new Worker("worker.js", { type: "module" });
  return new Promise((resolve, reject) => {
    worker.onerror = (event) => reject(new Error(event.message || "The browser cannot run the model."));
    worker.onmessage = ({ data }) => {
      if (data.loaded) show(`Loading the model, ${Math.round(data.total / 1e6)} MB`, data.loaded / data.total);
      else if (data.ready) resolve();
      else if (data.id === undefined) reject(new Error(data.error));
      else answer(data);
    };
  });
}

function answer({ id, done, vectors, error }) {
  const request = waiting.get(id);
  if (done) return request.progress(done);
  waiting.delete(id);
  if (error) request.reject(new Error(error));
  else request.resolve(vectors);
}

/** Embeddings of texts; each text is computed once. */
async function embed(texts) {
  const fresh = [...new Set(texts)].filter((text) => !known.has(text));
  if (fresh.length) {
    const id = Math.random();
    const progress = (done) => show(`Reading ${fresh.length} sentences`, done / fresh.length);
    const vectors = await new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject, progress });
      worker.postMessage({ id, texts: fresh });
    });
    fresh.forEach((text, i) => known.set(text, vectors[i]));
  }
  return texts.map((text) => known.get(text));
}

/** "French: Le chat dort." -> its text and language; a line that names no language is all text. */
function parse(line) {
  const [, name, text] = line.match(/^([^:：]{2,40})[:：]\s*(\S.*)$/) ?? [];
  return settings.languages.includes(name?.toLowerCase()) ? { text, language: name } : { text: line, language: "" };
}

/** Make these lines what is searched. */
async function use(text) {
  const lines = text.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
  if (lines.length < 3) throw new Error("Write at least three sentences, one per line.");
  if (lines.length > MOST.lines || text.length > MOST.characters)
    throw new Error(`This page takes at most ${MOST.lines} lines and ${MOST.characters} characters.`);
  const parsed = lines.map(parse);
  const vectors = await embed(parsed.map((sentence) => sentence.text));
  sentences = parsed.map((sentence, i) => ({ ...sentence, vector: vectors[i] }));
  plane = principalPlane(vectors);
  const points = vectors.map(plane);
  const [left, right, low, high] = [0, 1].flatMap((axis) => {
    const values = points.map((point) => point[axis]);
    return [Math.min(...values), Math.max(...values)];
  });
  const scale = (value, from, to, size) => EDGE + ((value - from) / (to - from || 1)) * (size - 2 * EDGE);
  place = (vector) => {
    const [x, y] = plane(vector);
    return [scale(x, left, right, WIDTH), HEIGHT - scale(y, low, high, HEIGHT)];
  };
  for (const sentence of sentences) [sentence.x, sentence.y] = place(sentence.vector);
  labels = groupLabels(vectors);
  selected = -1;
  at("space").hidden = false;
  at("count").textContent = `${sentences.length} sentences`;
  at("results").replaceChildren();
  draw();
}

/** What stands beside a group on the map: the words of its first sentence; labels that would cover another are left out. */
function groupLabels(vectors) {
  const free = [];
  const groups = clusters(vectors, settings.close).filter((group) => group.length >= LABEL.members);
  for (const group of groups.sort((a, b) => b.length - a.length)) {
    const mean = (axis) => group.reduce((sum, i) => sum + sentences[i][axis], 0) / group.length;
    const half = LABEL.width / 2;
    const x = Math.min(Math.max(mean("x"), half), WIDTH - half), y = Math.max(mean("y"), LABEL.height);
    const text = sentences[group[0]].text;
    const short = text.length > LABEL.letters ? `${text.slice(0, LABEL.letters).trimEnd()}…` : text;
    const covers = free.some((label) => Math.abs(label.x - x) < LABEL.width && Math.abs(label.y - y) < LABEL.height);
    if (!covers) free.push({ text: short, x, y });
  }
  return free;
}

/** Show the sentences nearest to a text. */
async function search(line) {
  const { text } = parse(line.trim());
  if (!text) throw new Error("Write something to search for.");
  const [vector] = await embed([text]);
  const hits = nearest(vector, sentences.map((sentence) => sentence.vector), MOST.results);
  at("results").replaceChildren(...hits.map(({ index, cosine }, i) => {
    const { text, language } = sentences[index];
    const button = make("button", { type: "button" });
    button.append(make("b", {}, i + 1), make("span", { dir: "auto" }, text),
      make("span", { class: "number" }, cosine.toFixed(3)), make("small", {}, language));
    button.onclick = () => run(() => searchFor(index));
    button.onfocus = () => select(index);
    const item = make("li");
    item.append(button);
    return item;
  }));
  at("far").hidden = hits[0].cosine >= settings.close;
  draw(hits.map((hit) => hit.index), vector);
}

function searchFor(index) {
  at("query").value = sentences[index].text;
  return search(sentences[index].text);
}

/** Draw the map; hits stand out, and a star marks the query. */
function draw(hits = [], query) {
  const points = sentences.map(({ x, y }, i) =>
    shape("circle", { cx: x, cy: y, ...(hits.includes(i) ? { r: 8, class: "hit" } : { r: 6, opacity: 0.6 }) }));
  const words = labels.map(({ text, x, y }) => shape("text", { x, y, class: "label" }, text));
  at("map").replaceChildren(...points, ...words);
  if (query) {
    const [x, y] = place(query);
    const inside = (value, size) => Math.min(Math.max(value, EDGE / 2), size - EDGE / 2);
    at("map").append(shape("text", { x: inside(x, WIDTH), y: inside(y, HEIGHT) + 7 }, "★"));
  }
  select(selected);
}

/** Mark a sentence on the map and write it below. */
function select(index) {
  at("map").querySelector(".here")?.remove();
  selected = index;
  if (index < 0) return;
  const { x, y, text, language } = sentences[index];
  at("map").append(shape("circle", { cx: x, cy: y, r: 11, class: "here" }));
  at("point").textContent = language ? `${text} (${language})` : text;
}

at("map").onclick = (event) => {
  const { left, top, width } = at("map").getBoundingClientRect();
  const [x, y] = [event.clientX - left, event.clientY - top].map((value) => (value * WIDTH) / width);
  const far = sentences.map((sentence) => Math.hypot(sentence.x - x, sentence.y - y));
  if (far.length) select(far.indexOf(Math.min(...far)));
};

at("map").onkeydown = (event) => {
  if (event.key === "Enter" && selected >= 0) return run(() => searchFor(selected));
  const direction = ARROWS[event.key];
  if (!direction || !sentences.length) return;
  event.preventDefault();
  if (selected < 0) return select(0);
  const here = sentences[selected];
  const cost = sentences.map(({ x, y }) => {
    const along = (x - here.x) * direction[0] + (y - here.y) * direction[1];
    return along > 0.5 ? Math.hypot(x - here.x, y - here.y) * 2 - along : Infinity; // near, and not far to the side
  });
  const best = cost.indexOf(Math.min(...cost));
  if (cost[best] < Infinity) select(best);
};

at("search").onsubmit = (event) => submit(event, () => search(at("query").value));
at("use").onsubmit = (event) => submit(event, async () => {
  await use(at("lines").value);
  await search(at("query").value);
});
at("file").onchange = () => run(async () => {
  const [file] = at("file").files;
  if (file.size > 4 * MOST.characters) throw new Error(`${file.name} is too large: at most ${MOST.characters} characters.`);
  at("lines").value = await file.text();
});

function submit(event, action) {
  event.preventDefault();
  run(action);
}

/** One action at a time; what goes wrong is said on the page. */
async function run(action) {
  if (working) return;
  working = true;
  try {
    await action();
    show("");
  } catch (error) {
    fail(error);
  }
  working = false;
}

/** A line about what goes on, with a bar if it is known how far (0 to 1); an empty line hides both. */
function show(line, share = null) {
  at("loading").hidden = !line;
  at("status").className = "";
  if (at("status").textContent !== line) at("status").textContent = line; // a screen reader reads each change
  at("bar").hidden = share === null;
  if (share !== null) at("bar").value = share;
}

function fail(error) {
  show(error.message);
  at("status").className = "error";
}

function make(name, attributes = {}, text = "", element = document.createElement(name)) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

function shape(name, attributes, text = "") {
  return make(name, attributes, text, document.createElementNS("http://www.w3.org/2000/svg", name));
}
