import { compute } from './compute.js';

export default {
  async test() {
    console.log(await compute());
  },
};
