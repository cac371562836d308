// SPDX-License-Identifier: Apache-2.0
// A search for the fastest grid: predicted time over TP x CP, with the limit of memory drawn in,
// and the fastest pairs as a table. Of grids that differ in sequence parallelism the faster one
// counts.

const FASTEST_OF_ALL = 'the fastest';
const SEARCH_ROWS = 15;

/// Returns the plan that counts of some on the same ranks: the fastest that fits, or the fastest.
const bestPlan = (plans) => largest(plans, (plan) => (plan.fits ? 1 : 0) + 1 / (2 + plan.time_ns));

function searchCell(plan, scale, limit) {
  if (!plan) return element('td', {class: 'heat hatched', title: 'no plan'}, '\u2013');
  const title = `${plan.implementation} on ${plan.grid}: ${formatTime(plan.time_ns)}, ` +
      `${formatBytes(plan.peak_bytes)} of ${formatBytes(limit)}, bound by ${plan.bound_by}`;
  const {fill} = scale(plan.time_ns);
  return element(
      'td', {
        class: 'heat amount' + (fill > 0.55 ? ' deep' : '') + (plan.fits ? '' : ' beyond-limit'),
        '--fill': (100 * fill).toFixed(0) + '%',
        title
      },
      formatTime(plan.time_ns));
}

function searchMap(search, implementation) {
  const plans = search.plans.filter(
      (plan) => implementation === FASTEST_OF_ALL || plan.implementation === implementation);
  const scale = heatScale(search.plans.map((plan) => plan.time_ns), false);
  const cells = groupBy(plans, (plan) => {
    const {tp, cp} = gridParts(plan.grid);
    return `${tp}|${cp}`;
  });
  const sizes = (key) =>
      unique(search.plans.map((plan) => gridParts(plan.grid)[key])).sort((a, b) => a - b);
  const rows = sizes('tp').map(
      (tp) => element(
          'tr', {}, element('th', {scope: 'row'}, `TP ${tp}`),
          sizes('cp').map(
              (cp) => cellNode(
                  searchCell(bestPlan(cells.get(`${tp}|${cp}`) ?? []), scale, search.memory_bytes),
                  `CP ${cp}`))));
  return fitted(element(
      'table', {class: 'heat-map'}, element('caption', {}, implementation),
      element(
          'thead', {},
          element(
              'tr', {}, element('td', {}),
              sizes('cp').map((cp) => element('th', {scope: 'col'}, `CP ${cp}`)))),
      element('tbody', {}, rows)));
}

function searchTable(search) {
  const heads = ['implementation', 'grid', 'ranks', 'time', 'collectives', 'bound by', 'peak'];
  const rows =
      search.plans.filter((plan) => plan.fits)
          .slice(0, SEARCH_ROWS)
          .map(
              (plan) =>
                  [plan.implementation, plan.grid, String(plan.ranks), formatTime(plan.time_ns),
                   formatTime(plan.collectives_ns), plan.bound_by, formatBytes(plan.peak_bytes)]);
  return fitted(element(
      'table', {class: 'data'},
      element(
          'thead', {}, element('tr', {}, heads.map((head) => element('th', {scope: 'col'}, head)))),
      element(
          'tbody', {},
          rows.map(
              (cells) => element('tr', {}, cells.map((cell, k) => cellNode(cell, heads[k])))))));
}

function drawSearch({search}) {
  if (!search || search.plans.length === 0) return null;
  const node = section(
      'search', 'Search',
      `Predicted time of forward and backward of ${search.case} on ${search.machine}` +
          (search.measured ? '' : ' (rates stated by its maker: lower bounds)') +
          `, at most ${search.most_ranks} ranks. Dashed: the loss needs more than ` +
          `${formatBytes(search.memory_bytes)} of a rank. Darker is slower.`);
  const names = [FASTEST_OF_ALL, ...unique(search.plans.map((plan) => plan.implementation))];
  const map = element('div', {class: 'maps'});
  const update = (name) => map.replaceChildren(searchMap(search, name));
  const choices = names.map((value) => ({value, label: value}));
  node.append(
      element('div', {class: 'toolbar'}, longChoice('Implementation', choices, names[0], update)),
      map, searchTable(search));
  update(names[0]);
  return node;
}
