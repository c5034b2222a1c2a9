import { compute } from './compute.js';

addEventListener('message', (event) => {
  const answer = compute().catch((error) => `error: ${error}`);
  event.waitUntil(answer.then((text) => event.source.postMessage(text)));
});
