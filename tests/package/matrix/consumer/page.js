import { compute } from './compute.js';

compute().then(
  (hash) => {
    document.title = hash;
  },
  (error) => {
    document.title = `error: ${error}`;
  },
);
