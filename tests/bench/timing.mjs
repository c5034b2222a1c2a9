// How long calls take. Ways take turns, so that a machine whose speed drifts is as fast for one as for the other. Free of
// Node's API.

export const settings = {
  /** V8 compiles its best code within these. */
  warmMilliseconds: 80,
  /** A round has as many calls as fill this, which clocks of 5 microseconds measure well enough. */
  roundMilliseconds: 2,
  /** Rounds go on until there are enough, or until the case has had its time and there are enough for quartiles. */
  mostRounds: 31,
  leastRounds: 7,
  caseMilliseconds: 2500,
};

/** To see that everything works. */
export const quickSettings = {
  warmMilliseconds: 8,
  roundMilliseconds: 1,
  mostRounds: 3,
  leastRounds: 3,
  caseMilliseconds: 1,
};

async function timeCalls({ call, isAsync, before }, calls) {
  before?.();
  const begin = performance.now();
  // What isn't waited for must not pay for waiting.
  if (isAsync) for (let i = 0; i < calls; ++i) await call();
  else for (let i = 0; i < calls; ++i) call();
  return performance.now() - begin;
}

/** How many calls fill a round. */
async function warm(way, { warmMilliseconds, roundMilliseconds }) {
  let calls = 1;
  let spent = 0;
  for (;;) {
    const time = await timeCalls(way, calls);
    spent += time;
    if (spent >= warmMilliseconds) return Math.max(1, Math.round((calls * roundMilliseconds) / time));
    if (time < warmMilliseconds / 8) calls *= 2;
  }
}

/** The times of all rounds, in microseconds a call: an array for each way. */
export async function compare(ways, limits) {
  const calls = [];
  for (const way of ways) calls.push(await warm(way, limits));
  const times = ways.map(() => []);
  const begin = performance.now();
  for (let round = 0; round < limits.mostRounds; ++round) {
    if (round >= limits.leastRounds && performance.now() - begin > limits.caseMilliseconds) break;
    for (const [i, way] of ways.entries()) times[i].push(((await timeCalls(way, calls[i])) * 1000) / calls[i]);
  }
  return times;
}

function quantile(values, fraction) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(fraction * (sorted.length - 1) + 0.5)];
}

export function median(values) {
  return quantile(values, 0.5);
}

/** How often b's time is in a's: the median over the rounds, in which they took turns. */
export function ratio(a, b) {
  return median(a.map((time, round) => time / b[round]));
}

export function quartiles(values) {
  return [quantile(values, 0.25), quantile(values, 0.75)];
}
