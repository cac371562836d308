// SPDX-License-Identifier: Apache-2.0
// Expansion of a compact report: trials get every member that they leave out, the objects that they
// share, and a record for each rank.

/// Returns `value`, which stands under `key`, completed from `defaults`.
function withDefaults(key, value, defaults) {
  const standard = Object.hasOwn(defaults, key) ? defaults[key] : null;
  if (standard === null || typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(
      ([name, member]) => [name, withDefaults(name, member, defaults)]);
  return {...standard, ...Object.fromEntries(members)};
}

/// Returns one record a rank, in the order of ranks; records of a rank in the order of the list.
function oneOfEachRank(memory) {
  if (!memory.some((record) => record.ranks)) return memory;
  return memory
      .flatMap(({ranks, ...record}) => (ranks ?? [record.rank]).map((rank) => ({...record, rank})))
      .sort((a, b) => a.rank - b.rank);
}

/// Returns the report with its trials written out in full.
function expandReport(report) {
  const {defaults} = report;
  const shared = {};
  for (const [key, list] of Object.entries(report.shared)) {
    shared[key] = list.map((value) => withDefaults(key, value, defaults));
  }
  const expand = (key, value) => typeof value === 'number' && Object.hasOwn(shared, key) ?
      shared[key][value] :
      Array.isArray(value) ? value.map((element) => expand(key, element)) :
                             withDefaults(key, value, defaults);
  const trials = report.trials.map((trial) => {
    const members = Object.entries({...defaults.trial, ...trial});
    const out = Object.fromEntries(members.map(([key, value]) => [key, expand(key, value)]));
    return {...out, memory: oneOfEachRank(out.memory)};
  });
  return {...report, trials};
}
