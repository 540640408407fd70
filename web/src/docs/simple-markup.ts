// Swagger UI makes markup from the descriptions of our document, which every page of ours forbids. Here a few elements without
// attributes may pass; anything else stays text. So nothing that passes can load, run or imitate anything.

const SIMPLE = /<(?!\/?(?:p|code|pre|strong|em|ul|ol|li|br|h[1-6])>)/g;

interface PolicyFactory {
  createPolicy(name: string, rules: { createHTML: (text: string) => string }): unknown;
}

/** Takes effect for every text that is set as markup on this page. */
export function onlySimpleMarkup(): void {
  const { trustedTypes } = window as { trustedTypes?: PolicyFactory };
  trustedTypes?.createPolicy("default", { createHTML: (text) => text.replace(SIMPLE, "&lt;") });
}
