// SPDX-License-Identifier: Apache-2.0
// Timings: the implementations of one case on one grid beside each other, with the spread over
// rounds and ranks, and a table of all rows.

const PHASES = [
  {value: 'forward_backward', label: 'both'}, {value: 'forward', label: 'forward'},
  {value: 'backward', label: 'backward'}
];

const phaseLabel = (phase) => PHASES.find(({value}) => value === phase)?.label ?? phase;
const timingTitle = (timing) => `${timing.case.text} on ${timing.grid}, ${timing.cache}`;

function timingChart(timing, phase) {
  const rows = timing.rows.filter((row) => row.phase === phase && row.median_ns > 0)
                   .map((row) => ({
                          label: row.implementation,
                          value: row.median_ns,
                          low: row.p20_ns,
                          high: row.p80_ns,
                          dots: row.rank_times.map((rank) => rank.median_ns),
                          kind: row.status === 'timed' ? 'none' : statusOf(row.status).kind,
                          text: `${formatTime(row.median_ns)}, ${formatTime(row.p20_ns)} to ${
                              formatTime(row.p80_ns)}, ${row.samples_ns.length} samples`
                        }));
  return intervalChart(
      rows.length > 0 ?
          rows :
          [{label: 'not timed', value: 0, low: 0, high: 1, dots: [], kind: 'none', text: ''}],
      {
        title:
            'slowest rank: median, whiskers from 20th to 80th percentile; dots: medians of ranks',
        format: formatTime,
        fromZero: true
      });
}

function timingFacts(timing) {
  const facts =
      [`${plural(timing.rounds, 'round')}, ${plural(timing.threads_per_rank, 'thread')} a rank on ${
          plural(timing.cores, 'core')}, speed-up over ${timing.baseline || 'nothing'}`];
  if (timing.backend && timing.backend !== 'cpu')
    facts.push(`backend ${timing.backend}, timed by ${timing.timer || 'an unknown timer'}`);
  if (!timing.representative) facts.push('not representative: ' + timing.representative_reason);
  if (timing.reason) facts.push(statusWords(timing.status) + ': ' + timing.reason);
  if (timing.no_speedup_reason) facts.push('no speed-up: ' + timing.no_speedup_reason);
  for (const ceiling of timing.ceilings)
    facts.push(`ceiling ${ceiling.name}: ${
        formatRate(ceiling.rate_per_second, ceiling.rank_bytes ? 'B/s' : 'FLOP/s')}`);
  for (const row of timing.all_reduce)
    facts.push(
        `all-reduce over ${row.group} of ${row.ranks}: ${formatTime(row.latency_ns)} for 4 bytes, ${
            formatRate(row.bytes_per_second, 'B/s')} of 1 MiB`);
  for (const skipped of timing.skipped)
    facts.push(`skipped: ${skipped.implementation}: ${skipped.reason}`);
  return element('ul', {class: 'facts'}, facts.map((fact) => element('li', {}, fact)));
}

const known = (value, format) => (value === null || value === undefined ? '-' : format(value));

/// Texts of numbers by their unit.
const NUMBER_TEXTS = {
  count: formatCount,
  factor: formatSpeedup,
  percent: formatPercent,
  nanoseconds: formatTime,
  per_second: (rate) => formatRate(rate, ''),
  bytes_per_second: (rate) => formatRate(rate, 'B/s'),
  flops_per_second: (rate) => formatRate(rate, 'FLOP/s')
};

/// Returns a sentence as the other columns have it: "share of what the machine reaches".
const asPhrase = (text) => text[0].toLowerCase() + text.slice(1).replace(/\.$/, '');

/// Returns the column of a number of rows; `note` is the key of the text behind it, or null.
const numberColumn = ({key, title, unit, about, note}) => ({
  title,
  kind: 'number',
  about: asPhrase(about),
  cell: ({row}) =>
      known(row[key], NUMBER_TEXTS[unit]) + (note && row[note] ? ' ' + row[note] : ''),
  value: ({row}) => row[key] ?? null
});

/// Columns on the left of the numbers.
const TIMING_SUBJECTS = [
  {
    title: 'status',
    cell: ({row}) => element('td', {title: row.reason || null}, statusBadge(row.status)),
    value: ({row}) => -statusRank(row.status)
  },
  {
    title: 'case',
    kind: 'name',
    cell: ({timing}) => nameCell(timing.case.text),
    value: ({timing}) => timing.case.text
  },
  {title: 'grid', cell: ({timing}) => timing.grid, value: ({timing}) => timing.grid},
  {title: 'cache', cell: ({timing}) => timing.cache, value: ({timing}) => timing.cache},
  {
    title: 'implementation',
    kind: 'name',
    cell: ({row}) => nameCell(row.implementation),
    value: ({row}) => row.implementation
  },
  {title: 'phase', cell: ({row}) => phaseLabel(row.phase), value: ({row}) => row.phase},
  {
    title: 'median',
    kind: 'number',
    cell: ({row}) => formatTime(row.median_ns),
    value: ({row}) => row.median_ns
  },
  {
    title: 'p20 .. p80',
    kind: 'number',
    cell: ({row}) => `${formatTime(row.p20_ns)} .. ${formatTime(row.p80_ns)}`
  },
  {
    title: 'n',
    kind: 'number',
    cell: ({row}) => String(row.samples_ns.length),
    value: ({row}) => row.samples_ns.length
  }
];

/// Columns on the right of the numbers.
const STRAGGLER_COLUMN = {
  title: 'straggler',
  kind: 'number',
  about: 'the rank with the longest kernels, over the median of the others',
  cell: ({row}) => known(
      row.straggler, (straggler) => `rank ${straggler.rank}, +${formatTime(straggler.excess_ns)}`),
  value: ({row}) => row.straggler?.excess_ns ?? null
};
const PREDICTED_COLUMN = {
  title: 'predicted',
  kind: 'number',
  about: 'time by the model of the machine of --machine',
  cell: ({row}) => known(row.predicted, (predicted) => formatTime(predicted.time_ns)),
  value: ({row}) => row.predicted?.time_ns ?? null
};

/// Returns the columns for `rows`, numbers and predictions where a row has them.
function timingColumns(rows, numbers) {
  const has = (key) => rows.some(({row}) => (row[key] ?? null) !== null);
  return [
    ...TIMING_SUBJECTS, ...numbers.filter(({key}) => has(key)).map(numberColumn), STRAGGLER_COLUMN,
    ...(has('predicted') ? [PREDICTED_COLUMN] : [])
  ];
}

function drawTimings({report, number_columns}) {
  if (report.timings.length === 0) return null;
  const node = section(
      'timings', 'Timings',
      'All implementations of a case were timed in turn, in one process. Ratios of the same ' +
          'round can be compared; absolute times hold for this machine and its load.');
  const state = {timing: report.timings[0], phase: 'forward_backward', search: ''};
  const box = new ChartBox(
      'Times of the implementations; the table below has the same numbers',
      () => rowsHeight(state.timing.rows.filter((row) => row.phase === state.phase).length),
      () => timingChart(state.timing, state.phase));
  const facts = element('div');
  const all = report.timings.flatMap((timing) => timing.rows.map((row) => ({timing, row})));
  const table = new DataTable(timingColumns(all, number_columns), {caption: 'Timed rows'});
  const fill = () => {
    facts.replaceChildren(timingFacts(state.timing));
    table.setRows(all.filter(
        ({timing, row}) => row.phase === state.phase &&
            matches([timing.case.text, timing.grid, timing.cache, row.implementation, row.status]
                        .join(' '),
                    state.search)));
  };
  const show = () => {
    fill();
    box.redraw();
  };
  node.append(
      element(
          'div', {class: 'toolbar'},
          longChoice(
              'Timing',
              report.timings.map((timing, k) => ({value: String(k), label: timingTitle(timing)})),
              '0',
              (value) => {
                state.timing = report.timings[Number(value)];
                show();
              }),
          toggle(
              'Phase', PHASES, state.phase,
              (value) => {
                state.phase = value;
                show();
              })),
      box.node, facts, element('div', {class: 'toolbar'}, searchField('Filter', (value) => {
                                 state.search = value;
                                 fill();
                               })), table.node);
  fill();
  return node;
}
