// SPDX-License-Identifier: Apache-2.0
// Problems of a run in words: counts, and the first and the worst problem.

const HAPPENED = {
  failed: 'failed',
  error: 'ended in an error',
  out_of_memory: 'ran out of memory',
  crashed: 'crashed',
  timeout: 'hung',
  above_ceiling: 'faster than the machine can be',
  survived: 'survived',
  'wrongly rejected': 'wrongly rejected',
  REGRESSED: 'slower',
};

const isBad = (status) => statusOf(status).kind === 'bad';

const worstFailedCheck = (trial) =>
    largest(trial.checks.filter((check) => !check.passed), severity);

/// "logprobs is wrong, 12 times its bound: rank 2, token 17: got -0.25, want -0.125"
function checkInWords(check) {
  const ratio = comparable(check.ratio);
  return `${check.name} is wrong` +
      (isFinite(ratio) ? `, ${formatRatio(ratio)} times its bound` : '') +
      (check.worst ? ': ' + formatWorst(check.worst) : '');
}

function trialInWords(trial) {
  const failed = trial.checks.filter((check) => !check.passed);
  if (trial.status !== 'failed' || failed.length === 0)
    return [HAPPENED[trial.status], trial.reason].filter(Boolean).join(': ');
  const others = failed.length > 1 ? `; so are ${plural(failed.length - 1, 'other check')}` : '';
  return checkInWords(worstFailedCheck(trial)) + others.replace('are 1 ', 'is 1 ');
}

/// Returns the short name of a trial for a sentence.
function trialTitle(trial) {
  const text = caseText(trial);
  const name = trial.case.name && trial.case.name !== text ? trial.case.name + ' ' : '';
  return {where: `${trial.implementation} on ${gridText(trial.grid)}`, of: name + `(${text})`};
}

/// Collects problems: [{noun, total, wrong: [{status, weight, title, words, reproduce}]}]. title
/// and words are functions, since there may be thousands and only two are shown.
function problemGroups(report) {
  const wrongOf = (items, statusIn, describe) =>
      items.filter((item) => isBad(statusIn(item)))
          .map((item) => ({status: statusIn(item), ...describe(item)}));
  const rows = report.timings.flatMap(
      (timing) => (timing.rows.length > 0 ? timing.rows : [timing]).map((row) => ({timing, row})));
  return [
    {
      noun: 'trial',
      total: report.trials.length,
      wrong: wrongOf(
          report.trials, (trial) => trial.status,
          (trial) => ({
            weight: severity(worstFailedCheck(trial) ?? {passed: true, ratio: 0}),
            title: () => trialTitle(trial),
            words: () => trialInWords(trial),
            reproduce: trial.reproduce
          }))
    },
    {
      noun: 'mutant',
      total: report.mutants?.length ?? 0,
      wrong: wrongOf(
          report.mutants ?? [], mutantVerdict, (mutant) => ({
                                                 title: () => ({where: mutant.name, of: ''}),
                                                 words: () => mutant.what,
                                                 reproduce: mutant.reproduce
                                               }))
    },
    {
      noun: 'timed row',
      total: rows.length,
      wrong: wrongOf(
          rows, ({row}) => row.status,
          ({timing, row}) => ({
            title: () => ({
              where: `${row.implementation ? row.implementation + ' on ' : ''}${timing.grid}`,
              of: `(${timing.case.text})`
            }),
            words: () => row.reason || HAPPENED[row.status]
          }))
    },
    {
      noun: 'A/B comparison',
      total: report.ab?.length ?? 0,
      wrong: wrongOf(
          report.ab ?? [], (record) => record.verdict,
          (record) => ({
            weight: record.ratio,
            title: () => ({where: abTitle(record), of: `(${record.case})`}),
            words: () => `${record.ratio.toFixed(3)} times as long`
          }))
    },
    {
      noun: 'check of the meter',
      total: report.meter.length,
      wrong: wrongOf(
          report.meter, (check) => (check.passed ? 'passed' : 'failed'),
          (check) => ({
            title: () => ({where: 'meter: ' + check.name, of: ''}),
            words: () => `measured ${formatNumber(check.measured)} ${check.unit}, expected ${
                formatNumber(check.expected)}; ${check.detail}`
          }))
    }
  ].filter((group) => group.wrong.length > 0);
}

/// Compares problems: hangs and crashes are worse than failures, then the ratio decides.
const isWorse = (a, b) =>
    statusRank(a.status) - statusRank(b.status) || (a.weight ?? 0) - (b.weight ?? 0);

/// Returns the first of the largest.
const worstProblem = (wrong) =>
    wrong.reduce((worst, problem) => (isWorse(problem, worst) > 0 ? problem : worst));

/// "1 of 72 trials hung, 19 failed"
function countInWords({noun, total, wrong}) {
  const byStatus = [...groupBy(wrong, (problem) => problem.status)].sort(
      ([a], [b]) => statusRank(b) - statusRank(a));
  const many = noun === 'check of the meter' ? 'checks of the meter' : noun + 's';
  return byStatus
      .map(
          ([status, some], k) => formatCount(some.length) +
              (k === 0 ? ` of ${formatCount(total)} ${total === 1 ? noun : many}` : '') + ' ' +
              HAPPENED[status])
      .join(', ');
}
