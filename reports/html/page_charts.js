// SPDX-License-Identifier: Apache-2.0
// Common parts of the charts. Colours are those of Okabe and Ito, distinct for any colour vision;
// beside every chart stands a table with its values.

const PALETTE =
    ['#0072B2', '#E69F00', '#009E73', '#CC79A7', '#56B4E9', '#D55E00', '#F0E442', '#999999'];

const narrow = matchMedia('(max-width: 700px)');

/// Breaks a text for a canvas into lines, behind joints of names and words: a chart has no room for
/// long lines, and would cut them off.
function chartLines(text, narrowLength, wideLength) {
  const most = narrow.matches ? narrowLength : wideLength;
  const lines = [''];
  for (const part of visible(text).split(/(?<=[/_:,= ])/)) {
    if (lines.at(-1) !== '' && lines.at(-1).length + part.trimEnd().length > most) lines.push('');
    lines[lines.length - 1] += part;
  }
  return lines;
}

const rowLabel = (name) => chartLines(name, 18, 40);

/// Canvas that is drawn by configure() -> configuration of Chart.js, and again after redraw() and a
/// change of theme. Height in CSS pixels, fixed or a function.
class ChartBox {
  constructor(label, height, configure) {
    this.height = height;
    this.configure = configure;
    this.canvas = element('canvas', {role: 'img', 'aria-label': label});
    this.node = element('div', {class: 'chart'}, this.canvas);
    this.chart = null;
    onThemeChange.push(() => this.redraw());
    narrow.addEventListener('change', () => this.redraw());
  }

  /// Draws nothing while the canvas is not part of the page, from which a chart takes its size.
  redraw() {
    if (!this.node.isConnected) return;
    this.chart?.destroy();
    this.node.style.height =
        (typeof this.height === 'function' ? this.height() : this.height) + 'px';
    Chart.defaults.animation = false;
    Chart.defaults.maintainAspectRatio = false;
    Chart.defaults.color = cssColour('--ink');
    Chart.defaults.borderColor = cssColour('--line');
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    this.chart = new Chart(this.canvas, this.configure());
  }
}

/// Draws on top of the data: draw(context, scales, area, chart).
const overlay = (id, draw) => ({
  id,
  afterDatasetsDraw: (chart) => {
    chart.ctx.save();
    draw(chart.ctx, chart.scales, chart.chartArea, chart);
    chart.ctx.restore();
  }
});

function drawLine(context, colour, width, points, dash = []) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.beginPath();
  points.forEach(([x, y], k) => (k === 0 ? context.moveTo(x, y) : context.lineTo(x, y)));
  context.stroke();
}

const axisTitle = (text) => ({display: text !== '', text: chartLines(text, 40, 200)});

/// Draws a mark at `value`, a whisker from `low` to `high` (null: no end) and faint dots a row.
/// rows: [{label, value, low, high, dots, kind, text}]. band: [low, high] of ratios that count as
/// equal.
function intervalChart(rows, {title, format, reference = null, band = null, fromZero = false}) {
  const ends = rows.flatMap((row) => [row.value, row.low, row.high, ...row.dots])
                   .concat(reference ?? [], band ?? [])
                   .filter((value) => value !== null);
  const low = Math.min(...ends), high = Math.max(...ends);
  const margin = 0.04 * (high - low || high);
  const colours = {
    good: cssColour('--good'),
    bad: cssColour('--bad'),
    doubt: cssColour('--doubt'),
    none: cssColour('--good')
  };
  const ink = cssColour('--ink');
  const background = {
    id: 'background',
    beforeDatasetsDraw: ({ctx, scales, chartArea}) => {
      ctx.save();
      if (band) {
        ctx.fillStyle = cssColour('--band');
        const [left, right] = band.map((value) => scales.x.getPixelForValue(value));
        ctx.fillRect(left, chartArea.top, right - left, chartArea.bottom - chartArea.top);
      }
      if (reference !== null) {
        const x = scales.x.getPixelForValue(reference);
        drawLine(ctx, ink, 1, [[x, chartArea.top], [x, chartArea.bottom]], [4, 3]);
      }
      ctx.restore();
    }
  };
  const whiskers = overlay('whiskers', (context, scales, area) => rows.forEach((row, k) => {
    const y = scales.y.getPixelForValue(k);
    const left = scales.x.getPixelForValue(row.low);
    const right = row.high === null ? area.right : scales.x.getPixelForValue(row.high);
    drawLine(context, colours[row.kind], 2, [[left, y], [right, y]]);
    drawLine(context, colours[row.kind], 2, [[left, y - 5], [left, y + 5]]);
    if (row.high !== null)
      drawLine(context, colours[row.kind], 2, [[right, y - 5], [right, y + 5]]);
  }));
  const shapes = {good: 'circle', none: 'circle', bad: 'triangle', doubt: 'rectRot'};
  return {
    type: 'scatter',
    data: {
      labels: rows.map((row) => rowLabel(row.label)),
      datasets: [
        {
          parsing: false,
          data: rows.map((row, k) => ({x: row.value, y: k})),
          pointRadius: 6,
          pointHoverRadius: 7,
          pointStyle: rows.map((row) => shapes[row.kind]),
          backgroundColor: rows.map((row) => colours[row.kind]),
          borderColor: cssColour('--card')
        },
        {
          parsing: false,
          data: rows.flatMap((row, k) => row.dots.map((x) => ({x, y: k}))),
          pointRadius: 2.5,
          hitRadius: 0,
          hoverRadius: 2.5,
          backgroundColor: cssColour('--faint'),
          borderWidth: 0
        }
      ],
    },
    options: {
      scales: {
        x: {
          min: fromZero ? 0 : Math.max(0, low - margin),
          max: high + margin,
          title: axisTitle(title),
          ticks: {
            callback: (value) => format(value),
            maxTicksLimit: narrow.matches ? 4 : 9,
            includeBounds: false
          }
        },
        y: {
          type: 'category',
          offset: true,
          labels: rows.map((row) => rowLabel(row.label)),
          ticks: {autoSkip: false}
        },
      },
      plugins: {
        legend: {display: false},
        tooltip: {
          filter: (item) => item.datasetIndex === 0,
          callbacks: {label: (item) => rows[item.dataIndex].text}
        }
      },
    },
    plugins: [background, whiskers],
  };
}

const rowsHeight = (count) => 70 + (narrow.matches ? 40 : 30) * Math.max(1, count);
