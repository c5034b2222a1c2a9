import { createServer, preview } from 'vite';

export interface Site {
  url: string;
  close(): Promise<unknown>;
}

const local = { port: 0, host: '127.0.0.1' };
// Not as for an application of one page: a file that is missing is a 404.
const plain = { configFile: false, appType: 'mpa', logLevel: 'error' } as const;

/** Plain files, of which index.html is the page. */
export async function serve(folder: string, policy?: string): Promise<Site> {
  const headers = policy ? { 'Content-Security-Policy': policy } : {};
  const server = await preview({ ...plain, root: folder, build: { outDir: '.' }, preview: { ...local, headers } });
  return { url: server.resolvedUrls?.local[0] as string, close: () => server.close() };
}

/** Vite's development server, as `vite` starts it. */
export async function develop(folder: string): Promise<Site> {
  const server = await createServer({ configFile: false, logLevel: 'error', root: folder, server: local });
  await server.listen();
  return { url: server.resolvedUrls?.local[0] as string, close: () => server.close() };
}

/** A page with nothing but a script. */
export function html(script: string): string {
  return `<!doctype html><title>waiting</title>${script}\n`;
}
