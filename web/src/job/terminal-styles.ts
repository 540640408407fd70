// xterm.js writes rules into style elements, which our content security policy forbids. Its elements become stylesheets that a
// script constructs, which the policy allows: same rules, no inline style.

let done = false;

export function allowStyles(): void {
  if (done) return;
  done = true;
  const make = document.createElement.bind(document);
  document.createElement = ((name: string, options?: ElementCreationOptions) => (name === "style" ? carrier(make) : make(name, options))) as typeof document.createElement;
}

/** An element in the place of a style element: its text becomes a stylesheet of the document for as long as it is attached. */
function carrier(make: (name: string) => HTMLElement): HTMLElement {
  const element = make("i");
  element.hidden = true;
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  Object.defineProperty(element, "textContent", { set: (text: string) => sheet.replaceSync(text), get: () => "" });
  Object.defineProperty(element, "sheet", { get: () => sheet });
  const remove = element.remove.bind(element);
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    remove();
  };
  return element;
}
