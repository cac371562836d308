// SPDX-License-Identifier: Apache-2.0
// The report as the sections ask for it: names of trials, the worst of several, costs of a trial.

/// What trials and timings of the same case have in common.
const caseText = (trial) => trial.id.split('|', 1)[0];

function gridText(grid) {
  return `tp${grid.tp}cp${grid.cp}` + (grid.dp > 1 ? `dp${grid.dp}` : '') +
      (grid.pp > 1 ? `pp${grid.pp}` : '') + (grid.sp ? 'sp' : '');
}

/// "tp2cp4dp2sp" -> {tp: 2, cp: 4, rest: "dp2sp"}
function gridParts(text) {
  const [, tp, cp, rest] = /^tp(\d+)cp(\d+)(.*)$/.exec(text) ?? [null, '1', '1', text];
  return {tp: Number(tp), cp: Number(cp), rest};
}

/// Beyond all others when it is no number.
const comparable = (ratio) => (ratio === null ? Infinity : ratio);

/// Orders checks: what failed is beyond all that passed.
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

/// The element with the largest value, null of none.
function largest(values, valueOf) {
  let best = null;
  for (const value of values) {
    if (best === null || valueOf(value) > valueOf(best)) best = value;
  }
  return best;
}

const sum = (values) => values.reduce((a, b) => a + b, 0);

/// The record of the rank and phase with the highest peak, inputs not counted; null without memory.
const peakMemory = (trial) => largest(trial.memory, (record) => record.measured_peak_bytes);

/// Of the recorded rank; null where the trial did not get to count.
const countedCost = (trial, key) =>
    trial.memory.length > 0 ? sum(trial.communication.map((record) => record[key])) : null;
const payloadBytes = (trial) => countedCost(trial, 'measured_payload_bytes');
const collectiveCalls = (trial) => countedCost(trial, 'measured_calls');

/// From a prediction; external implementations have none.
const differs = (record) => record.predicted_calls !== null &&
    (record.predicted_calls !== record.measured_calls ||
     record.predicted_payload_bytes !== record.measured_payload_bytes);

/// Forward and backward of the one run that was verified: coarse. null where it did not get there.
function verifiedTime(trial) {
  const times = trial.times.filter((time) => time.phase !== 'plan');
  return times.length > 0 ? sum(times.map((time) => time.max_over_ranks_ns)) : null;
}

/// Cases in the order of the report, to choose from: [{value: text, label}].
function casesOf(report) {
  const titles = new Map();
  const add = (text, name) => {
    if (!titles.has(text)) titles.set(text, name === text || !name ? text : name + ': ' + text);
  };
  for (const trial of report.trials) add(caseText(trial), trial.case.name);
  for (const timing of report.timings) add(timing.case.text, timing.case.name);
  return [...titles].map(([value, label]) => ({value, label}));
}
