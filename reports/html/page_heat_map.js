// SPDX-License-Identifier: Apache-2.0
// Costs of the grids: one TP x CP map an implementation, all on one scale of colour, the value as
// text in every cell. Cells that did not run or are wrong are hatched and show the reason.

const BASELINE = 'per_sequence';
const ties = (value, best) => Math.abs(value - best) <= 0.01 * best;

/// Quantities of a cell: {value, label, format, of(cell), speedup}; of() is null when not known.
function heatQuantities(report) {
  const quantities = [];
  const caches = unique(report.timings.map((timing) => timing.cache));
  for (const cache of caches) {
    const suffix = caches.length > 1 ? ', ' + cache : '';
    quantities.push({
      value: 'time ' + cache,
      label: 'time' + suffix,
      format: formatTime,
      of: (cell) => cell.timed.get(cache)?.median_ns ?? null
    });
    quantities.push({
      value: 'speedup ' + cache,
      label: 'speed-up' + suffix,
      format: formatSpeedup,
      speedup: true,
      of: (cell) => cell.timed.get(cache)?.speedup ?? null
    });
  }
  if (caches.length === 0) {
    quantities.push(
        {value: 'time', label: 'time of one run', format: formatTime, of: (cell) => cell.once});
    quantities.push({
      value: 'speedup',
      label: 'speed-up of one run',
      format: formatSpeedup,
      speedup: true,
      of: (cell) => (cell.once && cell.baseline?.once ? cell.baseline.once / cell.once : null)
    });
  }
  if (report.trials.some((trial) => trial.memory.length > 0)) {
    quantities.push(
        {value: 'memory', label: 'peak memory', format: formatBytes, of: (cell) => cell.memory});
    quantities.push(
        {value: 'wire', label: 'wire bytes', format: formatBytes, of: (cell) => cell.wire});
  }
  return quantities;
}

/// Collects the cells of a case by implementation and grid, from trials and from timings.
function heatCells(report, text) {
  const cells = new Map();
  const cellOf = (implementation, grid) => {
    const key = implementation + '|' + grid;
    if (!cells.has(key))
      cells.set(key, {
        implementation,
        grid,
        ...gridParts(grid),
        status: 'passed',
        reason: '',
        timed: new Map(),
        once: null,
        memory: null,
        wire: null
      });
    return cells.get(key);
  };
  for (const trial of report.trials.filter((candidate) => caseText(candidate) === text)) {
    const cell = cellOf(trial.implementation, gridText(trial.grid));
    cell.status = trial.status;
    cell.reason = trial.reason;
    if (trial.status !== 'passed') continue;
    cell.once = verifiedTime(trial);
    cell.memory = peakMemory(trial)?.measured_peak_bytes ?? null;
    cell.wire = payloadBytes(trial);
  }
  for (const timing of report.timings.filter((candidate) => candidate.case.text === text)) {
    for (const row of timing.rows.filter((candidate) => candidate.phase === 'forward_backward')) {
      const cell = cellOf(row.implementation, timing.grid);
      if (row.status === 'timed' || row.status === 'unstable') {
        cell.timed.set(timing.cache, row);
      } else if (cell.status === 'passed') {
        cell.status = row.status;
        cell.reason = row.reason;
      }
    }
    for (const skipped of timing.skipped) {
      Object.assign(
          cellOf(skipped.implementation, timing.grid), {status: 'skipped', reason: skipped.reason});
    }
  }
  for (const cell of cells.values()) cell.baseline = cells.get(BASELINE + '|' + cell.grid);
  return [...cells.values()];
}

/// Returns a function: value -> {fill: part of the scale in [0, 1], direction}.
function heatScale(values, speedup) {
  const logs = values.filter((value) => value > 0).map(Math.log);
  if (speedup) {
    const most = Math.max(Math.log(1.05), ...logs.map(Math.abs));
    return (value) => ({
             fill: Math.abs(Math.log(value)) / most,
             direction: value < 1 ? 'slower' : 'faster'
           });
  }
  const low = Math.min(...logs), high = Math.max(...logs);
  return (value) => ({
           fill: value > 0 && high > low ? (Math.log(value) - low) / (high - low) : 0,
           direction: 'amount'
         });
}

function heatCellNode(cell, quantity, scale, best) {
  if (!cell) return element('td', {class: 'heat hatched', title: 'not part of the run'}, '');
  if (cell.status !== 'passed') {
    return element(
        'td', {class: 'heat hatched', title: cell.reason || statusWords(cell.status)},
        statusBadge(cell.status));
  }
  const value = quantity.of(cell);
  if (value === null) return element('td', {class: 'heat hatched', title: 'not known'}, '\u2013');
  const {fill, direction} = scale(value);
  const isBest = best !== null && ties(value, best);
  return element(
      'td', {
        class: `heat ${direction}` + (fill > 0.55 ? ' deep' : ''),
        '--fill': (100 * fill).toFixed(0) + '%',
        title: `${cell.implementation} on ${cell.grid}: ${quantity.format(value)}` +
            (isBest ? ', the best on this grid' : '')
      },
      quantity.format(value),
      isBest ? element('span', {class: 'best', 'aria-label': 'best'}, ' \u2605') : null);
}

function heatMaps(cells, quantity) {
  const known = cells.filter((cell) => cell.status === 'passed' && quantity.of(cell) !== null);
  const scale = heatScale(known.map(quantity.of), quantity.speedup);
  const byGrid = groupBy(known, (cell) => cell.grid);
  const bestOf = (grid) => {
    const values = (byGrid.get(grid) ?? []).map(quantity.of);
    const best = quantity.speedup ? Math.max(...values) : Math.min(...values);
    return values.some((value) => !ties(value, best)) ? best : null;
  };
  const hasValue = (some) => some.some((cell) => known.includes(cell));
  const maps = [...groupBy(cells, (cell) => cell.rest + '|' + cell.implementation).values()];
  return maps.sort((a, b) => hasValue(b) - hasValue(a)).map((some) => {
    const {implementation, rest} = some[0];
    const increasing = (values) => unique(values).sort((a, b) => a - b);
    const peers = cells.filter((cell) => cell.rest === rest);
    const tps = increasing(peers.map((cell) => cell.tp)),
          cps = increasing(peers.map((cell) => cell.cp));
    const rows = tps.map(
        (tp) => element('tr', {}, element('th', {scope: 'row'}, `TP ${tp}`), cps.map((cp) => {
          const cell = some.find((candidate) => candidate.tp === tp && candidate.cp === cp);
          const node = heatCellNode(cell, quantity, scale, cell ? bestOf(cell.grid) : null);
          return cellNode(node, `CP ${cp}`);
        })));
    return fitted(element(
        'table', {class: 'heat-map'},
        element(
            'caption', {}, implementation,
            rest ? element('span', {class: 'dim'}, ' ' + rest) : null),
        element(
            'thead', {},
            element(
                'tr', {}, element('td', {}),
                cps.map((cp) => element('th', {scope: 'col'}, `CP ${cp}`)))),
        element('tbody', {}, rows)));
  });
}

function drawHeatMap({report}) {
  const quantities = heatQuantities(report);
  const cases = casesOf(report);
  if (cases.length === 0) return null;
  const node = section(
      'grids', 'Costs by grid',
      'One map an implementation, one scale for all. Time is the median of forward and ' +
          'backward, the slowest rank; wire bytes are the payload of the collectives of a rank.');
  const timed = report.timings[0]?.case.text;
  const state = {text: timed ?? cases[0].value, quantity: quantities[0]};
  const maps = element('div', {class: 'maps'});
  const legend = element('p', {class: 'note'});
  const update = () => {
    maps.replaceChildren(...heatMaps(heatCells(report, state.text), state.quantity));
    legend.textContent = (state.quantity.speedup ?
                              'Blue is faster than the baseline of the grid, orange slower.' :
                              'Darker is more (in dark mode lighter), on a logarithmic scale.') +
        ' \u2605 the best of a grid, or within 1 %. Hatched: no value, with the reason on hover.' +
        (state.quantity.label.endsWith('one run') ?
             ' Times of one run are coarse; lossgrid bench measures.' :
             '');
  };
  node.append(element('div', {class: 'toolbar'}, longChoice('Case', cases, state.text, (value) => {
                        state.text = value;
                        update();
                      }), toggle('Quantity', quantities, state.quantity.value, (value) => {
                        state.quantity = quantities.find((one) => one.value === value);
                        update();
                      })), maps, legend);
  update();
  return node;
}
