// What the DOM has can be the source of the module.

import { load } from 'simdnorm';

await load({ wasm: new URL('simdnorm.wasm', 'https://example.org') });
await load({ wasm: fetch('simdnorm.wasm') });
await load({ wasm: await WebAssembly.compile(new Uint8Array(8)) });
await load({ wasm: WebAssembly.compileStreaming(fetch('simdnorm.wasm')) });
await load({ wasm: new Response() });
