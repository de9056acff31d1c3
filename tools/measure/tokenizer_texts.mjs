// Generates texts for comparing tokenizers: all scripts, emoji sequences, combining marks, digits, blanks, code, and text that resembles
// special tokens. The same seed gives the same texts.

export function generator(seed) {
  let state = seed >>> 0;
  const random = () => {  // mulberry32
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  };
  return {
    below: n => random() % n,
    pick: list => list[random() % list.length],
  };
}

// First and last code points of letters.
const SCRIPTS = [
  [0x61, 0x7a], [0x41, 0x5a], [0xc0, 0xff], [0x100, 0x24f], [0x250, 0x2af], [0x370, 0x3ff], [0x400, 0x4ff], [0x531, 0x587],
  [0x5d0, 0x5ea], [0x620, 0x64a], [0x710, 0x74a], [0x905, 0x939], [0x985, 0x9b9], [0xa05, 0xa39], [0xa85, 0xab9], [0xb05, 0xb39],
  [0xb85, 0xbb9], [0xc05, 0xc39], [0xc85, 0xcb9], [0xd05, 0xd39], [0xd85, 0xdc6], [0xe01, 0xe4e], [0xe81, 0xecd], [0xf40, 0xf6c],
  [0x1000, 0x104f], [0x10a0, 0x10ff], [0x1100, 0x11ff], [0x1200, 0x135a], [0x13a0, 0x13fd], [0x1401, 0x166c], [0x1780, 0x17dd],
  [0x1820, 0x1878], [0x1c90, 0x1cbf], [0x1e00, 0x1fff], [0x2c00, 0x2cff], [0x3041, 0x3096], [0x30a1, 0x30ff], [0x3105, 0x312f],
  [0x3131, 0x318e], [0x4e00, 0x9fff], [0x3400, 0x4dbf], [0xa000, 0xa48c], [0xac00, 0xd7a3], [0xf900, 0xfaff], [0xfb00, 0xfdff],
  [0xff01, 0xff9f], [0x10330, 0x1034a], [0x10400, 0x1044f], [0x12000, 0x12399], [0x1d400, 0x1d7ff], [0x20000, 0x2a6d6],
];
const DIGITS = [0x30, 0x30, 0x30, 0x660, 0x966, 0xe50, 0xff10, 0x1d7ce];
const NUMBERS = ['½', 'ⅷ', '②', '三', '৴', '²', '₁₂'];
const MARKS = ['\u0301', '\u0308', '\u0327', '\u0e31', '\u093f', '\u05b8', '\u064b', '\u20e3', '\ufe0f', '\u3099', '\u0301\u0323'];
const EMOJI = ['😀', '👨‍👩‍👧', '🏳️‍🌈', '👍🏽', '🇳🇴', '1️⃣', '❤️', '🧑🏿‍🚀', '☂', '©️', '🫠', '👩‍❤️‍💋‍👨'];
const BLANKS = [' ', ' ', ' ', '  ', '    ', '        ', '\n', '\n\n', '\r\n', '\t', '\t\t', ' \n', '\n ', '   \n  ', '\u00a0',
  '\u3000', '\u2028', '\u2009', '\u200b', '\u000b', '\u000c', '\u0085', '\u1680', '\ufeff', '\u180e', ' '.repeat(17), ' '.repeat(40)];
const WORDS = ['the', 'The', 'THE', 'Hello', 'world', 'internationalization', "don't", "I'LL", "you're", "it's", "we'Ve", "'tis", 'rock’n’roll',
  "'ſ", 'camelCase', 'HTTPServer', 'snake_case', 'naïve', 'façade', 'Straße', 'ΣΊΣΥΦΟΣ', 'İstanbul', 'e\u0301te\u0301', 'résumé', 'a', 'I',
  'x86_64', 'v1.2.3', '3.14', '1,000,000', '0xDEADBEEF', '50%', '$9.99', 'foo@bar.com', 'https://a.b/c?d=e&f=%20#g', '日本語', '我在apple工作',
  'Cửa Việt', 'កាន់តែពិសេស', 'привет', 'שלום', 'مرحبا', 'नमस्ते', 'สวัสดี', '안녕하세요', 'ﬁne', 'Ⅷ', 'ǅ', 'ªº'];
const CODE = ['if (a != b) {\n    return a->b[i]++;\n}\n', 'def f(x):\n\treturn x ** 2\n', '#include <vector>\n', '\\frac{a}{b}', '{"a": [1, null]}',
  '<div class="x">&nbsp;</div>', 'SELECT * FROM t;', '// TODO', '/* */', '=> ::<T>()', '!!!???...', '-----', '~/.bashrc', '```python\n', '||', '&&'];
const LIKE_TOKENS = ['<s>', '</s>', '<unk>', '<|endoftext|>', '<|im_start|>', '<0x0A>', '[CLS]', '▁', '▁▁', 'Ġ', 'Ċ', '##', '<pad>', '<|user|>'];
const CONTROLS = ['\u0001', '\u001b[0m', '\u007f', '\u00ad', '\u200d', '\u202e', '\ufffd', '\ue000', '\u{10ffff}', '\ufffe', '\u0378'];

function any(r) {
  for (;;) {
    const c = r.below(4) ? r.below(0x3000) : r.below(0x110000);
    if (c > 0 && (c < 0xd800 || c > 0xdfff)) return String.fromCodePoint(c);
  }
}

function letters(r) {
  const [first, last] = r.pick(SCRIPTS);
  let word = '';
  for (let n = 1 + r.below(8); n > 0; --n) word += String.fromCodePoint(first + r.below(last - first + 1));
  return word;
}

function digits(r) {
  const zero = r.pick(DIGITS);
  let number = '';
  for (let n = 1 + r.below(9); n > 0; --n) number += String.fromCodePoint(zero + r.below(10));
  return number;
}

function punctuation(r) {
  let signs = '';
  for (let n = 1 + r.below(4); n > 0; --n) signs += r.below(4) ? r.pick([..."!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"]) : r.pick([...'…—“”‘’«»，。！？、「」·•€£¥§¶†‰′∑√∞≠→']);
  return signs;
}

// Returns one text, as a string without lone surrogates.
export function text(r) {
  let all = '';
  for (let n = 1 + r.below(14); n > 0; --n) {
    switch (r.below(16)) {
      case 0: case 1: case 2: all += r.pick(WORDS); break;
      case 3: case 4: all += letters(r); break;
      case 5: case 6: case 7: all += r.pick(BLANKS); break;
      case 8: all += digits(r); break;
      case 9: all += punctuation(r); break;
      case 10: all += r.pick(EMOJI); break;
      case 11: all += r.pick(MARKS); break;
      case 12: all += r.pick(CODE); break;
      case 13: all += r.pick(LIKE_TOKENS); break;
      case 14: all += r.below(2) ? r.pick(NUMBERS) : r.pick(CONTROLS); break;
      default: all += any(r);
    }
    if (r.below(3) === 0) all += ' ';
  }
  return all;
}

// Returns a text with some bytes that are not UTF-8.
export function invalid(r) {
  const bytes = [...Buffer.from(text(r))];
  for (let n = 1 + r.below(4); n > 0; --n) {
    const at = r.below(bytes.length + 1);
    if (r.below(2)) bytes.splice(at, 1);
    else bytes.splice(at, 0, r.pick([0xff, 0xc0, 0x80, 0xed, 0xf5, 0xe2, 0xf0, 0x9f, 0x00]));
  }
  return Buffer.from(bytes);
}
