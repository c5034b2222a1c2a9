import { compute } from './compute.js';

compute().then(postMessage, (error) => postMessage(`error: ${error}`));
