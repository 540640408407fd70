import { word } from "./word.js";

const show = (text) => { document.getElementById("word").textContent = text; };
show(word);
if (import.meta.hot) import.meta.hot.accept("./word.js", (changed) => show(changed.word));
