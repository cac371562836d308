// SPDX-License-Identifier: Apache-2.0
// Order of drawing: the verdict and the trials at once, then every other section that the report
// has data for, with a pause in between, so that a large report can be read while the rest is
// drawn.

const SECTIONS = [
  drawSearch, drawHeatMap, drawMemory, drawTimings, drawAb, drawMutants, drawTrends, drawChunkErrors,
  drawPeakRatios, drawEnvironment
];

const pause = () => new Promise((resume) => setTimeout(resume));

function addSection(node) {
  document.getElementById('sections').append(node);
  document.getElementById('contents')
      .append(element('a', {href: '#' + node.id}, node.querySelector('h2').textContent));
}

async function main() {
  startTheme();
  offerDownload();
  const page = await readPage();
  document.getElementById('sections').replaceChildren();
  const trials = drawMatrix(page);
  drawVerdict(page, (status) => trials.showStatus(status));
  if (trials) addSection(trials);
  for (const draw of SECTIONS) {
    await pause();
    const node = draw(page);
    if (node) addSection(node);
  }
  applyTheme();
  document.documentElement.dataset.ready = 'true';
}

main().catch((error) => {
  document.getElementById('sections')
      .replaceChildren(element('p', {class: 'notice'}, 'This page could not be drawn: ' + error));
  throw error;
});
