// A script can require() a module from Node 20.19 on, which newer TypeScripts know where it is nodenext.

import simdnorm = require('simdnorm');

export const y = simdnorm.load().then((sn) => sn.layerNorm(new Float32Array(2)));
