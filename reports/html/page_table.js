// SPDX-License-Identifier: Apache-2.0
// Table that sorts by its column heads and makes a limited number of rows at a time.

const ROWS_AT_A_TIME = 50;
const MOST_ROWS = 2000;  // added by one click

/// columns: [{title, about, cell(row) -> node or text or <td>, value(row) -> number or text to sort
/// by, optional, kind: "number"}]. `detail(row)`: the content that opens below a row, null for
/// none.
class DataTable {
  constructor(columns, {detail = null, caption = null} = {}) {
    this.columns = columns;
    this.detail = detail;
    this.rows = [];
    this.sorted = {column: null, descending: false};
    this.limit = ROWS_AT_A_TIME;
    this.head = element('tr');
    this.body = element('tbody');
    this.more = element('div', {class: 'more'});
    this.place = fitted(element(
        'table', {class: 'data', 'aria-label': caption}, element('thead', {}, this.head),
        this.body));
    this.node = element('div', {}, this.place, this.more);
    this.drawHead();
  }

  setColumns(columns) {
    this.columns = columns;
    if (!columns.some((column) => column.title === this.sorted.column)) this.sorted.column = null;
    this.drawHead();
  }

  /// Returns rows in their own order, unless a column was chosen to sort by.
  setRows(rows) {
    this.rows = rows;
    this.limit = ROWS_AT_A_TIME;
    this.drawBody();
  }

  sortBy(title) {
    const again = this.sorted.column === title;
    this.sorted = {column: title, descending: again ? !this.sorted.descending : false};
    this.drawHead();
    this.drawBody();
  }

  drawHead() {
    const cells = this.columns.map((column) => {
      const isSorted = this.sorted.column === column.title;
      const order = isSorted ? (this.sorted.descending ? 'descending' : 'ascending') : 'none';
      const mark = isSorted ? (this.sorted.descending ? ' \u25BE' : ' \u25B4') : '';
      const content = column.value ?
          element(
              'button', {type: 'button', onclick: () => this.sortBy(column.title)},
              column.title + mark) :
          column.title;
      return element(
          'th', {
            scope: 'col',
            class: column.kind ?? null,
            title: column.about,
            'aria-sort': column.value ? order : null
          },
          content);
    });
    const focused =
        [...this.head.children].findIndex((cell) => cell.contains(document.activeElement));
    this.head.replaceChildren(...cells);
    if (focused >= 0) cells[focused]?.querySelector('button')?.focus();
  }

  inOrder() {
    const column = this.columns.find((candidate) => candidate.title === this.sorted.column);
    if (!column) return this.rows;
    const sign = this.sorted.descending ? -1 : 1;
    const keyed = this.rows.map((row) => ({row, key: column.value(row)}));
    keyed.sort((a, b) => {
      if (a.key === null || b.key === null)
        return (a.key === null) - (b.key === null);  // always last
      return sign *
          (typeof a.key === 'string' ? a.key.localeCompare(b.key, 'en', {numeric: true}) :
               a.key < b.key         ? -1 :
               a.key > b.key         ? 1 :
                                       0);
    });
    return keyed.map((entry) => entry.row);
  }

  drawBody() {
    const rows = this.inOrder();
    this.body.replaceChildren(...rows.slice(0, this.limit).map((row) => this.rowNode(row)));
    const left = rows.length - this.limit;
    const show = (count) => element(
        'button', {
          type: 'button',
          onclick: () => {
            this.limit += count;
            this.drawBody();
          }
        },
        `show ${formatCount(count)} more`);
    this.more.replaceChildren(...(left <= 0 ? [] : [
      `${formatCount(this.limit)} of ${plural(rows.length, 'row')} `,
      show(Math.min(left, ROWS_AT_A_TIME)),
      left > ROWS_AT_A_TIME ? show(Math.min(left, MOST_ROWS)) : ''
    ]));
    if (this.place.isConnected) fit(this.place);
  }

  rowNode(row) {
    const node = element(
        'tr', {},
        this.columns.map((column) => cellNode(column.cell(row), column.title, column.kind)));
    if (this.detail) this.addOpener(node, row);
    return node;
  }

  addOpener(node, row) {
    const opener = element(
        'button',
        {type: 'button', class: 'opener', 'aria-expanded': 'false', 'aria-label': 'details'},
        '\u25B8');
    let opened = null;
    opener.addEventListener('click', () => {
      if (opened) {
        opened.remove();
        opened = null;
      } else {
        opened = element(
            'tr', {class: 'detail'},
            element(
                'td', {colspan: this.columns.length},
                element('div', {class: 'detail-place'}, this.detail(row))));
        node.after(opened);
      }
      opener.setAttribute('aria-expanded', String(opened !== null));
      opener.textContent = opened ? '\u25BE' : '\u25B8';
    });
    node.firstChild.prepend(opener);
  }
}

/// Makes a search field for rows: every word of it has to occur in textOf(row).
function searchField(label, onsearch) {
  const input = element(
      'input',
      {type: 'search', placeholder: 'all of these words', oninput: () => onsearch(input.value)});
  return element('label', {class: 'field wide'}, element('span', {}, label), input);
}

function matches(text, search) {
  const lower = text.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}
