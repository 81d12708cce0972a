// Keeps the files of the page, so that it opens without network. A new build has another VERSION and starts anew.

const VERSION = "VERSION";
const PAGE = ["./", "page.js", "geometry.js", "worker.js", "settings.json", "sentences.txt"];

self.addEventListener("install", (event) => {
  self.skipWaiting();
  event.waitUntil(caches.open(VERSION).then((cache) => cache.addAll(PAGE)));
});

self.addEventListener("activate", (event) => {
  const tidy = async () => {
    for (const name of await caches.keys()) if (name !== VERSION) await caches.delete(name);
    await self.clients.claim();
  };
  event.waitUntil(tidy());
});

self.addEventListener("fetch", (event) => {
  if (event.request.method !== "GET" || !event.request.url.startsWith(self.registration.scope)) return;
  const answer = async () => {
    const cache = await caches.open(VERSION);
    const kept = await cache.match(event.request, { ignoreVary: true });
    if (kept) return kept;
    const response = await fetch(event.request);
    if (response.status === 200) event.waitUntil(cache.put(event.request, response.clone()).catch(() => {}));
    return response;
  };
  event.respondWith(answer());
});
