navigator.serviceWorker.onmessage = ({ data }) => {
  document.title = data;
};
try {
  await navigator.serviceWorker.register('service-worker.js', { type: 'module' });
  const { active } = await navigator.serviceWorker.ready;
  active.postMessage('compute');
} catch (error) {
  document.title = `error: ${error}`;
}
