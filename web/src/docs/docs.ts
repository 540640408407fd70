// The API's page: Swagger UI, from this server, with the tab's key.

import "./docs.css";
import "../ui/theme";

import SwaggerUI from "swagger-ui-dist/swagger-ui-bundle.js";

import { key, setKey } from "../api/client";
import { mendMarkup } from "./mended-markup";
import { onlySimpleMarkup } from "./simple-markup";

onlySimpleMarkup();

const field = document.getElementById("key");
if (field instanceof HTMLInputElement) {
  field.value = key();
  field.addEventListener("change", () => setKey(field.value));
}

const place = document.getElementById("docs");
if (place) mendMarkup(place);

SwaggerUI({
  dom_id: "#docs",
  url: "/openapi.json",
  docExpansion: "list",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  syntaxHighlight: { activated: false },
  validatorUrl: null,
  requestInterceptor: (request) => {
    if (key()) request.headers["authorization"] = `Bearer ${key()}`;
    return request;
  },
});
