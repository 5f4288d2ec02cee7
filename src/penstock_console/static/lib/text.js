// Text from the cluster, made safe to look at. It reaches the page only as text nodes; this module also replaces
// characters that are invisible or that reorder their neighbours, so that what is displayed is what is stored.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function symbol(character) {
  const code = character.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  if (code >= 0xd800 && code <= 0xdfff) return "\ufffd";
  return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
}

// One line: control and bidi characters become symbols.
export function visible(text) {
  return String(text ?? "").replace(HIDDEN, symbol);
}

// Several lines: line feeds and tabs keep their effect.
export function visibleLines(text) {
  return String(text ?? "").replace(HIDDEN, (each) => (each === "\n" || each === "\t" ? each : symbol(each)));
}
