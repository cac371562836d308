// SPDX-License-Identifier: Apache-2.0
// Memory at the peak, by tag, for the implementations of a case on a grid, and the predicted peak.

const MOST_TAGS = 7;  // the others are one

/// Finds the rank and phase with the highest peak of every trial that has memory.
function memoryBars(report, text, grid) {
  return report.trials
      .filter(
          (trial) =>
              caseText(trial) === text && gridText(trial.grid) === grid && trial.memory.length > 0)
      .map((trial) => ({implementation: trial.implementation, record: peakMemory(trial)}));
}

const inputBytes = (record) => record.measured_peak_with_inputs_bytes - record.measured_peak_bytes;
const predictedWithInputs = (record) => record.predicted_peak_bytes + inputBytes(record);

/// Returns the largest tags, and "other".
function tagsOf(bars) {
  const totals = new Map();
  for (const {record} of bars) {
    for (const [tag, bytes] of Object.entries(record.by_tag_bytes))
      totals.set(tag, (totals.get(tag) ?? 0) + bytes);
  }
  const tags =
      [...totals].filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1]).map(([tag]) => tag);
  return {named: tags.slice(0, MOST_TAGS), others: tags.slice(MOST_TAGS)};
}

function memoryChart(bars) {
  const {named, others} = tagsOf(bars);
  const bytesOf = (record, tags) => sum(tags.map((tag) => record.by_tag_bytes[tag] ?? 0));
  const groups = named.map((tag) => ({label: tag, tags: [tag]}));
  if (others.length > 0) groups.push({label: `${others.length} others`, tags: others});
  const predictions = overlay('predictions', (context, scales) => bars.forEach(({record}, k) => {
    if (record.predicted_peak_bytes === null) return;
    const x = scales.x.getPixelForValue(predictedWithInputs(record)),
          y = scales.y.getPixelForValue(k);
    drawLine(context, cssColour('--card'), 6, [[x, y - 13], [x, y + 13]]);
    drawLine(context, cssColour('--ink'), 3, [[x, y - 13], [x, y + 13]]);
  }));
  const most = Math.max(...bars.map(
      ({record}) => Math.max(record.measured_peak_with_inputs_bytes, predictedWithInputs(record))));
  return {
    type: 'bar',
    data: {
      labels: bars.map((bar) => rowLabel(bar.implementation)),
      datasets: groups.map(({label, tags}, k) => ({
                             label,
                             data: bars.map(({record}) => bytesOf(record, tags)),
                             backgroundColor: PALETTE[k],
                             borderColor: cssColour('--card'),
                             borderWidth: ({raw}) => (raw > 0.01 * most ? {right: 1} : 0),
                             maxBarThickness: 20
                           }))
    },
    options: {
      indexAxis: 'y',
      scales: {
        x: {
          stacked: true,
          max: 1.02 * most,
          title: axisTitle('bytes at the peak, inputs included'),
          ticks: {
            callback: (value) => formatBytes(value),
            includeBounds: false,
            stepSize: 2 ** Math.ceil(Math.log2(most / (narrow.matches ? 3 : 8)))
          }
        },
        y: {stacked: true, ticks: {autoSkip: false}}
      },
      plugins: {
        legend: {position: 'bottom', labels: {boxWidth: 14}},
        tooltip:
            {callbacks: {label: (item) => `${item.dataset.label}: ${formatBytes(item.parsed.x)}`}}
      },
    },
    plugins: [predictions],
  };
}

function memoryBarsTable(bars) {
  return plainTable(
      [
        'implementation', 'measured', 'predicted', 'measured / predicted', 'inputs', 'rank, phase',
        'at the peak'
      ],
      bars.map(
          ({implementation, record}) =>
              [implementation, formatBytes(record.measured_peak_bytes),
               formatBytes(record.predicted_peak_bytes),
               record.predicted_peak_bytes > 0 ?
                   (record.measured_peak_bytes / record.predicted_peak_bytes).toFixed(3) :
                   '-',
               formatBytes(inputBytes(record)), `${record.rank}, ${record.phase}`,
               element(
                   'td', {class: 'wrap'},
                   Object.entries(record.by_tag_bytes)
                       .filter(([, bytes]) => bytes > 0)
                       .sort((a, b) => b[1] - a[1])
                       .map(([tag, bytes]) => `${tag} ${formatBytes(bytes)}`)
                       .join(', '))]),
      {class: 'data'});
}

function drawMemory({report}) {
  const withMemory = report.trials.filter((trial) => trial.memory.length > 0);
  if (withMemory.length === 0) return null;
  const node = section(
      'memory', 'Memory at the peak',
      'The rank and phase with the highest peak. A vertical bar stands where the ' +
          'implementation said that the peak would be. In the table measured and predicted are ' +
          'without inputs.');
  const byCase = groupBy(withMemory, caseText);
  const gridsOf = (text) => unique(byCase.get(text).map((trial) => gridText(trial.grid)));
  const cases = casesOf(report).filter(({value}) => byCase.has(value));
  const state = {text: cases[0].value, grid: gridsOf(cases[0].value)[0]};
  let bars = memoryBars(report, state.text, state.grid);
  const box = new ChartBox(
      'Memory at the peak by tag; the table below has the same numbers',
      () => 50 + rowsHeight(bars.length), () => memoryChart(bars));
  const table = element('div');
  const grids = element('span');
  const fill = () => {
    bars = memoryBars(report, state.text, state.grid);
    table.replaceChildren(memoryBarsTable(bars));
  };
  const show = () => {
    fill();
    box.redraw();
  };
  const offerGrids = () =>
      grids.replaceChildren(choice('Grid', gridsOf(state.text), state.grid, (value) => {
        state.grid = value;
        show();
      }));
  node.append(element('div', {class: 'toolbar'}, longChoice('Case', cases, state.text, (value) => {
                        state.text = value;
                        if (!gridsOf(value).includes(state.grid)) state.grid = gridsOf(value)[0];
                        offerGrids();
                        show();
                      }), grids), box.node, table);
  offerGrids();
  fill();
  return node;
}
