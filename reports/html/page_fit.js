// SPDX-License-Identifier: Apache-2.0
// Tables that fit their place: a table if there is room for it, else every row as a block of values
// with the heads of their columns. Nothing is cut off, nothing scrolls sideways.

function fit(place) {
  const table = place.firstElementChild;
  table.classList.remove('stacked');
  table.classList.toggle('stacked', table.scrollWidth > place.clientWidth);
}

/// Runs later than the observer, which must not change the elements that it observes.
const fitting = new ResizeObserver((entries) => requestAnimationFrame(() => {
                                     for (const {target} of entries) fit(target);
                                   }));

function fitted(table) {
  const place = element('div', {class: 'fit'}, table);
  fitting.observe(place);
  return place;
}
