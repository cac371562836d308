// SPDX-License-Identifier: Apache-2.0
// Model of the report that all sections share: names of trials, the worst of several, costs of a
// trial.

/// Returns the text of a case, which trials and timings of the same case share.
const caseText = (trial) => trial.id.split('|', 1)[0];

function gridText(grid) {
  return `tp${grid.tp}cp${grid.cp}` + (grid.dp > 1 ? `dp${grid.dp}` : '') +
      (grid.pp > 1 ? `pp${grid.pp}` : '') + (grid.sp ? 'sp' : '') +
      (grid.cp_layout && grid.cp_layout !== 'zigzag' ? `:${grid.cp_layout}` : '');
}

/// "tp2cp4dp2sp" -> {tp: 2, cp: 4, rest: "dp2sp"}
function gridParts(text) {
  const [, tp, cp, rest] = /^tp(\d+)cp(\d+)(.*)$/.exec(text) ?? [null, '1', '1', text];
  return {tp: Number(tp), cp: Number(cp), rest};
}

/// Returns a ratio to order by, beyond all others when it is no number.
const comparable = (ratio) => (ratio === null ? Infinity : ratio);

/// Returns a number to order checks by: failed ones are beyond all that passed.
const severity = (check) =>
    (check.passed ? Math.min(comparable(check.ratio), 1) :
                    Math.max(comparable(check.ratio), 1 + 1e-9));

const unique = (values) => [...new Set(values)];

function groupBy(values, keyOf) {
  const groups = new Map();
  for (const value of values) {
    const key = keyOf(value);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(value);
  }
  return groups;
}

/// Returns the element with the largest value, null without elements.
function largest(values, valueOf) {
  let best = null;
  for (const value of values) {
    if (best === null || valueOf(value) > valueOf(best)) best = value;
  }
  return best;
}

const sum = (values) => values.reduce((a, b) => a + b, 0);

/// Returns the record of the rank and phase with the highest peak without inputs; null without
/// memory.
const peakMemory = (trial) => largest(trial.memory, (record) => record.measured_peak_bytes);

/// Sums a counter of the recorded rank; null when the trial counted nothing.
const countedCost = (trial, key) =>
    trial.memory.length > 0 ? sum(trial.communication.map((record) => record[key])) : null;
const payloadBytes = (trial) => countedCost(trial, 'measured_payload_bytes');
const collectiveCalls = (trial) => countedCost(trial, 'measured_calls');

/// True if counts differ from their prediction; external implementations have none.
const differs = (record) => record.predicted_calls !== null &&
    (record.predicted_calls !== record.measured_calls ||
     record.predicted_payload_bytes !== record.measured_payload_bytes);

/// Returns the time of forward and backward in the one run that was verified: coarse. null when it
/// ended before.
function verifiedTime(trial) {
  const times = trial.times.filter((time) => time.phase !== 'plan');
  return times.length > 0 ? sum(times.map((time) => time.max_over_ranks_ns)) : null;
}

/// Lists cases in the order of the report, to choose from: [{value: text, label}].
function casesOf(report) {
  const titles = new Map();
  const add = (text, name) => {
    if (!titles.has(text)) titles.set(text, name === text || !name ? text : name + ': ' + text);
  };
  for (const trial of report.trials) add(caseText(trial), trial.case.name);
  for (const timing of report.timings) add(timing.case.text, timing.case.name);
  return [...titles].map(([value, label]) => ({value, label}));
}
