// SPDX-License-Identifier: Apache-2.0
// Details of one trial, made when it is opened.

function block(title, content) {
  return content ? element('div', {class: 'block'}, element('h3', {}, title), content) : null;
}

const tableOf = (records, head, cells) =>
    (records.length > 0 ? plainTable(head, records.map(cells)) : null);

function checksTable(trial) {
  const worstFirst = [...trial.checks].sort((a, b) => comparable(b.ratio) - comparable(a.ratio));
  return tableOf(
      worstFirst, ['check', 'ratio', 'error', 'bound', 'beyond bound', 'worst element'],
      (check) =>
          [check.name,
           [statusBadge(check.passed ? 'passed' : 'failed'), ' ', formatRatio(check.ratio)],
           formatNumber(check.error_abs), formatNumber(check.bound_abs),
           `${formatCount(check.beyond_bound)} of ${formatCount(check.compared)}`,
           check.worst ? formatWorst(check.worst) : '-']);
}

function ranksTable(trial) {
  return tableOf(
      trial.rank_states, ['rank', 'state', 'phase', 'message', 'last collectives'],
      (rank) =>
          [String(rank.rank), rank.state, rank.phase ?? '-', rank.message,
           [...rank.collectives.map((line) => element('div', {}, line)),
            ...(rank.detail ? [element('pre', {}, rank.detail)] : [])]]);
}

function memoryTable(trial) {
  return tableOf(
      trial.memory, ['rank', 'phase', 'measured peak', 'predicted', 'with inputs', 'buffers'],
      (record) =>
          [String(record.rank), record.phase, formatBytes(record.measured_peak_bytes),
           formatBytes(record.predicted_peak_bytes),
           formatBytes(record.measured_peak_with_inputs_bytes),
           formatCount(record.measured_allocations)]);
}

function communicationTable(trial) {
  return tableOf(
      trial.communication,
      ['phase', 'group', 'operation', 'calls', 'predicted', 'payload', 'predicted', 'rank'],
      (record) => [
          [differs(record) ? statusBadge('failed') : null, ' ' + record.phase], record.group,
          record.operation, formatCount(record.measured_calls), formatCount(record.predicted_calls),
          formatBytes(record.measured_payload_bytes), formatBytes(record.predicted_payload_bytes),
          String(record.rank)]);
}

function pairsTable(object, format) {
  return tableOf(
      Object.entries(object), ['name', 'value'],
      ([name, value]) => [name, value === null ? '-' : format(value)]);
}

/// Makes a block for long content that starts closed.
function folded(title, content) {
  return content ? element('details', {class: 'block'}, element('summary', {}, title), content) :
                   null;
}

function trialDetail(trial) {
  const invariants = trial.invariants.filter((invariant) => invariant.status !== 'passed');
  return element(
      'article', {class: 'trial'},
      element(
          'h3', {}, statusBadge(trial.status),
          ` ${trial.implementation} on ${gridText(trial.grid)}, ${trial.backend}, ranks by ${
              trial.transport}`),
      element(
          'p', {class: 'case'}, trial.case.name === caseText(trial) ? null : trial.case.name + ' ',
          element('code', {}, caseText(trial))),
      trial.reason ? element('p', {class: 'reason'}, trial.reason) : null,
      (trial.explanation ?? []).map((line) => element('p', {class: 'explanation'}, line)),
      trial.reproduce ? commandLine(trial.reproduce) : null,
      element(
          'div', {class: 'blocks'}, block('Ranks', ranksTable(trial)),
          block('Checks', checksTable(trial)),
          block(
              `Invariants (${trial.invariants.length - invariants.length} passed)`,
              tableOf(
                  invariants, ['invariant', 'status', 'detail'],
                  (one) => [one.name, statusBadge(one.status), one.detail])),
          block(
              'Determinism',
              tableOf(
                  trial.determinism, ['over', 'verdict', 'claimed', 'detail'],
                  (one) =>
                      [one.name, statusWords(one.verdict), one.claimed ? 'yes' : 'no',
                       one.detail])),
          block('Communication', communicationTable(trial)),
          folded('Memory by rank and phase', memoryTable(trial)),
          block(
              'One run, coarse',
              tableOf(
                  trial.times, ['phase', 'slowest rank', 'flops of products'],
                  (time) =>
                      [time.phase, formatTime(time.max_over_ranks_ns),
                       formatCount(time.predicted_flops)])),
          block(
              'Scale of the gradient, 1 where it is right',
              pairsTable(trial.gradient_scale ?? {}, (scale) => scale.toPrecision(8))),
          block('Branches of the objective', pairsTable(trial.branches, formatPercent)),
          block('Choices of the implementation', pairsTable(trial.details, String)),
          folded('Metrics', pairsTable(trial.metrics, formatNumber))));
}
