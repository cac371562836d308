// SPDX-License-Identifier: Apache-2.0
// Text of a report as shown: characters that are invisible or change the direction of text are
// spelled out, and long names break at their joints.

// Controls but the end of a line, which only tooltips have; marks of direction; separators.
const UNSEEN =
    /[\u0000-\u0009\u000B-\u001F\u007F-\u009F\u200B-\u200F\u2028-\u202E\u2060-\u206F\uFEFF]/g;

const spelled = (character) => {
  const code = character.charCodeAt(0);
  return code < 256 ? '\\x' + code.toString(16).padStart(2, '0') :
                      '\\u' + code.toString(16).padStart(4, '0');
};

/// Returns text that can be shown in one line.
const visible = (text) => String(text).replace(UNSEEN, spelled).replaceAll('\n', '\\x0a');

/// Makes a long name that breaks behind its joints before it breaks anywhere else.
const breakable = (name) =>
    name.split(/(?<=[/_:,|])/).flatMap((part, k) => (k === 0 ? [part] : [element('wbr'), part]));
