export const word = 'before';
