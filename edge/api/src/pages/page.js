// Keeps the page as it is in the chain: listens to the node's event stream, and when something
// happened that the page shows, fetches the page again and changes what differs. Elements stay the
// same ones, so focus, selection and scroll position stay too. Without this script the page loads
// itself again every few seconds.
'use strict';

const PAUSE_MS = 500; // between two fetches, however much happens
const QUIET_MS = 5000; // fetched after this time even if nothing happened: ages and shares change
const RETRY_MS = 3000; // until the stream is tried again

const { watch, id } = document.body.dataset;
const live = document.getElementById('live');
let source = null;
let fetched = Date.now();
let timer = null;
let isFetching = false;
let isStale = false;

/** Shows whether the page is up to date. */
function tell(state, words) {
  live.dataset.state = state;
  if (live.textContent !== words) live.textContent = words;
}

/** Makes one element like another, changing only what differs. Children with ids keep theirs. */
function change(now, next) {
  if (now.isEqualNode(next)) return;
  for (const { name } of [...now.attributes]) {
    // An open fold is the reader's own doing.
    if (!next.hasAttribute(name) && name !== 'open') now.removeAttribute(name);
  }
  for (const { name, value } of [...next.attributes]) {
    if (now.getAttribute(name) !== value) now.setAttribute(name, value);
  }
  const known = new Map();
  for (const child of now.children) if (child.id) known.set(child.id, child);
  let place = now.firstChild;
  for (const wanted of [...next.childNodes]) {
    const same = wanted.id ? known.get(wanted.id) : fits(place, wanted) ? place : null;
    if (same) {
      if (same === place) place = place.nextSibling;
      else now.insertBefore(same, place);
      if (same.nodeType === Node.ELEMENT_NODE) change(same, wanted);
      else if (same.nodeValue !== wanted.nodeValue) same.nodeValue = wanted.nodeValue;
    } else {
      now.insertBefore(document.importNode(wanted, true), place);
    }
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
}

/** Whether a node without an id can become another one. */
function fits(now, next) {
  return now && !now.id && now.nodeName === next.nodeName;
}

/** Fetches the page and changes what differs. */
async function refresh() {
  isFetching = true;
  isStale = false;
  fetched = Date.now();
  try {
    const asked = { headers: { accept: 'text/html' }, cache: 'no-store' };
    const answer = await fetch(location.href, asked);
    if (answer.ok) {
      const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const [now, then] = [document, next].map((page) => page.getElementById('content'));
      if (now && then) change(now, then);
    }
  } catch {
    tell('lost', 'node is not reached');
  }
  isFetching = false;
  if (isStale) plan(PAUSE_MS);
}

/** Has the page fetched soon, once. */
function plan(pause) {
  isStale = true;
  if (timer !== null || isFetching || document.hidden) return;
  timer = setTimeout(() => {
    timer = null;
    if (!document.hidden) refresh();
  }, Math.max(0, fetched + pause - Date.now()));
}

/** Whether the page shows what an event is about. */
function concerns({ code, details }) {
  if (watch === 'job') return details.job === id;
  if (watch === 'node') return details.node === id || code.startsWith('node_');
  return 'job' in details || 'node' in details;
}

function block(message) {
  const { height } = JSON.parse(message.data);
  tell('live', 'live');
  const shown = document.getElementById('height');
  if (shown) shown.textContent = height.toLocaleString('en-US');
  if (isStale) plan(PAUSE_MS);
  else if (Date.now() - fetched > QUIET_MS) plan(0);
}

function ledger(message) {
  if (concerns(JSON.parse(message.data).event)) isStale = true; // its block follows
}

/** Listens while the page is seen: a browser has few connections to a node, and so has a node. */
function listen() {
  if (source || document.hidden) return;
  source = new EventSource('/events');
  source.addEventListener('block', block);
  source.addEventListener('ledger', ledger);
  source.onerror = () => {
    tell('lost', 'connection lost, trying again');
    leave();
    setTimeout(() => { listen(); plan(PAUSE_MS); }, RETRY_MS);
  };
}

function leave() {
  if (source) source.close();
  source = null;
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden) return leave();
  listen();
  plan(0);
});
addEventListener('pagehide', leave);
tell('wait', 'connecting');
listen();
