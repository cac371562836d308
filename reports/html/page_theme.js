// SPDX-License-Identifier: Apache-2.0
// Theme, light or dark: the preference of the system, or the choice by the button. Charts read
// their colours when they are drawn, and are drawn again after a change.

const THEMES = ['system', 'light', 'dark'];
const darkPreferred = matchMedia('(prefers-color-scheme: dark)');
let theme = 'system';
const onThemeChange = [];

const isDark = () => (theme === 'system' ? darkPreferred.matches : theme === 'dark');
const cssColour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function applyTheme() {
  document.documentElement.dataset.theme = isDark() ? 'dark' : 'light';
  document.getElementById('theme').textContent = 'Theme: ' + theme;
  for (const redraw of onThemeChange) redraw();
}

function startTheme() {
  document.getElementById('theme').addEventListener('click', () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    applyTheme();
  });
  darkPreferred.addEventListener('change', applyTheme);
  applyTheme();
}
