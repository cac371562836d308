// SPDX-License-Identifier: Apache-2.0
// Columns of the matrix: every cell shows the largest ratio as a number, a glyph, a bar on a
// logarithmic scale and a colour; its place on hover.

const CHECK_ORDER = [
  'loss', 'logprobs', 'entropy', 'vocab_min', 'vocab_max', 'grad_logits', 'grad_logits_bias',
  'grad_hidden', 'grad_hidden_l2', 'grad_hidden_bias', 'grad_weight', 'grad_weight_l2',
  'grad_weight_bias', 'grad_bias', 'grad_bias_l2', 'grad_bias_bias', 'extrema', 'gradient', 'bias',
  'metrics'
];
const LEAST_RATIO = 1e-4;  // begin of the bar

const checkRank = (name) =>
    (CHECK_ORDER.includes(name) ? CHECK_ORDER.indexOf(name) : CHECK_ORDER.length);

function ratioCell(found, folded) {
  if (!found) return element('td', {class: 'ratio empty', title: 'not compared'}, '\u2013');
  const {check, trial} = found;
  const ratio = comparable(check.ratio);
  const part = Math.min(
      1,
      Math.max(0, Math.log(Math.max(ratio, LEAST_RATIO) / LEAST_RATIO) / -Math.log(LEAST_RATIO)));
  const kind = !check.passed ? 'bad' : ratio > 0.5 ? 'near' : 'fine';
  const lines = [
    `${check.name}: ratio ${formatRatio(check.ratio)}, ${formatCount(check.beyond_bound)} of ${
        formatCount(check.compared)} elements beyond the bound`,
    `error ${formatNumber(check.error_abs)}, bound ${formatNumber(check.bound_abs)}`
  ];
  if (check.worst) lines.push('worst: ' + formatWorst(check.worst));
  if (folded) lines.push('on ' + gridText(trial.grid));
  const glyph = {bad: '\u2717', near: '\u25D5', fine: '\u2713'}[kind];
  return element(
      'td',
      {class: 'ratio ' + kind, '--fill': (100 * part).toFixed(1) + '%', title: lines.join('\n')},
      element('span', {class: 'glyph', 'aria-hidden': 'true'}, glyph), formatRatio(check.ratio));
}

function countedCell(bad, total, badLines, what) {
  if (total === 0) return element('td', {class: 'ratio empty', title: 'not checked'}, '\u2013');
  return element(
      'td', {
        class: 'ratio ' + (bad > 0 ? 'bad' : 'fine'),
        title: badLines.join('\n') || `${total} ${what}`
      },
      element('span', {class: 'glyph', 'aria-hidden': 'true'}, bad > 0 ? '\u2717' : '\u2713'),
      bad > 0 ? `${bad} of ${total}` : String(total));
}

/// Returns the family of a check: a column shows the worst of a family, unless checks stand apart.
function checkFamily(name) {
  if (name.startsWith('metric.')) return 'metrics';
  if (name.startsWith('vocab_')) return 'extrema';
  if (name === 'grad_bias') return 'gradient';  // of a bias, not a bias of one
  if (name.startsWith('grad_')) return name.endsWith('_bias') ? 'bias' : 'gradient';
  return name;
}

function checkColumns(trials, apart) {
  const nameOf = (check) => (apart ? check.name : checkFamily(check.name));
  const names = unique(trials.flatMap((trial) => trial.checks.map(nameOf)));
  const ordered = names.sort((a, b) => checkRank(a) - checkRank(b) || a.localeCompare(b));
  return ordered.map((name) => {
    const worst = (row) => row.worstCheck(name, (check) => nameOf(check) === name);
    return {
      title: name.replace('metric.', ''),
      kind: 'number',
      about: apart ? name : 'the worst of these checks; which one on hover',
      cell: (row) => ratioCell(worst(row), row.trials.length > 1),
      value: (row) => {
        const found = worst(row);
        return found && severity(found.check);
      }
    };
  });
}

function invariantCell(row) {
  const all = row.trials.flatMap(
      (trial) =>
          trial.invariants.filter((one) => one.status !== 'not_run').map((one) => ({one, trial})));
  const failed = all.filter(({one}) => one.status !== 'passed');
  return countedCell(
      failed.length, all.length,
      failed.map(({one, trial}) => `${one.name} on ${gridText(trial.grid)}: ${one.detail}`),
      'invariants hold');
}

function determinismCell(row) {
  const all = row.trials.flatMap(
      (trial) => trial.determinism.filter((one) => one.claimed && one.verdict !== 'not_compared')
                     .map((one) => ({one, trial})));
  const failed = all.filter(({one}) => one.verdict !== 'same_bits');
  return countedCell(
      failed.length, all.length,
      failed.map(({one, trial}) => `${one.name} on ${gridText(trial.grid)}: ${one.detail}`),
      'claims of same bits hold');
}

/// Makes a cell, marked if a peak was too far from its prediction.
function memoryCell(row) {
  const peak =
      largest(row.trials.map(peakMemory).filter(Boolean), (record) => record.measured_peak_bytes);
  if (!peak) return element('td', {class: 'number empty'}, '\u2013');
  const wrong = row.trials.filter((trial) => trial.cost_mismatches.includes('memory'));
  const about = wrong.flatMap((trial) => trial.memory)
                    .map(
                        (record) => `rank ${record.rank} ${record.phase}: ${
                                        formatBytes(record.measured_peak_bytes)}` +
                            `, predicted ${formatBytes(record.predicted_peak_bytes)}`);
  return element(
      'td', {
        class: 'number' + (wrong.length > 0 ? ' bad' : ''),
        title: about.join('\n') || 'as predicted'
      },
      wrong.length > 0 ? '\u2717 ' : null, formatBytes(peak.measured_peak_bytes));
}

/// Returns the largest value over the trials of a row; null when none has it.
function most(row, costOf) {
  const costs = row.trials.map(costOf).filter((cost) => cost !== null);
  return costs.length > 0 ? Math.max(...costs) : null;
}

function collectivesCell(row, costOf, format) {
  const cost = most(row, costOf);
  if (cost === null) return element('td', {class: 'number empty'}, '\u2013');
  const wrong = row.trials.flatMap((trial) => trial.communication).filter(differs);
  const about = wrong.map(
      (record) => `${record.phase} ${record.group} ${record.operation}: ${
          record.measured_calls} calls, ${record.measured_payload_bytes} bytes, predicted ${
          record.predicted_calls} and ${record.predicted_payload_bytes}`);
  return element(
      'td', {
        class: 'number' + (wrong.length > 0 ? ' bad' : ''),
        title: about.join('\n') || 'as predicted'
      },
      wrong.length > 0 ? '\u2717 ' : null, format(cost));
}

function matrixColumns(trials, apart) {
  const peak = (trial) => peakMemory(trial)?.measured_peak_bytes ?? null;
  return [
    {
      title: 'status',
      cell: (row) => element(
          'td', {title: row.reason || null}, statusBadge(row.status),
          row.trials.length > 1 ?
              ` ${row.trials.filter((trial) => trial.status === row.status).length} of ${
                  row.trials.length}` :
              null),
      value: (row) => -statusRank(row.status)
    },
    {
      title: 'case',
      kind: 'name',
      cell: (row) => element(
          'td', {class: 'name'}, row.name === row.case ? null : element('b', {}, row.name + ' '),
          element('span', {class: 'dim'}, breakable(row.case))),
      value: (row) => row.name + row.case
    },
    {
      title: 'grid',
      cell: (row) => element(
          'td', {title: row.grids.join(' ')},
          row.grids.length > 1 ? plural(row.grids.length, 'grid') : row.grids[0]),
      value: (row) => row.grids.join(' ')
    },
    {
      title: 'implementation',
      kind: 'name',
      cell: (row) => nameCell(row.implementation),
      value: (row) => row.implementation
    },
    ...checkColumns(trials, apart),
    {title: 'invariants', kind: 'number', cell: invariantCell},
    {title: 'same bits', kind: 'number', about: 'claims of determinism', cell: determinismCell},
    {
      title: 'peak',
      kind: 'number',
      about: 'peak memory of a rank without inputs',
      cell: memoryCell,
      value: (row) => most(row, peak)
    },
    {
      title: 'calls',
      kind: 'number',
      about: 'collective calls of a rank',
      cell: (row) => collectivesCell(row, collectiveCalls, formatCount),
      value: (row) => most(row, collectiveCalls)
    },
    {
      title: 'payload',
      kind: 'number',
      about: 'bytes that a rank puts into collectives',
      cell: (row) => collectivesCell(row, payloadBytes, formatBytes),
      value: (row) => most(row, payloadBytes)
    },
  ];
}
