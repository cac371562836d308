// SPDX-License-Identifier: Apache-2.0
// Numbers as text. null is "not a number" for ratios and "not known" for everything else.

function formatRatio(ratio) {
  if (ratio === null || !isFinite(ratio)) return 'inf';
  if (ratio === 0) return '0';
  if (ratio >= 1000 || ratio < 0.001) return ratio.toExponential(0);
  return ratio >= 10 ? ratio.toFixed(0) : String(Number(ratio.toPrecision(2)));
}

function formatNumber(value) {
  if (value === null || value === undefined) return 'nan';
  if (Number.isInteger(value)) return value.toLocaleString('en');
  const size = Math.abs(value);
  if (size >= 1e6 && size < 1e15) return Math.round(value).toLocaleString('en');
  return size < 1e-3 || size >= 1e15 ? value.toExponential(5) :
                                       String(Number(value.toPrecision(9)));
}

function scaled(value, units, step) {
  let k = 0;
  while (Math.abs(value) >= step && k + 1 < units.length) {
    value /= step;
    ++k;
  }
  return (k === 0 ? String(Math.round(value)) : value.toPrecision(value >= 100 ? 4 : 3)) + ' ' +
      units[k];
}

const formatBytes = (bytes) =>
    bytes === null ? '-' : scaled(bytes, ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024);
const formatCount = (count) => count === null ? '-' : count.toLocaleString('en');
const formatRate = (rate, unit) =>
    scaled(rate, ['', 'k', 'M', 'G', 'T', 'P'].map((prefix) => prefix + unit), 1000);
const formatSpeedup = (speedup) => speedup.toFixed(2) + 'x';
const formatPercent = (part) => (100 * part).toFixed(Math.abs(part) < 0.0995 ? 1 : 0) + ' %';

/// Formats three digits or more, whatever the size.
function formatTime(ns) {
  if (ns === 0) return '0';
  if (ns < 1000) return Math.round(ns) + ' ns';
  if (ns < 1e6) return (ns / 1e3).toPrecision(3) + ' us';
  return ns < 1e9 ? (ns / 1e6).toPrecision(ns < 1e8 ? 3 : 4) + ' ms' :
                    (ns / 1e9).toPrecision(4) + ' s';
}

const plural = (count, noun) => formatCount(count) + ' ' + noun + (count === 1 ? '' : 's');

/// "rank 2, sequence 1, token 17, vocab id 94: got -0.25, want -0.125"
function formatWorst(worst) {
  const places = [
    ['rank', worst.rank], ['sequence', worst.sequence], ['token', worst.token],
    ['vocab id', worst.vocab_id]
  ];
  return places.filter(([, index]) => index !== null)
             .map(([what, index]) => what + ' ' + index)
             .join(', ') +
      ': got ' + formatNumber(worst.got) + ', want ' + formatNumber(worst.want);
}
