// SPDX-License-Identifier: Apache-2.0
// Unpacks the report, draws every section that it has something for, and offers it for download.

async function unpack(id) {
  const text = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; ++k) bytes[k] = text.charCodeAt(k);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip')))
      .text();
}

function offerDownload(text) {
  document.getElementById('download').addEventListener('click', () => {
    const address = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
    element('a', {href: address, download: 'report.json'}).click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  });
}

const SECTIONS = [
  drawMatrix, drawHeatMap, drawMemory, drawTimings, drawAb, drawMutants, drawTrends,
  drawChunkErrors, drawPeakRatios, drawEnvironment
];

async function main() {
  startTheme();
  const text = await unpack('report-data');
  offerDownload(text);
  const page = {report: JSON.parse(text), ...JSON.parse(await unpack('context-data'))};
  const nodes = SECTIONS.map((draw) => draw(page)).filter(Boolean);
  const trials = nodes.find((node) => node.id === 'trials');
  drawVerdict(page, (status) => trials.showStatus(status));
  document.getElementById('contents')
      .append(...nodes.map(
          (node) => element('a', {href: '#' + node.id}, node.querySelector('h2').textContent)));
  document.getElementById('sections').replaceChildren(...nodes);
  applyTheme();
  document.documentElement.dataset.ready = 'true';
}

main().catch((error) => {
  document.getElementById('sections')
      .replaceChildren(element('p', {class: 'notice'}, 'This page could not be drawn: ' + error));
  throw error;
});
