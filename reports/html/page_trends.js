// SPDX-License-Identifier: Apache-2.0
// Trends: values over many runs with the change points that lossgrid found. Series that changed
// come first.

const CHARTS_AT_A_TIME = 12;
const METRICS = {
  time_ratio: {label: 'time / reference', format: (value) => value.toPrecision(3)},
  peak_bytes: {label: 'peak memory', format: formatBytes},
  payload_bytes: {label: 'wire bytes', format: formatBytes},
  calls: {label: 'collective calls', format: formatCount},
};

const metricOf = (series) => METRICS[series.metric] ?? {label: series.metric, format: String};
const seriesTitle = (series) => [series.implementation, series.grid,
                                 series.phase && phaseLabel(series.phase), series.cache]
                                    .filter(Boolean)
                                    .join(' ');
const pointName = (point) =>
    point.commit || point.started_utc.slice(0, 10) || point.run.slice(0, 7);
const changeText = (change) =>
    (change.ratio === null ?
         'from 0' :
         (change.ratio >= 1 ? '+' : '') + (100 * (change.ratio - 1)).toFixed(1) + ' %');

function trendChart(series) {
  const {label, format} = metricOf(series);
  const points = series.points;
  const changes = overlay('changes', (context, scales, area) => series.changes.forEach((change) => {
    const x =
        (scales.x.getPixelForValue(change.index) + scales.x.getPixelForValue(change.index - 1)) / 2;
    const colour = cssColour(change.ratio === null || change.ratio > 1 ? '--bad' : '--good');
    drawLine(context, colour, 1.5, [[x, area.top], [x, area.bottom]], [5, 3]);
    context.fillStyle = colour;
    context.textAlign = x > (area.left + area.right) / 2 ? 'right' : 'left';
    context.fillText(
        (context.textAlign === 'left' ? ' ' : '') + changeText(change) + ' ', x, area.top + 9);
  }));
  const isChange = new Set(series.changes.map((change) => change.index));
  const low = Math.min(...points.map((point) => point.value)),
        high = Math.max(...points.map((point) => point.value));
  const room = 0.15 * (high - low) || 0.1 * high || 1;
  return {
    type: 'line',
    data: {
      labels: points.map(pointName),
      datasets: [{
        data: points.map((point) => point.value),
        borderColor: cssColour('--good'),
        backgroundColor: cssColour('--good'),
        borderWidth: 1.5,
        tension: 0,
        pointStyle: points.map((_, k) => (isChange.has(k) ? 'rectRot' : 'circle')),
        pointRadius: points.map(
            (_, k) =>
                (isChange.has(k)        ? 6 :
                     points.length > 60 ? 1.5 :
                                          3))
      }]
    },
    options: {
      scales: {
        y: {
          min: Math.max(0, low - room),
          max: high + room,
          ticks: {callback: (value) => format(value), maxTicksLimit: 5, includeBounds: false}
        },
        x: {ticks: {maxTicksLimit: 5, maxRotation: 0}, grid: {display: false}}
      },
      plugins: {
        legend: {display: false},
        tooltip: {
          callbacks: {
            title: ([item]) => {
              const point = points[item.dataIndex];
              return [point.commit, point.started_utc].filter(Boolean).join(' \u00B7 ');
            },
            label: (item) => `${label}: ${format(item.parsed.y)}` +
                (points[item.dataIndex].stderr_ratio ?
                     ` \u00B1 ${formatPercent(2 * points[item.dataIndex].stderr_ratio)}` :
                     '')
          }
        }
      },
    },
    plugins: [changes],
  };
}

function changesTable(all) {
  const rows = all.flatMap(
      (series) => series.changes.map(
          (change) =>
              [metricOf(series).label, element('span', {title: series.case}, series.case),
               seriesTitle(series), pointName(series.points[change.index]), changeText(change),
               change.p_value > 0 ? change.p_value.toExponential(0) : 'exact']));
  return rows.length > 0 ?
      plainTable(['what', 'case', 'of', 'since', 'change', 'p'], rows, {class: 'data'}) :
      element('p', {class: 'note'}, 'No series changed.');
}

function trendFigure(series) {
  const box = new ChartBox(
      `${metricOf(series).label} of ${seriesTitle(series)} over ${
          plural(series.points.length, 'run')}`,
      170, () => trendChart(series));
  const figure = element(
      'figure', {class: 'trend'},
      element(
          'figcaption', {title: series.case}, element('b', {}, seriesTitle(series)),
          element('span', {class: 'dim'}, ` ${metricOf(series).label}`),
          element(
              'div', {class: 'dim name'},
              series.case +(series.machine ? ', ' + series.machine : ''))),
      box.node);
  return {figure, box};
}

function drawTrends({history}) {
  if (!history) return null;
  const node = section(
      'trends', 'Trends',
      'Times are relative to the reference of the same run (the baseline of its speed-ups). ' +
          'Dashed lines: where the mean changed for good, by E-divisive with a t-test; counters ' +
          'are exact, every difference shows. For people to look at: nothing fails by it.');
  const ordered = [...history.series].sort(
      (a, b) => (b.changes.length > 0) - (a.changes.length > 0) ||
          (b.metric === 'time_ratio') - (a.metric === 'time_ratio'));
  const figures = element('div', {class: 'trends'});
  const more = element('div', {class: 'more'});
  let shown = 0, search = '';
  const found = () => ordered.filter(
      (series) => matches(
          [series.metric, metricOf(series).label, series.case, seriesTitle(series)].join(' '),
          search));
  const show = (count) => {
    const all = found();
    const added = all.slice(shown, shown + count).map(trendFigure);
    figures.append(...added.map(({figure}) => figure));
    added.forEach(({box}) => box.redraw());
    shown += added.length;
    const left = all.length - shown;
    more.replaceChildren(
        ...(left > 0 ? [element(
                           'button', {type: 'button', onclick: () => show(CHARTS_AT_A_TIME)},
                           `show ${Math.min(left, CHARTS_AT_A_TIME)} more of ${left}`)] :
                       []));
  };
  node.append(
      changesTable(history.series),
      element('div', {class: 'toolbar'}, searchField('Filter', (value) => {
                search = value;
                shown = 0;
                figures.replaceChildren();
                show(CHARTS_AT_A_TIME);
              })), figures, more);
  show(CHARTS_AT_A_TIME);
  return node;
}
