import { load } from 'simdnorm';
import { bitHash } from './bits.js';

export const compute = async () => bitHash(await load());
