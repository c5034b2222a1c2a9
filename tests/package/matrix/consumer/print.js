import { compute } from './compute.js';

console.log(await compute());
