// SPDX-License-Identifier: Apache-2.0
// A/B comparisons: the ratio of the times of A and B with its interval, the ratios of single
// launches as dots, and the margin within which B counts as no slower.

const abTitle = (record) =>
    `${record.b} / ${record.a}, ${record.grid} ${phaseLabel(record.phase)}` +
    (record.cache && record.cache !== 'hot' ? ' ' + record.cache : '');

const AB_COLUMNS = [
  {
    title: 'verdict',
    cell: (record) => statusBadge(record.verdict),
    value: (record) => -statusRank(record.verdict)
  },
  {
    title: 'case',
    kind: 'name',
    cell: (record) => nameCell(record.case),
    value: (record) => record.case
  },
  {title: 'grid', cell: (record) => record.grid, value: (record) => record.grid},
  {title: 'cache', cell: (record) => record.cache ?? '-', value: (record) => record.cache ?? ''},
  {title: 'phase', cell: (record) => phaseLabel(record.phase), value: (record) => record.phase},
  {title: 'A', kind: 'name', cell: (record) => nameCell(record.a), value: (record) => record.a},
  {title: 'B', kind: 'name', cell: (record) => nameCell(record.b), value: (record) => record.b},
  {
    title: 'B / A',
    kind: 'number',
    cell: (record) => record.ratio.toFixed(4),
    value: (record) => record.ratio
  },
  {
    title: 'interval',
    kind: 'number',
    cell: (record) =>
        `${record.low.toFixed(4)} .. ${record.high === null ? 'no end' : record.high.toFixed(4)}`,
    value: (record) => record.low
  },
  {
    title: 'confidence',
    kind: 'number',
    cell: (record) => (100 * record.confidence).toFixed(1) + ' %',
    value: (record) => record.confidence
  },
  {
    title: 'launches',
    kind: 'number',
    cell: (record) => formatCount(record.launches),
    value: (record) => record.launches
  },
  {
    title: 'margin',
    kind: 'number',
    cell: (record) => formatPercent(record.margin),
    value: (record) => record.margin
  },
];

function abChart(records) {
  const rows = records.map(
      (record) => ({
        label: abTitle(record),
        value: record.ratio,
        low: record.low,
        high: record.high,
        dots: record.launch_ratios,
        kind: statusOf(record.verdict).kind,
        text: `${record.verdict}: ${record.ratio.toFixed(4)}, ${record.low.toFixed(4)} to ${
            record.high === null ? 'no end' : record.high.toFixed(4)}, ${
            plural(record.launches, 'launch').replace('launchs', 'launches')}`
      }));
  const margin = Math.max(...records.map((record) => record.margin));
  return intervalChart(rows, {
    title: 'time of B / time of A: above 1 B is slower',
    format: (value) => value.toFixed(3),
    reference: 1,
    band: [1 / (1 + margin), 1 + margin]
  });
}

const MOST_AB_ROWS = 40;

function drawAb({report}) {
  const records = report.ab ?? [];
  if (records.length === 0) return null;
  const node = section(
      'ab', 'A/B',
      'Estimate and interval of the median over launches. REGRESSED: all of the interval is ' +
          'beyond the margin; OK: none of it is; the shaded band is the margin.');
  const worstFirst = [...records].sort(
      (a, b) => statusRank(b.verdict) - statusRank(a.verdict) || b.ratio - a.ratio);
  for (const [title, some] of groupBy(worstFirst.slice(0, MOST_AB_ROWS), (record) => record.case)) {
    const box = new ChartBox(
        `Ratios of ${title}; the table below has the same numbers`, rowsHeight(some.length),
        () => abChart(some));
    node.append(element('h3', {}, title), box.node);
  }
  if (records.length > MOST_AB_ROWS)
    node.append(element(
        'p', {class: 'note'},
        `Drawn are ${MOST_AB_ROWS} of ${records.length}; the table has all.`));
  const table = new DataTable(AB_COLUMNS, {caption: 'A/B comparisons'});
  node.append(table.node);
  table.setRows(worstFirst);
  return node;
}
